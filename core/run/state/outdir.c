/* run/state/outdir.c: see outdir.h. */
#include "run/state/outdir.h"

#include "base/err.h"
#include "base/log.h"
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
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
    snprintf(path, sizeof path, "%s", out);
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

/* `out` without slashes at its end, which rename() would take for a folder that has to be there. */
static weft_status trim(const char *out, char path[4096])
{
    if (!*out)
        return fail(WEFT_USAGE, "run.out is empty: name a folder");
    if ((size_t)snprintf(path, 4096, "%s", out) >= 4096)
        return fail(WEFT_USAGE, "run.out is longer than 4095 bytes");
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    return WEFT_OK;
}

/* To the first free name of OUT.1, OUT.2, ..., which is written into `old`. */
static weft_status move_away(const char *out, char old[4096])
{
    const char *slash = strrchr(out, '/'), *last = slash ? slash + 1 : out;
    if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
        return fail(WEFT_USAGE,
                    "run.out = %s holds a run and cannot be renamed under this name: name the "
                    "folder itself",
                    out);
    for (uint32_t i = 1;; i++) {
        struct stat st;
        if (snprintf(old, 4096, "%s.%u", out, i) >= 4096)
            return fail(WEFT_USAGE, "run.out is longer than 4095 bytes");
        if (lstat(old, &st) == 0)
            continue;
        if (errno != ENOENT || rename(out, old))
            return fail_errno(WEFT_USAGE, "%s holds a run and cannot be renamed %s", out, old);
        log_line(WEFT_LOG_INFO, "%s held a run; it is now %s", out, old);
        return WEFT_OK;
    }
}

/* OUT, which holds a run and is locked, becomes OUT.N, and a new OUT is locked in its place. */
static weft_status begin_anew(const char *out, double patience, outlock *lock)
{
    char away[4096];
    weft_status s = move_away(out, away);
    if (s)
        return s;
    outlock old = *lock;
    *lock = (outlock){0};
    s = outlock_moved(&old, away);
    if (!s)
        s = make_folders(out);
    if (!s)
        s = outlock_take(out, patience, lock);
    outlock_release(&old, 0);
    return s;
}

weft_status outdir_prepare(const char *out, bool anew, double patience, outlock *lock)
{
    char path[4096];
    outlock l = {0};
    weft_status s = trim(out, path);
    if (!s)
        s = make_folders(path);
    if (!s)
        s = outlock_take(path, patience, &l);
    if (!s && anew && holds_run(path))
        s = begin_anew(path, patience, &l);
    if (!s)
        s = outlock_admit(&l);
    if (s)
        outlock_release(&l, 0);
    else
        *lock = l;
    return s;
}

/* `out` has no checkpoint; perhaps the run was moved aside by one that began there and failed. */
static weft_status nothing_to_resume(const char *out)
{
    char old[4096], newest[4096] = "";
    for (uint32_t i = 1; i < 1000; i++) {
        snprintf(old, sizeof old, "%s.%u", out, i);
        if (access(old, F_OK) != 0)
            break;
        snprintf(newest, sizeof newest, "%s", old);
    }
    return fail(WEFT_USAGE,
                "%s holds no checkpoint to go on from; with --resume=auto a run begins there%s%s%s",
                out, *newest ? " (the run that was there before is " : "", newest,
                *newest ? ")" : "");
}

weft_status outdir_begin(const char *out, outdir_wish wish, double patience, outlock *lock,
                         bool *resume)
{
    bool there = false;
    weft_status s = wish.goes_on ? ckpt_there(out, &there) : WEFT_OK;
    if (!s && !there && !wish.begins)
        s = nothing_to_resume(out);
    if (!s)
        s = outdir_prepare(out, !wish.goes_on, patience, lock);
    if (!s && wish.goes_on && wish.begins)
        s = ckpt_there(out, &there);
    if (!s && wish.goes_on && !there && has(out, "metrics.jsonl"))
        log_line(WEFT_LOG_INFO, "%s holds a run that saved no checkpoint: it begins again", out);
    *resume = there;
    return s;
}

static uint64_t step_of(const char *line)
{
    const char *p = strstr(line, "\"step\":");
    return p && strchr(p, '\n') ? strtoull(p + 7, NULL, 10) : UINT64_MAX;
}

/* Where the first line of a later step begins. What cannot be read is not cut. */
static weft_status cut_after(FILE *f, uint64_t after)
{
    char line[8192];
    long keep = 0;
    uint64_t last = 0, step;
    for (; fgets(line, sizeof line, f) && (step = step_of(line)) <= after; last = step)
        keep = ftell(f);
    if (ferror(f))
        return fail_errno(WEFT_IO, "metrics.jsonl cannot be read");
    if (keep < 0 || fflush(f) || ftruncate(fileno(f), keep) || fseek(f, keep, SEEK_SET))
        return fail_errno(WEFT_IO, "metrics.jsonl cannot be cut after step %llu",
                          (unsigned long long)after);
    if (after && !keep)
        log_line(WEFT_LOG_WARN,
                 "there was no metrics.jsonl of earlier steps: it begins at step %" PRIu64,
                 after + 1);
    else if (last < after)
        log_line(WEFT_LOG_WARN,
                 "metrics.jsonl ended after step %" PRIu64 ": it goes on with step %" PRIu64
                 ", without those between",
                 last, after + 1);
    return WEFT_OK;
}

weft_status metrics_open(const char *out, uint64_t after, FILE **file)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/metrics.jsonl", out);
    /* without O_NONBLOCK a FIFO would keep open() waiting for a reader */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
        close(fd);
        return fail(WEFT_USAGE, "%s is no file: remove it", path);
    }
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!f)
        return fail_errno(WEFT_IO, "%s cannot be opened", path);
    weft_status s = cut_after(f, after);
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
