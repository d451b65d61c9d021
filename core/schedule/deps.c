/* schedule/deps.c: computes the dependencies between the steps of a list.
 *
 * Each buffer has a sorted array of disjoint segments that record the last writer of those bytes
 * and their readers since. A reader depends on the writer; a writer depends on the previous writer
 * and on all readers. A segment is split where an access begins or ends inside it, and segments
 * covered by one write are merged, so their number is about that of the chunks in flight. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "schedule/algorithm.h"

#define BUFFERS SCHED_PEER_IN /* IN, OUT, SCRATCH, OFFSETS, RESIDUAL */

typedef struct reader {
    uint32_t step, next; /* next: 1 + index in tracker.reader, 0 ends the list */
} reader;

typedef struct segment {
    uint64_t lo, hi;
    uint32_t writer; /* step, or SCHED_NO_STEP */
    uint32_t readers;
} segment;

typedef struct edge {
    uint32_t from, to;
} edge;

typedef VEC(segment) segment_list;

struct sched_deps {
    segment_list buffer[BUFFERS];
    VEC(reader) reader;
    VEC(edge) edge;
    VEC(uint32_t) last; /* [step]: 1 + the step whose edge from here was added last */
};

sched_deps *sched_deps_create(void)
{
    return mem_alloc(sizeof(sched_deps));
}

void sched_deps_destroy(sched_deps *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < BUFFERS; i++)
        free(t->buffer[i].at);
    free(t->reader.at);
    free(t->edge.at);
    free(t->last.at);
    free(t);
}

/* Steps are numbered in the order written, so all edges into one step are added together: the last
 * edge out of each step is enough to detect duplicates. */
void sched_deps_after(sched_deps *t, uint32_t step, uint32_t earlier)
{
    if (earlier == SCHED_NO_STEP || step == SCHED_NO_STEP || earlier == step)
        return;
    while (t->last.n <= step)
        *vec_push(&t->last) = 0;
    if (t->last.at[earlier] == step + 1)
        return;
    t->last.at[earlier] = step + 1;
    *vec_push(&t->edge) = (edge){earlier, step};
}

/* The first segment that ends after `at`. */
static uint32_t find(const segment_list *l, uint64_t at)
{
    uint32_t lo = 0, hi = l->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (l->at[mid].hi > at)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static void insert(segment_list *l, uint32_t i, segment s)
{
    vec_push(l);
    memmove(l->at + i + 1, l->at + i, (l->n - 1 - i) * sizeof s);
    l->at[i] = s;
}

/* Splits or adds segments so that they cover [lo, hi) exactly; returns the first, and one past the
 * last in *end. */
static uint32_t cover(segment_list *l, uint64_t lo, uint64_t hi, uint32_t *end)
{
    uint32_t first = find(l, lo), i = first;
    if (i < l->n && l->at[i].lo < lo) {
        insert(l, i, l->at[i]);
        l->at[i].hi = lo;
        l->at[i + 1].lo = lo;
        first = ++i;
    }
    while (lo < hi) {
        if (i == l->n || l->at[i].lo > lo) {
            uint64_t gap = i == l->n || l->at[i].lo > hi ? hi : l->at[i].lo;
            insert(l, i, (segment){lo, gap, SCHED_NO_STEP, 0});
        } else if (l->at[i].hi > hi) {
            insert(l, i, l->at[i]);
            l->at[i].hi = hi;
            l->at[i + 1].lo = hi;
        }
        lo = l->at[i++].hi;
    }
    *end = i;
    return first;
}

void sched_deps_read(sched_deps *t, uint32_t step, uint32_t buffer, uint64_t at, uint64_t bytes)
{
    if (bytes == 0)
        return;
    segment_list *l = &t->buffer[buffer];
    uint32_t end, first = cover(l, at, at + bytes, &end);
    for (uint32_t i = first; i < end; i++) {
        segment *s = &l->at[i];
        sched_deps_after(t, step, s->writer);
        *vec_push(&t->reader) = (reader){step, s->readers};
        s->readers = t->reader.n;
    }
}

void sched_deps_write(sched_deps *t, uint32_t step, uint32_t buffer, uint64_t at, uint64_t bytes)
{
    if (bytes == 0)
        return;
    segment_list *l = &t->buffer[buffer];
    uint32_t end, first = cover(l, at, at + bytes, &end);
    for (uint32_t i = first; i < end; i++) {
        sched_deps_after(t, step, l->at[i].writer);
        for (uint32_t r = l->at[i].readers; r; r = t->reader.at[r - 1].next)
            sched_deps_after(t, step, t->reader.at[r - 1].step);
    }
    l->at[first] = (segment){at, at + bytes, step, 0};
    memmove(l->at + first + 1, l->at + end, (l->n - end) * sizeof(segment));
    l->n -= end - first - 1;
}

void sched_deps_finish(sched_deps *t, sched_program *p)
{
    p->next = mem_alloc((uint64_t)t->edge.n * sizeof *p->next);
    for (uint32_t i = 0; i < t->edge.n; i++) {
        p->step[t->edge.at[i].to].need++;
        p->step[t->edge.at[i].from].nexts++;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->steps; i++) {
        p->step[i].next = at;
        at += p->step[i].nexts;
        p->step[i].nexts = 0;
    }
    for (uint32_t i = 0; i < t->edge.n; i++) {
        sched_step *from = &p->step[t->edge.at[i].from];
        p->next[from->next + from->nexts++] = t->edge.at[i].to;
    }
}
