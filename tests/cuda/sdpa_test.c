/* sdpa_test.c: does cuDNN take the cuda device's attention graphs, and for as much workspace as was
 * planned? The library plans for a GPU that is described to it, here an H200 and an A100; nothing
 * runs. Skipped where there is no libcudnn. */
#define _GNU_SOURCE
#include "attention/sdpa_graph.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <weft/device.h>

#include <test.h>

#define COMMON                                                                                     \
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"                    \
    "\"regsPerBlock\":65536,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"                    \
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"       \
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"    \
    "\"supportCoopLaunch\":1,\"cudaDeviceId\":0,\"driverVer\":13000,"
static const char h200[] =
    "{\"deviceName\":\"NVIDIA H200\"," COMMON "\"multiProcessorCount\":132,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"totalGlobalMem\":150754820096,"
    "\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,"
    "\"deviceVer\":900}";
static const char a100[] =
    "{\"deviceName\":\"NVIDIA A100\"," COMMON "\"multiProcessorCount\":108,"
    "\"maxSharedMemoryPerBlockOptin\":166912,\"totalGlobalMem\":85899345920,"
    "\"smClockRateKHz\":1410000,\"memClockRateKHz\":1215000,\"l2CacheSize\":41943040,"
    "\"deviceVer\":800}";

static struct sdpa_calls calls;

static int load(void **state)
{
    static const struct {
        const char *name;
        size_t at;
    } names[] = {
#define CALL(name) {#name, offsetof(struct sdpa_calls, name)},
        GPU_SDPA_CALLS(CALL)};
    void *so = dlopen("libcudnn.so.9", RTLD_NOW);
    (void)state;
    for (size_t k = 0; so && k < sizeof names / sizeof *names; k++) {
        void *found = dlsym(so, names[k].name);
        if (!found)
            return -1;
        memcpy((char *)&calls + names[k].at, &found, sizeof found);
    }
    return 0;
}

static cudnnBackendDescriptor_t describe(const char *json)
{
    cudnnBackendDescriptor_t d = NULL;
    assert_int_equal(calls.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d),
                     0);
    assert_int_equal(calls.cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                    CUDNN_TYPE_CHAR, (int64_t)strlen(json), json),
                     0);
    assert_int_equal(calls.cudnnBackendFinalize(d), 0);
    return d;
}

/* --- what the device plans for the op, through the SDK --- */

static void *no_memory_but_this(void *ctx, uint64_t bytes, uint64_t align)
{
    static char room[1 << 16];
    (void)ctx;
    (void)align;
    return bytes <= sizeof room ? room : NULL;
}

static void keep(void *ctx, void *p)
{
    (void)ctx;
    (void)p;
}

static weft_status refuse(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    print_message("%s\n", text);
    return code;
}

static weft_operand operand(uint32_t dtype, uint32_t rank, int64_t a, int64_t b, int64_t c,
                            int64_t d)
{
    return (weft_operand){dtype, rank, 0, 0, {a, b, c, d}};
}

static uint64_t planned(const struct sdpa_shape *s)
{
    static weft_host host = {
        .struct_size = sizeof host, .alloc = no_memory_but_this, .free = keep, .fail = refuse};
    static const weft_conf conf = {.struct_size = sizeof conf};
    weft_plugin_entry_fn entry;
    *(void **)&entry = dlsym(dlopen(WEFT_CUDA_SO, RTLD_NOW | RTLD_LOCAL), "weft_plugin_entry");
    const weft_manifest *m = entry();
    const weft_device_table *t = m->components[0]->table;
    const int64_t n = s->sequences * s->length;
    const uint32_t type = s->type == CUDNN_DATA_HALF ? WEFT_F16 : WEFT_BF16;
    const weft_operand y = operand(type, 3, n, s->heads, s->dim, 0);
    const weft_operand kv = operand(type, 3, n, s->kv_heads, s->dim, 0);
    const weft_operand qkv = operand(type, 4, n, 3, s->heads, s->dim);
    const weft_operand lse = operand(WEFT_F32, 2, n, s->heads, 0, 0);
    const weft_attr attrs[] = {WEFT_ATTR_INT("sequence", s->length),
                               WEFT_ATTR_INT("causal", s->causal)};
    const weft_operand apart[] = {y, y, kv, kv, y, lse}, fused[] = {y, qkv, y, lse};
    const weft_operand forward[] = {y, lse}, backward[] = {y, kv, kv};
    const weft_opspec spec = {.struct_size = sizeof spec,
                              .flags = s->deterministic ? WEFT_SPEC_DETERMINISTIC : 0,
                              .id = s->backward ? "attention.dx" : "attention",
                              .attrs = attrs,
                              .nattr = 2,
                              .nin = s->backward ? (s->fused ? 4 : 6) : (s->fused ? 1 : 3),
                              .in = (s->fused ? fused : apart) + !s->backward,
                              .nout = s->backward ? (s->fused ? 1 : 3) : 2,
                              .out = !s->backward ? forward
                                     : s->fused   ? &qkv
                                                  : backward};
    weft_requirements need = {.struct_size = sizeof need};
    void *module = NULL;
    assert_int_equal(m->open(&host, &module), WEFT_OK);
    assert_int_equal(t->query(module, &conf, &spec, &need), WEFT_OK);
    return need.workspace;
}

static void check(const char *gpu, const struct sdpa_shape *s)
{
    if (!calls.cudnnCreate)
        skip();
    struct sdpa_plan plan;
    char why[256];
    const struct sdpa_target target = {.properties = describe(gpu)};
    const cudnnStatus_t st = sdpa_build(&calls, &target, s, INT64_MAX, &plan, why);
    if (st != CUDNN_STATUS_SUCCESS)
        fail_msg("%s, %s", calls.cudnnGetErrorString(st), why);
    const int64_t rows = s->sequences * s->length * s->heads * 4;
    int64_t used = plan.workspace + rows;
    if (s->backward)
        used += rows + (s->deterministic ? 0 : rows * s->dim);
    if ((uint64_t)used > planned(s))
        fail_msg("it takes %lld bytes, and %llu were planned", (long long)used,
                 (unsigned long long)planned(s));
    sdpa_free(&calls, &plan);
    calls.cudnnBackendDestroyDescriptor(target.properties);
}

static const struct sdpa_shape gpt2 = {.sequences = 16,
                                       .heads = 12,
                                       .kv_heads = 12,
                                       .length = 1024,
                                       .dim = 64,
                                       .type = CUDNN_DATA_BFLOAT16,
                                       .fused = true,
                                       .causal = true};
static const struct sdpa_shape llama = {.sequences = 2,
                                        .heads = 32,
                                        .kv_heads = 8,
                                        .length = 2048,
                                        .dim = 128,
                                        .type = CUDNN_DATA_HALF,
                                        .causal = true};

TEST(test_forward)
{
    check(h200, &gpt2);
    check(h200, &llama);
}

TEST(test_backward)
{
    struct sdpa_shape s = gpt2;
    s.backward = true;
    check(h200, &s);
    s.deterministic = true;
    check(h200, &s);
    s = llama;
    s.backward = true;
    check(h200, &s);
}

/* Deterministic gradients keep all scores, in tiles that are not square. */
TEST(test_odd_ends)
{
    static const struct {
        int64_t sequences, heads, kv_heads, length, dim;
    } odd[] = {{16, 25, 25, 17, 56}, {16, 32, 2, 129, 24}, {16, 25, 25, 2, 40}};
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
        check(h200, &(struct sdpa_shape){.sequences = odd[k].sequences,
                                         .heads = odd[k].heads,
                                         .kv_heads = odd[k].kv_heads,
                                         .length = odd[k].length,
                                         .dim = odd[k].dim,
                                         .type = CUDNN_DATA_BFLOAT16,
                                         .causal = true,
                                         .backward = true,
                                         .deterministic = true});
}

TEST(test_older_chip)
{
    struct sdpa_shape s = gpt2;
    s.causal = false;
    check(a100, &s);
    s.backward = true;
    check(a100, &s);
}

int main(void)
{
    return test_run(load, NULL);
}
