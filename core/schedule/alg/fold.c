/* schedule/alg/fold.c: see fold.h. */
#include "schedule/alg/fold.h"

sched_folded fold_ranks(sched_writer *b)
{
    uint32_t n = b->r->ranks, me = b->r->me;
    sched_folded f = {.b = b, .groups = 1};
    while (f.groups * 2 <= n)
        f.groups *= 2;
    f.pairs = n - f.groups;
    f.group = me < 2 * f.pairs ? me / 2 : me - f.pairs;
    f.idle = me < 2 * f.pairs && me % 2 == 0;
    return f;
}

comm_place fold_in(const sched_folded *f)
{
    sched_writer *b = f->b;
    uint32_t me = b->r->me;
    if (me >= 2 * f->pairs)
        return in_at(0);
    sched_span all = {0, b->bytes};
    comm_place both = {0};
    if (!f->idle)
        both = build_scratch(b, b->bytes);
    for (uint64_t c = 0; c < build_chunks(b, b->bytes); c++) {
        sched_span s = build_chunk(b, all, c);
        if (f->idle) {
            build_send(b, me + 1, in_at(s.at), s.bytes);
            continue;
        }
        comm_place to = place_plus(both, s.at);
        build_recv(b, me - 1, to, s.bytes);
        build_reduce2(b, to, to, in_at(s.at), s.bytes);
    }
    return both;
}

void fold_out(const sched_folded *f)
{
    sched_writer *b = f->b;
    if (f->idle)
        build_recv(b, b->r->me + 1, out_at(0), b->bytes);
    else if (f->group < f->pairs)
        build_send(b, b->r->me - 1, out_at(0), b->bytes);
}

void fold_terms(sched_traffic *t, const sched_folded *f, int back, sched_amount a, double rounds,
                double fill)
{
    for (uint32_t i = 0; i < f->pairs; i++)
        traffic_edge(t, 2 * i + (back ? 1 : 0), 2 * i + (back ? 0 : 1), a);
    traffic_rounds(t, rounds, fill);
}
