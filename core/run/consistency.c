/* run/consistency.c: see consistency.h. Every rank fetches the settings of rank 0 before the
 * exchange, so that each can name a difference even after another rank has left. */
#include "run/consistency.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/number/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBES 65536u /* tokens of a data file that are compared, ... */
#define RUNS 64u      /* ... in this many evenly spaced runs, so that a large file is not read */

typedef struct notes {
    uint64_t resume, settings, train, valid, plan;
} notes;

/* Whether it is a cost by which algorithms are selected. Costs must be equal on all ranks, whatever
 * file they come from. Defaults are skipped, because a machine may lack a transport. */
static bool is_cost(const config *c, const char *section, const char *key)
{
    char name[260];
    snprintf(name, sizeof name, "%s.%s", section, key);
    for (const weft_option *const *o = config_link_options(); *o; o++)
        if (!strcmp((*o)->key, key))
            return !strncmp(section, "comm.", 5) && config_given(c, name);
    return false;
}

static bool of_a_machine(const char *section, const char *key)
{
    if (!strcmp(section, "comm") && !strcmp(key, "tuned"))
        return true; /* a path; the contents of the file are compared */
    bool own = !strcmp(section, "device") || !strcmp(section, "log") || !strcmp(section, "data") ||
               strchr(section, '.');
    return own || (!strcmp(section, "run") && (!strcmp(key, "key") || !strcmp(key, "plugins")));
}

typedef VEC(char) text;

static void add(text *t, const char *what)
{
    while (*what)
        *vec_push(t) = *what++;
}

/* The settings that must be equal on all ranks, one "section.key = value" per line; the caller
 * frees it. */
static char *shared_settings(const config *c)
{
    char *dump = config_dump(c), section[128] = "", key[128], *rest;
    text out = {0};
    for (char *line = strtok_r(dump, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "[%127[^]]]", section) == 1)
            continue;
        if (sscanf(line, "%127[^ =]", key) != 1 ||
            (of_a_machine(section, key) && !is_cost(c, section, key)))
            continue;
        add(&out, section);
        add(&out, ".");
        add(&out, line);
        add(&out, "\n");
    }
    *vec_push(&out) = 0;
    free(dump);
    return out.at;
}

static uint64_t data_mark(const data_file *f)
{
    uint64_t h = DIGEST_BEGIN;
    digest_mix(&h, &f->count, sizeof f->count);
    digest_mix(&h, &f->vocab, sizeof f->vocab);
    if (f->count <= PROBES) {
        digest_mix(&h, f->tokens, f->count * sizeof *f->tokens);
        return h;
    }
    const uint64_t length = PROBES / RUNS, last = f->count - length; /* where the last run begins */
    for (uint64_t i = 0; i < RUNS; i++)
        digest_mix(&h, f->tokens + last / (RUNS - 1) * i, length * sizeof *f->tokens);
    return h;
}

/* Whether the key of the first line is among the keys of `lines`. */
static bool has_key_of(const char *line, const char *lines)
{
    size_t n = strcspn(line, "=");
    for (; *lines; lines += strcspn(lines, "\n"), lines += *lines != 0)
        if (!strncmp(lines, line, n))
            return true;
    return !*line;
}

/* The order of keys is fixed, so the first lines that differ are the difference. */
static weft_status name_setting(uint32_t rank, const char *mine, const char *zero)
{
    size_t a = strcspn(mine, "\n"), b = strcspn(zero, "\n");
    while (a && a == b && !memcmp(mine, zero, a + 1)) {
        mine += a + 1;
        zero += b + 1;
        a = strcspn(mine, "\n");
        b = strcspn(zero, "\n");
    }
    if (!has_key_of(mine, zero))
        return err_fail(WEFT_USAGE,
                        "rank %u has %.*s, which rank 0 lacks: give every rank the same job", rank,
                        a < 200 ? (int)a : 200, mine);
    if (!has_key_of(zero, mine))
        return err_fail(WEFT_USAGE,
                        "rank %u lacks %.*s, which rank 0 has: give every rank the same job", rank,
                        b < 200 ? (int)b : 200, zero);
    return err_fail(WEFT_USAGE,
                    "rank %u has %.*s where rank 0 has %.*s: give every rank the same job", rank,
                    a < 200 ? (int)a : 200, mine, b < 200 ? (int)b : 200, zero);
}

/* `r` differs from rank 0; `mine` and `zero` are settings when it is this rank, else NULL. */
static weft_status name_difference(uint32_t r, const notes *has, const notes *first,
                                   const char *mine, const char *zero)
{
    static const char *const words[] = {"without --resume", "with --resume", "with --resume=auto",
                                        "with --resume=force"};
    if (has->resume != first->resume)
        return err_fail(WEFT_USAGE, "rank %u was started %s and rank 0 %s: start all ranks alike",
                        r, words[has->resume & 3], words[first->resume & 3]);
    if (has->settings != first->settings && mine)
        return name_setting(r, mine, zero);
    if (has->settings != first->settings)
        return err_fail(WEFT_USAGE, "rank %u has other settings than rank 0, and reports which", r);
    if (has->train != first->train || has->valid != first->valid)
        return err_fail(WEFT_USAGE, "rank %u has other tokens in data.%s than rank 0", r,
                        has->train != first->train ? "train" : "valid");
    return err_fail(
        WEFT_USAGE,
        "rank %u has another plan than rank 0: both must run the same program and plugins", r);
}

static weft_status compare(const run_prepared *j, job *meeting, const job_identity *who,
                           run_resume_mode resume, const char *mine, const char *zero)
{
    notes own = {resume, 0, data_mark(&j->train), data_mark(&j->valid), j->plans.digest};
    notes *all = mem_alloc(who->ranks * sizeof *all);
    digest_mix(&own.settings, mine, strlen(mine));
    weft_status st = job_exchange(meeting, "agree", &own, sizeof own, all);
    if (st == WEFT_OK && memcmp(&own, all, sizeof own))
        st = name_difference(who->rank, &own, all, mine, zero);
    for (uint32_t r = 1; st == WEFT_OK && r < who->ranks; r++)
        if (memcmp(&all[r], all, sizeof own))
            st = name_difference(r, &all[r], all, NULL, NULL);
    free(all);
    return st;
}

weft_status run_check_consistency(const run_prepared *mine, job *j, const job_identity *who,
                                  run_resume_mode resume)
{
    if (!j)
        return WEFT_OK;
    void *zero = NULL;
    uint64_t bytes = 0;
    char *settings = shared_settings(mine->cfg);
    weft_status st = WEFT_OK;
    if (!who->rank)
        st = job_put(j, "settings", settings, strlen(settings) + 1);
    else
        st = job_get(j, "settings", config_real(mine->cfg, "run.join_timeout"), &zero, &bytes);
    if (st == WEFT_OK && zero && (!bytes || ((char *)zero)[bytes - 1]))
        st = err_fail(WEFT_DATA, "rank 0 sent settings that are not text");
    if (st == WEFT_OK)
        st = compare(mine, j, who, resume, settings, zero);
    free(zero);
    free(settings);
    return st;
}
