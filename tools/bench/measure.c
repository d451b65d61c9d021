/* bench/measure.c: see measure.h.
 *
 * Operations run back to back, as in comparable benchmarks, after a tenth as many for warm-up.
 * Values are small integers, so that sums are exact in every type. */
#include "bench/measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "resolve/topology.h"
#include "schedule/algorithm.h"

#define TIMEOUT 120.0 /* seconds for one operation */
#define MAX_ROWS 64

typedef struct row {
    sched_request r;
    sched_schedule *s;
    comm_op *op;
} row;

struct bench_measure {
    bench_measure_request q;
    uint32_t rows;
    row row[MAX_ROWS];
    row barrier, slowest, total; /* helpers: everybody is here; the maximum; the sum */
    uint64_t side, scratch;      /* bytes of the longest input or output, and of scratch */
};

uint32_t bench_measure_kind(const char *name)
{
    for (uint32_t k = WEFT_ALL_REDUCE; k <= WEFT_ALL_TO_ALL; k++)
        if (strcmp(sched_kind_word(k), name) == 0)
            return k;
    return 0;
}

int bench_measure_is_mutual(uint32_t kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER ||
           kind == WEFT_ALL_TO_ALL;
}

static const sched_algorithm *algorithm_of(const char *name)
{
    for (uint32_t i = 0; sched_algorithms[i]; i++)
        if (strcmp(sched_algorithms[i]->name, name) == 0)
            return sched_algorithms[i];
    return NULL;
}

int bench_measure_able(const bench_measure_request *q, const char *algorithm)
{
    const sched_algorithm *a = algorithm_of(algorithm);
    sched_request r = {.kind = q->kind,
                       .redop = WEFT_SUM,
                       .dtype = q->dtype,
                       .count = q->ranks,
                       .ranks = q->ranks,
                       .me = q->me,
                       .in_place = (uint32_t)q->in_place,
                       .link_caps = q->link_caps,
                       .layout = q->layout};
    return a && sched_able(a, &r);
}

static weft_status add(bench_measure *m, comm_channel *c, row *to, const sched_request *r)
{
    to->r = *r;
    to->r.ranks = m->q.ranks;
    to->r.me = m->q.me;
    to->r.link_caps = m->q.link_caps;
    to->r.layout = m->q.layout;
    weft_status st = sched_make(&to->r, &to->s);
    if (st == WEFT_OK)
        st = comm_add_op(c, to->s, sched_kind_name(r->kind), &to->op);
    if (st == WEFT_OK && to->s->scratch > m->scratch)
        m->scratch = to->s->scratch;
    return st;
}

static weft_status add_helpers(bench_measure *m, comm_channel *c)
{
    sched_request one = {
        .kind = WEFT_ALL_REDUCE, .redop = WEFT_MAX, .dtype = WEFT_I64, .count = 1, .in_place = 1};
    weft_status st = add(m, c, &m->barrier, &(sched_request){.kind = WEFT_BARRIER});
    if (st == WEFT_OK)
        st = add(m, c, &m->slowest, &one);
    one.redop = WEFT_SUM;
    return st == WEFT_OK ? add(m, c, &m->total, &one) : st;
}

weft_status bench_measure_check_links(const spec *s)
{
    const char *library = NULL;
    for (uint32_t i = 0; i < s->nlinks; i++) {
        if (!resolve_collective_library(&s->links[i]))
            return WEFT_OK;
        library = s->links[i].c->name;
    }
    return !library ? WEFT_OK
                    : err_fail(WEFT_UNSUPPORTED,
                               "%s brings its own collectives; the core's algorithms are measured, "
                               "which run over links: set comm.plugin to a link, such as tcp",
                               library);
}

weft_status bench_measure_create(comm_channel *c, const bench_measure_request *q,
                                 bench_measure **out)
{
    bench_measure *m = mem_alloc(sizeof *m);
    uint64_t size = weft_dtype_size(q->dtype), unit = size * q->ranks;
    m->q = *q;
    m->side = 64;
    *out = m;
    weft_status st = add_helpers(m, c);
    for (uint64_t bytes = q->min; st == WEFT_OK && bytes <= q->max; bytes *= q->factor) {
        int in_parts =
            q->kind != WEFT_ALL_REDUCE && q->kind != WEFT_BROADCAST && q->kind != WEFT_REDUCE;
        uint64_t step = in_parts ? unit : size; /* a size that has whole elements, or parts */
        uint64_t whole = bytes < step ? step : bytes / step * step;
        sched_request r = {.kind = q->kind,
                           .redop = WEFT_SUM,
                           .dtype = q->dtype,
                           .count = whole / size,
                           .in_place = (uint32_t)q->in_place,
                           .chunk = q->chunk,
                           .cost = q->cost};
        r.algorithm = sched_rule(q->algorithm, &r);
        if (m->rows == MAX_ROWS)
            return err_fail(WEFT_USAGE, "more than %u sizes; choose a larger factor", MAX_ROWS);
        st = add(m, c, &m->row[m->rows++], &r);
        m->side = whole + 64 > m->side ? whole + 64 : m->side;
        if (bytes > q->max / q->factor)
            break;
    }
    return st;
}

void bench_measure_destroy(bench_measure *m)
{
    for (uint32_t i = 0; m && i < m->rows; i++)
        sched_free(m->row[i].s);
    if (m) {
        sched_free(m->barrier.s);
        sched_free(m->slowest.s);
        sched_free(m->total.s);
    }
    free(m);
}

uint32_t bench_measure_rows(const bench_measure *m)
{
    return m->rows;
}

uint64_t bench_measure_memory(const bench_measure *m)
{
    return 2 * sched_align_line(m->side) + sched_align_line(m->scratch) + 64;
}

/* Input of rank `rank` of `ranks` at element `i`. All sums are exact in bf16. */
static int64_t put_in(uint32_t ranks, uint32_t rank, uint64_t i)
{
    return ranks <= 128 ? (int64_t)((i + rank) % 3) : i % ranks == rank;
}

/* Expected output of rank `me` at element `i`. */
static int64_t expected(const sched_request *r, uint64_t i)
{
    uint64_t part = r->count / r->ranks;
    switch (r->kind) {
    case WEFT_ALL_GATHER:
    case WEFT_GATHER: return put_in(r->ranks, (uint32_t)(i / part), i % part);
    case WEFT_BROADCAST: return put_in(r->ranks, r->root, i);
    case WEFT_SCATTER: return put_in(r->ranks, r->root, r->me * part + i);
    case WEFT_ALL_TO_ALL: return put_in(r->ranks, (uint32_t)(i / part), r->me * part + i % part);
    default: break;
    }
    uint64_t at = r->kind == WEFT_REDUCE_SCATTER ? r->me * part + i : i;
    int64_t sum = 0;
    for (uint32_t k = 0; k < r->ranks; k++)
        sum += put_in(r->ranks, k, at);
    return sum;
}

/* A small whole number as an element: the halves by their bits. */
static void element(uint32_t dtype, int64_t v, void *out)
{
    float f = (float)v;
    uint32_t bits, narrow = (uint32_t)v;
    memcpy(&bits, &f, 4);
    uint16_t upper = (uint16_t)(bits >> 16);
    uint16_t half = v ? (uint16_t)((bits - 0x38000000u) >> 13) : 0;
    switch (dtype) {
    case WEFT_F32: memcpy(out, &f, 4); break;
    case WEFT_BF16: memcpy(out, &upper, 2); break;
    case WEFT_F16: memcpy(out, &half, 2); break;
    case WEFT_I32: memcpy(out, &narrow, 4); break;
    default: memcpy(out, &v, 8);
    }
}

typedef struct sides {
    char *in, *out;
    uint64_t in_count, out_count;
    void *scratch;
} sides;

static sides lay_out(const bench_measure *m, const sched_request *r, void *memory)
{
    uint64_t size = weft_dtype_size(r->dtype), part = r->count / r->ranks;
    int root = r->me == r->root;
    sides s = {memory, (char *)memory + sched_align_line(m->side), r->count, r->count,
               (char *)memory + 2 * sched_align_line(m->side)};
    switch (r->kind) {
    case WEFT_REDUCE_SCATTER: s.out_count = part; break;
    case WEFT_ALL_GATHER: s.in_count = part; break;
    case WEFT_BROADCAST: s.in_count = root ? r->count : 0; break;
    case WEFT_REDUCE: s.out_count = root ? r->count : 0; break;
    case WEFT_GATHER:
        s.in_count = part;
        s.out_count = root ? r->count : 0;
        break;
    case WEFT_SCATTER:
        s.in_count = root ? r->count : 0;
        s.out_count = part;
        break;
    default: break;
    }
    if (r->in_place && s.in_count && s.out_count) {
        uint64_t shift = s.in_count == s.out_count ? 0 : r->me * part * size;
        s.out = s.in_count < s.out_count ? s.in : s.in + shift;
        s.in = s.in_count < s.out_count ? s.in + shift : s.in;
    }
    return s;
}

static weft_status once(const row *w, const sides *s)
{
    weft_status st = comm_start(w->op, s->in, s->out, s->scratch, 0);
    return st == WEFT_OK ? comm_wait(w->op, TIMEOUT) : st;
}

static weft_status agree(const row *w, const bench_measure *m, void *memory, int64_t *value)
{
    sides s = lay_out(m, &w->r, memory);
    memcpy(s.in, value, sizeof *value);
    weft_status st = once(w, &s);
    memcpy(value, s.out, sizeof *value);
    return st;
}

static weft_status verify(const row *w, const sides *s, int64_t *wrong)
{
    uint64_t size = weft_dtype_size(w->r.dtype);
    char want[8];
    for (uint64_t i = 0; i < s->in_count; i++)
        element(w->r.dtype, put_in(w->r.ranks, w->r.me, i), s->in + i * size);
    weft_status st = once(w, s);
    *wrong = 0;
    for (uint64_t i = 0; i < s->out_count; i++) {
        element(w->r.dtype, expected(&w->r, i), want);
        *wrong += memcmp(want, s->out + i * size, size) != 0;
    }
    return st;
}

static double bus_share(const sched_request *r)
{
    double n = r->ranks;
    if (r->kind == WEFT_ALL_REDUCE)
        return 2 * (n - 1) / n;
    return r->kind == WEFT_BROADCAST || r->kind == WEFT_REDUCE ? 1 : (n - 1) / n;
}

/* How many operations are timed: the same number on every rank. */
static weft_status how_many(bench_measure *m, const row *w, void *memory, uint32_t *times)
{
    uint64_t bytes = w->r.count * weft_dtype_size(w->r.dtype);
    *times = bytes < 65536 ? 2000 : bytes < (4u << 20) ? 200 : 20;
    if (m->q.seconds <= 0)
        return WEFT_OK;
    sides s = lay_out(m, &w->r, memory);
    weft_status st = once(w, &s);
    uint64_t from = clock_ns();
    if (st == WEFT_OK)
        st = once(w, &s);
    int64_t ns = (int64_t)(clock_ns() - from);
    if (st == WEFT_OK)
        st = agree(&m->slowest, m, memory, &ns);
    double max = m->q.seconds * 1e9 / (double)(ns > 1 ? ns : 1);
    *times = max < 2 ? 2 : max < *times ? (uint32_t)max : *times;
    return st;
}

static weft_status time_together(bench_measure *m, const row *w, const sides *s, uint32_t times,
                                 int64_t *ns)
{
    sides nothing = {0};
    weft_status st = WEFT_OK;
    for (uint32_t k = 0; k < times / 10 + 1 && st == WEFT_OK; k++)
        st = once(w, s);
    if (st == WEFT_OK)
        st = once(&m->barrier, &nothing);
    uint64_t from = clock_ns();
    for (uint32_t k = 0; k < times && st == WEFT_OK; k++)
        st = once(w, s);
    *ns = (int64_t)(clock_ns() - from);
    return st;
}

/* Sending ranks would otherwise run many operations ahead of receiving ranks. */
static weft_status time_serialized(bench_measure *m, const row *w, const sides *s, uint32_t times,
                                   int64_t *ns)
{
    sides nothing = {0};
    weft_status st = WEFT_OK;
    *ns = 0;
    for (uint32_t k = 0; k < times && st == WEFT_OK; k++) {
        st = once(&m->barrier, &nothing);
        uint64_t from = clock_ns();
        if (st == WEFT_OK)
            st = once(w, s);
        *ns += (int64_t)(clock_ns() - from);
    }
    return st;
}

weft_status bench_measure_run(bench_measure *m, uint32_t i, void *memory, bench_measure_row *out)
{
    const row *w = &m->row[i];
    uint64_t bytes = bench_measure_bytes(m, i);
    uint32_t times;
    int64_t ns = 0, wrong = 0;
    memset(memory, 0, 2 * sched_align_line(m->side));
    sides s = lay_out(m, &w->r, memory);
    weft_status st = how_many(m, w, memory, &times);
    if (st == WEFT_OK)
        st = (m->q.serialized ? time_serialized : time_together)(m, w, &s, times, &ns);
    if (st == WEFT_OK)
        st = agree(&m->slowest, m, memory, &ns);
    if (st == WEFT_OK)
        st = verify(w, &s, &wrong);
    if (st == WEFT_OK)
        st = agree(&m->total, m, memory, &wrong);
    if (st != WEFT_OK)
        return st;
    double algbw = ns ? (double)bytes * times / (double)ns : 0;
    *out = (bench_measure_row){bytes,
                               w->r.count,
                               w->s->r.algorithm,
                               (double)ns / 1e3 / times,
                               algbw,
                               algbw * bus_share(&w->r),
                               (uint64_t)wrong};
    return WEFT_OK;
}

uint64_t bench_measure_bytes(const bench_measure *m, uint32_t i)
{
    return m->row[i].r.count * weft_dtype_size(m->row[i].r.dtype);
}

const char *bench_measure_algorithm(const bench_measure *m, uint32_t i)
{
    return m->row[i].s->r.algorithm;
}

double bench_measure_predict(const bench_measure *m, uint32_t i, const sched_cost *cost,
                             const char **choice)
{
    sched_request r = m->row[i].r;
    const sched_algorithm *a = algorithm_of(bench_measure_algorithm(m, i));
    r.cost = cost;
    *choice = sched_select(&r)->name;
    return a ? sched_predict(a, &r) : -1;
}
