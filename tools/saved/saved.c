/* saved/saved.c: see saved.h. */
#include "saved/saved.h"

#include "base/err.h"
#include "base/log.h"
#include "host/watch.h"
#include "job/control/control.h"
#include "run/consistency.h"
#include "run/memory_check.h"
#include "run/state/weights.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of the job without [parallel], [comm] and, in any case, sinks. */
static char *text_for(const char *text, uint32_t ranks)
{
    char *out = mem_alloc(strlen(text) + 1), *to = out;
    bool drop = false;
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        if (*line == '[')
            drop =
                (ranks == 1 && (!strncmp(line, "[parallel]", 10) || !strncmp(line, "[comm", 5))) ||
                !strncmp(line, "[sink", 5);
        if (!drop) {
            memcpy(to, line, n);
            to += n;
        }
        line += n;
    }
    *to = 0;
    return out;
}

/* "tokenizer.vocab=FILE" */
static weft_status set(config *cfg, const char *line)
{
    char key[256];
    const size_t n = strcspn(line, "=");
    if (!line[n] || n >= sizeof key)
        return err_fail(WEFT_USAGE, "'%s' is not section.key=value", line);
    memcpy(key, line, n);
    key[n] = 0;
    return config_set(cfg, key, line + n + 1, NULL);
}

static weft_status load_config(saved_job *s, const saved_args *args)
{
    char *text = text_for(ckpt_job_text(s->c), s->who.ranks);
    weft_status st = config_load_saved(text, ckpt_dir(s->c), &s->cfg);
    free(text);
    if (st != WEFT_OK)
        return st;
    s->j.cfg = s->cfg;
    st = config_set(s->cfg, "log.sinks", "", "a checkpoint's job");
    for (uint32_t i = 0; st == WEFT_OK && i < args->noverrides; i++)
        st = set(s->cfg, args->overrides[i]);
    if (st == WEFT_OK && !s->who.rank)
        config_warn_code(s->cfg);
    return st;
}

/* Keys that are not read, the last ones by weft sample alone. Validation data comes in its own
 * order. */
static const char *const unread[] = {
    "optim.*",      "checkpoint.*",     "sink.*",          "run.name",       "run.out",
    "run.steps",    "run.verify",       "train.*scale*",   "train.clip",     "train.recompute",
    "train.eval_*", "train.accumulate", "train.bucket_mb", "comm.*compress", "comm.feedback",
    "log.trace_*",  "log.peak_gflops",  "log.sinks",       "log.progress",   "data.train",
    "data.order",   "run.seed",         "data.*"};
#define SAMPLE_ALONE 2u

/* A placement shards the parameters of any job, and prompts have a tokenizer. */
static bool is_exempt(const spec *s, const config_line *line)
{
    const bool has = !strcmp(line->key, "placement") ||
                     (s->placement.c && resolve_has_option(s->placement.c, line->key));
    return !strcmp(line->name, "data.tokenizer") || (has && !strcmp(line->section, "optim"));
}

static bool is_unread(const config_line *line, bool samples)
{
    const size_t n = sizeof unread / sizeof *unread - (samples ? 0 : SAMPLE_ALONE);
    for (size_t k = 0; k < n; k++)
        if (!fnmatch(unread[k], line->name, 0))
            return true;
    return false;
}

/* Refuse keys of the command line that change nothing here. */
static weft_status check_typed(const saved_job *s, const saved_args *args)
{
    config_line line;
    char why[160];
    snprintf(why, sizeof why, "weft %s trains nothing and does not read it", args->command);
    for (uint32_t i = 0; config_line_at(s->cfg, i, &line); i++) {
        if (line.typed && is_unread(&line, args->samples) && !is_exempt(&s->j.spec, &line))
            return resolve_refuse_line(s->cfg, &line, why);
        if (line.typed && s->who.ranks == 1 && resolve_joins_ranks(&line))
            return resolve_refuse_line(s->cfg, &line, "the job has one rank");
    }
    return resolve_check_effects(s->cfg, &s->j.spec);
}

static weft_status meet(saved_job *s)
{
    weft_status st = run_join(&s->who, s->cfg, &s->job);
    return st == WEFT_OK ? job_find_hosts(s->job, &s->who, &s->hosts) : st;
}

weft_status saved_open(const saved_args *args, saved_job *out)
{
    *out = (saved_job){0};
    weft_status st = job_identify(&out->who);
    if (st != WEFT_OK)
        return st;
    log_setup(WEFT_LOG_INFO, out->who.ranks > 1 ? (int)out->who.rank : -1);
    st = ckpt_open(args->dir, &out->c);
    if (st == WEFT_OK)
        st = load_config(out, args);
    if (st == WEFT_OK)
        st = meet(out);
    if (st != WEFT_OK)
        return st;
    host_limits_set(out->cfg);
    st = host_create(config_raw(out->cfg, "run.plugins"), &out->j.host);
    if (st != WEFT_OK)
        return st;
    host_try_first(out->j.host);
    run_tables_serve(&out->j.tables, out->j.host, out->job, false);
    st = resolve_plugins(out->cfg, out->j.host, &out->j.spec);
    if (st == WEFT_OK)
        st = run_settings_read(out->cfg, &out->j.set);
    if (st == WEFT_OK && !out->who.rank)
        resolve_warn_former(out->cfg);
    return st == WEFT_OK ? check_typed(out, args) : st;
}

weft_status saved_plan(saved_job *s, const weft_data_info *data, int want)
{
    const resolve_meeting meeting = {.hosts = &s->hosts, .job = s->job, .who = &s->who};
    weft_status st = WEFT_OK;
    if (s->j.planned) { /* again, for something else */
        plan_free(&s->j.plans);
        s->j.spec.want = want;
    } else {
        st = resolve_spec(s->cfg, s->who.ranks, data, &meeting, want, &s->j.spec);
        if (st == WEFT_OK)
            st = resolve_check_layout_keys(s->cfg, &s->j.spec, !s->who.rank);
    }
    if (st != WEFT_OK)
        return st;
    s->j.planned = true;
    st = plan_build(&s->j.spec, &s->j.plans);
    return st == WEFT_OK ? plan_check(&s->j.plans) : st;
}

weft_status saved_load(saved_job *s)
{
    s->plan = plan_of(&s->j.plans, s->who.rank);
    weft_status st = run_memory_check(&s->j.plans, &s->j.spec, s->who.rank);
    if (st == WEFT_OK)
        st = run_check_consistency(&s->j, s->job, &s->who, TRAIN_FORCE);
    if (st == WEFT_OK)
        st = run_exec_create(s->plan, &s->j.set, s->job, &s->who, NULL, &s->exec);
    return st == WEFT_OK ? run_weights_load(&s->exec, &s->j.plans, s->c) : st;
}

int saved_close(saved_job *s, weft_status st)
{
    char why[2048];
    snprintf(why, sizeof why, "%s", st != WEFT_OK ? err_text() : "");
    run_tables_end(&s->j.tables);
    if (!job_leave(s->job, st, st != WEFT_OK ? why : NULL) && st == WEFT_OK) {
        snprintf(why, sizeof why, "%s", err_text());
        st = WEFT_PEER;
    }
    if (*why && !job_control_say(why))
        log_line(WEFT_LOG_ERROR, "%s", why);
    run_exec_destroy(&s->exec, st != WEFT_OK);
    job_free(s->job);
    run_unprepare(&s->j);
    job_free_hosts(&s->hosts);
    ckpt_close(s->c);
    config_destroy(s->cfg);
    return err_exit_code(st);
}

uint32_t saved_vocab(const saved_job *s)
{
    const ckpt_piece *p;
    const uint32_t n = ckpt_tensors(s->c, &p);
    uint32_t vocab = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(p[i].name, "embed.tok.w") && p[i].shape[0] < (1 << 24))
            vocab = (uint32_t)p[i].shape[0];
    return vocab;
}
