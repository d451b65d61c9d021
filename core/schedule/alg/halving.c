/* schedule/alg/halving.c: recursive halving and doubling (Rabenseifner) for reduce-scatter,
 * all-gather and all-reduce.
 *
 * Idea: of 2^k ranks, each exchanges half of what it still holds with the rank 2^(k-1) away and
 * adds what it receives to the half it keeps; then a quarter with the rank 2^(k-2) away, and so on,
 * until it holds the sum of one part. The all-gather does the reverse, doubling. Where the number
 * of ranks is not a power of two, the first ranks form pairs, see fold.h.
 *
 * Cost for S bytes on 2^k ranks: each phase sends S (n-1)/n bytes in only k messages (times their
 * chunks, while halving), k latencies; summing reads 2 S (n-1)/n bytes. Pairs cost up to two
 * latencies more: their even rank sends S (all-gather: S/n), read in summing with another S, and
 * their odd rank returns S (reduce-scatter: S/n; all-gather: S (n-1)/n in up to two messages).
 *
 * It loses to pairwise exchange on few ranks, where n - 1 concurrent messages take less time than k
 * in a row, to the ring where distant partners are slow, and if n is not a power of two. Partial
 * sums of 16-bit floats are rounded k times, k + 1 with pairs. */
#include "schedule/alg/fold.h"

static sched_span parts_of(const sched_folded *h, uint32_t first, uint32_t end)
{
    return sched_writer_parts(h->w, sched_fold_first(h, first), sched_fold_first(h, end));
}

/* One exchange: sends the bytes of `give`, writes the sum over `keep` to `to`. `now` is where the
 * bytes from `base` on are now. Sources are in rank order. */
static void exchange(sched_writer *w, uint32_t partner, sched_place now, uint64_t base,
                     sched_span give, sched_span keep, sched_place to)
{
    uint64_t longest = give.bytes > keep.bytes ? give.bytes : keep.bytes;
    sched_place got = sched_writer_scratch(w, keep.bytes);
    for (uint64_t c = 0; c < sched_writer_chunks(w, longest); c++) {
        sched_span out = sched_writer_chunk(w, give, c), in = sched_writer_chunk(w, keep, c);
        sched_writer_send(w, partner, sched_place_plus(now, out.at - base), out.bytes);
        sched_place theirs = sched_place_plus(got, in.at - keep.at);
        sched_place ours = sched_place_plus(now, in.at - base);
        sched_writer_recv(w, partner, theirs, in.bytes);
        int first = partner < w->r->me;
        sched_writer_reduce2(w, sched_place_plus(to, in.at - keep.at), first ? theirs : ours,
                             first ? ours : theirs, in.bytes);
    }
}

/* Leaves the sum over this group's parts at `mine`. */
static void halve(sched_folded *h, sched_place mine)
{
    sched_writer *w = h->w;
    sched_place now = sched_fold_in(h);
    if (h->idle)
        return;
    uint64_t base = 0;
    for (uint32_t first = 0, count = h->groups; count > 1; count /= 2) {
        uint32_t half = count / 2, low = h->group < first + half;
        uint32_t keep = low ? first : first + half, give = low ? first + half : first;
        sched_span kept = parts_of(h, keep, keep + half);
        sched_place to = half == 1 ? mine : sched_writer_scratch(w, kept.bytes);
        uint32_t partner = sched_fold_actor(h, low ? h->group + half : h->group - half);
        exchange(w, partner, now, base, parts_of(h, give, give + half), kept, to);
        now = to;
        base = kept.at;
        first = keep;
    }
}

/* Begins with this group's parts in place in out. */
static void twice(sched_folded *h)
{
    for (uint32_t have = 1; have < h->groups && !h->idle; have *= 2) {
        uint32_t other = h->group ^ have, mask = ~(have - 1);
        sched_span ours = parts_of(h, h->group & mask, (h->group & mask) + have);
        sched_span theirs = parts_of(h, other & mask, (other & mask) + have);
        sched_writer_send(h->w, sched_fold_actor(h, other), sched_out_at(ours.at), ours.bytes);
        sched_writer_recv(h->w, sched_fold_actor(h, other), sched_out_at(theirs.at), theirs.bytes);
    }
}

static void all_reduce(sched_folded *h)
{
    halve(h, sched_out_at(parts_of(h, h->group, h->group + 1).at));
    twice(h);
    sched_fold_out(h);
}

static void reduce_scatter(sched_folded *h)
{
    sched_writer *w = h->w;
    uint64_t part = w->bytes / w->r->ranks;
    if (h->group >= h->pairs) {
        halve(h, sched_out_at(0));
        return;
    }
    sched_place both = h->idle ? sched_out_at(0) : sched_writer_scratch(w, 2 * part);
    halve(h, both);
    if (h->idle) {
        sched_writer_recv(w, w->r->me + 1, sched_out_at(0), part);
        return;
    }
    sched_writer_send(w, w->r->me - 1, both, part);
    sched_writer_copy(w, sched_out_at(0), sched_place_plus(both, part), part);
}

/* The even rank of a pair already has its own part: it receives what is before and after it. */
static void all_gather(sched_folded *h)
{
    sched_writer *w = h->w;
    uint32_t me = w->r->me;
    uint64_t part = w->bytes / w->r->ranks, even = (h->idle ? me : me - 1) * part;
    uint64_t rest = even + part;
    sched_writer_copy(w, sched_out_at(me * part), sched_in_at(0), part);
    if (h->idle) {
        sched_writer_send(w, me + 1, sched_in_at(0), part);
        sched_writer_recv(w, me + 1, sched_out_at(0), even);
        sched_writer_recv(w, me + 1, sched_out_at(rest), w->bytes - rest);
        return;
    }
    if (h->group < h->pairs)
        sched_writer_recv(w, me - 1, sched_out_at(even), part);
    twice(h);
    if (h->group < h->pairs) {
        sched_writer_send(w, me - 1, sched_out_at(0), even);
        sched_writer_send(w, me - 1, sched_out_at(rest), w->bytes - rest);
    }
}

static void emit(sched_writer *w)
{
    sched_folded h = sched_fold_ranks(w);
    switch (w->r->kind) {
    case WEFT_ALL_REDUCE: all_reduce(&h); break;
    case WEFT_REDUCE_SCATTER: reduce_scatter(&h); break;
    default: all_gather(&h); break;
    }
}

/* Returns the bytes that the busiest rank adds: all it has, and what it keeps in each round. */
static double halve_terms(sched_traffic *t, const sched_folded *h)
{
    double max = 0, whole = (double)h->w->bytes;
    sched_fold_terms(t, h, 0, sched_amount_cut(h->w, h->w->bytes), 1, whole);
    for (uint32_t count = h->groups; count > 1; count /= 2) {
        for (uint32_t g = 0; g < h->groups; g++) {
            uint32_t other = g ^ (count / 2), give = other & ~(count / 2 - 1);
            sched_span s = parts_of(h, give, give + count / 2);
            sched_traffic_edge(t, sched_fold_actor(h, g), sched_fold_actor(h, other),
                               sched_amount_cut(h->w, s.bytes));
        }
        sched_traffic_rounds(t, 1, 0);
    }
    for (uint32_t g = 0; g < h->groups; g++) {
        double kept = g < h->pairs ? whole : 0;
        for (uint32_t count = h->groups / 2; count; count /= 2)
            kept += (double)parts_of(h, g & ~(count - 1), (g & ~(count - 1)) + count).bytes;
        max = kept > max ? kept : max;
    }
    return 2 * max;
}

static void twice_terms(sched_traffic *t, const sched_folded *h)
{
    for (uint32_t have = 1; have < h->groups; have *= 2) {
        for (uint32_t g = 0; g < h->groups; g++) {
            uint32_t first = g & ~(have - 1);
            sched_span s = parts_of(h, first, first + have);
            sched_traffic_edge(t, sched_fold_actor(h, g), sched_fold_actor(h, g ^ have),
                               sched_amount_whole(s.bytes));
        }
        sched_traffic_rounds(t, 1, 0);
    }
}

static double terms(sched_writer *w, sched_traffic *t)
{
    const sched_request *r = w->r;
    sched_folded h = sched_fold_ranks(w);
    uint64_t part = w->bytes / r->ranks;
    double reduced = r->kind == WEFT_ALL_GATHER ? 0 : halve_terms(t, &h);
    if (r->kind == WEFT_REDUCE_SCATTER)
        sched_fold_terms(t, &h, 1, sched_amount_whole(part), sched_fold_back(&h), (double)part);
    if (r->kind == WEFT_ALL_GATHER)
        sched_fold_terms(t, &h, 0, sched_amount_whole(part), 1, 0);
    if (r->kind != WEFT_REDUCE_SCATTER)
        twice_terms(t, &h);
    if (r->kind == WEFT_ALL_REDUCE)
        sched_fold_terms(t, &h, 1, sched_amount_whole(w->bytes), 1, 0);
    for (uint32_t i = 0; i < h.pairs && r->kind == WEFT_ALL_GATHER; i++) {
        sched_traffic_edge(t, 2 * i + 1, 2 * i, sched_amount_whole(2 * i * part));
        sched_traffic_edge(t, 2 * i + 1, 2 * i, sched_amount_whole(w->bytes - (2 * i + 1) * part));
    }
    sched_traffic_rounds(t, sched_fold_back(&h), 0);
    return reduced;
}

const sched_algorithm sched_halving = {
    .name = "halving",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE) | SCHED_ON(WEFT_REDUCE_SCATTER) | SCHED_ON(WEFT_ALL_GATHER),
    .chunk = 256 << 10,
    .emit = emit,
    .terms = terms,
};
