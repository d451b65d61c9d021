/* schedule/alg/hierarchical/hierarchy.c: see hierarchy.h. */
#include "schedule/alg/hierarchical/hierarchy.h"

#include <stdlib.h>

#include "base/mem.h"

#define ONE_LEADER (64u << 10) /* bytes up to which each machine has one leader */

/* Members without a known place keep rank order. */
static uint32_t place_of(const sched_request *r, const sched_hierarchy *v, uint32_t rank,
                         uint32_t seen)
{
    uint32_t place = r->layout && r->layout->order ? r->layout->order[rank] : seen;
    return place < v->size[v->at[rank]] ? place : seen;
}

void sched_hierarchy_begin(sched_writer *w, sched_hierarchy *out)
{
    const sched_request *r = w->r;
    sched_hierarchy v = {.w = w, .ranks = r->ranks, .me = r->me, .machines = 1, .least = r->ranks};
    if (r->layout)
        v.machines = r->layout->machines;
    v.size = mem_alloc(v.machines * sizeof *v.size);
    v.at = mem_alloc(v.ranks * sizeof *v.at);
    for (uint32_t i = 0; i < v.ranks; i++) {
        v.at[i] = r->layout ? r->layout->machine[i] : 0;
        v.size[v.at[i]]++;
    }
    for (uint32_t m = 0; m < v.machines; m++) {
        v.max = v.size[m] > v.max ? v.size[m] : v.max;
        v.least = v.size[m] < v.least ? v.size[m] : v.least;
    }
    uint32_t *seen = mem_alloc(v.machines * sizeof *seen);
    v.member = mem_alloc((uint64_t)v.machines * v.max * sizeof *v.member);
    for (uint32_t i = 0; i < v.ranks; i++) {
        uint32_t place = place_of(r, &v, i, seen[v.at[i]]++);
        v.member[v.at[i] * v.max + place] = i;
        v.place = i == v.me ? place : v.place;
    }
    v.machine = v.at[v.me];
    free(seen);
    *out = v;
}

void sched_hierarchy_end(sched_hierarchy *v)
{
    free(v->size);
    free(v->at);
    free(v->member);
}

sched_span sched_hierarchy_share(const sched_writer *w, sched_span whole, uint32_t i, uint32_t n)
{
    uint64_t grain = whole.bytes / n >= 4096 ? 64 : w->size;
    uint64_t units = whole.bytes / grain, base = units / n, extra = units % n;
    uint64_t from = (i * base + (i < extra ? i : extra)) * grain;
    uint64_t to = ((i + 1) * base + (i + 1 < extra ? i + 1 : extra)) * grain;
    return (sched_span){whole.at + from, (i + 1 == n ? whole.bytes : to) - from};
}

sched_place sched_hierarchy_summed(const sched_lead *d, uint64_t at)
{
    return d->v.size[d->v.machine] == 1 ? sched_in_at(at) : sched_out_at(at);
}

uint32_t sched_hierarchy_leaders(const sched_hierarchy *v)
{
    return v->w->bytes <= ONE_LEADER ? 1 : v->least;
}

uint32_t sched_hierarchy_leads_for(const sched_hierarchy *v, uint32_t machine, uint32_t q)
{
    uint32_t place = 0;
    while (sched_hierarchy_member(v, v->at[q], place) != q)
        place++;
    return sched_hierarchy_member(v, machine, place % v->size[machine]);
}
