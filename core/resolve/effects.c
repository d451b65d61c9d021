/* resolve/effects.c: keys that are written and change nothing.
 *
 * Two kinds. A key of a plugin that the job does not use may stay in a file, so that a backend is
 * swapped by editing one line. A key of the core may need the value of another. On the command line
 * either is an error: somebody has just typed it and waits for what it does. Keys of transports are
 * judged later, when the transports are chosen (sections.c). */
#include "base/log.h"
#include "config/constraints.h"
#include "config/differ.h"
#include "resolve/internal.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The size of a mesh axis, or a key of [comm.AXIS]. */
static bool brings_axis(const host_component *c, const config_line *line)
{
    const weft_strategy *table = c->table;
    const bool size = !strcmp(line->section, "parallel");
    const char *of_link = strncmp(line->section, "comm.", 5) ? "" : line->section + 5;
    if (strcmp(c->iface, "weft.strategy/1"))
        return false;
    for (uint32_t k = 0; k < WEFT_MAX_MESH && table->axes && table->axes[k]; k++)
        if ((size && !strcmp(table->axes[k]->size_key, line->key)) ||
            !strcmp(table->axes[k]->name, of_link))
            return true;
    return false;
}

static bool reads(const host_component *c, const resolve_selector *by, const config_line *line)
{
    if (!strcmp(by->kind, "sink"))
        return !strncmp(line->section, "sink.", 5) && !strcmp(line->section + 5, c->name);
    const bool group = !strcmp(by->kind, "optim") && !strncmp(line->section, "optim.", 6);
    return brings_axis(c, line) ||
           ((group || !strcmp(line->section, by->kind)) && resolve_has_option(c, line->key));
}

static bool is_repeated(const host_component *const *all, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (all[i]->iface && !strcmp(all[i]->iface, all[at]->iface) &&
            !strcmp(all[i]->name, all[at]->name))
            return true;
    return false;
}

/* "update rule sgd or muon": the installed plugins that read the key. Returns what selects them,
 * NULL if none does. */
static const resolve_selector *readers(const spec *s, const config_line *line, char *out,
                                       size_t size)
{
    const resolve_selector *first = NULL;
    const host_component **all;
    uint32_t n;
    size_t used = 0;
    out[0] = 0;
    host_list(s->host, NULL, &all, &n);
    for (uint32_t i = 0; i < n && used < size; i++) {
        const resolve_selector *by = resolve_selector_of(all[i]);
        if (!by || (first && by != first) || !reads(all[i], by, line) ||
            is_repeated(all, i)) /* another file of it */
            continue;
        int more = snprintf(out + used, size - used, "%s%s", first ? " or " : "", all[i]->name);
        used += more > 0 ? (size_t)more : 0;
        first = by;
    }
    return first;
}

/* Why a key of a plugin that the job does not use has no effect, and what to do. */
static void why_unused(const config *cfg, const spec *s, const config_line *line, char out[512])
{
    char names[256];
    const resolve_selector *by = readers(s, line, names, sizeof names);
    if (by)
        snprintf(out, 512, "%s %s reads it, and %s is %s", by->noun, names, by->key,
                 config_text(cfg, by->key));
    else
        snprintf(out, 512, "no plugin that the job uses reads it");
}

bool resolve_has_option(const host_component *c, const char *key)
{
    for (const weft_option *const *o = c->options; o && *o; o++)
        if (!strcmp((*o)->key, key))
            return true;
    return false;
}

/* --- keys of the core --- */

const char *resolve_own_value(const config *c, const spec *s, uint32_t a, const char *what)
{
    char key[128];
    snprintf(key, sizeof key, "comm.%s.%s", s->mesh.name[a], what);
    const char *text = config_raw(c, key);
    return text && strcmp(text, "same") ? text : "";
}

static bool names_algorithms(const config *c, const spec *s, const config_line *line)
{
    (void)line;
    const char *common = config_text(c, "comm.algorithm");
    bool named = true;
    for (uint32_t a = 0; named && a < s->mesh.n; a++) {
        const char *own = resolve_own_value(c, s, a, "algorithm"), *text = *own ? own : common;
        named = strcmp(text, "auto") && !strchr(text, '='); /* rules leave some to auto */
    }
    return named && s->mesh.n;
}

static bool compresses_nothing(const config *c, const spec *s, const config_line *line)
{
    (void)line;
    bool none = !strcmp(config_text(c, "comm.compress"), "none");
    for (uint32_t a = 0; none && a < s->mesh.n; a++) {
        const char *form = resolve_own_value(c, s, a, "compress");
        none = !*form || !strcmp(form, "none");
    }
    return none;
}

static bool is_replaced(const config *c, const spec *s, const config_line *line)
{
    bool all = s->mesh.n && !strcmp(line->section, "comm");
    for (uint32_t a = 0; all && a < s->mesh.n; a++)
        all = *resolve_own_value(c, s, a, line->key);
    return all;
}

static bool lacks_validation(const config *c, const spec *s, const config_line *line)
{
    (void)s, (void)line;
    return config_int(c, "train.eval_every") && !*config_text(c, "data.valid");
}

static bool traces_no_step(const config *c, const spec *s, const config_line *line)
{
    (void)s;
    return strtoll(line->value, NULL, 10) > config_int(c, "run.steps");
}

/* Idle where the key `on` has the value, with '!' any other one, or where idle() says so; `on`
 * NULL: the keys of each axis, which come and go with the layout. */
static const struct dependent {
    const char *key, *on, *value, *why;
    bool (*idle)(const config *c, const spec *s, const config_line *line);
    bool mild; /* harmless, and common in scripts: typed, it is warned of */
} dependents[] = {
    {"train.*scale*", "train.precision", "!fp16", "only precision fp16 scales the loss", NULL, 0},
    {"optim.min_lr", "optim.schedule", "constant", "the learning rate does not fall", NULL, 0},
    {"comm.feedback", "comm.compress", NULL, "no gradient is compressed", compresses_nothing, 0},
    {"comm.reduce", "comm.algorithm", NULL, "every algorithm is named", names_algorithms, 0},
    {"comm.*", NULL, NULL, "every mesh axis has a value of its own", is_replaced, 0},
    {"data.boundary", "data.documents", "joined", "documents are not told apart", NULL, 0},
    {"model.positions", "data.documents", "joined", "documents are not told apart", NULL, 0},
    {"log.trace_steps", "run.steps", NULL, "no such step is done", traces_no_step, 0},
    {"log.trace_mb", "log.trace_steps", "", "no step is traced", NULL, 0},
    {"train.eval_*", "data.valid", NULL, "nothing is evaluated", lacks_validation, 0},
    {"train.accumulate", "train.precision", "fp32", "gradients are fp32", NULL, 1},
    {"train.eval_batches", "train.eval_every", "0", "nothing is evaluated", NULL, 1},
    {"checkpoint.keep", "checkpoint.every", "0", "nothing is saved", NULL, 1},
    {"checkpoint.async", "checkpoint.every", "0", "nothing is saved", NULL, 1},
};

static bool holds(const config *cfg, const spec *s, const config_line *line,
                  const struct dependent *d)
{
    if (d->on && !strncmp(d->on, "data.", 5) && !resolve_has_option(s->source.c, d->on + 5))
        return false; /* a source without the key */
    if (d->idle)
        return d->idle(cfg, s, line);
    const char *text = config_text(cfg, d->on);
    return *d->value == '!' ? strcmp(text, d->value + 1) != 0 : !strcmp(text, d->value);
}

/* A key that has its default is as if it were left out. */
static const struct dependent *idle_key(const config *cfg, const spec *s, const config_line *line)
{
    const struct dependent *d = dependents, *end = d + sizeof dependents / sizeof *d;
    const bool counts = !line->stale && !line->unused && !config_is_default(cfg, line->name);
    while (counts && d < end && (fnmatch(d->key, line->name, 0) || !holds(cfg, s, line, d)))
        d++;
    return counts && d < end ? d : NULL;
}

/* --- both --- */

/* Does the line change nothing? Then `why` says why not. */
static bool is_idle(const config *cfg, const spec *s, const config_line *line, char why[512])
{
    const struct dependent *d = idle_key(cfg, s, line);
    if (line->stale || (!line->unused && !d))
        return false;
    const char *on = d && d->on ? config_text(cfg, d->on) : "";
    if (d && !d->on)
        snprintf(why, 512, "%s", d->why);
    else if (d)
        snprintf(why, 512, "%s, and %s is %s", d->why, d->on, *on ? on : "empty");
    else
        why_unused(cfg, s, line, why);
    return true;
}

weft_status resolve_check_rates(const config *cfg)
{
    if (!strcmp(config_text(cfg, "optim.schedule"), "constant") ||
        config_real(cfg, "optim.min_lr") <= config_real(cfg, "optim.lr"))
        return WEFT_OK;
    return config_refuse(CONSTRAINT_RATES, cfg, NULL,
                         (config_fact[]){{"optim.min_lr", 0, config_text(cfg, "optim.min_lr")},
                                         {"optim.lr", 0, config_text(cfg, "optim.lr")},
                                         {"place", 0, config_origin(cfg, "optim.lr")},
                                         {0}});
}

weft_status resolve_refuse_line(const config *cfg, const config_line *line, const char *why)
{
    return config_refuse(CONSTRAINT_NO_EFFECT, cfg, line->name,
                         (config_fact[]){{"reason", 0, why}, {0}});
}

static bool is_mild(const config *cfg, const spec *s, const config_line *line)
{
    const struct dependent *d = idle_key(cfg, s, line);
    return d && d->mild;
}

weft_status resolve_check_effects(const config *cfg, const spec *s)
{
    config_line line;
    char why[512];
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (line.typed && is_idle(cfg, s, &line, why) && !is_mild(cfg, s, &line))
            return resolve_refuse_line(cfg, &line, why);
    return WEFT_OK;
}

static void say_peak_is_missed(const config *cfg)
{
    const int64_t warmup = config_int(cfg, "optim.warmup"), steps = config_int(cfg, "run.steps");
    if (warmup >= steps)
        log_line(WEFT_LOG_WARN,
                 "%s is %lld, and run.steps is %lld: the learning rate rises to the end and "
                 "%sreaches optim.lr = %s%s",
                 config_origin(cfg, "optim.warmup"), (long long)warmup, (long long)steps,
                 warmup > steps ? "never " : "", config_text(cfg, "optim.lr"),
                 warmup > steps ? "" : " at the last step alone");
}

/* Was the key typed that makes others idle? Then whoever typed it knows. */
static bool is_typed(const config *cfg, const char *key)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (line.typed && !strcmp(line.name, key))
            return true;
    return false;
}

static bool is_expected(const config *cfg, const spec *s, const config_line *line)
{
    if (line->typed)
        return false;
    const struct dependent *d = idle_key(cfg, s, line);
    return !d || d->mild || !d->on || is_typed(cfg, d->on);
}

void resolve_warn_former(const config *cfg)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (line.former && !line.stale)
            log_line(WEFT_LOG_WARN,
                     "%s: %s: '%s' is a word of an earlier version, which the next one will not "
                     "know; write %s = %s",
                     line.where, line.name, line.former, line.name, line.value);
}

void resolve_warn_effects(const config *cfg, const spec *s)
{
    config_line line;
    char why[512];
    if (config_shares_command_line(cfg))
        return;
    resolve_warn_former(cfg);
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (is_idle(cfg, s, &line, why))
            log_line(is_expected(cfg, s, &line) ? WEFT_LOG_INFO : WEFT_LOG_WARN,
                     "%s: %s has no effect: %s", line.where, line.name, why);
    say_peak_is_missed(cfg);
}
