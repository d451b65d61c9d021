/* tests/comm/threads.c: see threads.h. */
#include "threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

#define ARENA (8u << 20)
#define SLACK 1000000u /* ns that the two clocks of comm_times() may differ by */

atomic_int armed, allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static void count_allocation(void)
{
    if (atomic_load(&armed))
        atomic_fetch_add(&allocations, 1);
}

void *__wrap_malloc(size_t n)
{
    count_allocation();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    count_allocation();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    count_allocation();
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    count_allocation();
    return __real_aligned_alloc(align, n);
}

char must_note[1500];

void must_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: %s; the record: %s\n%s", file, line, what, err_text(), must_note);
    abort();
}

static void *take(rank *k, uint64_t bytes)
{
    char *p = (char *)k->arena.base + k->used;
    k->used += (bytes + 127) & ~(uint64_t)63;
    must(k->used <= k->arena.bytes);
    return p;
}

static void *rank_main(void *arg)
{
    rank *k = arg;
    job_test *t = k->test;
    job_identity who = {.rank = k->me,
                        .ranks = t->n,
                        .local_rank = k->me,
                        .local_ranks = t->n,
                        .one_machine = true};
    k->arena = (comm_arena){.base = aligned_alloc(4096, ARENA), .bytes = ARENA, .fd = 3};
    must(comm_world_create(&t->job, &who, &k->w) == WEFT_OK);
    const bool checked = t->checked >> k->me & 1;
    must(comm_add_link(k->w, (comm_part){&t->hub.component, NULL}, (comm_part){0}, NULL, checked,
                       &k->link) == WEFT_OK);
    must(comm_add_link(k->w, (comm_part){&t->hub2.component, NULL}, (comm_part){0}, NULL, checked,
                       &k->link2) == WEFT_OK);
    t->body(k);
    snprintf(k->said, sizeof k->said, "%s", err_text());
    pthread_barrier_wait(&t->barrier); /* nobody leaves while others are at work */
    comm_world_destroy(k->w);
    for (uint32_t i = 0; i < k->mades; i++)
        sched_free(k->made[i]);
    free(k->arena.base);
    return NULL;
}

void begin_test(job_test *t, uint32_t n, uint64_t caps, uint32_t channels)
{
    memset(t, 0, sizeof *t);
    loop_begin(&t->hub, caps, channels);
    loop_begin(&t->hub2, caps, channels);
    t->hub2.component.name = "pool";
    fake_job_begin(&t->job);
    t->n = n;
}

void run_ranks(job_test *t, void (*body)(rank *))
{
    t->body = body;
    pthread_barrier_init(&t->barrier, NULL, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        t->rank[i].test = t;
        t->rank[i].me = i;
        pthread_create(&t->rank[i].thread, NULL, rank_main, &t->rank[i]);
    }
    for (uint32_t i = 0; i < t->n; i++)
        pthread_join(t->rank[i].thread, NULL);
    fake_job_end(&t->job);
    loop_end(&t->hub);
    loop_end(&t->hub2);
}

comm_channel *channel_of_all(rank *k, uint32_t link, const char *name)
{
    uint32_t all[LOOP_MAX_RANKS];
    comm_channel *c;
    for (uint32_t i = 0; i < k->test->n; i++)
        all[i] = i;
    must(comm_add_channel(k->w, link, name, all, k->test->n, &c) == WEFT_OK);
    return c;
}

void add_piece(rank *k, comm_channel *c, const sched_request *all, piece *p)
{
    p->takes_part = naive_role(all, k->me, &p->r);
    if (!p->takes_part)
        return;
    p->r.link_caps = k->test->hub.table.caps;
    sched_schedule *s;
    must(sched_make(&p->r, &s) == WEFT_OK);
    k->made[k->mades++] = s;
    must(comm_add_op(c, s, "piece", &p->op) == WEFT_OK);
    uint64_t size = weft_dtype_size(p->r.dtype), part = p->r.count / p->r.ranks * size * k->me;
    uint64_t in = naive_in_count(&p->r, k->me) * size, out = naive_out_count(&p->r, k->me) * size;
    p->in = take(k, in);
    p->out = take(k, out);
    if (p->r.in_place && in && out) {
        p->out = in > out ? p->in + part : p->out;
        p->in = in > out ? p->in : p->out + (in < out ? part : 0);
    }
    p->scratch = take(k, s->scratch);
}

void start_piece(piece *p, int overlap)
{
    if (!p->takes_part)
        return;
    naive_fill(&p->r, p->r.me, p->in);
    p->started = clock_ns();
    must(comm_start(p->op, p->in, p->out, p->scratch, overlap) == WEFT_OK);
}

void wait_piece(piece *p, int exact)
{
    if (!p->takes_part)
        return;
    must(comm_wait(p->op, PATIENCE) == WEFT_OK);
    must(naive_first_wrong(&p->r, p->r.me, p->out, exact, UINT64_MAX) == UINT64_MAX);
    uint64_t began, ended;
    comm_times(p->op, &began, &ended);
    must(began + SLACK >= p->started && ended >= began && ended <= clock_ns() + SLACK);
}
