/* run/state/resume.c: see resume.h. */
#include "run/state/resume.h"

#include "base/err.h"
#include "base/log.h"
#include "config/differ.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANGES 64u    /* differences that are listed */
#define CAPACITY 1100u /* an identity */

/* The line of the job's text that has the identity of the training data; older programs
 * wrote the second. */
#define NOTE "data.source gives "
#define NOTE_BEFORE "data.train holds "

void run_resume_describe_data(run_prepared *j)
{
    char note[CAPACITY + sizeof NOTE];
    snprintf(note, sizeof note, NOTE "%s", j->train.info.identity);
    config_remark(j->cfg, note);
}

static const char *last_line(const char *text, const char *begin)
{
    const char *line = NULL;
    for (const char *at = text; (at = strstr(at, begin)); at++)
        line = at + strlen(begin);
    return line;
}

/* The description of the data in the job's text; false: there is none. */
static bool noted_data(const char *text, char out[CAPACITY])
{
    const char *line = last_line(text, "\n; " NOTE);
    if (!line)
        line = last_line(text, "\n; " NOTE_BEFORE);
    if (line)
        snprintf(out, CAPACITY, "%.*s", (int)strcspn(line, "\n"), line);
    return line;
}

/* A source may have learned to say more since. */
static bool same_data(const char *noted, const char *present)
{
    const size_t n = strlen(noted);
    return !strncmp(noted, present, n) && (!present[n] || !strncmp(present + n, ", ", 2));
}

/* Where the data says more of itself than it did when `c` was saved, it is opened as it was then:
 * an older checkpoint goes on with the samples that its program would have drawn. */
static weft_status adopt_data(run_prepared *j, const ckpt *c)
{
    char noted[CAPACITY];
    const char *present = j->train.info.identity;
    if (!noted_data(ckpt_job_text(c), noted))
        *noted = 0; /* as the first programs did */
    if (*noted && !strcmp(noted, present))
        return WEFT_OK;
    weft_status st = data_set_resume(&j->train, j->spec.source.conf, j->set.seed, noted);
    if (st != WEFT_OK)
        err_context("the data as of checkpoint %s", ckpt_dir(c));
    return st;
}

static uint32_t find_changes(const run_prepared *j, const ckpt *c, const config *saved,
                             config_change *out, char noted[CAPACITY])
{
    const char *present = j->train.info.identity;
    uint32_t n = config_changes(saved, j->cfg, out, CHANGES);
    n = n < CHANGES ? n : CHANGES;
    if (noted_data(ckpt_job_text(c), noted) && !same_data(noted, present) && n < CHANGES)
        out[n++] = (config_change){"data", "source", noted, present};
    return n;
}

static void list_changes(const config_change *x, uint32_t n, char *out, size_t bytes)
{
    size_t used = 0, limit = bytes - 64; /* the rest is for "and N more" */
    for (uint32_t i = 0; i < n; i++) {
        char one[400];
        int len = snprintf(one, sizeof one, "%s%s.%s was '%.100s' and is '%.100s'", i ? "; " : "",
                           x[i].section, x[i].key, x[i].saved, x[i].present);
        if (used + (size_t)len >= limit) {
            snprintf(out + used, bytes - used, "; and %u more", n - i);
            return;
        }
        memcpy(out + used, one, (size_t)len + 1);
        used += (size_t)len;
    }
}

/* What a refusal says to do. */
static const char *remedy(const config_change *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(x[i].section, "optim") && !strcmp(x[i].key, "rule"))
            return "give the job the saved values, or begin a run from these weights with "
                   "checkpoint.init (--resume=force does not help where another rule has other "
                   "states)";
    return "give the job the saved values, or use --resume=force to resume with the present ones";
}

/* The learning rate of step `count`, as the plan computes it (plan/optim/step.c). */
static double rate_at(const spec_schedule *s, double count, double steps)
{
    const double t = fmin(1, fmax(0, (count - s->warmup) / fmax(1, steps - s->warmup)));
    const double share = s->kind == SPEC_COSINE ? (1 + cos(t * M_PI)) / 2 : 1 - t;
    if (count < s->warmup)
        return s->lr * count / s->warmup;
    return s->kind == SPEC_CONSTANT ? s->lr : s->min_lr + share * (s->lr - s->min_lr);
}

/* A longer run has a schedule that ends later, so its rate may be above the one of the last step.
 */
static void tell_rise(const run_prepared *j, const ckpt *c, const config *saved)
{
    const spec_schedule *s = &j->spec.schedule;
    const char *text = config_raw(saved, "run.steps");
    const double was = text ? strtod(text, NULL) : 0, count = (double)ckpt_step(c);
    if (!(was > 0 && was < s->steps) || count < s->warmup)
        return;
    const double old = rate_at(s, count, was), next = rate_at(s, count + 1, s->steps);
    if (next > old * 1.01)
        log_line(
            WEFT_LOG_WARN,
            "run.steps was %.0f and is %.0f, so the learning rate rises from %.3g to %.3g after "
            "step %.0f: its schedule ends at the new last step",
            was, s->steps, old, next, count);
}

static weft_status compare(const run_prepared *j, const ckpt *c, bool force)
{
    config *saved;
    char noted[CAPACITY], all[1500];
    weft_status st = config_load_text(ckpt_job_text(c), ckpt_dir(c), &saved);
    if (st != WEFT_OK) {
        err_context("the job that %s keeps", ckpt_dir(c));
        return st;
    }
    config_change *x = mem_alloc(CHANGES * sizeof *x);
    uint32_t n = find_changes(j, c, saved, x, noted);
    for (uint32_t i = 0; force && i < n; i++)
        log_line(WEFT_LOG_WARN, "resumes with other settings: %s.%s was '%.300s' and is '%.300s'",
                 x[i].section, x[i].key, x[i].saved, x[i].present);
    list_changes(x, n, all, sizeof all);
    if (n && !force)
        st = err_fail(WEFT_USAGE, "checkpoint %.300s was saved with other settings: %s; %s",
                      ckpt_dir(c), all, remedy(x, n));
    else
        tell_rise(j, c, saved);
    free(x);
    config_destroy(saved);
    return st;
}

weft_status run_resume_check(run_prepared *j, const ckpt *c, bool first, bool force)
{
    weft_status st = adopt_data(j, c);
    return st == WEFT_OK && first ? compare(j, c, force) : st;
}
