/* schedule/alg/pairwise.c: pairwise exchange (algorithm = pairwise): every pair of ranks exchanges
 * only the parts that the two have for each other.
 *
 * Idea: rank r receives all contributions to part r from the ranks that hold them, reduces them in
 * rank order (16-bit floats in fp32, rounded once) and, if all ranks need the result, sends its
 * part to every other rank. Round k targets the rank k further on, so that the ranks do not all
 * send to one target at once. Gather, scatter, all-to-all, send and receive use subsets of this.
 *
 * Cost for S bytes: each phase sends S (n-1)/n bytes, the minimum, in n - 1 messages (times the
 * chunks of a part) that may all be in flight at once: one latency per phase. Summing reads S
 * bytes. With a root, the others send it S/n each (reduce: after a phase of sums), or receive as
 * much from it.
 *
 * It loses on many ranks: n - 1 connections each, n - 1 short messages where the ring has long
 * ones, and room for n - 1 contributions to a chunk. */
#include "schedule/request.h"
#include "schedule/terms.h"

/* The all-gather of a chunk is written LAG chunks later, so that its sends do not queue before
 * those that others wait for. */
#define LAG 2

static void reduce_chunk(sched_writer *w, const sched_landing *landing, uint64_t c,
                         sched_place mine)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    sched_span part = sched_writer_part(w, me), s = sched_writer_chunk(w, part, c);
    for (uint32_t k = 1; k < n; k++) {
        uint32_t to = (me + k) % n, from = (me + n - k) % n;
        sched_span give = sched_writer_chunk(w, sched_writer_part(w, to), c);
        sched_writer_send(w, to, sched_in_at(give.at), give.bytes);
        sched_writer_recv(w, from, sched_landed(landing, c, sched_writer_place(w, from)), s.bytes);
    }
    sched_writer_open(w, SCHED_REDUCE, 0, s.bytes);
    for (uint32_t i = 0; i < n; i++)
        sched_writer_from(w, i == me ? sched_in_at(s.at)
                                     : sched_landed(landing, c, sched_writer_place(w, i)));
    sched_writer_to(w, sched_place_plus(mine, s.at - part.at));
}

static void gather_chunk(sched_writer *w, uint64_t c)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t to = (me + k) % n, from = (me + n - k) % n;
        sched_span give = sched_writer_chunk(w, sched_writer_part(w, me), c);
        sched_span take = sched_writer_chunk(w, sched_writer_part(w, from), c);
        sched_writer_send(w, to, sched_out_at(give.at), give.bytes);
        sched_writer_recv(w, from, sched_out_at(take.at), take.bytes);
    }
}

/* `gather`: each chunk's reduction is followed by its all-gather. */
static void reduce_scatter(sched_writer *w, sched_place mine, int gather)
{
    uint64_t longest = sched_writer_longest_part(w), chunks = sched_writer_chunks(w, longest);
    sched_landing landing = sched_writer_landing(w, longest, w->r->ranks - 1);
    for (uint64_t c = 0; c < chunks + LAG; c++) {
        if (c < chunks)
            reduce_chunk(w, &landing, c, mine);
        if (gather && c >= LAG)
            gather_chunk(w, c - LAG);
    }
}

static void all_gather(sched_writer *w)
{
    sched_span part = sched_writer_part(w, w->r->me);
    sched_writer_copy(w, sched_out_at(part.at), sched_in_at(0), part.bytes);
    for (uint64_t c = 0; c < sched_writer_chunks(w, sched_writer_longest_part(w)); c++)
        gather_chunk(w, c);
}

void sched_gather_to_root(sched_writer *w, sched_place mine)
{
    uint32_t n = w->r->ranks, me = w->r->me, root = w->r->root;
    sched_span part = sched_writer_part(w, me);
    if (me != root) {
        sched_writer_send(w, root, mine, part.bytes);
        return;
    }
    sched_writer_copy(w, sched_out_at(part.at), mine, part.bytes);
    for (uint32_t k = 1; k < n; k++) {
        sched_span s = sched_writer_part(w, (me + k) % n);
        sched_writer_recv(w, (me + k) % n, sched_out_at(s.at), s.bytes);
    }
}

static void reduce(sched_writer *w)
{
    sched_span part = sched_writer_part(w, w->r->me);
    sched_place mine =
        w->r->me == w->r->root ? sched_out_at(part.at) : sched_writer_scratch(w, part.bytes);
    reduce_scatter(w, mine, 0);
    sched_gather_to_root(w, mine);
}

static void scatter(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me, root = w->r->root;
    uint64_t part = w->bytes / n;
    if (me != root) {
        sched_writer_recv(w, root, sched_out_at(0), part);
        return;
    }
    for (uint32_t k = 1; k < n; k++)
        sched_writer_send(w, (me + k) % n, sched_in_at((me + k) % n * part), part);
    sched_writer_copy(w, sched_out_at(0), sched_in_at(me * part), part);
}

/* In place, a part may be overwritten only after it was sent, and a peer may be able to send only
 * after its receive: each arriving part waits in scratch until its place is free. */
static void all_to_all(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    uint64_t part = w->bytes / n;
    sched_place capacity = {0};
    if (w->r->in_place)
        capacity = sched_writer_scratch(w, w->bytes);
    for (uint32_t k = 1; k < n; k++) {
        uint32_t to = (me + k) % n, from = (me + n - k) % n;
        sched_writer_send(w, to, sched_in_at(to * part), part);
        sched_writer_recv(w, from,
                          w->r->in_place ? sched_place_plus(capacity, from * part)
                                         : sched_out_at(from * part),
                          part);
    }
    sched_writer_copy(w, sched_out_at(me * part), sched_in_at(me * part), part);
    for (uint32_t i = 0; w->r->in_place && i < n; i++)
        if (i != me)
            sched_writer_copy(w, sched_out_at(i * part), sched_place_plus(capacity, i * part),
                              part);
}

/* Every rank sends its whole buffer `root` ranks further. */
static void shift(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me, by = w->r->root;
    if (by == 0) {
        sched_writer_copy(w, sched_out_at(0), sched_in_at(0), w->bytes);
        return;
    }
    sched_writer_send(w, (me + by) % n, sched_in_at(0), w->bytes);
    sched_writer_recv(w, (me + n - by) % n, sched_out_at(0), w->bytes);
}

static void emit(sched_writer *w)
{
    const sched_request *r = w->r;
    switch (r->kind) {
    case WEFT_ALL_REDUCE: reduce_scatter(w, sched_out_at(sched_writer_part(w, r->me).at), 1); break;
    case WEFT_REDUCE_SCATTER: reduce_scatter(w, sched_out_at(0), 0); break;
    case WEFT_ALL_GATHER: all_gather(w); break;
    case WEFT_REDUCE: reduce(w); break;
    case WEFT_GATHER: sched_gather_to_root(w, sched_in_at(0)); break;
    case WEFT_SCATTER: scatter(w); break;
    case WEFT_ALL_TO_ALL: all_to_all(w); break;
    case WEFT_SHIFT: shift(w); break;
    case WEFT_SEND: sched_writer_send(w, r->root, sched_in_at(0), w->bytes); break;
    default: sched_writer_recv(w, r->root, sched_out_at(0), w->bytes); break;
    }
}

void sched_gather_terms(sched_traffic *t, const sched_writer *w)
{
    for (uint32_t i = 0; i < w->r->ranks; i++)
        if (i != w->r->root)
            sched_traffic_edge(t, i, w->r->root, sched_amount_whole(sched_writer_part(w, i).bytes));
    sched_traffic_rounds(t, 1, 0);
}

static void one_to_one(sched_traffic *t, const sched_writer *w)
{
    const sched_request *r = w->r;
    uint32_t n = r->ranks;
    sched_amount part = sched_amount_whole(w->bytes / n), all = sched_amount_whole(w->bytes);
    for (uint32_t i = 0; i < n; i++)
        if (r->kind == WEFT_ALL_TO_ALL)
            sched_traffic_to_all(t, i, part);
        else if (r->kind == WEFT_SCATTER && i != r->root)
            sched_traffic_edge(t, r->root, i, part);
        else if (r->kind == WEFT_SHIFT && r->root)
            sched_traffic_edge(t, i, (i + r->root) % n, all);
    if (r->kind == WEFT_SEND || r->kind == WEFT_RECV)
        sched_traffic_edge(t, r->kind == WEFT_SEND ? r->me : r->root,
                           r->kind == WEFT_SEND ? r->root : r->me, all);
    sched_traffic_rounds(t, 1, 0);
}

static double terms(sched_writer *w, sched_traffic *t)
{
    const sched_request *r = w->r;
    const bool sums = sched_reduces(r->kind);
    for (uint32_t i = 0; i < r->ranks && sums; i++)
        sched_traffic_from_all(t, i, sched_amount_part(w, i));
    sched_traffic_rounds(t, 1, 0);
    for (uint32_t i = 0; i < r->ranks; i++)
        if (r->kind == WEFT_ALL_REDUCE || r->kind == WEFT_ALL_GATHER)
            sched_traffic_to_all(t, i, sched_amount_part(w, i));
    sched_traffic_rounds(t, 1, 0);
    if (r->kind == WEFT_REDUCE || r->kind == WEFT_GATHER)
        sched_gather_terms(t, w);
    one_to_one(t, w);
    return sums ? r->ranks * sched_longest_part(w) : 0;
}

const sched_algorithm sched_pairwise = {
    .name = "pairwise",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE) | SCHED_ON(WEFT_REDUCE_SCATTER) | SCHED_ON(WEFT_ALL_GATHER) |
             SCHED_ON(WEFT_REDUCE) | SCHED_ON(WEFT_GATHER) | SCHED_ON(WEFT_SCATTER) |
             SCHED_ON(WEFT_ALL_TO_ALL) | SCHED_ON(WEFT_SEND) | SCHED_ON(WEFT_RECV) |
             SCHED_ON(WEFT_SHIFT),
    .chunk = 128 << 10,
    .once = 1,
    .emit = emit,
    .terms = terms,
};
