/* view/timeline.c: a picture of the step's pipeline schedule, and its bubble.
 *
 * Every stage runs its cells (the forward or backward of a chunk for one micro-batch) in the order
 * of its plan; a cell begins when its stage is free and its input is ready: forward from the
 * previous chunk, backward from the next. Communication takes no time here, so idle time is the
 * bubble of the schedule itself. Costs are either those of equal stages (forward 1, backward 2) or
 * the plan's operation counts. Cost: one visit per cell and round. */
#include "view/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 240u /* time units that are drawn */

typedef struct timeline {
    const plan_set *set;
    uint32_t stages, places, micro_batches; /* places: chunks of all stages */
    double *end;                            /* [2][place][micro-batch] end time; < 0: not yet */
    double **begin;                         /* [stage][cell] */
    double *free_at;                        /* [stage] */
    uint32_t *at;                           /* [stage] next cell */
    double span, busy;
} timeline;

static double *end_of(const timeline *t, uint32_t place, uint32_t micro_batch, bool backward)
{
    return &t->end[((uint64_t)(backward ? t->places : 0) + place) * t->micro_batches + micro_batch];
}

/* Time at which the input of a cell is ready; < 0: not yet. */
static double ready(const timeline *t, uint32_t place, const plan_cell *c)
{
    if (c->backward)
        return place + 1 < t->places ? *end_of(t, place + 1, c->micro_batch, true)
                                     : *end_of(t, place, c->micro_batch, false);
    return place ? *end_of(t, place - 1, c->micro_batch, false) : 0;
}

static bool advance(timeline *t, uint32_t s, bool equal)
{
    const plan *p = &t->set->at[s];
    bool moved = false;
    for (; t->at[s] < p->cells.n; t->at[s]++) {
        const plan_cell *c = &p->cells.at[t->at[s]];
        const uint32_t place = c->chunk * t->stages + s;
        double from = ready(t, place, c), cost = equal ? (c->backward ? 2 : 1) : c->flops;
        if (from < 0)
            return moved;
        from = from > t->free_at[s] ? from : t->free_at[s];
        t->begin[s][t->at[s]] = from;
        *end_of(t, place, c->micro_batch, c->backward) = t->free_at[s] = from + cost;
        t->span = from + cost > t->span ? from + cost : t->span;
        t->busy += cost;
        moved = true;
    }
    return moved;
}

static void run(timeline *t, bool equal)
{
    const uint64_t cells = (uint64_t)2 * t->places * t->micro_batches;
    for (uint64_t i = 0; i < cells; i++)
        t->end[i] = -1;
    memset(t->at, 0, t->stages * sizeof *t->at);
    memset(t->free_at, 0, t->stages * sizeof *t->free_at);
    t->span = t->busy = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < t->stages; s++)
            moved |= advance(t, s, equal);
    }
}

static void begin(timeline *t, const plan_set *set)
{
    *t = (timeline){.set = set, .stages = set->n, .micro_batches = set->at[0].micro_batches};
    for (uint32_t s = 0; s < set->n; s++)
        for (uint32_t i = 0; i < set->at[s].cells.n; i++) {
            uint32_t place = set->at[s].cells.at[i].chunk * set->n + s;
            t->places = place + 1 > t->places ? place + 1 : t->places;
        }
    t->end = mem_alloc((uint64_t)2 * t->places * t->micro_batches * sizeof *t->end + 1);
    t->begin = mem_alloc(set->n * sizeof *t->begin);
    for (uint32_t s = 0; s < set->n; s++)
        t->begin[s] = mem_alloc(set->at[s].cells.n * sizeof(double) + 1);
    t->at = mem_alloc(set->n * sizeof *t->at);
    t->free_at = mem_alloc(set->n * sizeof *t->free_at);
}

static void finish(timeline *t)
{
    for (uint32_t s = 0; s < t->stages; s++)
        free(t->begin[s]);
    free(t->begin);
    free(t->end);
    free(t->at);
    free(t->free_at);
}

double view_bubble(const plan_set *set, bool equal)
{
    timeline t;
    begin(&t, set);
    run(&t, equal);
    double share = t.span > 0 ? 1 - t.busy / (t.span * t.stages) : 0;
    finish(&t);
    return share;
}

uint32_t view_live(const plan *p)
{
    uint32_t now = 0, max = 0;
    for (uint32_t i = 0; i < p->cells.n; i++) {
        now += p->cells.at[i].backward ? -1u : 1u;
        max = now > max ? now : max;
    }
    return max;
}

/* Draw one stage: one column per time unit, as wide as the longest label. */
static void draw(const timeline *t, uint32_t s, uint32_t width, FILE *to)
{
    const plan *p = &t->set->at[s];
    uint32_t now = 0, end = t->span < WIDTH ? (uint32_t)t->span : WIDTH;
    fprintf(to, "stage %-3u", s);
    for (uint32_t i = 0; i < p->cells.n && now < end; i++) {
        const plan_cell *c = &p->cells.at[i];
        char label[32];
        snprintf(label, sizeof label, "%c%u", c->backward ? 'B' : 'F', c->micro_batch);
        if (t->places > t->stages)
            snprintf(label + strlen(label), sizeof label - strlen(label), "%c",
                     (char)('a' + c->chunk % 26));
        for (; now < t->begin[s][i] && now < end; now++)
            fprintf(to, " %-*s", (int)width, ".");
        for (uint32_t k = 0; k < (c->backward ? 2u : 1u) && now < end; k++, now++)
            fprintf(to, " %-*s", (int)width, label);
    }
    for (; now < end; now++)
        fprintf(to, " %-*s", (int)width, ".");
    fprintf(to, "%s\n", end < t->span ? " ..." : "");
}

#define CELLS 20000u /* that JSON has */

json_t *view_schedule_json(const plan_set *set)
{
    timeline t;
    if (set->stage_axis < 0 || set->n < 2)
        return json_null();
    begin(&t, set);
    run(&t, false);
    json_t *cells = json_array();
    json_int_t left_out = 0;
    for (uint32_t s = 0; s < t.stages; s++)
        for (uint32_t i = 0; i < set->at[s].cells.n; i++) {
            const plan_cell *c = &set->at[s].cells.at[i];
            const double from = t.begin[s][i];
            if (json_array_size(cells) < CELLS)
                json_array_append_new(cells, json_pack("[iiiiff]", (int)s, (int)c->chunk,
                                                       (int)c->micro_batch, c->backward ? 1 : 0,
                                                       from, from + c->flops));
            else
                left_out++;
        }
    json_t *x = json_pack("{s:i, s:i, s:f, s:f, s:o, s:I}", "stages", (int)t.stages,
                          "micro_batches", (int)t.micro_batches, "bubble",
                          t.span > 0 ? 1 - t.busy / (t.span * t.stages) : 0.0, "span", t.span,
                          "cells", cells, "left_out", left_out);
    finish(&t);
    return x;
}

void view_print_schedule(const plan_set *set, FILE *to)
{
    timeline t;
    char longest[16];
    begin(&t, set);
    run(&t, true);
    int width = snprintf(longest, sizeof longest, "F%u%s", t.micro_batches - 1,
                         t.places > t.stages ? "a" : "");
    fprintf(to,
            "%u stage%s, %u micro-batch%s; forward takes 1, backward 2, communication nothing\n",
            t.stages, t.stages == 1 ? "" : "s", t.micro_batches, t.micro_batches == 1 ? "" : "es");
    if (t.places > t.stages)
        fprintf(to, "letters are the chunks of a stage\n");
    for (uint32_t s = 0; s < t.stages; s++)
        draw(&t, s, (uint32_t)width, to);
    for (uint32_t s = 0; s < t.stages; s++)
        fprintf(to, "stage %-3u keeps the activations of at most %u micro-batches\n", s,
                view_live(&set->at[s]));
    fprintf(to, "bubble: %.2f %% with equal stages, %.2f %% with the operations of this model\n",
            100 * view_bubble(set, true), 100 * view_bubble(set, false));
    finish(&t);
}
