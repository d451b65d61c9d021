/* What the plugin mpi decides before MPI is there: which launcher has started the process, which
 * networks only MPI uses well; and its arithmetic of 16-bit floats, for every pair of numbers that
 * matters. It is built with the plugin's own files. */
#define _GNU_SOURCE
#include "parts.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/device.h>
#include <weft/host.h>

#include <test.h>

static char why[768];
static weft_host_kv kv = {.struct_size = sizeof kv};

static const void *iface(void *ctx, const char *id)
{
    (void)ctx;
    return strcmp(id, "weft.host.kv/1") ? NULL : &kv;
}

static weft_status record(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    snprintf(why, sizeof why, "%s", text);
    return code;
}

static const weft_host host = {.struct_size = sizeof host, .fail = record, .iface = iface};

/* --- the launcher --- */

static const char *const names[] = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "PMI_SIZE",
    "MV2_COMM_WORLD_RANK",  "MV2_COMM_WORLD_SIZE"};

/* Started with these variables, as `rank` of `ranks` of the job; 0 ranks: planning. */
static weft_status started(const char *rank_name, const char *rank_text, const char *size_name,
                           const char *size_text, uint32_t rank, uint32_t ranks)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    if (rank_name)
        setenv(rank_name, rank_text, 1);
    if (size_name)
        setenv(size_name, size_text, 1);
    kv.rank = rank;
    kv.ranks = ranks;
    *why = 0;
    return mpi_launched(&host);
}

TEST(test_launchers)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i += 2) {
        assert_int_equal(started(names[i], "1", names[i + 1], "4", 1, 4), WEFT_OK);
        assert_int_equal(started(names[i], "1", names[i + 1], "4", 0, 0), WEFT_OK);
        assert_int_equal(started(names[i], "2", names[i + 1], "4", 1, 4), WEFT_UNSUPPORTED);
        assert_non_null(strstr(why, "rank 1 of the job is rank 2 for"));
    }
    assert_int_equal(started(names[0], "0", names[1], "1", 0, 4), WEFT_UNSUPPORTED);
    assert_non_null(strstr(why, "has started 1 rank and the job has 4"));
    assert_int_equal(started(NULL, NULL, NULL, NULL, 0, 4), WEFT_ABSENT);
    assert_non_null(strstr(why, "mpirun -n 4 weft train"));
    assert_int_equal(started(names[0], "one", NULL, NULL, 0, 4), WEFT_ABSENT);
}

TEST(test_device_memory)
{
    assert_int_equal(mpi_usable(&host, NULL, WEFT_DEV_CUDA_MEMORY), WEFT_UNSUPPORTED);
    assert_non_null(strstr(why, "host memory only"));
}

/* --- networks --- */

static void make_path(const char *root, const char *path)
{
    char full[2048];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(full, 0700);
            *p = '/';
        }
    mkdir(full, 0700);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(path);
}

static const char *network_of(const char *device, const char *driver)
{
    char root[] = "/tmp/weft-mpi-XXXXXX", path[1024];
    assert_non_null(mkdtemp(root));
    make_path(root, device);
    if (driver) {
        snprintf(path, sizeof path, "%s/device", device);
        make_path(root, path);
        snprintf(path, sizeof path, "%s/%s/device/driver", root, device);
        assert_int_equal(symlink(driver, path), 0);
    }
    const char *found = mpi_network(root);
    assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    return found;
}

TEST(test_networks)
{
    assert_string_equal(network_of("sys/class/cxi/cxi0", NULL), "HPE Slingshot");
    assert_string_equal(network_of("sys/class/infiniband/efa_0", "../../../bus/pci/drivers/efa"),
                        "AWS EFA");
    assert_null(network_of("sys/class/infiniband/mlx5_0", "../../../bus/pci/drivers/mlx5_core"));
    assert_null(network_of("sys/class/infiniband/rxe0", NULL));
    assert_null(network_of("sys/class/cxi", NULL));
    assert_null(network_of("sys/class/net/eth0", NULL));
}

/* --- 16-bit floats --- */

static MPI_User_function *made;

static int take_function(MPI_User_function *f, int commutes, MPI_Op *op)
{
    (void)op;
    assert_int_equal(commutes, 1);
    made = f;
    return MPI_SUCCESS;
}

static const mpi_api api = {.Op_create = take_function};

/* By definition: sign, exponent, fraction. */
static double value(uint16_t h, bool f16)
{
    const int bits = f16 ? 10 : 7, bias = f16 ? 15 : 127, max = f16 ? 31 : 255;
    const int e = (h & 0x7fff) >> bits, fraction = h & ((1 << bits) - 1);
    const double sign = h & 0x8000 ? -1 : 1;
    if (e == max)
        return fraction ? NAN : sign * INFINITY;
    return sign *
           (e ? ldexp(1 + ldexp(fraction, -bits), e - bias) : ldexp(fraction, 1 - bias - bits));
}

/* The nearest of the two neighbours, even where both are as near; found by search. */
static uint16_t rounded(double x, bool f16)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0, top = f16 ? 0x7c00 : 0x7f80;
    uint16_t low = 0, high = top;
    x = fabs(x);
    while (high - low > 1) {
        const uint16_t middle = (uint16_t)((low + high) / 2);
        if (value(middle, f16) <= x)
            low = middle;
        else
            high = middle;
    }
    const double below = value(low, f16);
    const double above = high == top ? 2 * below - value(low - 1, f16) : value(high, f16);
    const bool up = x - below > above - x || (x - below == above - x && (low & 1));
    return (uint16_t)(sign | (up || isinf(x) ? high : low));
}

static void check_sums(bool f16, uint16_t y)
{
    enum { ALL = 1 << 16 };
    static uint16_t in[ALL], sum[ALL];
    int n = ALL;
    for (int i = 0; i < ALL; i++) {
        in[i] = (uint16_t)i;
        sum[i] = y;
    }
    made(in, sum, &n, NULL);
    for (int i = 0; i < ALL; i++) {
        const double exact = (double)((float)value(in[i], f16) + (float)value(y, f16));
        if (isnan(exact))
            assert_true(isnan(value(sum[i], f16)));
        else
            assert_int_equal(sum[i], rounded(exact, f16));
    }
}

TEST(test_sums)
{
    static const uint16_t others[] = {0,      0x8000, 1,      0x8001, 0x0200,
                                      0x03ff, 0x0400, 0x1234, 0x3c00, 0x3f80,
                                      0xbc01, 0x7bff, 0x7c00, 0x7f7f, 0xff80};
    for (int f16 = 0; f16 < 2; f16++)
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            assert_int_equal(mpi_make_op16(&api, f16, WEFT_SUM, NULL), MPI_SUCCESS);
            check_sums(f16, others[i]);
        }
}

TEST(test_extrema)
{
    for (int f16 = 0; f16 < 2; f16++) {
        const uint16_t one = f16 ? 0x3c00 : 0x3f80, in[] = {one, 0x8001, one};
        uint16_t max[] = {0x0001, one, 0xffff & (one | 0x8000)}, least[3];
        int n = 3;
        memcpy(least, max, sizeof max);
        mpi_make_op16(&api, f16, WEFT_MAX, NULL);
        made((void *)(uintptr_t)in, max, &n, NULL);
        mpi_make_op16(&api, f16, WEFT_MIN, NULL);
        made((void *)(uintptr_t)in, least, &n, NULL);
        assert_memory_equal(max, ((uint16_t[]){one, one, one}), sizeof max);
        assert_memory_equal(least, ((uint16_t[]){1, 0x8001, (uint16_t)(one | 0x8000)}),
                            sizeof least);
    }
}
