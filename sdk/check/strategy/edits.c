/* check/strategy/edits.c: the axes of a strategy, and the edits that it may emit. */
#include "base/err.h"
#include "check/strategy/strategy.h"
#include "config/config.h"

#include <ctype.h>
#include <string.h>

/* --- 143 --- */

static void check_word(const check_spy *s, const char *what, const char *word)
{
    size_t n = 0;
    for (; word && n < 64 && word[n]; n++)
        if (!islower((unsigned char)word[n]) && !isdigit((unsigned char)word[n]) && word[n] != '_')
            check_fail("'%s' brings a mesh axis whose %s is '%.60s'; it has small letters, digits "
                       "and _, so that it can stand in an INI file",
                       s->c->name, what, word);
    if (!n || n > 31 || !islower((unsigned char)word[0]))
        check_fail("'%s' brings a mesh axis whose %s has %zu letters or does not begin with one; "
                   "1 to 31 are lawful",
                   s->c->name, what, n);
}

static bool has_option(const weft_option *const *o, const char *key)
{
    for (; o && *o; o++)
        if (!strcmp((*o)->key, key))
            return true;
    return false;
}

/* The core's keys of [parallel]. */
static const weft_option *const *core_options(void)
{
    for (const config_section *s = config_core_sections(); s->name; s++)
        if (!strcmp(s->name, "parallel"))
            return s->options;
    return NULL;
}

/* Axes of other strategies that are installed, and of this file. */
static void check_others(const check_spy *s, const weft_mesh_axis *mine)
{
    const host_component **all;
    uint32_t n;
    host_list(s->run->h, "parallel", &all, &n);
    for (uint32_t i = 0; i < n; i++) {
        const weft_strategy *t = all[i]->table;
        if (!all[i]->iface || strcmp(all[i]->iface, "weft.strategy/1") != 0 || !t ||
            !strcmp(all[i]->name, s->c->name))
            continue;
        for (uint32_t k = 0; t->axes && t->axes[k]; k++)
            if (!strcmp(t->axes[k]->name, mine->name) ||
                !strcmp(t->axes[k]->size_key, mine->size_key))
                check_fail("'%s' brings the mesh axis %s with the key parallel.%s, which clashes "
                           "with the axis %s, parallel.%s, of '%s': no job can use both",
                           s->c->name, mine->name, mine->size_key, t->axes[k]->name,
                           t->axes[k]->size_key, all[i]->name);
    }
}

static void axes(check_spy *s)
{
    const weft_strategy *t = s->c->table;
    const uint32_t n = check_spy_axes(s);
    for (uint32_t i = 0; i < n; i++) {
        const weft_mesh_axis *a = t->axes[i];
        check_word(s, "name", a->name);
        check_word(s, "size_key", a->size_key);
        if (has_option(s->c->options, a->size_key))
            check_fail("'%s' has the option %s and a mesh axis with that size_key: parallel.%s "
                       "cannot be both",
                       s->c->name, a->size_key, a->size_key);
        if (has_option(core_options(), a->size_key))
            check_fail("the size_key of the mesh axis %s of '%s' is '%s', a key of the core in "
                       "[parallel]",
                       a->name, s->c->name, a->size_key);
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(t->axes[k]->name, a->name) || !strcmp(t->axes[k]->size_key, a->size_key))
                check_fail("two mesh axes of '%s' have the name %s or the size_key %s", s->c->name,
                           a->name, a->size_key);
        check_others(s, a);
    }
    if (!n)
        check_absent("'%s' brings no mesh axis", s->c->name);
}

void check_strategy_axes(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", axes);
}

/* --- 144 --- */

static bool is_own(const check_spy *s, const char *axis)
{
    const weft_strategy *t = s->c->table;
    for (uint32_t i = 0; i < check_spy_axes(s); i++)
        if (!strcmp(t->axes[i]->name, axis))
            return true;
    return false;
}

static void plan_alone(check_spy *s, uint32_t family, check_planned *x)
{
    check_job job = {.family = family, .ranks = 1};
    for (uint32_t i = 0; i < WEFT_MAX_MESH; i++)
        job.size[i] = 1;
    check_spy_plan(s, &job, x);
    if (x->st != WEFT_OK)
        check_fail("a job of the family %s with all mesh axes of '%s' of size 1 is not planned: %s",
                   x->family, s->c->name, x->why);
}

/* A strategy without axes transforms the graph of any job: the same job in the same way. */
static void repeats(check_spy *s, uint32_t families)
{
    static check_planned x;
    for (uint32_t f = 0; f < families; f++) {
        uint64_t digest = 0;
        uint32_t edits = 0;
        for (uint32_t again = 0; again < 3; again++) {
            plan_alone(s, f, &x);
            if (again && (s->n != edits || x.p.digest != digest))
                check_fail("'%s' brings no mesh axis and changes the same job of the family %s in "
                           "another way when it is planned again (%u and %u edits); edit() is a "
                           "pure function",
                           s->c->name, x.family, edits, s->n);
            edits = s->n;
            digest = x.p.digest;
            check_planned_free(&x);
        }
    }
}

/* Over an axis of size 1 an edit does nothing; others change what there is to train. */
static void alone(check_spy *s)
{
    static check_planned x;
    const uint32_t families = check_spy_families(s);
    if (!check_spy_axes(s)) {
        repeats(s, families);
        return;
    }
    for (uint32_t f = 0; f < families; f++) {
        plan_alone(s, f, &x);
        for (uint32_t i = 0; i < s->n && i < CHECK_SPY_EDITS; i++)
            if (!is_own(s, s->edits[i].axis))
                check_fail("with all its mesh axes of size 1, '%s' emits %s() in phase %u; there "
                           "is nothing to split then",
                           s->c->name, s->edits[i].name, s->edits[i].phase);
        check_planned_free(&x);
    }
}

void check_strategy_alone(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", alone);
}

/* --- 145 --- */

static uint32_t phase_of(const char *edit)
{
    static const struct {
        const char *edit;
        uint32_t phase;
    } of[] = {{"split", WEFT_PHASE_SPLIT},
              {"replace", WEFT_PHASE_SPLIT},
              {"group", 0},
              /* the core takes it later, too */ {"stage", WEFT_PHASE_STAGE},
              {"order", WEFT_PHASE_STAGE},
              {"sync", WEFT_PHASE_SYNC},
              {"shard", WEFT_PHASE_SYNC},
              {"periodic_list", WEFT_PHASE_SYNC},
              {"activations", WEFT_PHASE_MEMORY},
              {"weight_versions", WEFT_PHASE_MEMORY},
              {"update_every", WEFT_PHASE_SYNC},
              {"changes_results", 0}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!strcmp(of[i].edit, edit))
            return of[i].phase;
    return 0;
}

static void phases(check_spy *s)
{
    static check_planned x;
    const check_job job = {0};
    s->unknown = true;
    check_spy_plan(s, &job, &x);
    for (uint32_t i = 0; i < s->n && i < CHECK_SPY_EDITS; i++) {
        const check_edit *e = &s->edits[i];
        const uint32_t phase = phase_of(e->name);
        if (e->phase == CHECK_SPY_UNKNOWN)
            check_fail("edit() of '%s' emits %s() in phase %u, which no header defines; there is "
                       "nothing to do in it",
                       s->c->name, e->name, CHECK_SPY_UNKNOWN);
        if (phase && phase != e->phase)
            check_fail("edit() of '%s' emits %s() in phase %u; it belongs to phase %u", s->c->name,
                       e->name, e->phase, phase);
    }
    if (s->odd != WEFT_OK)
        check_fail("edit() of '%s' returns %s for phase %u, which no header defines; a later host "
                   "may have one, in which this strategy has nothing to do: WEFT_OK",
                   s->c->name, check_status(s->odd), CHECK_SPY_UNKNOWN);
    if (x.st != WEFT_OK)
        check_fail("a job with '%s' is not planned: %s", s->c->name, x.why);
    check_planned_free(&x);
}

void check_strategy_phases(check_run *r)
{
    check_spy_each(r, "weft.strategy/1", phases);
}

/* --- 146 --- */

static void refusals(check_spy *s)
{
    static const weft_status statuses[] = {WEFT_UNSUPPORTED, WEFT_USAGE, WEFT_NO_MEMORY};
    static check_planned x;
    const check_job job = {0};
    check_spy_plan(s, &job, &x);
    const uint32_t n = s->n < 200 ? s->n : 200;
    if (x.st != WEFT_OK)
        check_fail("a job with '%s' is not planned: %s", s->c->name, x.why);
    check_planned_free(&x);
    for (uint32_t i = 1; i <= n; i++)
        for (size_t k = 0; k < sizeof statuses / sizeof *statuses; k++) {
            s->refuse = i;
            s->refusal = statuses[k];
            check_spy_plan(s, &job, &x);
            if (s->refused && s->answer != s->refusal)
                check_fail("edit %u of '%s', %s(), returned %s, and edit() returned %s; a status "
                           "of an edit is passed on",
                           i, s->c->name, s->refused, check_status(s->refusal),
                           check_status(s->answer));
            check_planned_free(&x);
        }
}

void check_strategy_refusals(check_run *r)
{
    check_spy_each(r, "weft.placement/1", refusals);
    check_spy_each(r, "weft.strategy/1", refusals);
}
