/* schedule/schedule.c: makes a schedule from a request: validates it, selects the algorithm,
 * counts, and generates the steps when an operation is created. */
#include "schedule/algorithm.h"

#include <stdlib.h>

#include "base/mem.h"
#include "schedule/mirror.h"
#include "schedule/request.h"

static void emit(sched_writer *w, const sched_algorithm *a)
{
    const int mirrored = w->r->staged && !sched_device_reads_peers(w->r, a);
    if (mirrored)
        sched_mirror_fetches(w);
    a->emit(w);
    if (mirrored)
        sched_mirror_stores(w);
}

weft_status sched_make(const sched_request *r, sched_schedule **out)
{
    const sched_algorithm *algorithm = NULL;
    weft_status st = sched_request_check(r);
    if (st == WEFT_OK)
        st = sched_choose(r, &algorithm);
    return st == WEFT_OK ? sched_make_with(r, algorithm, out) : st;
}

weft_status sched_make_with(const sched_request *r, const sched_algorithm *algorithm,
                            sched_schedule **out)
{
    weft_status st = sched_request_check(r);
    if (st != WEFT_OK)
        return st;
    sched_schedule *s = mem_alloc(sizeof *s);
    s->r = *r;
    s->r.algorithm = algorithm->name;
    s->algorithm = algorithm;
    s->maps = algorithm->maps;
    sched_writer w = sched_writer_begin(&s->r, algorithm);
    emit(&w, algorithm);
    s->scratch = w.scratch + (r->staged && !algorithm->maps ? sched_mirror_bytes(&s->r) : 0);
    s->sent = w.sent;
    s->residual = w.residual_bytes;
    s->steps = w.steps;
    s->places = w.places;
    *out = s;
    return WEFT_OK;
}

void sched_free(sched_schedule *s)
{
    free(s);
}

static void count_messages(sched_program *p, const uint32_t *lane_of)
{
    for (uint32_t i = 0; i < p->steps; i++) {
        const sched_step *s = &p->step[i];
        uint32_t width = s->nfrom + s->nto;
        p->widest = width > p->widest ? width : p->widest;
        if (s->what == SCHED_SEND)
            p->lane[lane_of[s->peer]].sends++;
        else if (s->what == SCHED_RECV)
            p->lane[lane_of[s->peer]].recvs++;
        else
            p->moves++;
    }
}

/* One lane per peer that appears in the steps, in peer order. */
static void lay_lanes(sched_program *p, uint32_t ranks)
{
    uint32_t *lane_of = mem_alloc(ranks * sizeof *lane_of), at = 0;
    for (uint32_t i = 0; i < p->steps; i++)
        if (p->step[i].what <= SCHED_RECV)
            lane_of[p->step[i].peer] = 1;
    p->lane = mem_alloc(ranks * sizeof *p->lane);
    for (uint32_t i = 0; i < ranks; i++)
        if (lane_of[i]) {
            lane_of[i] = p->lanes;
            p->lane[p->lanes++].peer = i;
        }
    count_messages(p, lane_of);
    p->order = mem_alloc((uint64_t)(p->steps - p->moves) * sizeof *p->order);
    for (uint32_t i = 0; i < p->lanes; i++) {
        sched_lane *l = &p->lane[i];
        l->send = at;
        l->recv = at + l->sends;
        at = l->recv + l->recvs;
        l->sends = l->recvs = 0;
    }
    for (uint32_t i = 0; i < p->steps; i++) {
        sched_lane *l = &p->lane[lane_of[p->step[i].peer]];
        if (p->step[i].what == SCHED_SEND)
            p->order[l->send + l->sends++] = i;
        else if (p->step[i].what == SCHED_RECV)
            p->order[l->recv + l->recvs++] = i;
    }
    free(lane_of);
}

void sched_program_make(const sched_schedule *s, sched_program *out)
{
    *out = (sched_program){.steps = s->steps};
    out->step = mem_alloc((uint64_t)s->steps * sizeof *out->step);
    out->place = mem_alloc((uint64_t)s->places * sizeof *out->place);
    sched_writer w = sched_writer_begin(&s->r, s->algorithm);
    w.program = out;
    w.track = sched_deps_create();
    emit(&w, s->algorithm);
    sched_deps_finish(w.track, out);
    sched_deps_destroy(w.track);
    lay_lanes(out, s->r.ranks);
}

void sched_program_free(sched_program *p)
{
    free(p->step);
    free(p->place);
    free(p->next);
    free(p->order);
    free(p->lane);
    *p = (sched_program){0};
}
