/* schedule/alg/bruck.c: all-gather and all-to-all of short messages in ceil(log2 n) rounds.
 *
 * Idea (Bruck et al., Efficient algorithms for all-to-all communications in multiport
 * message-passing systems, 1997): distances double. All-gather: in round k each rank sends its
 * first 2^k parts to the rank 2^k before it, and receives as many that follow its own; its parts
 * are in cyclic order from its own, and are rotated into place at the end. All-to-all: a part that
 * has to move d ranks moves 2^k ranks in each round k whose bit is set in d; the parts that move in
 * a round are packed into one message.
 *
 * Cost for S bytes: ceil(log2 n) messages, one after the other, whatever n is (a last round that is
 * at most half full need not wait for the one before). All-gather sends S (n-1)/n bytes, the
 * minimum, and copies S more than others; all-to-all sends about S/2 log2 n bytes (S/n for each
 * part and round that moves it) and copies each of them twice.
 *
 * It loses when bandwidth matters: the copies of the all-gather, the detours of the all-to-all. */
#include "schedule/terms.h"

static void all_gather(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    uint64_t part = w->bytes / n;
    sched_place have = sched_writer_scratch(w, w->bytes);
    sched_writer_copy(w, have, sched_in_at(0), part);
    for (uint64_t distance = 1; distance < n; distance *= 2) {
        uint64_t parts = distance < n - distance ? distance : n - distance;
        sched_writer_send(w, (uint32_t)((me + n - distance) % n), have, parts * part);
        sched_writer_recv(w, (uint32_t)((me + distance) % n),
                          sched_place_plus(have, distance * part), parts * part);
    }
    sched_writer_copy(w, sched_out_at(me * part), have, (n - me) * part);
    sched_writer_copy(w, sched_out_at(0), sched_place_plus(have, (n - me) * part), me * part);
}

/* Copies parts i of n with bit `distance` set in i, in runs, to the packed message or back out of
 * it. Returns how many there are. */
static uint64_t pack(sched_writer *w, uint64_t distance, sched_place parts, sched_place packed,
                     int back)
{
    uint64_t n = w->r->ranks, part = w->bytes / n, at = 0;
    for (uint64_t i = distance; i < n; i += 2 * distance) {
        uint64_t run = i + distance < n ? distance : n - i;
        sched_place loose = sched_place_plus(parts, i * part),
                    tight = sched_place_plus(packed, at * part);
        sched_writer_copy(w, back ? loose : tight, back ? tight : loose, run * part);
        at += run;
    }
    return at;
}

static void all_to_all(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    uint64_t part = w->bytes / n, max = n / 2 * part;
    sched_place parts = sched_writer_scratch(w, w->bytes), give = sched_writer_scratch(w, max),
                take = sched_writer_scratch(w, max);
    sched_writer_copy(w, parts, sched_in_at(me * part), (n - me) * part);
    sched_writer_copy(w, sched_place_plus(parts, (n - me) * part), sched_in_at(0), me * part);
    for (uint64_t distance = 1; distance < n; distance *= 2) {
        uint64_t bytes = pack(w, distance, parts, give, 0) * part;
        sched_writer_send(w, (uint32_t)((me + distance) % n), give, bytes);
        sched_writer_recv(w, (uint32_t)((me + n - distance) % n), take, bytes);
        pack(w, distance, parts, take, 1);
    }
    for (uint32_t i = 0; i < n; i++)
        sched_writer_copy(w, sched_out_at((me + n - i) % n * part),
                          sched_place_plus(parts, i * part), part);
}

static void emit(sched_writer *w)
{
    if (w->r->kind == WEFT_ALL_GATHER)
        all_gather(w);
    else
        all_to_all(w);
}

static double terms(sched_writer *w, sched_traffic *t)
{
    const sched_request *r = w->r;
    uint64_t n = r->ranks, part = w->bytes / n;
    for (uint64_t distance = 1; distance < n; distance *= 2) {
        uint64_t over = n % (2 * distance),
                 gathered = distance < n - distance ? distance : n - distance;
        uint64_t swapped = n / (2 * distance) * distance + (over > distance ? over - distance : 0);
        for (uint32_t i = 0; i < n; i++)
            if (r->kind == WEFT_ALL_GATHER)
                sched_traffic_edge(t, i, (uint32_t)((i + n - distance) % n),
                                   sched_amount_whole(gathered * part));
            else
                sched_traffic_edge(t, i, (uint32_t)((i + distance) % n),
                                   sched_amount_whole(swapped * part));
        sched_traffic_rounds(t, 2 * gathered > distance,
                             0); /* or it sends nothing of the previous round */
    }
    return 0;
}

const sched_algorithm sched_bruck = {
    .name = "bruck",
    .kinds = SCHED_ON(WEFT_ALL_GATHER) | SCHED_ON(WEFT_ALL_TO_ALL),
    .emit = emit,
    .terms = terms,
};
