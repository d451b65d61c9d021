/* check/strategy/pure.c: a plan depends on the job alone: not on names, ranks, or what an earlier
 * call was lent. */
#include "check/strategy/strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void sizes(check_job *job, uint32_t n)
{
    for (uint32_t i = 0; i < WEFT_MAX_MESH; i++)
        job->size[i] = n;
}

/* --- 147 --- */

/* The first difference of two plans that is not one of names; "": none. */
static const char *plans_differ(const plan_set *a, const plan_set *b)
{
    static char text[200];
    text[0] = 0;
    if (a->n != b->n)
        return "another number of stages";
    for (uint32_t i = 0; i < a->n && !text[0]; i++) {
        const plan *x = &a->at[i], *y = &b->at[i];
        if (memcmp(&x->bytes, &y->bytes, sizeof x->bytes) != 0)
            snprintf(text, sizeof text, "it takes %llu bytes instead of %llu",
                     (unsigned long long)y->bytes.peak, (unsigned long long)x->bytes.peak);
        else if (x->step.entries.n != y->step.entries.n || x->instrs.n != y->instrs.n ||
                 x->collectives.n != y->collectives.n || x->pieces.n != y->pieces.n)
            snprintf(text, sizeof text,
                     "a step has %u entries and %u collectives instead of %u "
                     "and %u",
                     y->step.entries.n, y->collectives.n, x->step.entries.n, x->collectives.n);
        for (uint32_t k = 0; k < x->collectives.n && !text[0]; k++)
            if (x->collectives.at[k].kind != y->collectives.at[k].kind ||
                x->collectives.at[k].count != y->collectives.at[k].count)
                snprintf(text, sizeof text, "collective %u is another one", k);
        for (uint32_t k = 0; k < x->pieces.n && !text[0]; k++)
            if (memcmp(x->pieces.at[k].split, y->pieces.at[k].split, sizeof x->pieces.at[k].split))
                snprintf(text, sizeof text, "parameter %u is split otherwise", k);
    }
    return text;
}

static void names(check_spy *s)
{
    static check_planned x, y;
    const uint32_t families = check_spy_families(s);
    for (uint32_t f = 0; f < families; f++) {
        check_job job = {.family = f};
        sizes(&job, 2);
        check_spy_plan(s, &job, &x);
        job.renamed = true;
        check_spy_plan(s, &job, &y);
        if (x.st == WEFT_OK && y.st != WEFT_OK)
            check_fail("'%s' works with the family %s, and not if its blocks and parameters have "
                       "other names: %s; roles and shapes say what a parameter is",
                       s->c->name, x.family, y.why);
        const char *difference = x.st == WEFT_OK ? plans_differ(&x.p, &y.p) : "";
        if (*difference)
            check_fail("if blocks and parameters of the family %s have other names, the plan with "
                       "'%s' is another one: %s",
                       x.family, s->c->name, difference);
        check_planned_free(&x);
        check_planned_free(&y);
    }
}

void check_strategy_names(check_run *r)
{
    check_spy_each(r, "weft.placement/1", names);
    check_spy_each(r, "weft.strategy/1", names);
}

/* --- 148 --- */

#define RANKS 4u
#define FAMILIES 8u

typedef struct planning { /* in memory that all ranks see */
    uint64_t digest[RANKS][FAMILIES];
    bool twice[RANKS];
} planning;

typedef struct asked {
    check_run *run;
    planning *seen;
    uint32_t rank;
} asked;

static asked *as_rank; /* of this process */

static void plan_as_rank(check_spy *s)
{
    static check_planned x;
    uint32_t families = check_spy_families(s);
    families = families < FAMILIES ? families : FAMILIES;
    for (uint32_t f = 0; f < families; f++)
        for (uint32_t again = 0; again < 2; again++) {
            check_job job = {.family = f};
            sizes(&job, 2);
            check_spy_plan(s, &job, &x);
            const uint64_t digest = x.st == WEFT_OK ? x.p.digest : x.st;
            uint64_t *kept = &as_rank->seen->digest[as_rank->rank][f];
            if (again && *kept != digest)
                check_fail("'%s' plans the same job twice, with another result", s->c->name);
            *kept = digest;
            check_planned_free(&x);
        }
}

static void be_rank(void *arg)
{
    static const char *const names[] = {"RANK",       "LOCAL_RANK",   "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK",   "SLURM_PROCID", "SLURM_LOCALID",
                                        "GROUP_RANK", "HOSTNAME"};
    char text[16];
    as_rank = arg;
    snprintf(text, sizeof text, "%u", as_rank->rank);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], text, 1);
    check_spy_each(as_rank->run, "weft.placement/1", plan_as_rank);
    check_spy_each(as_rank->run, "weft.strategy/1", plan_as_rank);
}

void check_strategy_ranks(check_run *r)
{
    planning *seen = check_shared(sizeof *seen);
    for (uint32_t i = 0; i < RANKS; i++) {
        asked a = {.run = r, .seen = seen, .rank = i};
        bool late;
        const int status = check_fork(be_rank, &a, 10, &late);
        if (late || status)
            check_fail("planning as rank %u %s", i,
                       late ? "did not end within 10 seconds" : "ended its process");
        if (memcmp(seen->digest[i], seen->digest[0], sizeof seen->digest[0]) != 0)
            check_fail("rank %u plans another job than rank 0: a plan depends on the process, its "
                       "environment or its number; ranks compare digests and refuse to start",
                       i);
    }
}

/* --- 149 --- */

static void handles(check_spy *s)
{
    static check_planned x;
    const uint32_t families = check_spy_families(s);
    s->poison = true; /* a plugin that reads later crashes, and the report names the call */
    for (uint32_t f = 0; f < families; f++) {
        check_job job = {.family = f};
        sizes(&job, 2);
        check_spy_plan(s, &job, &x);
        if (x.st != WEFT_OK && !x.by_plugin)
            check_fail("a job with '%s' is not planned: %s", s->c->name, x.why);
        check_planned_free(&x);
    }
}

void check_strategy_handles(check_run *r)
{
    check_spy_each(r, "weft.placement/1", handles);
    check_spy_each(r, "weft.strategy/1", handles);
}
