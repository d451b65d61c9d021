/* resolve/effects.c: keys that are written and change nothing.
 *
 * Two kinds. A key of a plugin that the job does not use may stay in a file, so that a backend is
 * swapped by editing one line. A key of the core may need the value of another. On the command line
 * either is an error: somebody has just typed it and waits for what it does. Keys of transports are
 * judged later, when the transports are chosen (sections.c). */
#include "base/err.h"
#include "base/log.h"
#include "config/constraints.h"
#include "config/differ.h"
#include "resolve/internal.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* What names the plugins of an interface, and what a plugin of it is called. */
static const struct selector {
    const char *iface, *section, *noun, *key;
    uint32_t effect; /* of its keys (differ.h) */
} selectors[] = {
    {"weft.strategy/1", "parallel", "strategy", "parallel.strategy", 0},
    {"weft.rule/1", "optim", "update rule", "optim.rule", CONFIG_BINDS | CONFIG_ALONE},
    {"weft.placement/1", "optim", "placement", "optim.placement", 0},
    {"weft.model/1", "model", "model family", "model.family", CONFIG_BINDS | CONFIG_ALONE},
    {"weft.data/1", "data", "data source", "data.source", CONFIG_ALONE},
    {"weft.tokenizer/1", "tokenizer", "tokenizer", "data.tokenizer", CONFIG_ALONE},
    {"weft.device/1", "device", "device", "device.plugin", 0},
    {"weft.sink/1", "sink.", "sink", "log.sinks", 0},
};

static const struct selector *selector_of(const host_component *c)
{
    for (uint32_t i = 0; c->iface && i < sizeof selectors / sizeof *selectors; i++)
        if (!strcmp(selectors[i].iface, c->iface))
            return &selectors[i];
    return NULL;
}

uint32_t resolve_effect(const host_component *c)
{
    const struct selector *by = selector_of(c);
    return by ? by->effect : 0;
}

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

static bool reads(const host_component *c, const struct selector *by, const config_line *line)
{
    if (!strcmp(by->section, "sink."))
        return !strncmp(line->section, "sink.", 5) && !strcmp(line->section + 5, c->name);
    const bool group = !strcmp(by->section, "optim") && !strncmp(line->section, "optim.", 6);
    return brings_axis(c, line) ||
           ((group || !strcmp(line->section, by->section)) && resolve_has_option(c, line->key));
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
static const struct selector *readers(const spec *s, const config_line *line, char *out,
                                      size_t size)
{
    const struct selector *first = NULL;
    const host_component **all;
    uint32_t n;
    size_t used = 0;
    out[0] = 0;
    if (host_list(s->host, &all, &n) != WEFT_OK)
        return NULL;
    for (uint32_t i = 0; i < n && used < size; i++) {
        const struct selector *by = selector_of(all[i]);
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
    const struct selector *by = readers(s, line, names, sizeof names);
    if (by)
        snprintf(out, 512, "%s %s reads it, and %s is %s", by->noun, names, by->key,
                 config_text(cfg, by->key));
    else
        snprintf(out, 512, "no plugin that the job uses reads it");
}

/* --- keys of the core --- */

static bool has_no_scale(const config *c, const spec *s)
{
    (void)s;
    return strcmp(config_text(c, "train.precision"), "fp16");
}

static bool has_whole_sums(const config *c, const spec *s)
{
    (void)s;
    return !strcmp(config_text(c, "train.precision"), "fp32");
}

static bool evaluates_never(const config *c, const spec *s)
{
    (void)s;
    return !config_int(c, "train.eval_every");
}

static bool saves_never(const config *c, const spec *s)
{
    (void)s;
    return !config_int(c, "checkpoint.every");
}

static bool has_constant_rate(const config *c, const spec *s)
{
    (void)s;
    return !strcmp(config_text(c, "optim.schedule"), "constant");
}

static bool compresses_nothing(const config *c, const spec *s)
{
    bool none = !strcmp(config_text(c, "comm.compress"), "none");
    for (uint32_t a = 0; none && a < s->mesh.n; a++) {
        char key[128];
        snprintf(key, sizeof key, "comm.%s.compress", s->mesh.name[a]);
        const char *form = config_text(c, key);
        none = !strcmp(form, "same") || !strcmp(form, "none");
    }
    return none;
}

static const struct dependent {
    const char *key;
    bool (*idle)(const config *c, const spec *s);
    const char *why, *on; /* `on`: the key whose value makes it so */
    bool mild;            /* harmless, and common in scripts: typed, it is warned of */
} dependents[] = {
    {"train.loss_scale", has_no_scale, "only precision fp16 scales the loss", "train.precision",
     false},
    {"train.scale_window", has_no_scale, "only precision fp16 scales the loss", "train.precision",
     false},
    {"optim.min_lr", has_constant_rate, "the learning rate does not fall", "optim.schedule", false},
    {"comm.feedback", compresses_nothing, "no gradient is compressed", "comm.compress", false},
    {"train.accumulate", has_whole_sums, "gradients are fp32", "train.precision", true},
    {"train.eval_batches", evaluates_never, "nothing is evaluated", "train.eval_every", true},
    {"checkpoint.keep", saves_never, "nothing is saved", "checkpoint.every", true},
    {"checkpoint.async", saves_never, "nothing is saved", "checkpoint.every", true},
};

/* A key that has its default is as if it were left out. */
static const struct dependent *idle_key(const config *cfg, const spec *s, const char *name)
{
    for (uint32_t i = 0; i < sizeof dependents / sizeof *dependents; i++)
        if (!strcmp(dependents[i].key, name))
            return dependents[i].idle(cfg, s) && !config_is_default(cfg, name) ? &dependents[i]
                                                                               : NULL;
    return NULL;
}

/* --- both --- */

/* Does the line change nothing? Then `why` says why not. */
static bool is_idle(const config *cfg, const spec *s, const config_line *line, char why[512])
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", line->section, line->key);
    const struct dependent *d = line->unused || line->stale ? NULL : idle_key(cfg, s, name);
    if (line->stale || (!line->unused && !d))
        return false;
    if (d)
        snprintf(why, 512, "%s, and %s is %s", d->why, d->on, config_text(cfg, d->on));
    else
        why_unused(cfg, s, line, why);
    return true;
}

static weft_status check_rates(const config *cfg, const spec *s)
{
    const bool falls = !has_constant_rate(cfg, s);
    if (!falls || config_real(cfg, "optim.min_lr") <= config_real(cfg, "optim.lr"))
        return WEFT_OK;
    return config_refuse(CONSTRAINT_RATES, cfg, NULL,
                         (config_fact[]){{"optim.min_lr", 0, config_text(cfg, "optim.min_lr")},
                                         {"optim.lr", 0, config_text(cfg, "optim.lr")},
                                         {"place", 0, config_origin(cfg, "optim.lr")},
                                         {0}});
}

static weft_status refuse_line(const config *cfg, const config_line *line, const char *why)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", line->section, line->key);
    return config_refuse(CONSTRAINT_NO_EFFECT, cfg, name, (config_fact[]){{"reason", 0, why}, {0}});
}

static bool is_mild(const config *cfg, const spec *s, const config_line *line)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", line->section, line->key);
    const struct dependent *d = line->unused ? NULL : idle_key(cfg, s, name);
    return d && d->mild;
}

weft_status resolve_check_effects(const config *cfg, const spec *s)
{
    config_line line;
    char why[512];
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (line.typed && is_idle(cfg, s, &line, why) && !is_mild(cfg, s, &line))
            return refuse_line(cfg, &line, why);
    return check_rates(cfg, s);
}

static void say_peak_is_missed(const config *cfg)
{
    const int64_t warmup = config_int(cfg, "optim.warmup"), steps = config_int(cfg, "run.steps");
    if (warmup > steps)
        log_line(WEFT_LOG_WARN,
                 "%s is %lld, and run.steps is %lld: the learning rate rises to the end and never "
                 "reaches optim.lr = %s",
                 config_origin(cfg, "optim.warmup"), (long long)warmup, (long long)steps,
                 config_text(cfg, "optim.lr"));
    else if (warmup == steps)
        log_line(WEFT_LOG_WARN,
                 "%s is %lld, as run.steps: the learning rate rises to the end and reaches "
                 "optim.lr = %s at the last step alone",
                 config_origin(cfg, "optim.warmup"), (long long)warmup,
                 config_text(cfg, "optim.lr"));
}

/* Was the key typed that makes others idle? Then whoever typed it knows. */
static bool is_typed(const config *cfg, const char *key)
{
    config_line line;
    char name[128];
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++) {
        snprintf(name, sizeof name, "%s.%s", line.section, line.key);
        if (line.typed && !strcmp(name, key))
            return true;
    }
    return false;
}

static bool is_expected(const config *cfg, const spec *s, const config_line *line)
{
    if (line->typed)
        return false;
    char name[128];
    snprintf(name, sizeof name, "%s.%s", line->section, line->key);
    const struct dependent *d = line->unused ? NULL : idle_key(cfg, s, name);
    return !d || d->mild || is_typed(cfg, d->on);
}

void resolve_warn_former(const config *cfg)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (line.former && !line.stale)
            log_line(WEFT_LOG_WARN,
                     "%s: %s.%s: '%s' is a word of an earlier version, which the next one will not "
                     "know; write %s.%s = %s",
                     line.where, line.section, line.key, line.former, line.section, line.key,
                     line.value);
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
                     "%s: %s.%s has no effect: %s", line.where, line.section, line.key, why);
    say_peak_is_missed(cfg);
}

/* --- a checkpoint's job, which trains nothing --- */

/* Keys that a command does not read, by what its plan is for (SPEC_...). */
static const struct unread {
    const char *keys; /* pattern */
    bool eval, sample;
} unread[] = {
    {"optim.*", true, true},
    {"checkpoint.*", true, true},
    {"sink.*", true, true},
    {"run.name", true, true},
    {"run.out", true, true},
    {"run.steps", true, true},
    {"run.verify", true, true},
    {"run.seed", false, true},
    {"data.source", false, true},
    {"data.train", false, true},
    {"data.valid", false, true},
    {"train.loss_scale", true, true},
    {"train.scale_window", true, true},
    {"train.clip", true, true},
    {"train.recompute", true, true},
    {"train.eval_every", true, true},
    {"train.eval_batches", true, true},
    {"train.accumulate", true, true},
    {"train.bucket_mb", true, true},
    {"comm.compress", true, true},
    {"comm.*.compress", true, true},
    {"comm.feedback", true, true},
    {"log.trace_steps", true, true},
    {"log.peak_gflops", true, true},
    {"log.sinks", true, true},
    {"log.progress", true, true},
};

/* A placement shards the parameters of any job. */
static bool is_of_placement(const spec *s, const config_line *line)
{
    return !strcmp(line->section, "optim") &&
           (!strcmp(line->key, "placement") ||
            (s->placement.c && resolve_has_option(s->placement.c, line->key)));
}

weft_status resolve_check_saved_effects(const config *cfg, const spec *s, const char *command,
                                        bool samples)
{
    config_line line;
    char name[128], why[160];
    snprintf(why, sizeof why, "weft %s trains nothing and does not read it", command);
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++) {
        snprintf(name, sizeof name, "%s.%s", line.section, line.key);
        if (!line.typed || is_of_placement(s, &line))
            continue;
        for (size_t k = 0; k < sizeof unread / sizeof *unread; k++)
            if ((samples ? unread[k].sample : unread[k].eval) && !fnmatch(unread[k].keys, name, 0))
                return refuse_line(cfg, &line, why);
    }
    return WEFT_OK;
}
