/* check/coll/result.c: results of every kind, operator and type that the library has.
 *
 * Elements are small whole numbers and halves, which sums of every type hold exactly: what is
 * expected is computed in double and compared without a bound. That all ranks have the same bits is
 * seen with numbers whose sum depends on the order. */
#include "base/number/digest.h"
#include "check/coll/coll.h"
#include "check/reference/call.h"
#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct one { /* an operation of the check */
    uint32_t kind, redop, dtype, root;
    uint64_t count; /* of the larger side */
    bool in_place;
} one;

static const char *const ops[] = {"", "sum", "max", "min"};
static const char *const types[] = {"", "f32", "bf16", "f16", "i32", "i64", "f64", "u8"};

static bool reduces(uint32_t kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

static bool in_parts(uint32_t kind)
{
    return kind != WEFT_ALL_REDUCE && kind != WEFT_BROADCAST && kind != WEFT_REDUCE;
}

/* Element i of what a rank gives. */
static double given(const one *o, uint32_t rank, uint64_t i)
{
    const double v = (double)((rank * 7 + i * 5 + i / 9) % 11);
    const bool whole = o->dtype >= WEFT_I32 && o->dtype != WEFT_F64;
    return o->dtype == WEFT_U8 ? v : whole ? v - 5 : (v - 5) / 2;
}

static double reduced(const one *o, uint32_t n, uint64_t i)
{
    double acc = given(o, 0, i);
    for (uint32_t r = 1; r < n; r++) {
        const double v = given(o, r, i);
        acc = o->redop == WEFT_SUM ? acc + v : (o->redop == WEFT_MAX ? v > acc : v < acc) ? v : acc;
    }
    return acc;
}

/* Element i of what rank `me` has afterwards. */
static double expected(const one *o, uint32_t me, uint32_t n, uint64_t i)
{
    const uint64_t part = o->count / n;
    switch (o->kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE: return reduced(o, n, i);
    case WEFT_REDUCE_SCATTER: return reduced(o, n, me * part + i);
    case WEFT_ALL_GATHER:
    case WEFT_GATHER: return given(o, (uint32_t)(i / part), i % part);
    case WEFT_BROADCAST: return given(o, o->root, i);
    case WEFT_SCATTER: return given(o, o->root, me * part + i);
    default: return given(o, (uint32_t)(i / part), me * part + i % part); /* all-to-all */
    }
}

/* Elements of the two sides on a rank; 0: it has no such side. */
static uint64_t input_of(const one *o, uint32_t me, uint32_t n)
{
    switch (o->kind) {
    case WEFT_ALL_GATHER:
    case WEFT_GATHER: return o->count / n;
    case WEFT_BROADCAST:
    case WEFT_SCATTER: return me == o->root ? o->count : 0;
    default: return o->count;
    }
}

static uint64_t output_of(const one *o, uint32_t me, uint32_t n)
{
    switch (o->kind) {
    case WEFT_REDUCE_SCATTER:
    case WEFT_SCATTER: return o->count / n;
    case WEFT_REDUCE:
    case WEFT_GATHER: return me == o->root ? o->count : 0;
    default: return o->count;
    }
}

#define LIMIT ((uint64_t)1 << 20) /* bytes of a side */

static _Alignas(64) unsigned char memory[2][LIMIT + 64];

/* Where the sides lie. In place, the smaller side is a part of the larger one. */
static void place(const check_party *p, const one *o, unsigned char **in, unsigned char **out)
{
    const uint64_t a = input_of(o, p->rank, p->ranks), b = output_of(o, p->rank, p->ranks);
    const uint64_t part = p->rank * (o->count / p->ranks) * weft_dtype_size(o->dtype);
    *in = memory[0];
    *out = o->in_place ? memory[0] : memory[1];
    if (o->in_place && a && b && a < b)
        *in += part;
    if (o->in_place && a && b && b < a)
        *out += part;
}

static void judge(const check_party *p, const one *o, const unsigned char *out)
{
    const uint64_t n = output_of(o, p->rank, p->ranks), size = weft_dtype_size(o->dtype);
    for (uint64_t i = 0; i < n; i++) {
        const double want = expected(o, p->rank, p->ranks, i),
                     got = check_operand_get(o->dtype, out, (int64_t)i);
        if (got != want)
            check_fail("%s of %llu %s elements%s%s over %u ranks%s, root %u: element %llu on rank "
                       "%u is %g by '%s' instead of %g",
                       sched_kind_name(o->kind), (unsigned long long)o->count, types[o->dtype],
                       o->redop ? ", " : "", ops[o->redop], p->ranks,
                       o->in_place ? " in place" : "", o->root, (unsigned long long)i, p->rank, got,
                       p->c->name, want);
    }
    if (!o->in_place && n && out[n * size] != 0xee)
        check_fail("%s of %llu %s elements by '%s' wrote beyond its result on rank %u",
                   sched_kind_name(o->kind), (unsigned long long)o->count, types[o->dtype],
                   p->c->name, p->rank);
}

static void run_one(check_party *p, const one *o)
{
    unsigned char *in, *out;
    for (uint32_t i = 0; i < 2; i++)
        memset(memory[i], 0xee, o->count * weft_dtype_size(o->dtype) + 64);
    place(p, o, &in, &out);
    for (uint64_t i = 0; i < input_of(o, p->rank, p->ranks); i++)
        check_operand_put(o->dtype, in, (int64_t)i, given(o, p->rank, i));
    const weft_coll_call call = {.kind = o->kind,
                                 .redop = o->redop,
                                 .dtype = o->dtype,
                                 .root = o->root,
                                 .in = in,
                                 .out = out,
                                 .count = o->count};
    check_party_do(p, &call);
    judge(p, o, out);
    for (uint64_t i = 0; !o->in_place && i < input_of(o, p->rank, p->ranks); i++)
        if (check_operand_get(o->dtype, in, (int64_t)i) != given(o, p->rank, i))
            check_fail("%s by '%s' changed element %llu of its input on rank %u",
                       sched_kind_name(o->kind), p->c->name, (unsigned long long)i, p->rank);
}

#define LARGE 70001u

static void run_roots(check_party *p, one o)
{
    const bool rooted = o.kind >= WEFT_BROADCAST && o.kind <= WEFT_SCATTER;
    for (o.root = 0; o.root < (rooted ? p->ranks : 1); o.root++)
        run_one(p, &o);
}

/* Every operation that the library has, with counts that are odd, and with none; large ones of two
 * types over two and three ranks. */
static void run_all(check_party *p, bool in_place)
{
    static const uint64_t counts[] = {0, 1, 7, 1027, LARGE};
    for (uint32_t kind = WEFT_ALL_REDUCE; kind <= WEFT_ALL_TO_ALL; kind++)
        for (uint32_t dtype = WEFT_F32; dtype <= WEFT_U8; dtype++)
            for (uint32_t op = reduces(kind) ? WEFT_SUM : 0; op <= (reduces(kind) ? WEFT_MIN : 0);
                 op++) {
                if (!check_party_has(p, kind, op, dtype) || (in_place && kind == WEFT_ALL_TO_ALL))
                    continue;
                for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                    const uint64_t n = in_parts(kind) ? counts[i] * p->ranks : counts[i];
                    const bool few = p->ranks == 2 || p->ranks == 3;
                    if (counts[i] < LARGE || (few && dtype <= WEFT_BF16))
                        run_roots(p, (one){kind, op, dtype, 0, n, in_place});
                }
            }
}

static void results(check_party *p)
{
    run_all(p, false);
    if (check_party_has(p, WEFT_BARRIER, 0, WEFT_U8)) {
        const weft_coll_call barrier = {.kind = WEFT_BARRIER, .dtype = WEFT_U8};
        check_party_do(p, &barrier);
    }
}

static void over_1_to_5(check_run *r, void (*run)(check_party *p))
{
    for (uint32_t ranks = 1; ranks <= 5; ranks++) {
        const check_coll_job job = {.ranks = ranks, .seconds = 9, .run = run};
        check_coll_run(r, &job);
    }
}

#define PAIRS 5u
#define SENT 60007u

/* Each rank sends to the one `way` behind it and receives from the one before, several messages in
 * one group. */
static void around(check_party *p, uint32_t way)
{
    static int32_t in[PAIRS][SENT], out[PAIRS][SENT];
    const uint32_t to = (p->rank + way) % p->ranks, from = (p->rank + p->ranks - way) % p->ranks;
    weft_coll_call calls[2 * PAIRS];
    for (uint32_t k = 0; k < PAIRS; k++) {
        for (uint32_t i = 0; i < SENT; i++) {
            in[k][i] = (int32_t)(1000000 * p->rank + 100000 * k + i);
            out[k][i] = -1;
        }
        calls[2 * k] = (weft_coll_call){
            .kind = WEFT_SEND, .dtype = WEFT_I32, .root = to, .in = in[k], .count = SENT};
        calls[2 * k + 1] = (weft_coll_call){
            .kind = WEFT_RECV, .dtype = WEFT_I32, .root = from, .out = out[k], .count = SENT};
    }
    check_party_start(p, calls, 2 * PAIRS);
    check_party_finish(p);
    for (uint32_t k = 0; k < PAIRS; k++)
        for (uint32_t i = 0; i < SENT; i++)
            if (out[k][i] != (int32_t)(1000000 * from + 100000 * k + i))
                check_fail("rank %u sent %u messages of %u elements to rank %u by '%s' in a group, "
                           "and element %u of message %u arrived as %d instead of %u",
                           from, PAIRS, SENT, p->rank, p->c->name, i, k, out[k][i],
                           1000000 * from + 100000 * k + i);
}

static void results_and_pairs(check_party *p)
{
    results(p);
    if (check_party_has(p, WEFT_SEND, 0, WEFT_I32) && check_party_has(p, WEFT_RECV, 0, WEFT_I32))
        for (uint32_t way = 1; way < p->ranks; way++)
            around(p, way);
}

void check_coll_results(check_run *r)
{
    over_1_to_5(r, results_and_pairs);
}

static void in_place(check_party *p)
{
    run_all(p, true);
}

void check_coll_in_place(check_run *r)
{
    over_1_to_5(r, in_place);
}

/* --- the same bits --- */

#define SPREAD 501u

static double uneven(uint64_t *state)
{
    static const double scales[] = {1, 1e-3, 37, 1024};
    const double unit = (double)(check_random(state) >> 11) * 0x1p-53 - 0.5;
    return unit * scales[check_random(state) % 4];
}

static void same_bits(check_party *p)
{
    static const uint32_t dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F64};
    for (uint32_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        uint64_t state = p->run->seed * 17 + p->rank, digest[16] = {0};
        if (!check_party_has(p, WEFT_ALL_REDUCE, WEFT_SUM, dtypes[k]))
            continue;
        for (uint64_t i = 0; i < SPREAD; i++)
            check_operand_put(dtypes[k], memory[0], (int64_t)i, uneven(&state));
        const weft_coll_call sum = {.kind = WEFT_ALL_REDUCE,
                                    .redop = WEFT_SUM,
                                    .dtype = dtypes[k],
                                    .in = memory[0],
                                    .out = memory[1],
                                    .count = SPREAD};
        check_party_do(p, &sum);
        uint64_t mine = 0;
        digest_mix(&mine, memory[1], SPREAD * weft_dtype_size(dtypes[k]));
        check_rank_exchange(p->k, &mine, sizeof mine, digest);
        for (uint32_t r = 1; r < p->ranks; r++)
            if (digest[r] != digest[0])
                check_fail("an all-reduce of %u %s elements by '%s' has other bits on rank %u than "
                           "on rank 0; all ranks add in one order",
                           SPREAD, types[dtypes[k]], p->c->name, r);
    }
}

void check_coll_same(check_run *r)
{
    const check_coll_job job = {.ranks = 3, .seconds = 6, .run = same_bits};
    check_coll_run(r, &job);
}
