/* check/strategy/placement.c: what a placement emits, and what it costs. */
#include "check/strategy/strategy.h"

#include <string.h>

/* --- 156 --- */

static bool may_use(const check_spy *s, const char *axis)
{
    for (uint32_t i = 0; i < s->ndata; i++)
        if (!strcmp(s->data_axes[i], axis))
            return true;
    return false;
}

static void keeps_to(check_spy *s)
{
    static check_planned x;
    for (uint32_t side = 0; side <= 4; side += 2) { /* an axis over which data is not split */
        const check_job job = {.side = side, .ranks = 4, .size = {2}};
        check_spy_plan(s, &job, &x);
        for (uint32_t i = 0; i < s->n && i < CHECK_SPY_EDITS; i++) {
            const check_edit *e = &s->edits[i];
            if (strcmp(e->name, "shard") != 0 && strcmp(e->name, "sync") != 0)
                check_fail("the placement '%s' emits %s(); it may emit shard() and sync() alone",
                           s->c->name, e->name);
            if (!may_use(s, e->axis))
                check_fail("the placement '%s' emits %s() over the mesh axis '%s', along which "
                           "ranks do not share the data; weft_placement_args.mesh_axes names "
                           "those that do",
                           s->c->name, e->name, e->axis);
        }
        if (x.st != WEFT_OK && !x.by_plugin)
            check_fail("a job with the placement '%s' is not planned: %s", s->c->name, x.why);
        check_planned_free(&x);
    }
}

void check_placement_edits(check_run *r)
{
    check_spy_each(r, "weft.placement/1", keeps_to);
}

/* --- 157 --- */

/* What a placement shards, of all parameters or of some. */
typedef struct levels {
    bool state, grads, params;
    bool all_state, all_params;
} levels;

static levels levels_of(const check_spy *s)
{
    levels l = {0};
    for (uint32_t i = 0; i < s->n && i < CHECK_SPY_EDITS; i++) {
        const check_edit *e = &s->edits[i];
        const uint32_t what = strcmp(e->name, "shard") ? 0 : e->what;
        l.state |= what == WEFT_SHARD_STATE;
        l.grads |= what == WEFT_SHARD_GRADS;
        l.params |= what == WEFT_SHARD_PARAMS;
        l.all_state |= what == WEFT_SHARD_STATE && e->all;
        l.all_params |= what == WEFT_SHARD_PARAMS && e->all;
    }
    return l;
}

static double sent(const check_planned *x)
{
    const plan *p = &x->p.at[0];
    double all = 0;
    for (uint32_t i = 0; i < p->step.entries.n; i++)
        if (p->step.entries.at[i].kind == ENTRY_START)
            all += (double)p->collectives.at[p->step.entries.at[i].what].sent;
    return all;
}

/* How often a rank sends (n - 1) / n of the parameters' bytes in a step, where each step has
 * `passes` micro-batches:
 *
 *   state sharded        the sum of the gradients is scattered, and parameters are gathered: 2
 *   gradients, too       each micro-batch is scattered: 1 a micro-batch, and 1
 *   parameters, too      gathered for forward and for backward of each micro-batch: 3 of them
 */
static uint32_t times(const levels *l, uint32_t passes)
{
    return l->params ? 3 * passes : 1 + (l->grads ? passes : 1);
}

#define LINE 64.0    /* a group of parameters is padded to whole cache lines of each rank */
#define PAGE 4096.0  /* regions are */
#define SMALL 1024.0 /* the norm, the loss */

/* A block has two groups, of matrices and of others; embedding and head are blocks, too. On
 * average half a cache line a rank is padding. */
static double padding_of(const check_planned *x)
{
    return 2 * (x->d.job.layers + 3) * LINE / 2;
}

static void compare(const check_spy *s, const check_planned *x, const check_planned *plain,
                    uint32_t n, uint32_t passes)
{
    const levels l = levels_of(s);
    const plan *a = &plain->p.at[0], *b = &x->p.at[0];
    const double m = 4.0 * (double)a->param_elements, padding = padding_of(x);
    const double max = times(&l, passes) * (m / n + padding) * (n - 1) + SMALL;
    if (sent(x) > max)
        check_fail("with '%s' over %u ranks and %u micro-batches a rank sends %.0f bytes in a "
                   "step; what it shards needs at most %.0f, %u times %.0f of %.0f bytes of "
                   "gradients, with padding",
                   s->c->name, n, passes, sent(x), max, times(&l, passes), m / n * (n - 1), m);
    const struct {
        bool sharded;
        const char *what;
        uint64_t has, whole;
    } kept[] = {{l.all_state, "state", b->bytes.state, a->bytes.state},
                {l.all_params, "parameters", b->bytes.params, a->bytes.params}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i].sharded &&
            (double)kept[i].has > (double)kept[i].whole / n + 2 * padding + 2 * PAGE)
            check_fail("with '%s' over %u ranks a rank keeps %llu bytes of %s; without it, it "
                       "keeps %llu",
                       s->c->name, n, (unsigned long long)kept[i].has, kept[i].what,
                       (unsigned long long)kept[i].whole);
}

static void bytes(check_spy *s)
{
    static check_planned x, plain;
    for (uint32_t n = 2; n <= 8; n *= 2)
        for (uint32_t passes = 1; passes <= 4; passes += 3) {
            check_job job = {.ranks = n, .size = {n}, .micro_batches = passes, .without = true};
            check_spy_plan(s, &job, &plain);
            job.without = false;
            check_spy_plan(s, &job, &x);
            if (plain.st != WEFT_OK || (x.st != WEFT_OK && !x.by_plugin))
                check_fail("a job with the placement '%s' is not planned: %s", s->c->name,
                           x.st != WEFT_OK ? x.why : plain.why);
            if (x.st == WEFT_OK)
                compare(s, &x, &plain, n, passes);
            check_planned_free(&x);
            check_planned_free(&plain);
        }
}

void check_placement_bytes(check_run *r)
{
    check_spy_each(r, "weft.placement/1", bytes);
}
