/* schedule/schedule.c: from a request to a schedule: checks it, picks the algorithm, counts, and
 * keeps the steps when an operation is made of it. */
#include "schedule/algorithm.h"

#include <stdlib.h>

#include "base/mem.h"
#include "schedule/mirror.h"
#include "schedule/request.h"

struct comm_schedule {
    comm_request r;
    const comm_algorithm *algorithm;
    uint64_t scratch, sent, kept;
    uint32_t steps, places, messages;
};

static void emit(sched_writer *b, const comm_algorithm *a)
{
    const int mirrored = b->r->staged && !comm_attached(b->r, a);
    if (mirrored)
        stage_fetches(b);
    a->emit(b);
    if (mirrored)
        stage_stores(b);
}

weft_status comm_schedule_make(const comm_request *r, comm_schedule **out)
{
    const comm_algorithm *algorithm = NULL;
    weft_status st = sched_request_check(r);
    if (st == WEFT_OK)
        st = comm_choose(r, &algorithm);
    return st == WEFT_OK ? comm_schedule_with(r, algorithm, out) : st;
}

weft_status comm_schedule_with(const comm_request *r, const comm_algorithm *algorithm,
                               comm_schedule **out)
{
    weft_status st = sched_request_check(r);
    if (st != WEFT_OK)
        return st;
    comm_schedule *s = mem_alloc(sizeof *s);
    s->r = *r;
    s->r.algorithm = algorithm->name;
    s->algorithm = algorithm;
    sched_writer b = build_for(&s->r, algorithm);
    emit(&b, algorithm);
    s->scratch = b.scratch + (r->staged && !algorithm->maps ? stage_room(&s->r) : 0);
    s->sent = b.sent;
    s->kept = b.kept;
    s->steps = b.steps;
    s->places = b.places;
    s->messages = b.messages;
    *out = s;
    return WEFT_OK;
}

void comm_schedule_free(comm_schedule *s)
{
    free(s);
}

uint64_t comm_schedule_scratch(const comm_schedule *s)
{
    return s->scratch;
}

uint64_t comm_schedule_kept(const comm_schedule *s)
{
    return s->kept;
}

uint64_t comm_schedule_sent(const comm_schedule *s)
{
    return s->sent;
}

uint32_t comm_schedule_messages(const comm_schedule *s)
{
    return s->messages;
}

const char *comm_schedule_algorithm(const comm_schedule *s)
{
    return s->algorithm->name;
}

const comm_request *comm_schedule_request(const comm_schedule *s)
{
    return &s->r;
}

int comm_schedule_maps(const comm_schedule *s)
{
    return (int)s->algorithm->maps;
}

static void count_messages(comm_program *p, const uint32_t *lane_of)
{
    for (uint32_t i = 0; i < p->steps; i++) {
        const comm_step *s = &p->step[i];
        uint32_t width = s->nfrom + s->nto;
        p->widest = width > p->widest ? width : p->widest;
        if (s->what == COMM_SEND)
            p->lane[lane_of[s->peer]].sends++;
        else if (s->what == COMM_RECV)
            p->lane[lane_of[s->peer]].recvs++;
        else
            p->moves++;
    }
}

/* A lane for each peer that the steps name, in the order of peers. */
static void lay_lanes(comm_program *p, uint32_t ranks)
{
    uint32_t *lane_of = mem_alloc(ranks * sizeof *lane_of), at = 0;
    for (uint32_t i = 0; i < p->steps; i++)
        if (p->step[i].what <= COMM_RECV)
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
        comm_lane *l = &p->lane[i];
        l->send = at;
        l->recv = at + l->sends;
        at = l->recv + l->recvs;
        l->sends = l->recvs = 0;
    }
    for (uint32_t i = 0; i < p->steps; i++) {
        comm_lane *l = &p->lane[lane_of[p->step[i].peer]];
        if (p->step[i].what == COMM_SEND)
            p->order[l->send + l->sends++] = i;
        else if (p->step[i].what == COMM_RECV)
            p->order[l->recv + l->recvs++] = i;
    }
    free(lane_of);
}

void comm_program_make(const comm_schedule *s, comm_program *out)
{
    *out = (comm_program){.steps = s->steps};
    out->step = mem_alloc((uint64_t)s->steps * sizeof *out->step);
    out->place = mem_alloc((uint64_t)s->places * sizeof *out->place);
    sched_writer b = build_for(&s->r, s->algorithm);
    b.program = out;
    b.track = track_create();
    emit(&b, s->algorithm);
    track_finish(b.track, out);
    track_destroy(b.track);
    lay_lanes(out, s->r.ranks);
}

void comm_program_free(comm_program *p)
{
    free(p->step);
    free(p->place);
    free(p->next);
    free(p->order);
    free(p->lane);
    *p = (comm_program){0};
}
