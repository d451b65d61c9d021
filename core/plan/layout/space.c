/* plan/layout/space.c: allocates offsets for buffers with known lifetimes.
 *
 * There are two allocators. A block's forward or backward has tens of buffers: largest first, each
 * at the lowest offset that is free during its lifetime (plan_lifetimes_place, quadratic). A list
 * may have a hundred thousand: they are allocated and freed in list order, each from the smallest
 * free range that fits (plan_space_take). A forward pass pushes and its backward pops, so free
 * ranges merge again. */
#include "plan/layout/space.h"

#include <stdlib.h>

#define ALIGN 64u

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

uint64_t plan_space_take(plan_space *s, uint64_t bytes)
{
    if (!bytes)
        return 0; /* an empty buffer needs no space */
    bytes = rounded(bytes);
    s->live += bytes;
    uint32_t best = s->free_ranges.n;
    for (uint32_t i = 0; i < s->free_ranges.n; i++)
        if (s->free_ranges.at[i].bytes >= bytes &&
            (best == s->free_ranges.n ||
             s->free_ranges.at[i].bytes < s->free_ranges.at[best].bytes))
            best = i;
    if (best < s->free_ranges.n) {
        plan_free_range *h = &s->free_ranges.at[best];
        uint64_t at = h->at;
        h->at += bytes;
        h->bytes -= bytes;
        if (!h->bytes)
            *h = s->free_ranges.at[--s->free_ranges.n];
        return at;
    }
    /* Grow, starting in a free range that touches the top. */
    uint64_t at = s->top;
    for (uint32_t i = 0; i < s->free_ranges.n; i++)
        if (s->free_ranges.at[i].at + s->free_ranges.at[i].bytes == s->top) {
            at = s->free_ranges.at[i].at;
            s->free_ranges.at[i] = s->free_ranges.at[--s->free_ranges.n];
            break;
        }
    s->top = at + bytes;
    return at;
}

void plan_space_give(plan_space *s, uint64_t at, uint64_t bytes)
{
    plan_free_range fresh = {at, rounded(bytes)};
    if (!bytes)
        return;
    s->live -= fresh.bytes;
    for (uint32_t i = 0; i < s->free_ranges.n;) { /* merge with the neighbours on both sides */
        plan_free_range h = s->free_ranges.at[i];
        if (h.at + h.bytes == fresh.at || fresh.at + fresh.bytes == h.at) {
            fresh.at = h.at < fresh.at ? h.at : fresh.at;
            fresh.bytes += h.bytes;
            s->free_ranges.at[i] = s->free_ranges.at[--s->free_ranges.n];
        } else {
            i++;
        }
    }
    *vec_push(&s->free_ranges) = fresh;
}

static int larger_first(const void *x, const void *y)
{
    const plan_lifetime *a = *(plan_lifetime *const *)x, *b = *(plan_lifetime *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : a > b; /* the same on every rank */
}

/* The lowest offset at which `l` overlaps none of the first n in `placed` that are live with it. */
static uint64_t lowest(const plan_lifetime *l, plan_lifetime *const *placed, uint32_t n)
{
    uint64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < n; i++) {
            const plan_lifetime *o = placed[i];
            bool beside = o->from <= l->to && l->from <= o->to;
            if (beside && o->offset < at + rounded(l->bytes) &&
                at < o->offset + rounded(o->bytes)) {
                at = o->offset + rounded(o->bytes);
                moved = true;
            }
        }
    }
    return at;
}

uint64_t plan_lifetimes_place(plan_lifetime *l, uint32_t n)
{
    plan_lifetime **order = mem_alloc(n * sizeof *order);
    for (uint32_t i = 0; i < n; i++)
        order[i] = &l[i];
    qsort(order, n, sizeof *order, larger_first);
    uint64_t top = 0;
    for (uint32_t i = 0; i < n; i++) {
        order[i]->offset = lowest(order[i], order, i);
        uint64_t end = order[i]->offset + rounded(order[i]->bytes);
        top = end > top ? end : top;
    }
    free(order);
    return top;
}

void plan_zones_free(plan_zones *z)
{
    free(z->activations.free_ranges.at);
    free(z->comm.free_ranges.at);
    free(z->host.free_ranges.at);
}
