/* run/outdir.c: see outdir.h. */
#include "run/outdir.h"

#include "base/err.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static bool holds_run(const char *out)
{
    return has(out, "metrics.jsonl") || has(out, "checkpoints") || has(out, "flight") ||
           has(out, "sweep.json");
}

static weft_status make_folders(const char *out)
{
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s", out) >= sizeof path)
        return fail(WEFT_USAGE, "run.out is longer than 4095 bytes");
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = 0;
        if (mkdir(path, 0777) && errno != EEXIST)
            return fail_errno(WEFT_USAGE, "run.out: the folder %s cannot be made", path);
        *p = was;
        if (!was)
            break;
    }
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode))
        return fail(WEFT_USAGE, "run.out: %s is there and is no folder", path);
    return WEFT_OK;
}

weft_status outdir_prepare(const char *out, outdir_mode mode)
{
    if (!*out)
        return fail(WEFT_USAGE, "run.out is empty: name a folder");
    if (mode == OUT_RESUME && !has(out, "checkpoints"))
        return fail(WEFT_USAGE,
                    "%s holds no checkpoint to go on from; with --resume=auto a run begins there",
                    out);
    for (uint32_t i = 1; mode == OUT_ANEW && holds_run(out); i++) {
        char old[4096];
        snprintf(old, sizeof old, "%s.%u", out, i);
        if (access(old, F_OK) == 0)
            continue;
        if (rename(out, old))
            return fail_errno(WEFT_USAGE, "%s holds a run and cannot be renamed %s", out, old);
        log_line(WEFT_LOG_INFO, "%s held a run; it is now %s", out, old);
    }
    return make_folders(out);
}

static uint64_t step_of(const char *line)
{
    const char *p = strstr(line, "\"step\":");
    return p && strchr(p, '\n') ? strtoull(p + 7, NULL, 10) : UINT64_MAX;
}

/* Where the first line of a later step begins. */
static weft_status cut_after(FILE *f, uint64_t after)
{
    char line[8192];
    long keep = 0;
    while (fgets(line, sizeof line, f) && step_of(line) <= after)
        keep = ftell(f);
    if (keep < 0 || fflush(f) || ftruncate(fileno(f), keep) || fseek(f, keep, SEEK_SET))
        return fail_errno(WEFT_IO, "metrics.jsonl cannot be cut after step %llu",
                          (unsigned long long)after);
    return WEFT_OK;
}

weft_status metrics_open(const char *out, uint64_t after, FILE **file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    FILE *f = fopen(path, after ? "r+e" : "we");
    if (!f && after && errno == ENOENT)
        f = fopen(path, "we");
    if (!f)
        return fail_errno(WEFT_IO, "%s cannot be opened", path);
    weft_status s = after ? cut_after(f, after) : WEFT_OK;
    if (s)
        fclose(f);
    else
        *file = f;
    return s;
}

/* JSON has no NaN and no infinity: they become null. */
static void number(FILE *f, const char *name, double v)
{
    if (isfinite(v))
        fprintf(f, ",\"%s\":%.9g", name, v);
    else
        fprintf(f, ",\"%s\":null", name);
}

weft_status metrics_write(FILE *f, const metrics *m)
{
    fprintf(f, "{\"step\":%" PRIu64, m->step);
    number(f, "loss", m->loss);
    number(f, "grad_norm", m->grad_norm);
    number(f, "lr", m->lr);
    fprintf(f, ",\"tokens\":%" PRIu64, m->tokens);
    number(f, "step_ms", m->step_ms);
    number(f, "tokens_per_s", m->tokens_per_s);
    number(f, "mfu", m->mfu);
    fprintf(f, ",\"flops_rule\":\"%s\",\"comm_bytes\":%" PRIu64, m->flops_rule, m->comm_bytes);
    number(f, "exposed_comm_ms", m->exposed_comm_ms);
    fprintf(f, ",\"peak_bytes\":%" PRIu64, m->peak_bytes);
    number(f, "compute_ms", m->compute_ms);
    number(f, "bubble_ms", m->bubble_ms);
    number(f, "optimizer_ms", m->optimizer_ms);
    if (m->skipped > 0 || m->scale > 0)
        number(f, "skipped", m->skipped);
    if (m->scale > 0)
        fprintf(f, ",\"scale\":%.17g", m->scale);
    if (m->valid_loss >= 0 || isnan(m->valid_loss))
        number(f, "valid_loss", m->valid_loss);
    fputs("}\n", f);
    if (fflush(f) || ferror(f))
        return fail_errno(WEFT_IO, "metrics.jsonl cannot be written");
    return WEFT_OK;
}
