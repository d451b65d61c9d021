/* run/view/spans.c: see spans.h. */
#include "run/view/spans.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <weft/host.h>

#define LIMIT 65536u /* spans between two flushes: 2.5 MiB */

struct run_spans {
    weft_host_trace table;
    atomic_bool on;
    pthread_mutex_t lock; /* of all below */
    run_span *at;         /* [LIMIT]; NULL until a step is traced */
    uint32_t n, lanes;
    uint64_t step, dropped;
    pthread_t thread[SPANS_LANES];
};

static int32_t is_enabled(void *ctx)
{
    return atomic_load_explicit(&((run_spans *)ctx)->on, memory_order_relaxed);
}

static uint64_t now(void *ctx)
{
    (void)ctx;
    return clock_ns();
}

/* The lane of the calling thread; SPANS_LANES: there is none left. */
static uint32_t lane_here(run_spans *s)
{
    const pthread_t self = pthread_self();
    uint32_t i = 0;
    while (i < s->lanes && !pthread_equal(s->thread[i], self))
        i++;
    if (i == s->lanes && i < SPANS_LANES)
        s->thread[s->lanes++] = self;
    return i;
}

static void add(void *ctx, const char *name, uint64_t began, uint64_t ended)
{
    run_spans *s = ctx;
    if (!is_enabled(s) || !name || ended < began)
        return;
    pthread_mutex_lock(&s->lock);
    const uint32_t lane = lane_here(s);
    if (s->n < LIMIT && lane < SPANS_LANES)
        s->at[s->n++] = (run_span){name, began, ended, s->step, lane};
    else
        s->dropped++;
    pthread_mutex_unlock(&s->lock);
}

run_spans *run_spans_create(void)
{
    run_spans *s = mem_alloc(sizeof *s);
    s->table = (weft_host_trace){sizeof s->table, 0, s, is_enabled, now, add};
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void run_spans_free(run_spans *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s->at);
    free(s);
}

const void *run_spans_table(run_spans *s)
{
    return &s->table;
}

void run_spans_step(run_spans *s, uint64_t step, int on)
{
    if (!on && !is_enabled(s))
        return;
    pthread_mutex_lock(&s->lock);
    if (on && !s->at)
        s->at = mem_alloc(LIMIT * sizeof *s->at);
    s->step = step;
    pthread_mutex_unlock(&s->lock);
    atomic_store_explicit(&s->on, on != 0, memory_order_relaxed);
}

uint64_t run_spans_take(run_spans *s, void (*note)(void *ctx, const run_span *span), void *ctx)
{
    if (!s)
        return 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n; i++)
        note(ctx, &s->at[i]);
    const uint64_t dropped = s->dropped;
    s->n = 0;
    s->dropped = 0;
    pthread_mutex_unlock(&s->lock);
    return dropped;
}
