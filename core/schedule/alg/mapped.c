/* schedule/alg/mapped.c: collectives over peers' mapped memory: ranks load and store it directly
 * and send no data.
 *
 * Idea: two rounds of small messages frame plain loads and stores. In the first, every rank sends
 * the offsets of its buffers, which also says that they are ready. Then rank r reduces part r
 * directly from all inputs, in rank order, and stores the result directly in all outputs. In the
 * second round each rank signals that it has finished with the others' memory. Kinds that only move
 * data are pulled by the receiving rank, so that the data arrives in its cache; gather is pushed,
 * because one puller would do all the work.
 *
 * In place works unchanged: part r of every buffer is accessed by rank r alone.
 *
 * Cost for S bytes: 2 (n-1) messages of 16 or 0 bytes per rank, two latencies; S bytes loaded and S
 * stored per rank for an all-reduce, none of them twice: the minimum number of copies. Bytes stored
 * in and loaded from other ranks count as sent: 2 S (n-1)/n for an all-reduce, S for a reduce, S
 * (n-1)/n for the other kinds, S (n-1) for a root's broadcast. In kinds with a root, messages pass
 * only between the root and each other rank.
 *
 * Between devices, the devices execute the steps between the rounds (core/comm/import_peer.c).
 *
 * It loses on messages so short that two rounds take longer than sending the data in one, and needs
 * a link that maps. An in-place all-to-all has no safe order and is not supported. */
#include "schedule/request.h"
#include "schedule/terms.h"

/* Whether this rank exchanges messages with `peer`: all with all, or all with the root. */
static bool linked(const sched_writer *w, uint32_t peer)
{
    const sched_request *r = w->r;
    switch (r->kind) {
    case WEFT_BROADCAST:
    case WEFT_GATHER:
    case WEFT_SCATTER:
    case WEFT_SEND:
    case WEFT_RECV: return r->me == r->root || peer == r->root;
    default: return true;
    }
}

/* Of a linked pair, whether `me` needs the buffer offsets of `peer`. */
static bool needs(const sched_writer *w, uint32_t me, uint32_t peer)
{
    const sched_request *r = w->r;
    switch (r->kind) {
    case WEFT_BROADCAST:
    case WEFT_SCATTER:
    case WEFT_GATHER: return peer == r->root;
    case WEFT_SEND: return me == r->root;
    case WEFT_RECV: return peer == r->root;
    default: return true;
    }
}

static sched_place in_of(const sched_writer *w, uint32_t rank, uint64_t at)
{
    return rank == w->r->me ? sched_in_at(at) : sched_peer_in(rank, at);
}

static sched_place out_of(const sched_writer *w, uint32_t rank, uint64_t at)
{
    return rank == w->r->me ? sched_out_at(at) : sched_peer_out(rank, at);
}

/* Reduces this rank's part of all inputs into `first` and, if `to_all`, all other outputs. */
static void combine(sched_writer *w, sched_span part, sched_place first, int to_all)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    for (uint64_t c = 0; c < sched_writer_chunks(w, part.bytes); c++) {
        sched_span s = sched_writer_chunk(w, part, c);
        sched_writer_open(w, SCHED_REDUCE, 0, s.bytes);
        for (uint32_t i = 0; i < n; i++)
            sched_writer_from(w, in_of(w, i, s.at));
        sched_writer_to(w, sched_place_plus(first, s.at - part.at));
        for (uint32_t k = 1; k < n && to_all; k++)
            sched_writer_to(w, out_of(w, (me + k) % n, s.at));
    }
}

static void move(sched_writer *w, sched_place to, sched_place from, uint64_t bytes)
{
    sched_span all = {0, bytes};
    for (uint64_t c = 0; c < sched_writer_chunks(w, bytes); c++) {
        sched_span s = sched_writer_chunk(w, all, c);
        sched_writer_copy(w, sched_place_plus(to, s.at), sched_place_plus(from, s.at), s.bytes);
    }
}

static void work_rooted(sched_writer *w)
{
    const sched_request *r = w->r;
    uint32_t me = r->me, root = r->root;
    uint64_t part = w->bytes / r->ranks;
    switch (r->kind) {
    case WEFT_BROADCAST: move(w, sched_out_at(0), in_of(w, root, 0), w->bytes); break;
    case WEFT_GATHER: move(w, out_of(w, root, me * part), sched_in_at(0), part); break;
    case WEFT_SCATTER: move(w, sched_out_at(0), in_of(w, root, me * part), part); break;
    case WEFT_RECV: move(w, sched_out_at(0), sched_peer_in(root, 0), w->bytes); break;
    case WEFT_REDUCE: {
        sched_span mine = sched_writer_part(w, me);
        combine(w, mine, out_of(w, root, mine.at), 0);
        break;
    }
    default: break; /* WEFT_SEND: the other end does the work */
    }
}

static void work(sched_writer *w)
{
    const sched_request *r = w->r;
    uint32_t n = r->ranks, me = r->me;
    uint64_t part = w->bytes / n;
    switch (r->kind) {
    case WEFT_ALL_REDUCE: {
        sched_span mine = sched_writer_part(w, me);
        combine(w, mine, sched_out_at(mine.at), 1);
        break;
    }
    case WEFT_REDUCE_SCATTER: combine(w, sched_writer_part(w, me), sched_out_at(0), 0); break;
    case WEFT_ALL_GATHER:
        for (uint32_t k = 0; k < n; k++)
            move(w, sched_out_at((me + k) % n * part), in_of(w, (me + k) % n, 0), part);
        break;
    case WEFT_ALL_TO_ALL:
        for (uint32_t k = 0; k < n; k++)
            move(w, sched_out_at((me + k) % n * part), in_of(w, (me + k) % n, me * part), part);
        break;
    default: work_rooted(w);
    }
}

/* Bytes of this rank's memory that others read: they count as sent. */
static uint64_t lent(const sched_writer *w)
{
    const sched_request *r = w->r;
    uint64_t others = r->ranks - 1, part = w->bytes / r->ranks;
    switch (r->kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE:
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_TO_ALL: return w->bytes - sched_writer_part(w, r->me).bytes;
    case WEFT_ALL_GATHER: return others * part;
    case WEFT_BROADCAST: return r->me == r->root ? others * w->bytes : 0;
    case WEFT_SCATTER: return r->me == r->root ? others * part : 0;
    case WEFT_SEND: return w->bytes;
    default: return 0;
    }
}

static void emit(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me, first = w->steps;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t to = (me + k) % n, from = (me + n - k) % n;
        if (linked(w, to) && needs(w, to, me))
            sched_writer_send_offsets(w, to);
        if (linked(w, from) && needs(w, me, from))
            sched_writer_recv_offsets(w, from);
    }
    uint32_t go = w->r->staged ? sched_writer_flag(w, SCHED_STORE) : SCHED_NO_STEP;
    for (uint32_t s = first; s < go && go != SCHED_NO_STEP; s++)
        sched_writer_after(w, go, s);
    first = w->steps;
    work(w);
    if (w->r->staged) /* the device does the work and signals its completion */
        first = sched_writer_flag(w, SCHED_FETCH);
    uint32_t end = w->steps;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t to = (me + k) % n, from = (me + n - k) % n;
        if (linked(w, to) && needs(w, me, to)) {
            uint32_t done = sched_writer_signal(w, to);
            for (uint32_t s = first; s < end; s++)
                sched_writer_after(w, done, s);
        }
        if (linked(w, from) && needs(w, from, me))
            sched_writer_wait(w, from);
    }
    w->sent += lent(w);
}

/* What the root, or one end of a pair, reads from the others or has written to it. */
static void rooted_terms(sched_traffic *t, const sched_writer *w)
{
    const sched_request *r = w->r;
    uint32_t from = r->kind == WEFT_RECV ? r->root : r->me;
    double part = (double)(w->bytes / r->ranks);
    sched_amount told = {1, 0}, back = {1, 0};
    if (r->kind == WEFT_GATHER)
        back.bytes = part;
    else
        told.bytes = r->kind == WEFT_SCATTER ? part : (double)w->bytes;
    if (r->kind == WEFT_SEND || r->kind == WEFT_RECV) {
        uint32_t to = r->kind == WEFT_RECV ? r->me : r->root;
        sched_traffic_edge(t, from, to, told);
        sched_traffic_edge(t, to, from, back);
        return;
    }
    for (uint32_t i = 0; i < r->ranks; i++)
        if (i != r->root) {
            sched_traffic_edge(t, r->root, i, told);
            sched_traffic_edge(t, i, r->root, back);
        }
}

static double terms(sched_writer *w, sched_traffic *t)
{
    const sched_request *r = w->r;
    const bool sums = sched_reduces(r->kind);
    int moves = r->kind == WEFT_ALL_GATHER || r->kind == WEFT_ALL_TO_ALL;
    for (uint32_t i = 0; i < r->ranks && (sums || moves); i++) {
        double part = (double)sched_writer_part(w, i).bytes;
        if (sums)
            sched_traffic_from_all(t, i, (sched_amount){2, part});
        else
            sched_traffic_to_all(t, i, (sched_amount){2, part});
        if (r->kind == WEFT_ALL_REDUCE)
            sched_traffic_to_all(t, i, (sched_amount){0, part});
        if (r->kind == WEFT_REDUCE && i != r->root)
            sched_traffic_edge(t, i, r->root, (sched_amount){0, part});
    }
    if (!sums && !moves)
        rooted_terms(t, w);
    sched_traffic_rounds(t, 2, 0);
    return sums ? r->ranks * sched_longest_part(w) : 0;
}

const sched_algorithm sched_mapped = {
    .name = "mapped",
    .kinds = (SCHED_ON(WEFT_RECV + 1) - 1) & ~SCHED_ON(WEFT_BARRIER) & ~SCHED_ON(0),
    .maps = 1,
    .chunk = 1 << 20,
    .once = 1,
    .emit = emit,
    .terms = terms,
};
