/* run/state/resume.c: see resume.h. */
#include "run/state/resume.h"

#include "base/err.h"
#include "base/log.h"
#include "base/number/digest.h"
#include "config/differ.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 64u /* evenly spaced places of a token file that are compared */
#define SAMPLE 16u  /* tokens at each place */
#define CHANGES 64u /* differences that are listed */
#define NOTE "data.train holds "

/* "4000 tokens of 251 kinds, digest 0123456789abcdef" */
static void describe_data(const data_file *f, char out[128])
{
    uint64_t h = DIGEST_BEGIN, step = f->count / SAMPLES + 1;
    for (uint64_t i = 0; i < f->count; i += step) {
        uint64_t n = f->count - i < SAMPLE ? f->count - i : SAMPLE;
        digest_mix(&h, &f->tokens[i], n * sizeof f->tokens[i]);
    }
    snprintf(out, 128, "%" PRIu64 " tokens of %u kinds, digest %016" PRIx64, f->count, f->vocab, h);
}

void run_resume_describe_data(run_prepared *j)
{
    char data[128], note[160];
    describe_data(&j->train, data);
    snprintf(note, sizeof note, NOTE "%s", data);
    config_remark(j->cfg, note);
}

/* The description of the data in the job's text; false: there is none. */
static bool noted_data(const char *text, char out[128])
{
    const char *line = NULL;
    for (const char *at = text; (at = strstr(at, "\n; " NOTE)); at++)
        line = at + strlen("\n; " NOTE);
    if (line)
        snprintf(out, 128, "%.*s", (int)strcspn(line, "\n"), line);
    return line;
}

/* Where the saved job describes its tokens, compare these instead of the paths. */
static uint32_t find_changes(const run_prepared *j, const ckpt *c, const config *saved,
                             config_change *out, char noted[128], char present[128])
{
    uint32_t all = config_changes(saved, j->cfg, out, CHANGES), n = 0;
    bool known = noted_data(ckpt_job_text(c), noted);
    describe_data(&j->train, present);
    all = all < CHANGES ? all : CHANGES;
    for (uint32_t i = 0; i < all; i++)
        if (!known || strcmp(out[i].section, "data") != 0 || strcmp(out[i].key, "train") != 0)
            out[n++] = out[i];
    if (known && strcmp(noted, present) != 0 && n < CHANGES)
        out[n++] = (config_change){"data", "train", noted, present};
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

weft_status run_resume_check(const run_prepared *j, const ckpt *c, bool force)
{
    config *saved;
    char noted[128], present[128], all[1500];
    weft_status st = config_load_text(ckpt_job_text(c), ckpt_dir(c), &saved);
    if (st != WEFT_OK) {
        err_context("the job that %s keeps", ckpt_dir(c));
        return st;
    }
    config_change *x = mem_alloc(CHANGES * sizeof *x);
    uint32_t n = find_changes(j, c, saved, x, noted, present);
    for (uint32_t i = 0; force && i < n; i++)
        log_line(WEFT_LOG_WARN, "resumes with other settings: %s.%s was '%.300s' and is '%.300s'",
                 x[i].section, x[i].key, x[i].saved, x[i].present);
    list_changes(x, n, all, sizeof all);
    if (n && !force)
        st = err_fail(WEFT_USAGE,
                      "checkpoint %.300s was saved with other settings: %s; give the job the saved "
                      "values, or use --resume=force to resume with the present ones",
                      ckpt_dir(c), all);
    free(x);
    config_destroy(saved);
    return st;
}
