/* schedule/alg/compress.c: gradient compression: sums whose messages have fewer bits per element.
 *
 * Idea: pairwise exchange, as in pairwise.c, but of codes (schedule/form.h). Rank i encodes its
 * contribution to part r and sends it to rank r, which decodes all of them in rank order, adds them
 * in fp32 and, for an all-reduce, encodes the sum and sends that code to all. All ranks, r
 * included, decode this one code, so they have the same bits. Rank r does not encode its own
 * contribution to its part: it is not sent, and the sum is computed in one place only.
 *
 * With error feedback each encoder keeps what encoding lost (the residual) and adds it to what it
 * encodes there the next time. A rank encodes its contributions to all other parts and the sum of
 * its own part: so the residual is one fp32 number per element, or, where no sum is encoded, one
 * per element of the other parts.
 *
 * Cost for S bytes of elements whose code has c bytes: each phase sends c (n-1)/n bytes in n - 1
 * messages (times the chunks of a part). c is S/2 from fp32 to 16 bits, S * 65/256 to int8. A rank
 * encodes and decodes every element once, reading and writing the 4 S / size bytes of residual.
 *
 * It loses where sending is cheap (shared memory, a fast network and few cores), because encoding
 * costs more than it saves; and, as pairwise exchange does, on very many ranks. */
#include "schedule/algorithm.h"
#include "schedule/form.h"

/* As in pairwise.c: how many chunks later the sums are sent. */
#define LAG 2

typedef struct capacity {
    sched_landing given, taken; /* codes of contributions, to others and from others */
    sched_landing sums, others; /* codes of the own sum and of others' */
} capacity;

static uint64_t coded(const sched_writer *w, uint64_t bytes)
{
    return sched_code_bytes(w->r->compress, bytes / w->size);
}

static capacity capacity_for(sched_writer *w, int gather)
{
    uint64_t longest = sched_writer_longest_part(w);
    uint64_t bytes = coded(w, sched_writer_chunk(w, (sched_span){0, longest}, 0).bytes);
    uint32_t peers = w->r->ranks - 1;
    capacity x = {.given = sched_writer_landing_of(w, longest, bytes, peers)};
    x.taken = sched_writer_landing_of(w, longest, bytes, peers);
    if (gather) {
        x.sums = sched_writer_landing_of(w, longest, bytes, 1);
        x.others = sched_writer_landing_of(w, longest, bytes, peers);
    }
    return x;
}

/* The residual of the elements from byte `at`; a reduce-scatter omits this rank's own part. */
static sched_place residual_at(const sched_writer *w, uint64_t at)
{
    sched_span own = sched_writer_part(w, w->r->me);
    if (w->r->kind == WEFT_REDUCE_SCATTER && at >= own.at)
        at -= own.bytes;
    return (sched_place){SCHED_RESIDUAL, 0, at / w->size * 4};
}

static void give(sched_writer *w, const capacity *x, uint64_t c, uint32_t to)
{
    sched_span s = sched_writer_chunk(w, sched_writer_part(w, to), c);
    sched_place code = sched_landed(&x->given, c, sched_writer_place(w, to));
    sched_writer_open(w, SCHED_ENCODE, 0, s.bytes);
    sched_writer_from(w, sched_in_at(s.at));
    sched_writer_to(w, code);
    if (w->r->feedback)
        sched_writer_to(w, residual_at(w, s.at));
    sched_writer_send(w, to, code, coded(w, s.bytes));
}

static void fold(sched_writer *w, const capacity *x, uint64_t c, sched_place mine, int gather)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    sched_span part = sched_writer_part(w, me), s = sched_writer_chunk(w, part, c);
    sched_writer_open(w, gather ? SCHED_REDUCE_ENCODE : SCHED_REDUCE_DECODE, me, s.bytes);
    for (uint32_t i = 0; i < n; i++)
        sched_writer_from(w, i == me ? sched_in_at(s.at)
                                     : sched_landed(&x->taken, c, sched_writer_place(w, i)));
    if (gather)
        sched_writer_to(w, sched_landed(&x->sums, c, 0));
    sched_writer_to(w, sched_place_plus(mine, s.at - part.at));
    if (gather && w->r->feedback)
        sched_writer_to(w, residual_at(w, s.at));
}

static void reduce_chunk(sched_writer *w, const capacity *x, uint64_t c, sched_place mine,
                         int gather)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    uint64_t own = sched_writer_chunk(w, sched_writer_part(w, me), c).bytes;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t from = (me + n - k) % n;
        give(w, x, c, (me + k) % n);
        sched_writer_recv(w, from, sched_landed(&x->taken, c, sched_writer_place(w, from)),
                          coded(w, own));
    }
    fold(w, x, c, mine, gather);
}

static void gather_chunk(sched_writer *w, const capacity *x, uint64_t c)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    uint64_t own = sched_writer_chunk(w, sched_writer_part(w, me), c).bytes;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t from = (me + n - k) % n;
        sched_span s = sched_writer_chunk(w, sched_writer_part(w, from), c);
        sched_place code = sched_landed(&x->others, c, sched_writer_place(w, from));
        sched_writer_send(w, (me + k) % n, sched_landed(&x->sums, c, 0), coded(w, own));
        sched_writer_recv(w, from, code, coded(w, s.bytes));
        sched_writer_open(w, SCHED_DECODE, 0, s.bytes);
        sched_writer_from(w, code);
        sched_writer_to(w, sched_out_at(s.at));
    }
}

static void emit(sched_writer *w)
{
    int gather = w->r->kind == WEFT_ALL_REDUCE;
    sched_span part = sched_writer_part(w, w->r->me);
    uint64_t chunks = sched_writer_chunks(w, sched_writer_longest_part(w));
    capacity x = capacity_for(w, gather);
    for (uint64_t c = 0; c < chunks + LAG; c++) {
        if (c < chunks)
            reduce_chunk(w, &x, c, sched_out_at(gather ? part.at : 0), gather);
        if (gather && c >= LAG && c - LAG < chunks)
            gather_chunk(w, &x, c - LAG);
    }
    w->residual_bytes = w->r->feedback ? (w->bytes - (gather ? 0 : part.bytes)) / w->size * 4 : 0;
}

const sched_algorithm sched_compressed = {
    .name = "compressed",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE) | SCHED_ON(WEFT_REDUCE_SCATTER),
    .chunk = 256 << 10,
    .emit = emit,
};
