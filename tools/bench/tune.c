/* bench/tune.c: see tune.h.
 *
 * Two kinds of operations are timed, both as collective schedules, so that the measured cost
 * includes the progress engine, and with all ranks of the group active, as in a collective:
 *
 *   train  ROUNDS times each rank sends a message to the next and, before it sends again, has
 *          received one from the rank before: a ring of ping-pongs. Latency and bandwidth.
 *   burst  each rank sends short messages to the others, all at once: cost per extra message.
 *
 * Where the link maps, the two collectives that consist of loads and stores in mapped peer memory
 * are also timed.
 *
 * Each operation runs back to back often enough for the clock's resolution; the median of a few
 * such rounds is kept. The caller takes the median of several of these, with all other points
 * between them: a disturbance of the machine often lasts longer than a point. */
#include "bench/tune.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/kernels/reduce.h"

#define TIMEOUT 120.0 /* seconds for one operation */
#define ROUNDS 8      /* of a train */
#define SLOTS 3
#define TRAIN_LEAST 8u /* bytes; four times as many from one to the next ... */
#define TRAIN_MAX (2u << 20)
#define BURST_LEAST 8u /* messages of 8 bytes; twice as many from one to the next ... */
#define BURST_MAX 64u
#define BURST_PEERS 8u            /* to so many others at most */
#define MAPPED_LEAST (128u << 10) /* four times as many ... */
#define MAPPED_MAX (2u << 20)
#define REPEATS 3
#define PERIOD 4e-3 /* seconds of one repeat, about */
#define REDUCE_BYTES (256u << 10)
#define REDUCE_PARTS 16u

typedef struct point {
    sched_schedule *s; /* NULL: a reduction, of local memory alone */
    comm_op *op;
    uint32_t what;
    sched_way way;
} point;

struct bench_tune {
    uint32_t ranks, me, dtype, points;
    point point[TUNE_POINTS];
    point barrier, slowest; /* everybody is here; the maximum of a number */
    uint64_t side, scratch;
};

static void emit_train(sched_writer *b)
{
    uint32_t n = b->r->ranks, me = b->r->me, next = (me + 1) % n, prev = (me + n - 1) % n;
    uint64_t stride = sched_align_line(b->bytes);
    sched_place capacity = sched_writer_scratch(b, SLOTS * stride), from = sched_in_at(0);
    for (uint32_t k = 0; k < ROUNDS; k++) {
        sched_place to =
            k + 1 == ROUNDS ? sched_out_at(0) : sched_place_plus(capacity, k % SLOTS * stride);
        sched_writer_send(b, next, from, b->bytes);
        sched_writer_recv(b, prev, to, b->bytes);
        from = to;
    }
}

static void emit_burst(sched_writer *b)
{
    uint32_t n = b->r->ranks, me = b->r->me, peers = n - 1 < BURST_PEERS ? n - 1 : BURST_PEERS;
    for (uint64_t k = 0; k < b->r->count; k++) {
        uint32_t by = (uint32_t)(1 + k % peers);
        sched_writer_send(b, (me + by) % n, sched_in_at(k * b->size), b->size);
        sched_writer_recv(b, (me + n - by) % n, sched_out_at(k * b->size), b->size);
    }
}

static const sched_algorithm train = {
    .name = "train", .kinds = SCHED_ON(WEFT_SHIFT), .emit = emit_train};
static const sched_algorithm burst = {
    .name = "burst", .kinds = SCHED_ON(WEFT_SHIFT), .emit = emit_burst};

/* `a` NULL: what `auto` takes. */
static weft_status add(bench_tune *t, comm_channel *c, point *to, sched_request r,
                       const sched_algorithm *a)
{
    r.ranks = t->ranks;
    r.me = t->me;
    weft_status st = a ? sched_make_with(&r, a, &to->s) : sched_make(&r, &to->s);
    if (st == WEFT_OK)
        st = comm_add_op(c, to->s, a ? a->name : sched_kind_name(r.kind), &to->op);
    if (st != WEFT_OK)
        return st;
    uint64_t scratch = to->s->scratch, bytes = r.count * weft_dtype_size(r.dtype);
    t->scratch = scratch > t->scratch ? scratch : t->scratch;
    t->side = bytes > t->side ? bytes : t->side;
    return WEFT_OK;
}

static point *begin_point(bench_tune *t, uint32_t what)
{
    t->point[t->points].what = what;
    return &t->point[t->points++];
}

static weft_status add_points(bench_tune *t, comm_channel *c)
{
    weft_status st = WEFT_OK;
    sched_request r = {.kind = WEFT_SHIFT, .dtype = WEFT_I64, .root = 1};
    for (uint64_t bytes = TRAIN_LEAST; st == WEFT_OK && bytes <= TRAIN_MAX; bytes *= 4) {
        point *p = begin_point(t, TUNE_SENT);
        p->way = (sched_way){ROUNDS, ROUNDS, ROUNDS * (double)bytes, 0};
        r.count = bytes / 8;
        st = add(t, c, p, r, &train);
    }
    for (uint64_t n = BURST_LEAST; st == WEFT_OK && n <= BURST_MAX; n *= 2) {
        point *p = begin_point(t, TUNE_SENT);
        p->way = (sched_way){1, (double)n, 8 * (double)n, 0};
        r.count = n;
        st = add(t, c, p, r, &burst);
    }
    return st;
}

static weft_status add_mapped(bench_tune *t, comm_channel *c, uint64_t link_caps)
{
    static const uint32_t kinds[] = {WEFT_ALL_REDUCE, WEFT_ALL_GATHER};
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < (sched_link_maps(link_caps) ? 2u : 0); i++)
        for (uint64_t bytes = MAPPED_LEAST; st == WEFT_OK && bytes <= MAPPED_MAX; bytes *= 4) {
            point *p = begin_point(t, TUNE_MAPPED);
            sched_terms terms = {0};
            sched_request r = {.kind = kinds[i % 2],
                               .redop = WEFT_MAX,
                               .dtype = WEFT_F32,
                               .count = bytes / 4 / t->ranks * t->ranks,
                               .ranks = t->ranks,
                               .link_caps = link_caps};
            sched_terms_of(&sched_mapped, &r, &terms);
            p->way = terms.intra;
            st = add(t, c, p, r, &sched_mapped);
        }
    return st;
}

weft_status bench_tune_create(comm_channel *c, uint32_t ranks, uint32_t me, uint64_t link_caps,
                              uint32_t dtype, bench_tune **out)
{
    bench_tune *t = mem_alloc(sizeof *t);
    *t =
        (bench_tune){.ranks = ranks, .me = me, .dtype = dtype, .side = REDUCE_PARTS * REDUCE_BYTES};
    *out = t;
    sched_request one = {
        .kind = WEFT_ALL_REDUCE, .redop = WEFT_MAX, .dtype = WEFT_I64, .count = 1, .in_place = 1};
    weft_status st = add(t, c, &t->barrier, (sched_request){.kind = WEFT_BARRIER}, NULL);
    if (st == WEFT_OK)
        st = add(t, c, &t->slowest, one, NULL);
    if (st == WEFT_OK)
        st = add_points(t, c);
    if (st == WEFT_OK)
        st = add_mapped(t, c, link_caps);
    begin_point(t, TUNE_REDUCED)->way.bytes = 2.0 * (REDUCE_PARTS - 1) * REDUCE_BYTES;
    return st;
}

void bench_tune_destroy(bench_tune *t)
{
    for (uint32_t i = 0; t && i < t->points; i++)
        sched_free(t->point[i].s);
    if (t) {
        sched_free(t->barrier.s);
        sched_free(t->slowest.s);
    }
    free(t);
}

uint64_t bench_tune_memory(const bench_tune *t)
{
    return 2 * sched_align_line(t->side) + sched_align_line(t->scratch);
}

uint32_t bench_tune_points(const bench_tune *t)
{
    return t->points;
}

/* One after the other part of the memory is added to its neighbour: in caches, as what has just
 * arrived is. */
static void reduce_all(const bench_tune *t, char *memory)
{
    uint64_t size = weft_dtype_size(t->dtype);
    for (uint32_t i = 0; i + 1 < REDUCE_PARTS; i++) {
        void *to[1] = {memory + i * REDUCE_BYTES};
        const void *from[2] = {memory + i * REDUCE_BYTES, memory + (i + 1) * REDUCE_BYTES};
        comm_reduce_job j = {comm_reduce_pick(t->dtype), WEFT_SUM, (uint32_t)size, 1, 2, to, from,
                             REDUCE_BYTES / size};
        comm_reduce_run(&j);
    }
}

static weft_status run(const bench_tune *t, const point *p, char *memory, uint64_t times)
{
    int two_sides = p != &t->slowest;
    char *out = memory + (two_sides ? sched_align_line(t->side) : 0),
         *scratch = memory + 2 * sched_align_line(t->side);
    weft_status st = WEFT_OK;
    for (uint64_t i = 0; i < times && st == WEFT_OK; i++) {
        if (!p->s) {
            reduce_all(t, memory);
            continue;
        }
        st = comm_start(p->op, memory, out, scratch, 0);
        if (st == WEFT_OK)
            st = comm_wait(p->op, TIMEOUT);
    }
    return st;
}

/* The largest of all ranks'. */
static weft_status agree(const bench_tune *t, char *memory, double *seconds)
{
    int64_t ns = (int64_t)(*seconds * 1e9);
    memcpy(memory, &ns, sizeof ns);
    weft_status st = run(t, &t->slowest, memory, 1);
    memcpy(&ns, memory, sizeof ns);
    memset(memory, 0, sizeof ns);
    *seconds = (double)(ns > 1 ? ns : 1) * 1e-9;
    return st;
}

static weft_status time_of(const bench_tune *t, const point *p, char *memory, uint64_t times,
                           double *out)
{
    weft_status st = run(t, &t->barrier, memory, 1);
    uint64_t from = clock_ns();
    if (st == WEFT_OK)
        st = run(t, p, memory, times);
    *out = (double)(clock_ns() - from) * 1e-9;
    return st == WEFT_OK ? agree(t, memory, out) : st;
}

weft_status bench_tune_run(bench_tune *t, uint32_t i, void *memory, bench_tune_point *out)
{
    const point *p = &t->point[i];
    double took[REPEATS], one = 0;
    memset(memory, 0, bench_tune_memory(t));
    weft_status st = run(t, p, memory, 2);
    if (st == WEFT_OK)
        st = time_of(t, p, memory, 1, &one);
    uint64_t times = one < PERIOD ? (uint64_t)(PERIOD / one) : 1;
    uint32_t repeats = one < 25 * PERIOD ? REPEATS : 1; /* a slow network: limit the time */
    for (uint32_t k = 0; k < repeats && st == WEFT_OK; k++)
        st = time_of(t, p, memory, times, &took[k]);
    if (st == WEFT_OK)
        *out =
            (bench_tune_point){p->what, {p->way, bench_fit_median(took, repeats) / (double)times}};
    return st;
}

static uint32_t pick(const bench_tune_point *p, uint32_t n, uint32_t what, bench_fit_point *out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        if (p[i].what == what)
            out[found++] = p[i].at;
    return found;
}

void bench_tune_fit(const bench_tune_point *p, uint32_t n, sched_cost *out)
{
    const double least = 1e-15; /* seconds a byte: the largest that the keys may say */
    const sched_speed free_of_charge = {0};
    bench_fit_point *some = mem_alloc((uint64_t)n * sizeof *some + 1);
    sched_speed s = bench_fit_speed(some, pick(p, n, TUNE_SENT, some));
    uint32_t maps = pick(p, n, TUNE_MAPPED, some);
    double mapped = bench_fit_bytes(some, maps, &s);
    double reduce = bench_fit_bytes(some, pick(p, n, TUNE_REDUCED, some), &free_of_charge);
    free(some);
    s.per_byte = s.per_byte > least ? s.per_byte : least;
    mapped = mapped > least ? mapped : least;
    *out = (sched_cost){.intra = s,
                        .inter = s,
                        .reduce = reduce > least ? reduce : least,
                        .mapped = maps ? mapped : s.per_byte};
}
