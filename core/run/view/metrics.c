/* run/view/metrics.c: see metrics.h. */
#include "run/view/metrics.h"

#include "base/err.h"
#include "base/log.h"
#include "base/version.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define METRICS_VERSION 1 /* of each line */

static uint64_t step_of(const char *line)
{
    const char *p = strstr(line, "\"step\":");
    return p && strchr(p, '\n') ? strtoull(p + 7, NULL, 10) : UINT64_MAX;
}

/* Lines without a version have version 1. */
static weft_status check_version(const char *line)
{
    static const char mark[] = "\"version\":";
    const char *p = strstr(line, mark);
    return p ? version_check("metrics.jsonl", version_after(p, strlen(p), mark), METRICS_VERSION)
             : WEFT_OK;
}

/* Truncate the file before the first line of a later step; not if it cannot be read. */
static weft_status cut_after(FILE *f, uint64_t after)
{
    char line[8192];
    long keep = 0;
    uint64_t last = 0, step;
    for (; fgets(line, sizeof line, f) && (step = step_of(line)) <= after; last = step) {
        weft_status st = check_version(line);
        if (st != WEFT_OK)
            return st;
        keep = ftell(f);
    }
    if (ferror(f))
        return err_fail_errno(WEFT_IO, "metrics.jsonl cannot be read");
    if (keep < 0 || fflush(f) || ftruncate(fileno(f), keep) || fseek(f, keep, SEEK_SET))
        return err_fail_errno(WEFT_IO, "metrics.jsonl cannot be cut after step %llu",
                              (unsigned long long)after);
    if (after && !keep)
        log_line(WEFT_LOG_WARN,
                 "metrics.jsonl of earlier steps is missing: it starts at step %" PRIu64,
                 after + 1);
    else if (last < after)
        log_line(WEFT_LOG_WARN,
                 "metrics.jsonl ended after step %" PRIu64 ": it continues with step %" PRIu64
                 ", and the steps between are missing",
                 last, after + 1);
    return WEFT_OK;
}

weft_status run_metrics_open(const char *out, uint64_t after, FILE **file)
{
    char path[4096];
    struct stat info;
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    /* without O_NONBLOCK a FIFO would keep open() waiting for a reader */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd >= 0 && (fstat(fd, &info) || !S_ISREG(info.st_mode))) {
        close(fd);
        return err_fail(WEFT_USAGE, "%s is not a regular file: remove it", path);
    }
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!f)
        return err_fail_errno(WEFT_IO, "%s cannot be opened", path);
    weft_status st = cut_after(f, after);
    if (st != WEFT_OK)
        fclose(f);
    else
        *file = f;
    return st;
}

/* JSON has no NaN and no infinity: they become null. */
static void number(FILE *f, const char *name, double v)
{
    if (isfinite(v))
        fprintf(f, ",\"%s\":%.9g", name, v);
    else
        fprintf(f, ",\"%s\":null", name);
}

/* A scalar of a plugin, whose name may have signs that JSON does not. */
static void told(FILE *f, const metric *x)
{
    char name[2 * WEFT_MAX_NAME];
    size_t n = 0;
    for (const char *p = x->name; *p && n < sizeof name - 2; p++) {
        if (*p == '"' || *p == '\\')
            name[n++] = '\\';
        name[n++] = *p;
    }
    name[n] = 0;
    number(f, name, x->value);
}

weft_status run_metrics_write(FILE *f, const metrics *m)
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
    for (uint32_t i = 0; i < m->ntold; i++)
        told(f, &m->told[i]);
    fprintf(f, ",\"version\":%d}\n", METRICS_VERSION);
    if (fflush(f) || ferror(f))
        return err_fail_errno(WEFT_IO, "metrics.jsonl cannot be written");
    return WEFT_OK;
}
