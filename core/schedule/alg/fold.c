/* schedule/alg/fold.c: see fold.h. */
#include "schedule/alg/fold.h"

sched_folded sched_fold_ranks(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    sched_folded f = {.w = w, .groups = 1};
    while (f.groups * 2 <= n)
        f.groups *= 2;
    f.pairs = n - f.groups;
    f.group = me < 2 * f.pairs ? me / 2 : me - f.pairs;
    f.idle = me < 2 * f.pairs && me % 2 == 0;
    return f;
}

sched_place sched_fold_in(const sched_folded *f)
{
    sched_writer *w = f->w;
    uint32_t me = w->r->me;
    if (me >= 2 * f->pairs)
        return sched_in_at(0);
    sched_span all = {0, w->bytes};
    sched_place both = {0};
    if (!f->idle)
        both = sched_writer_scratch(w, w->bytes);
    for (uint64_t c = 0; c < sched_writer_chunks(w, w->bytes); c++) {
        sched_span s = sched_writer_chunk(w, all, c);
        if (f->idle) {
            sched_writer_send(w, me + 1, sched_in_at(s.at), s.bytes);
            continue;
        }
        sched_place to = sched_place_plus(both, s.at);
        sched_writer_recv(w, me - 1, to, s.bytes);
        sched_writer_reduce2(w, to, to, sched_in_at(s.at), s.bytes);
    }
    return both;
}

void sched_fold_out(const sched_folded *f)
{
    sched_writer *w = f->w;
    if (f->idle)
        sched_writer_recv(w, w->r->me + 1, sched_out_at(0), w->bytes);
    else if (f->group < f->pairs)
        sched_writer_send(w, w->r->me - 1, sched_out_at(0), w->bytes);
}

void sched_fold_terms(sched_traffic *t, const sched_folded *f, int back, sched_amount a,
                      double rounds, double fill)
{
    for (uint32_t i = 0; i < f->pairs; i++)
        sched_traffic_edge(t, 2 * i + (back ? 1 : 0), 2 * i + (back ? 0 : 1), a);
    sched_traffic_rounds(t, rounds, fill);
}
