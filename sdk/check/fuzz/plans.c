/* check/fuzz/plans.c: plans of several jobs in a random order, made with one module. The same job
 * has the same plan, or the same refusal, whatever was planned before. */
#include "base/err.h"
#include "check/fuzz/fuzz.h"

#include <stdio.h>

#define JOBS 3u
#define PLANS 8u

typedef struct planned {
    check_exercise_job job;
    bool known; /* it was planned before, with this result */
    weft_status st;
    uint64_t digest;
} planned;

static uint32_t one_of(check_sequence *s, uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t of[] = {a, b, c};
    return of[check_sequence_below(s, 3)];
}

static void draw(check_sequence *s, planned *p)
{
    p->job = (check_exercise_job){.family = (uint32_t)check_sequence_below(s, 2),
                                  .layers = one_of(s, 2, 4, 6),
                                  .heads = one_of(s, 2, 4, 8),
                                  .embed = one_of(s, 32, 64, 96),
                                  .vocab = one_of(s, 64, 128, 1024),
                                  .batch = one_of(s, 16, 32, 64)};
}

static void describe(const planned *p, char *out, size_t size)
{
    snprintf(out, size, "family %u with %u layers, %u heads, embed %u, vocab %u, batch %u",
             p->job.family, p->job.layers, p->job.heads, p->job.embed, p->job.vocab, p->job.batch);
}

static void plan(check_sequence *s, planned *p)
{
    char job[200];
    check_exercise d = {.run = s->run, .host = s->host, .module = s->module, .of = s->c->name};
    d.job = p->job;
    describe(p, job, sizeof job);
    err_clear();
    check_host_clear(s->host);
    const weft_status st = check_exercise_plan(&d, s->c);
    s->calls++;
    if (st != WEFT_OK && !*check_exercise_why(&d))
        check_sequence_fail(s, "a plan of %s with '%s' fails with %s and no sentence", job,
                            s->c->name, check_status(st));
    if (p->known && (st != p->st || d.digest != p->digest))
        check_sequence_fail(s,
                            "a plan of %s with '%s' is another one than before, after plans of "
                            "other jobs with the same module (%s, then %s)",
                            job, s->c->name, check_status(p->st), check_status(st));
    p->known = true;
    p->st = st;
    p->digest = d.digest;
}

bool check_sequence_plans(check_sequence *s)
{
    planned jobs[JOBS] = {0};
    for (uint32_t i = 0; i < JOBS; i++)
        draw(s, &jobs[i]);
    for (uint32_t i = 0; i < PLANS; i++)
        plan(s, &jobs[check_sequence_below(s, JOBS)]);
    return true;
}
