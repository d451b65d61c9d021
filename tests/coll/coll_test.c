/* coll_test.c PLUGIN: does a library of collectives on host memory keep weft/coll.h?
 *
 * Every kind, element type and operator, in place and not, with odd counts and none, against double
 * loops; several operations in a group, several groups in flight; counts of test(); and a rank that
 * dies. What the plugin's supports() refuses is left out, and counted. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { ROOM = 1 << 22 };

static char *in, *out, *want;
static unsigned done_cases, refused_cases;

/* --- elements --- */

static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I32,
                                 WEFT_I64, WEFT_F64,  WEFT_U8};

/* Whole numbers below 2048, which all types but bytes have; bytes get less. */
static uint16_t half_of(unsigned v)
{
    unsigned e = 0;
    while (v >> (e + 1))
        e++;
    return v ? (uint16_t)((e + 15) << 10 | (v << (10 - e) & 0x3ff)) : 0;
}

static void set(uint32_t dtype, char *at, uint64_t i, double v)
{
    const uint64_t size = weft_dtype_size(dtype);
    const float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const uint16_t bf = (uint16_t)(bits >> 16), half = dtype == WEFT_F16 ? half_of((unsigned)v) : 0;
    const int32_t w = (int32_t)v;
    const int64_t l = (int64_t)v;
    const uint8_t b = dtype == WEFT_U8 ? (uint8_t)v : 0;
    const void *from = dtype == WEFT_F32    ? (const void *)&f
                       : dtype == WEFT_BF16 ? (const void *)&bf
                       : dtype == WEFT_F16  ? (const void *)&half
                       : dtype == WEFT_I32  ? (const void *)&w
                       : dtype == WEFT_I64  ? (const void *)&l
                       : dtype == WEFT_F64  ? (const void *)&v
                                            : (const void *)&b;
    memcpy(at + i * size, from, size);
}

/* Element i of rank r's input. Sums of eight are below 64. */
static double element(uint32_t r, uint64_t i)
{
    return (double)((i * 7 + r * 3 + i / 11) % 8);
}

/* --- what a call should give --- */

typedef struct request {
    uint32_t kind, redop, dtype, root;
    uint64_t count;
    bool in_place;
} request;

static bool is_root(const request *q)
{
    return rig_me == q->root;
}

static uint64_t in_count(const request *q)
{
    switch (q->kind) {
    case WEFT_ALL_GATHER:
    case WEFT_GATHER: return q->count / rig_ranks;
    case WEFT_BROADCAST:
    case WEFT_SCATTER: return is_root(q) ? q->count : 0;
    case WEFT_BARRIER:
    case WEFT_RECV: return 0;
    default: return q->count;
    }
}

static uint64_t out_count(const request *q)
{
    switch (q->kind) {
    case WEFT_REDUCE_SCATTER:
    case WEFT_SCATTER: return q->count / rig_ranks;
    case WEFT_REDUCE:
    case WEFT_GATHER: return is_root(q) ? q->count : 0;
    case WEFT_BARRIER:
    case WEFT_SEND: return 0;
    default: return q->count;
    }
}

static double reduced(const request *q, uint64_t i)
{
    double v = element(0, i);
    for (uint32_t r = 1; r < rig_ranks; r++) {
        const double x = element(r, i);
        v = q->redop == WEFT_SUM ? v + x : (x > v) == (q->redop == WEFT_MAX) ? x : v;
    }
    return v;
}

static double wanted(const request *q, uint64_t i)
{
    const uint64_t part = q->count / rig_ranks;
    switch (q->kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE: return reduced(q, i);
    case WEFT_REDUCE_SCATTER: return reduced(q, rig_me * part + i);
    case WEFT_ALL_GATHER:
    case WEFT_GATHER: return element((uint32_t)(i / part), i % part);
    case WEFT_ALL_TO_ALL: return element((uint32_t)(i / part), rig_me * part + i % part);
    case WEFT_SCATTER: return element(q->root, rig_me * part + i);
    default: return element(q->root, i); /* broadcast, receive */
    }
}

static void call(weft_comm *c, const request *q, const void *from, void *to)
{
    const weft_coll_call x = {sizeof x, 0,    q->kind, q->redop, q->dtype,
                              q->root,  from, to,      q->count, NULL};
    MUST(rig_table->call(c, &x) == WEFT_OK);
}

static void end_group(weft_comm *c)
{
    weft_status st = rig_table->end(rig_module, 0);
    while (st == WEFT_BUSY)
        st = rig_table->ready(c);
    MUST(st == WEFT_OK);
}

static void until_done(weft_comm *c, uint64_t groups)
{
    const double until = rig_now() + PATIENCE;
    uint64_t done = 0, last = 0;
    for (; done < groups; rig_nap()) {
        MUST(rig_table->test(c, 0, &done) == WEFT_OK);
        MUST(done >= last && done <= groups);
        last = done;
        MUST(rig_now() < until);
    }
}

static uint64_t groups; /* of the communicator so far */

/* In place at the ranks that have both sides. */
static void run_case(weft_comm *c, const request *q)
{
    const bool in_place = q->in_place && in_count(q) && out_count(q);
    const bool reduces = q->kind <= WEFT_REDUCE_SCATTER || q->kind == WEFT_REDUCE;
    const uint64_t size = weft_dtype_size(q->dtype), n = out_count(q), given = in_count(q);
    if (rig_table->supports && rig_table->supports(rig_module, q->kind, reduces ? q->redop : 0,
                                                   q->dtype) == WEFT_UNSUPPORTED) {
        MUST(*rig_why);
        refused_cases++;
        return;
    }
    const uint64_t touched = q->count * size + 4096;
    memset(in, 0xA5, touched);
    memset(out, 0xA5, touched);
    memset(want, 0xA5, touched);
    char *from = in + 64, *to = out + 64;
    if (in_place) { /* the smaller side lies at its part of the larger one */
        const bool smaller = n < given;
        const uint64_t at = n == given ? 0 : rig_me * (q->count / rig_ranks) * size;
        to = from + (smaller ? at : 0);
        from += n > given ? at : 0;
    }
    for (uint64_t i = 0; i < given; i++)
        set(q->dtype, from, i, element(rig_me, i));
    for (uint64_t i = 0; i < n; i++)
        set(q->dtype, want, i, wanted(q, i));
    MUST(rig_table->begin(rig_module, 0) == WEFT_OK);
    call(c, q, given ? from : NULL, n ? to : NULL);
    end_group(c);
    until_done(c, ++groups);
    if (memcmp(to, want, n * size) != 0) {
        fprintf(stderr, "kind %u, operator %u, type %u, root %u, count %llu, in place %d\n",
                q->kind, q->redop, q->dtype, q->root, (unsigned long long)q->count, in_place);
        MUST(!"the result is another");
    }
    for (uint64_t i = 0; !in_place && i < given; i++)
        set(q->dtype, want, i, element(rig_me, i));
    MUST(in_place || !memcmp(from, want, given * size));
    MUST(in_place || to[n * size] == (char)0xA5);
    done_cases++;
}

static void all_kinds(weft_comm *c)
{
    const uint64_t parts[] = {0, 1, 3, 17, 1023, 70001};
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_BARRIER; kind++)
        for (uint32_t t = 0; t < 7; t++)
            for (uint32_t p = 0; p < 6; p++) {
                const bool reduces = kind <= WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
                const bool whole =
                    kind == WEFT_ALL_REDUCE || kind == WEFT_BROADCAST || kind == WEFT_REDUCE;
                const bool rooted = kind >= WEFT_BROADCAST && kind <= WEFT_SCATTER;
                request q = {kind, reduces, types[t], 0, whole ? parts[p] : parts[p] * rig_ranks,
                             0};
                if (kind == WEFT_BARRIER)
                    q.count = 0;
                if (p == 5 && t > 1)
                    continue; /* large ones of two types */
                for (; q.redop <= (reduces ? WEFT_MIN : 0); q.redop++)
                    for (q.root = 0; q.root < (rooted ? rig_ranks : 1); q.root++)
                        for (int place = 0; place <= (kind != WEFT_BARRIER); place++) {
                            q.in_place = place;
                            run_case(c, &q);
                        }
            }
}

/* A ring of sends and receives, all in one group, several messages a pair; then the other way. */
static void ring(weft_comm *c)
{
    enum { N = 5, COUNT = 60001 };
    if (rig_ranks == 1)
        return;
    for (uint32_t way = 1; way < rig_ranks; way++) {
        const uint32_t to = (rig_me + way) % rig_ranks,
                       from = (rig_me + rig_ranks - way) % rig_ranks;
        MUST(rig_table->begin(rig_module, 0) == WEFT_OK);
        for (uint64_t k = 0; k < N; k++) {
            for (uint64_t i = 0; i < COUNT; i++)
                set(WEFT_I32, in + k * 4 * COUNT, i, (double)(i * 3 + rig_me * 100 + k));
            call(c, &(request){WEFT_SEND, 0, WEFT_I32, to, COUNT, 0}, in + k * 4 * COUNT, NULL);
            call(c, &(request){WEFT_RECV, 0, WEFT_I32, from, COUNT, 0}, NULL, out + k * 4 * COUNT);
        }
        end_group(c);
        until_done(c, ++groups);
        for (uint64_t k = 0; k < N; k++)
            for (uint64_t i = 0; i < COUNT; i++) {
                int32_t v;
                memcpy(&v, out + (k * COUNT + i) * 4, 4);
                MUST(v == (int32_t)(i * 3 + from * 100 + k));
            }
    }
}

/* Ten groups of several collectives in flight, on two communicators; the second one's first. */
static void many(weft_comm *c, weft_comm *other)
{
    enum { GROUPS = 10, COUNT = 999 };
    float *a = (float *)(void *)in, *b = (float *)(void *)out;
    for (uint64_t i = 0; i < 3 * GROUPS * COUNT; i++)
        a[i] = (float)(element(rig_me, i));
    for (uint64_t g = 0; g < GROUPS; g++) {
        MUST(rig_table->begin(rig_module, 0) == WEFT_OK);
        for (uint64_t k = 0; k < 3; k++) {
            const uint64_t at = (g * 3 + k) * COUNT;
            call(k == 1 ? other : c, &(request){WEFT_ALL_REDUCE, WEFT_SUM, WEFT_F32, 0, COUNT, 0},
                 a + at, b + at);
        }
        end_group(c);
    }
    until_done(other, GROUPS);
    groups += GROUPS;
    until_done(c, groups);
    for (uint64_t i = 0; i < 3 * GROUPS * COUNT; i++)
        MUST(b[i] == (float)reduced(&(request){.redop = WEFT_SUM}, i));
}

/* An unknown kind, an unknown type, an unknown flag: refused with a sentence. */
static void refusals(weft_comm *c)
{
    const weft_coll_call bad[] = {
        {sizeof *bad, 0, 99, 0, WEFT_F32, 0, in, out, 4, NULL},
        {sizeof *bad, 0, WEFT_BROADCAST, 0, 99, 0, in, out, 4, NULL},
        {sizeof *bad, 0, WEFT_ALL_REDUCE, 99, WEFT_F32, 0, in, out, 4, NULL},
        {sizeof *bad, 1, WEFT_BROADCAST, 0, WEFT_F32, 0, in, out, 4, NULL},
    };
    uint64_t done;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        *rig_why = 0;
        MUST(rig_table->begin(rig_module, 0) == WEFT_OK);
        MUST(rig_table->call(c, &bad[i]) == WEFT_UNSUPPORTED && *rig_why);
        end_group(c);
        MUST(rig_table->test(c, 0, &done) == WEFT_OK && done >= groups && done <= groups + i + 1);
    }
    MUST(rig_table->test(c, 1, &done) == WEFT_UNSUPPORTED);
}

/* The last rank dies; the others get WEFT_PEER from test() or health(). */
static void death(weft_comm *c)
{
    uint64_t done = 0;
    if (rig_ranks == 1 || !rig_forked)
        return;
    if (rig_me == rig_ranks - 1)
        raise(SIGKILL);
    MUST(rig_table->begin(rig_module, 0) == WEFT_OK);
    call(c, &(request){WEFT_ALL_REDUCE, WEFT_SUM, WEFT_F32, 0, 70001, 0}, in, out);
    end_group(c);
    weft_status st = WEFT_OK;
    for (const double until = rig_now() + PATIENCE; st == WEFT_OK && rig_now() < until; rig_nap())
        st = rig_table->test(c, 0, &done);
    MUST(st == WEFT_PEER && *rig_why);
    rig_table->abort(c);
}

static int run_rank(void)
{
    in = malloc(ROOM);
    out = malloc(ROOM);
    want = malloc(ROOM);
    weft_comm *c = rig_open(0), *other = rig_open(1), *last = rig_open(2);
    MUST(rig_table->health(c) == WEFT_OK);
    all_kinds(c);
    ring(c);
    many(c, other);
    rig_table->close(other);
    groups = 0;
    refusals(last);
    rig_table->close(last);
    death(c);
    rig_table->close(c);
    if (rig_me == 0)
        printf("%u ranks: %u cases, %u refused\n", rig_ranks, done_cases, refused_cases);
    free(in);
    free(out);
    free(want);
    return 0;
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv, run_rank);
}
