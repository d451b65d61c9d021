/* run/trace.c: see trace.h. */
#include "run/trace.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static weft_status parse_steps(const char *text, uint64_t *first, uint64_t *last)
{
    char *end;
    errno = 0;
    *first = *last = strtoull(text, &end, 10);
    if (*end == '-')
        *last = strtoull(end + 1, &end, 10);
    if (errno || *end || end == text || *first < 1 || *last < *first || *last - *first > 100)
        return fail(WEFT_USAGE,
                    "log.trace_steps = %s: give steps as FIRST-LAST, at most 101 of "
                    "them, such as 10-12",
                    text);
    return WEFT_OK;
}

weft_status trace_setup(const char *steps, uint64_t entries, trace *out)
{
    *out = (trace){.first = 1, .last = 0};
    if (!*steps)
        return WEFT_OK;
    weft_status s = parse_steps(steps, &out->first, &out->last);
    if (s)
        return s;
    out->cap = (out->last - out->first + 1) * entries;
    out->events = mem_alloc(out->cap * sizeof *out->events);
    return WEFT_OK;
}

void trace_free(trace *t)
{
    free(t->events);
    t->events = NULL;
    t->n = t->cap = 0;
}

void trace_note(trace *t, const char *name, uint32_t lane, uint64_t step, uint64_t began,
                uint64_t ended)
{
    if (t->n < t->cap && began)
        t->events[t->n++] = (trace_event){name, began, ended, lane, (uint32_t)step};
}

static void part_path(const char *out_dir, uint32_t rank, char path[4096])
{
    snprintf(path, 4096, "%s/.trace-%u.part", out_dir, rank);
}

/* Names come from the plan: letters, digits and punctuation without quotes. */
static weft_status write_part(const trace *t, uint32_t rank, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return fail_errno(WEFT_IO, "the trace %s cannot be written", path);
    fprintf(f,
            "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"rank "
            "%u\"}}",
            rank, rank);
    static const char *const lanes[] = {"compute", "communication", "kernels"};
    for (uint32_t i = 0; i < 3; i++)
        fprintf(f,
                ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,"
                "\"args\":{\"name\":\"%s\"}}",
                rank, i, lanes[i]);
    for (uint64_t i = 0; i < t->n; i++) {
        const trace_event *e = &t->events[i];
        fprintf(f,
                ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,"
                "\"dur\":%.3f,\"args\":{\"step\":%u}}",
                e->name, rank, e->lane, (double)e->began * 1e-3,
                (double)(e->ended - e->began) * 1e-3, e->step);
    }
    int bad = ferror(f);
    if (fclose(f) || bad)
        return fail_errno(WEFT_IO, "the trace %s could not be written whole", path);
    return WEFT_OK;
}

static weft_status append(const char *path, FILE *to)
{
    char buffer[65536];
    FILE *f = fopen(path, "re");
    if (!f)
        return fail_errno(WEFT_IO, "the trace %s of another rank cannot be read", path);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f));)
        fwrite(buffer, 1, n, to);
    fclose(f);
    unlink(path);
    return WEFT_OK;
}

static weft_status join_parts(uint32_t ranks, const char *out_dir)
{
    char path[4096], part[4096], temp[4200];
    snprintf(path, sizeof path, "%s/trace.json", out_dir);
    snprintf(temp, sizeof temp, "%s.tmp", path);
    FILE *f = fopen(temp, "we");
    if (!f)
        return fail_errno(WEFT_IO, "the trace %s cannot be written", temp);
    weft_status s = WEFT_OK;
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (uint32_t r = 0; !s && r < ranks; r++) {
        part_path(out_dir, r, part);
        fprintf(f, "%s", r ? ",\n" : "");
        s = append(part, f);
    }
    fprintf(f, "\n]}\n");
    int bad = ferror(f);
    if ((fclose(f) || bad) && !s)
        s = fail_errno(WEFT_IO, "the trace %s could not be written whole", temp);
    if (!s && rename(temp, path))
        s = fail_errno(WEFT_IO, "the trace %s cannot be put in place", path);
    if (s)
        unlink(temp);
    return s;
}

weft_status trace_write(const trace *t, job *j, uint32_t rank, uint32_t ranks, const char *out_dir)
{
    if (t->first > t->last)
        return WEFT_OK;
    char path[4096];
    part_path(out_dir, rank, path);
    weft_status s = write_part(t, rank, path);
    uint32_t mine = s, *all = mem_alloc(ranks * sizeof *all);
    if (j) {
        weft_status x = job_exchange(j, "trace", &mine, sizeof mine, all);
        s = s ? s : x;
    }
    free(all);
    return s || rank ? s : join_parts(ranks, out_dir);
}
