/* tests/comm/links_test.c: are collectives right over the transports that users have, between
 * processes in a real job: every kind, type, awkward count, in place and out of place; more than
 * 2^31 bytes (WEFT_LONG_BUFFERS=1, comm.links_long); and when a rank is killed? */
#include "base/err.h"

static weft_status (*const record)(weft_status, const char *, ...) = err_fail;

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <test.h>
#include <unistd.h>

#include "base/mem.h"
#include "drawn.h"
#include "forked.h"
#include "naive.h"

#define PATIENCE 120.0

/* Or the one that is named on the command line, before its settings. */
static const char *plugins[] = {"tcp", "shm"};
static uint32_t nplugins = sizeof plugins / sizeof plugins[0];

typedef struct piece {
    sched_request r;
    sched_schedule *s;
    comm_op *op;
    char *in, *out, *scratch;
    struct piece *next;
} piece;

static comm_channel *all_ranks(forked *f, const char *name)
{
    uint32_t ranks[FORKED_MAX];
    comm_channel *c = NULL;
    for (uint32_t i = 0; i < f->n; i++)
        ranks[i] = i;
    return comm_add_channel(f->world, f->link, name, ranks, f->n, &c) == WEFT_OK ? c : NULL;
}

static weft_status add_piece(forked *f, comm_channel *c, const sched_request *all, piece **list)
{
    piece *p = mem_alloc(sizeof *p);
    if (!naive_role(all, f->me, &p->r)) {
        free(p);
        return WEFT_OK;
    }
    p->r.link_caps = f->caps;
    weft_status st = sched_make(&p->r, &p->s);
    if (st == WEFT_OK)
        st = comm_add_op(c, p->s, p->s->r.algorithm, &p->op);
    if (st != WEFT_OK)
        return st;
    uint64_t size = weft_dtype_size(p->r.dtype), part = p->r.count / p->r.ranks * size * f->me;
    uint64_t in = naive_in_count(&p->r, f->me) * size, out = naive_out_count(&p->r, f->me) * size;
    p->in = forked_take(f, in);
    p->out = forked_take(f, out);
    if (p->r.in_place && in && out) {
        p->out = in > out ? p->in + part : p->out;
        p->in = in > out ? p->in : p->out + (in < out ? part : 0);
    }
    p->scratch = forked_take(f, p->s->scratch);
    p->next = *list;
    *list = p;
    return p->in && p->out && p->scratch ? WEFT_OK : record(WEFT_USAGE, "the arena is too small");
}

static weft_status start_piece(forked *f, piece *p, int overlap)
{
    naive_fill(&p->r, f->me, p->in);
    return comm_start(p->op, p->in, p->out, p->scratch, overlap);
}

static weft_status wait_piece(forked *f, piece *p)
{
    weft_status st = comm_wait(p->op, PATIENCE);
    if (st != WEFT_OK)
        return st;
    uint64_t wrong = naive_first_wrong(&p->r, f->me, p->out, drawn_exact(&p->r), 5000);
    if (wrong == UINT64_MAX)
        return WEFT_OK;
    return record(WEFT_INTERNAL, "kind %u type %u count %llu %s: element %llu is wrong", p->r.kind,
                  p->r.dtype, (unsigned long long)p->r.count, p->s->r.algorithm,
                  (unsigned long long)wrong);
}

static weft_status run_piece(forked *f, piece *p, int overlap)
{
    weft_status st = start_piece(f, p, overlap);
    return st == WEFT_OK ? wait_piece(f, p) : st;
}

/* Of a transport that runs in an emulated machine, which is slow, at floating point above all: less
 * of everything. `sampled`, in a minute: fewer rounds, and one count with every type, the others
 * with one of each kind's own. */
static int brief, sampled;

static uint64_t arena_bytes(void)
{
    return brief ? 24 << 20 : 64 << 20;
}

static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I32, WEFT_I64};

/* The i-th request of a kind; 0: there is none. */
static int choose(uint32_t kind, uint32_t i, uint32_t ranks, sched_request *r)
{
    static const uint64_t counts[] = {0, 1, 7, 509, 4099, 70001, 300007};
    int parts = kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER ||
                (kind >= WEFT_GATHER && kind <= WEFT_ALL_TO_ALL);
    uint64_t count = counts[i / 10];
    *r = (sched_request){.kind = kind,
                         .redop = WEFT_SUM + i % 3,
                         .dtype = types[i % 5],
                         .count = kind == WEFT_BARRIER ? 0
                                  : parts              ? count * ranks
                                                       : count,
                         .ranks = ranks,
                         .root = i % ranks,
                         .in_place = kind == WEFT_SHIFT ? 0 : i / 5 & 1};
    if (count > 70001)
        return brief && i % 10 == 3; /* integers */
    if (!sampled)
        return 1;
    return count == 509 ? i / 5 % 2 == kind % 2 : i % 10 == (kind + i / 10) % 10;
}

static weft_status everything(forked *f)
{
    comm_channel *c = all_ranks(f, "everything");
    piece *list = NULL;
    weft_status st = WEFT_OK;
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_SHIFT; kind += kind == WEFT_SEND ? 2 : 1)
        for (uint32_t i = 0; i < 70 && st == WEFT_OK; i++) {
            sched_request r;
            f->used = 0; /* one after the other, all in the same memory */
            if (choose(kind, i, f->n, &r) && (kind != WEFT_SEND || f->n > 1))
                st = add_piece(f, c, &r, &list);
        }
    if (st == WEFT_OK)
        st = comm_connect(f->world, &f->arena, PATIENCE);
    for (int overlap = 0; overlap < 2 - brief; overlap++)
        for (piece *p = list; p && st == WEFT_OK; p = p->next)
            st = run_piece(f, p, overlap);
    return st;
}

static void all_end_well(const char *plugin, uint32_t n, const forked_end *end)
{
    for (uint32_t i = 0; i < n; i++)
        if (end[i].wait_status || end[i].st != WEFT_OK)
            fail_msg("%s, rank %u of %u: status %d, wait %d: %s", plugin, i, n, end[i].st,
                     end[i].wait_status, end[i].text);
}

TEST(every_kind)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 7};
    forked_end end[FORKED_MAX];
    for (uint32_t p = 0; p < nplugins; p++)
        for (uint32_t n = (uint32_t)brief; n < 5u - (uint32_t)brief; n++) {
            if (!forked_run(plugins[p], sizes[n], arena_bytes(), everything, NULL, end)) {
                print_message("%s is not built here\n", plugins[p]);
                break;
            }
            all_end_well(plugins[p], sizes[n], end);
        }
}

/* Some channels, three operations in each, all under way at once, waited for out of order. */
static weft_status crowd(forked *f)
{
    const uint32_t channels = brief ? 3 : 8, rounds = brief || sampled ? 3 : 10;
    piece *list = NULL, *all[24];
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < channels && st == WEFT_OK; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%u", i);
        comm_channel *c = all_ranks(f, name);
        for (uint32_t k = 0; k < 3 && st == WEFT_OK; k++) {
            sched_request r = {.kind = k == 1 ? WEFT_ALL_GATHER : WEFT_ALL_REDUCE,
                               .redop = WEFT_SUM,
                               .dtype = i & 1 ? WEFT_BF16 : WEFT_F32,
                               .count = f->n * (100 + 3000 * i * (k + 1)),
                               .ranks = f->n,
                               .in_place = k == 2};
            st = add_piece(f, c, &r, &list);
            all[3 * i + k] = list;
        }
    }
    if (st == WEFT_OK)
        st = comm_connect(f->world, &f->arena, PATIENCE);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < 3 * channels && st == WEFT_OK; i++) {
            uint32_t which = (i % channels + f->me + round) % channels;
            st = start_piece(f, all[which * 3 + i / channels], (int)(i + round) % 3);
        }
        for (uint32_t i = 0; i < 3 * channels && st == WEFT_OK; i++)
            st = wait_piece(f, all[(i * 7 + f->me * 5) % (3 * channels)]);
    }
    return st;
}

TEST(many_channels)
{
    forked_end end[FORKED_MAX];
    for (uint32_t p = 0; p < nplugins; p++)
        for (uint32_t n = 2 + (uint32_t)brief; n < 5u - (uint32_t)brief; n++)
            if (forked_run(plugins[p], n, arena_bytes(), crowd, NULL, end))
                all_end_well(plugins[p], n, end);
}

/* --- more than 2^31 bytes --- */

#define LONG_COUNT ((1ull << 29) + 12345)

static int32_t long_input(uint32_t rank, uint64_t i)
{
    return (int32_t)((uint32_t)i * 2654435761u + rank * 97);
}

/* An all-reduce of all ranks, in place, on a channel of its own. */
static weft_status add_sum(forked *f, uint32_t dtype, uint64_t count, const char *channel,
                           const char *name, sched_schedule **s, comm_op **op)
{
    const sched_request r = {.kind = WEFT_ALL_REDUCE,
                             .redop = WEFT_SUM,
                             .dtype = dtype,
                             .count = count,
                             .ranks = f->n,
                             .me = f->me,
                             .in_place = 1,
                             .link_caps = f->caps};
    const weft_status st = sched_make(&r, s);
    return st == WEFT_OK ? comm_add_op(all_ranks(f, channel), *s, name, op) : st;
}

static weft_status very_long(forked *f)
{
    sched_schedule *s;
    comm_op *op;
    weft_status st = add_sum(f, WEFT_I32, LONG_COUNT, "long", "long all-reduce", &s, &op);
    int32_t *x = forked_take(f, LONG_COUNT * 4);
    void *scratch = st == WEFT_OK ? forked_take(f, s->scratch) : NULL;
    if (st != WEFT_OK || !x || !scratch)
        return record(WEFT_NO_MEMORY, "no room: %s", err_text());
    for (uint64_t i = 0; i < LONG_COUNT; i++)
        x[i] = long_input(f->me, i);
    st = comm_connect(f->world, &f->arena, PATIENCE);
    if (st == WEFT_OK)
        st = comm_start(op, x, x, scratch, 0);
    if (st == WEFT_OK)
        st = comm_wait(op, PATIENCE);
    for (uint64_t i = 0; i < LONG_COUNT && st == WEFT_OK; i++)
        if ((uint32_t)x[i] != (uint32_t)long_input(0, i) + (uint32_t)long_input(1, i))
            st = record(WEFT_INTERNAL, "element %llu is wrong", (unsigned long long)i);
    sched_free(s);
    return st;
}

static uint64_t memory_available(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib << 10;
}

static void above_two_gigabytes(void **state)
{
    (void)state;
    uint64_t arena = LONG_COUNT * 4 + (64 << 20);
    forked_end end[FORKED_MAX];
    if (FORKED_SANITIZED || memory_available() < 2 * arena + (1ull << 30)) {
        print_message("not enough memory is available, or a sanitizer needs it\n");
        skip();
    }
    for (uint32_t p = 0; p < nplugins; p++)
        if (forked_run(plugins[p], 2, arena, very_long, NULL, end))
            all_end_well(plugins[p], 2, end);
}

/* --- a rank is killed --- */

static weft_status until_killed(forked *f)
{
    const uint32_t bits = brief ? 13 : sampled ? 17 : 20;
    const uint64_t count = UINT64_C(1) << bits;
    sched_schedule *s;
    comm_op *op;
    weft_status st = add_sum(f, WEFT_F32, count, "dp.grads", "all-reduce of block.3", &s, &op);
    char *x = forked_take(f, count * 4);
    void *scratch = st == WEFT_OK ? forked_take(f, s->scratch) : NULL;
    if (st == WEFT_OK)
        st = comm_connect(f->world, &f->arena, PATIENCE);
    for (uint32_t i = 0; st == WEFT_OK && i < 100000; i++) {
        st = comm_start(op, x, x, scratch, *(const int *)f->argument);
        if (f->me == 1 && i == 50) {
            usleep(2000);
            raise(SIGKILL);
        }
        if (st == WEFT_OK)
            st = comm_wait(op, PATIENCE);
    }
    sched_free(s);
    return st;
}

TEST(killed_rank)
{
    forked_end end[FORKED_MAX];
    for (uint32_t p = 0; p < nplugins; p++)
        for (int overlap = brief; overlap < 2; overlap++) {
            if (!forked_run(plugins[p], 3, arena_bytes(), until_killed, &overlap, end))
                continue;
            assert_true(WIFSIGNALED(end[1].wait_status));
            for (uint32_t i = 0; i < 3; i += 2)
                if (end[i].st != WEFT_PEER || !strstr(end[i].text, "rank 1") ||
                    !strstr(end[i].text, "all-reduce of block.3 on channel dp.grads"))
                    fail_msg("%s, rank %u: status %d: %s", plugins[p], i, end[i].st, end[i].text);
        }
}

int main(int argc, char **argv)
{
    sampled = getenv("WEFT_SAMPLE") != NULL;
    if (argc > 1) {
        plugins[0] = argv[1];
        nplugins = 1;
        brief = 1;
        sampled = sampled || getenv("WEFT_LAB");
        forked_settings = (const char *const *)(argv + 2);
        forked_nsettings = (uint32_t)argc - 2;
    }
    const struct CMUnitTest longest[] = {cmocka_unit_test(above_two_gigabytes)};
    if (getenv("WEFT_LONG_BUFFERS"))
        return cmocka_run_group_tests(longest, NULL, NULL);
    return test_run(NULL, NULL);
}
