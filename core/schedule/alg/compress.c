/* schedule/alg/compress.c: sums of gradients that travel in fewer bits than they have.
 *
 * Idea: every pair of ranks exchanges, as in direct.c, but codes (code.h). What rank i contributes
 * to part r it encodes and sends to rank r, which decodes all of them in the order of the ranks,
 * adds them in fp32 and, for an all-reduce, encodes the sum and sends that to everybody. All ranks,
 * r too, take what this one code says, so they have the same bits. Rank r's own contribution to its
 * part is not encoded: it goes nowhere, and the sum is formed in one place only.
 *
 * With feedback each encoder keeps what encoding took away and adds it to what it encodes there the
 * next time. A rank encodes its contributions to all parts but its own, and the sum of its own
 * part: so there is one fp32 number an element, or one an element that is not its own where no sum
 * is encoded.
 *
 * Cost for S bytes of elements, of which c are the bytes of their code: each phase sends c (n-1)/n
 * bytes in n - 1 messages (times the chunks of a part). c is S/2 from fp32 to 16 bits, S * 65/256
 * to int8. A rank encodes and decodes every element once, reading and writing the 4 S / size bytes
 * that it keeps.
 *
 * It loses where sending is cheap (memory that ranks share, a fast network and few cores), since
 * encoding costs more than it saves; and as direct exchange does, on very many ranks. */
#include "schedule/algorithm.h"
#include "schedule/form.h"

/* As in direct.c: chunks under way at once, and how far behind the sums are sent. */
#define SLOTS 3
#define LAG 2

typedef struct room {
    uint64_t stride, slots;
    comm_place given, taken; /* [slots][n - 1]: codes of contributions, to others and from others */
    comm_place sums, others; /* [slots] and [slots][n - 1]: codes of the own sum and of others' */
} room;

static uint64_t coded(const sched_writer *b, uint64_t bytes)
{
    return code_bytes(b->r->compress, bytes / b->size);
}

static room room_for(sched_writer *b, int gather)
{
    uint64_t longest = build_longest(b), chunks = build_chunks(b, longest), peers = b->r->ranks - 1;
    room x = {.slots = chunks < SLOTS ? chunks : SLOTS};
    x.stride = sched_align_line(coded(b, build_chunk(b, (sched_span){0, longest}, 0).bytes));
    x.given = build_scratch(b, x.slots * peers * x.stride);
    x.taken = build_scratch(b, x.slots * peers * x.stride);
    if (gather) {
        x.sums = build_scratch(b, x.slots * x.stride);
        x.others = build_scratch(b, x.slots * peers * x.stride);
    }
    return x;
}

/* Place of chunk c and peer number `peer` (0: the only one). */
static comm_place slot(const sched_writer *b, const room *x, comm_place base, uint64_t c,
                       uint32_t peer)
{
    return place_plus(base, (c % x->slots * (b->r->ranks - 1) + peer) * x->stride);
}

static uint32_t number(const sched_writer *b, uint32_t rank)
{
    return rank < b->r->me ? rank : rank - 1;
}

/* What is kept for the elements from byte `at` on; a reduce-scatter leaves out the own part. */
static comm_place kept_at(const sched_writer *b, uint64_t at)
{
    sched_span own = sched_writer_part(b, b->r->me);
    if (b->r->kind == WEFT_REDUCE_SCATTER && at >= own.at)
        at -= own.bytes;
    return (comm_place){COMM_KEPT, 0, at / b->size * 4};
}

static void give(sched_writer *b, const room *x, uint64_t c, uint32_t to)
{
    sched_span s = build_chunk(b, sched_writer_part(b, to), c);
    comm_place code = slot(b, x, x->given, c, number(b, to));
    build_coding(b, COMM_ENCODE, s.bytes);
    build_from(b, in_at(s.at));
    build_to(b, code);
    if (b->r->feedback)
        build_to(b, kept_at(b, s.at));
    build_send(b, to, code, coded(b, s.bytes));
}

static void fold(sched_writer *b, const room *x, uint64_t c, comm_place mine, int gather)
{
    uint32_t n = b->r->ranks, me = b->r->me;
    sched_span part = sched_writer_part(b, me), s = build_chunk(b, part, c);
    build_summing(b, gather ? COMM_FOLD : COMM_ADD, me, s.bytes);
    for (uint32_t i = 0; i < n; i++)
        build_from(b, i == me ? in_at(s.at) : slot(b, x, x->taken, c, number(b, i)));
    if (gather)
        build_to(b, place_plus(x->sums, c % x->slots * x->stride));
    build_to(b, place_plus(mine, s.at - part.at));
    if (gather && b->r->feedback)
        build_to(b, kept_at(b, s.at));
}

static void reduce_chunk(sched_writer *b, const room *x, uint64_t c, comm_place mine, int gather)
{
    uint32_t n = b->r->ranks, me = b->r->me;
    uint64_t own = build_chunk(b, sched_writer_part(b, me), c).bytes;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t from = (me + n - k) % n;
        give(b, x, c, (me + k) % n);
        build_recv(b, from, slot(b, x, x->taken, c, number(b, from)), coded(b, own));
    }
    fold(b, x, c, mine, gather);
}

static void gather_chunk(sched_writer *b, const room *x, uint64_t c)
{
    uint32_t n = b->r->ranks, me = b->r->me;
    uint64_t own = build_chunk(b, sched_writer_part(b, me), c).bytes;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t from = (me + n - k) % n;
        sched_span s = build_chunk(b, sched_writer_part(b, from), c);
        comm_place code = slot(b, x, x->others, c, number(b, from));
        build_send(b, (me + k) % n, place_plus(x->sums, c % x->slots * x->stride), coded(b, own));
        build_recv(b, from, code, coded(b, s.bytes));
        build_coding(b, COMM_DECODE, s.bytes);
        build_from(b, code);
        build_to(b, out_at(s.at));
    }
}

static void emit(sched_writer *b)
{
    int gather = b->r->kind == WEFT_ALL_REDUCE;
    sched_span part = sched_writer_part(b, b->r->me);
    uint64_t chunks = build_chunks(b, build_longest(b));
    room x = room_for(b, gather);
    for (uint64_t c = 0; c < chunks + LAG; c++) {
        if (c < chunks)
            reduce_chunk(b, &x, c, out_at(gather ? part.at : 0), gather);
        if (gather && c >= LAG && c - LAG < chunks)
            gather_chunk(b, &x, c - LAG);
    }
    b->kept = b->r->feedback ? (b->bytes - (gather ? 0 : part.bytes)) / b->size * 4 : 0;
}

const comm_algorithm comm_compressed = {
    .name = "compressed",
    .kinds = COMM_ON(WEFT_ALL_REDUCE) | COMM_ON(WEFT_REDUCE_SCATTER),
    .chunk = 256 << 10,
    .emit = emit,
};
