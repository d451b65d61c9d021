/* checks_test.c PLUGIN MEETING OPTION CHECK...: do the collectives and the pairs of the plugin mpi
 * pass the checks of any library of collectives (sdk/check/coll) and of any link (sdk/check/link)?
 * The checker forks its ranks, and MPI's are those that mpirun has started: so this process is one
 * of them, in the part of a check that is for as many ranks. They exchange through the file
 * MEETING, as those of sdk/check/harness/ranks.c do through memory. A CHECK is a number, or
 * "pairs" for the cases of pairs.c. */
#define _GNU_SOURCE
#include "check/coll/coll.h"
#include "pairs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8 };

static struct meeting {
    _Atomic uint64_t round[MOST];
    unsigned char data[2][MOST][CHECK_EXCHANGE];
} * meeting;
static uint32_t me, ranks;
static bool passed;

void __wrap_check_rank_exchange(check_rank *k, const void *mine, size_t bytes, void *all);
void __wrap_check_ranks(check_run *r, uint32_t n, void (*fn)(check_rank *k), void *arg,
                        uint32_t seconds, bool threads);
void __wrap_check_fork_probe(const host_component *c, void (*fn)(void *arg), void *arg);
void __wrap_check_kv_serve(check_kv *store, uint32_t rank, uint32_t n, weft_host_kv *out);
void __real_check_kv_serve(check_kv *store, uint32_t rank, uint32_t n, weft_host_kv *out);

/* A rank that fails ends mpirun, and that ends the others. */
void __wrap_check_rank_exchange(check_rank *k, const void *mine, size_t bytes, void *all)
{
    const uint64_t round = atomic_load(&meeting->round[k->rank]) + 1;
    if (bytes)
        memcpy(meeting->data[round & 1][k->rank], mine, bytes);
    atomic_store(&meeting->round[k->rank], round);
    for (uint32_t i = 0; i < k->ranks; i++) {
        while (atomic_load(&meeting->round[i]) < round)
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        if (bytes)
            memcpy((char *)all + i * bytes, meeting->data[round & 1][i], bytes);
    }
}

void __wrap_check_ranks(check_run *r, uint32_t n, void (*fn)(check_rank *k), void *arg,
                        uint32_t seconds, bool threads)
{
    (void)seconds, (void)threads;
    check_rank k = {.rank = me, .ranks = n, .run = r, .arg = arg};
    if (n != ranks)
        return;
    fn(&k);
    passed = true;
}

void __wrap_check_fork_probe(const host_component *c, void (*fn)(void *arg), void *arg)
{
    (void)c;
    fn(arg);
}

/* The plugin asks it for the size of the job alone. */
void __wrap_check_kv_serve(check_kv *store, uint32_t rank, uint32_t n, weft_host_kv *out)
{
    (void)rank, (void)n;
    __real_check_kv_serve(store, me, ranks, out);
}

static uint32_t number(const char *name)
{
    const char *text = getenv(name);
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    check_run r = {.path = argv[1], .seed = 1};
    const int fd = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *meeting))
        return 2;
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    me = number("OMPI_COMM_WORLD_RANK");
    ranks = number("OMPI_COMM_WORLD_SIZE");
    if (meeting == MAP_FAILED || !ranks || ranks > MOST)
        return 2;
    check_options_set((const char *const *)&argv[3], 1);
    passed = true;
    for (int i = 4; passed && i < argc; i++) {
        const check_group *group;
        passed = false;
        r.now = check_find((uint32_t)strtoul(argv[i], NULL, 10), &group);
        (strcmp(argv[i], "pairs") ? r.now->run : mpi_check_pairs)(&r);
    }
    if (passed)
        printf("rank %u passed\n", me);
    return !passed;
}
