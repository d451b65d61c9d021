/* report/folder.c: what is in a run's folder, or in a sweep's (see report.h). A run that still
 * trains, or that has failed, has a part of it. */
#define _GNU_SOURCE
#include "base/err.h"
#include "base/mem.h"
#include "cli/environment.h"
#include "data/file.h"
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON_BYTES ((off_t)1 << 28) /* of run.json or sweep.json */
#define JOB_BYTES 65536u
#define JOBS 4096u

/* A path that was given. */
typedef struct source {
    char *path, *folder;
    const char *file_name; /* of a sweep; NULL: it is a run */
    FILE *file;            /* metrics.jsonl; NULL: not open */
    report_metrics *metrics;
    struct stat traced, recorded; /* the trace.json and the run.json that were read */
    json_t *trace, *trace_notes, *record, *record_notes;
} source;

struct report {
    VEC(source) sources;
};

FILE *report_open(int folder, const char *name, bool follow, struct stat *st)
{
    const int fd = data_file_open_regular(folder, name, follow, st);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

static bool has(int folder, const char *name)
{
    return !faccessat(folder, name, F_OK, 0);
}

/* The object in a file; NULL with a note unless it is absent. */
static json_t *read_object(int folder, const char *name, json_t *notes)
{
    struct stat st;
    json_error_t why = {.text = "it is too large"};
    FILE *f = report_open(folder, name, true, &st);
    if (!f) {
        if (errno != ENOENT)
            report_note(notes, "%s cannot be read: %s", name, strerror(errno));
        return NULL;
    }
    json_t *x = st.st_size <= JSON_BYTES ? json_loadf(f, 0, &why) : NULL;
    fclose(f);
    if (x && json_is_object(x))
        return x;
    report_note(notes, "%s cannot be read: %s", name, x ? "it is no JSON object" : why.text);
    json_decref(x);
    return NULL;
}

static bool is_taken(const json_t *others, const json_t *name)
{
    const json_t *other;
    size_t i;
    json_array_foreach (others, i, other)
        if (json_equal(json_object_get(other, "name"), name))
            return true;
    return false;
}

/* The last part of the path; where another one of the page has that name, the path, and with a
 * number if that is taken, too. */
static json_t *name_of(const json_t *others, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t first = n;
    while (first && path[first - 1] != '/')
        first--;
    json_t *name = json_stringn(path + first, n - first);
    if (name && !is_taken(others, name))
        return name;
    json_decref(name);
    json_t *whole = report_text(path);
    name = json_incref(whole);
    for (int i = 2; is_taken(others, name); i++) {
        json_decref(name);
        name = json_sprintf("%s (%d)", json_string_value(whole), i);
    }
    json_decref(whole);
    return name;
}

/* --- a run --- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* metrics.jsonl grows; one that was replaced or cut is read from its begin. */
static void read_metrics(source *s, int folder, json_t *notes)
{
    struct stat now, open_one;
    if (s->file && (fstatat(folder, "metrics.jsonl", &now, 0) ||
                    fstat(fileno(s->file), &open_one) || now.st_ino != open_one.st_ino ||
                    now.st_dev != open_one.st_dev || now.st_size < ftello(s->file))) {
        fclose(s->file);
        s->file = NULL;
    }
    if (!s->file) {
        report_metrics_free(s->metrics);
        s->metrics = report_metrics_create();
        s->file = report_open(folder, "metrics.jsonl", true, &now);
        if (!s->file)
            report_note(notes, "metrics.jsonl cannot be read: %s", strerror(errno));
    }
    if (s->file)
        report_metrics_read(s->metrics, s->file);
}

/* trace.json is read again when it is another one. */
static void read_trace(source *s, int folder)
{
    struct stat now = {0};
    FILE *f = report_open(folder, "trace.json", true, &now);
    if (f && !is_same(&now, &s->traced)) {
        json_decref(s->trace);
        json_decref(s->trace_notes);
        s->trace_notes = json_array();
        s->trace = report_read_trace(f, s->trace_notes);
        s->traced = now;
    }
    if (f)
        fclose(f);
}

/* A job holds the lock of its folder (run/state/outlock.h), which a killed one does not. */
static bool is_running(int folder)
{
    struct stat st;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    const int fd = data_file_open_regular(folder, ".lock", false, &st);
    const bool held = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
    if (fd >= 0)
        close(fd);
    return held;
}

const char *report_why(const json_t *run)
{
    const json_t *begins = json_object_get(json_object_get(run, "record"), "begins");
    const json_t *last = json_array_get(begins, json_array_size(begins) - 1);
    return json_string_value(json_object_get(last, "why"));
}

/* null: how many steps it was to have is unknown. */
static json_t *state_json(const json_t *run, bool running)
{
    const json_t *steps = json_object_get(json_object_get(run, "record"), "steps");
    const json_t *last = json_object_get(json_object_get(run, "steps"), "last");
    if (running)
        return json_string("running");
    if (report_why(run))
        return json_string("early");
    if (!json_is_integer(steps))
        return json_null();
    return json_string(json_integer_value(last) >= json_integer_value(steps) ? "complete"
                                                                             : "early");
}

/* run.json is read again when it is another one. */
static void read_record(source *s, int folder)
{
    struct stat now = {0};
    if (s->record_notes && !fstatat(folder, "run.json", &now, 0) && is_same(&now, &s->recorded))
        return;
    json_decref(s->record);
    json_decref(s->record_notes);
    s->record_notes = json_array();
    s->record = read_object(folder, "run.json", s->record_notes);
    s->recorded = now;
}

/* A trace of fewer or more ranks than the record is of an earlier part of the run. */
static void compare_ranks(const json_t *trace, const json_t *record, json_t *notes)
{
    const json_int_t traced = json_integer_value(json_object_get(trace, "ranks"));
    const json_int_t ranks = json_integer_value(json_object_get(record, "ranks"));
    if (traced && ranks && traced != ranks)
        report_note(notes,
                    "trace.json is of %lld ranks, the plan of %lld: the run was resumed on other "
                    "ranks after the traced steps",
                    (long long)traced, (long long)ranks);
}

static json_t *run_json(source *s, const json_t *others, int folder)
{
    json_t *run = json_object(), *notes = json_array();
    const bool running = folder >= 0 && is_running(folder); /* first: it is written to until then */
    if (folder < 0)
        report_note(notes, "the folder cannot be read: %s", strerror(errno));
    else
        read_record(s, folder);
    json_t *record = json_incref(s->record);
    if (s->record_notes)
        json_array_extend(notes, s->record_notes);
    json_object_set_new(run, "name", name_of(others, s->path));
    json_object_set_new(run, "path", report_text(s->path));
    json_object_set_new(run, "record", record ? record : json_null());
    json_object_set_new(run, "running", json_boolean(running));
    if (folder >= 0)
        read_metrics(s, folder, notes);
    else if (!s->metrics)
        s->metrics = report_metrics_create();
    report_metrics_put(s->metrics, run, notes);
    json_object_set_new(run, "state", folder < 0 ? json_string("gone") : state_json(run, running));
    if (folder >= 0)
        read_trace(s, folder);
    json_object_set(run, "traced", s->trace ? s->trace : json_null());
    if (s->trace_notes)
        json_array_extend(notes, s->trace_notes);
    compare_ranks(s->trace, s->record, notes);
    json_object_set_new(run, "notes", notes);
    return run;
}

/* --- a sweep --- */

/* The job file that a row of the sweep ran with: 007-1.ini. */
static json_t *job_of(int folder, uint32_t number)
{
    char name[32], job[JOB_BYTES];
    snprintf(name, sizeof name, "%03u-1.ini", number);
    struct stat st;
    FILE *f = report_open(folder, name, true, &st);
    if (!f)
        return NULL;
    const size_t n = fread(job, 1, sizeof job, f);
    fclose(f);
    return json_stringn(job, n);
}

static json_t *jobs_json(int folder, const json_t *sweep)
{
    json_t *jobs = json_object();
    const json_t *row;
    size_t i;
    json_array_foreach (json_object_get(sweep, "rows"), i, row) {
        char key[24];
        const json_int_t number = json_integer_value(json_object_get(row, "number"));
        json_t *job =
            number > 0 && number <= (json_int_t)JOBS ? job_of(folder, (uint32_t)number) : NULL;
        snprintf(key, sizeof key, "%lld", (long long)number);
        if (job)
            json_object_set_new(jobs, key, job);
    }
    return jobs;
}

/* NULL with notes: it cannot be read. */
static json_t *sweep_json(const source *s, const json_t *others, int folder, json_t *notes)
{
    json_t *sweep = read_object(folder, s->file_name, notes);
    if (!sweep)
        return NULL;
    json_t *jobs = jobs_json(folder, sweep);
    return json_pack("{s:o, s:o, s:o, s:o}", "name", name_of(others, s->path), "path",
                     report_text(s->folder), "sweep", sweep, "jobs", jobs);
}

static weft_status check_sweep(const source *s, int folder)
{
    json_t *notes = json_array(), *x = sweep_json(s, NULL, folder, notes);
    const char *why = json_string_value(json_array_get(notes, 0));
    weft_status st = x ? WEFT_OK : err_fail(WEFT_DATA, "%s: %s", s->path, why ? why : "it is gone");
    json_decref(notes);
    json_decref(x);
    return st;
}

/* --- the report --- */

report *report_create(void)
{
    return mem_alloc(sizeof(report));
}

void report_free(report *r)
{
    for (uint32_t i = 0; r && i < r->sources.n; i++) {
        source *s = &r->sources.at[i];
        if (s->file)
            fclose(s->file);
        report_metrics_free(s->metrics);
        json_decref(s->trace);
        json_decref(s->trace_notes);
        json_decref(s->record);
        json_decref(s->record_notes);
        free(s->path);
        free(s->folder);
    }
    if (r)
        free(r->sources.at);
    free(r);
}

static char *copy_of(const char *from, size_t n)
{
    char *to = mem_alloc(n + 1);
    memcpy(to, from, n);
    return to;
}

/* A file sweep.json has its job files beside it. */
static void split(source *s)
{
    char *slash = strrchr(s->path, '/');
    s->file_name = slash ? slash + 1 : s->path;
    free(s->folder);
    s->folder = !slash             ? copy_of(".", 1)
                : slash == s->path ? copy_of("/", 1)
                                   : copy_of(s->path, (size_t)(slash - s->path));
}

weft_status report_add(report *r, const char *path)
{
    for (uint32_t i = 0; i < r->sources.n; i++)
        if (!strcmp(r->sources.at[i].path, path))
            return err_fail(WEFT_USAGE, "%s is given twice", path);
    source *s = vec_push(&r->sources);
    s->path = copy_of(path, strlen(path));
    s->folder = copy_of(path, strlen(path));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == ENOTDIR) {
        split(s);
        folder = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } else if (folder >= 0 && has(folder, "sweep.json")) {
        s->file_name = "sweep.json";
    }
    weft_status st = WEFT_OK;
    if (folder < 0)
        st = err_fail_errno(WEFT_USAGE, "%s cannot be read", path);
    else if (s->file_name)
        st = check_sweep(s, folder);
    else if (!has(folder, "run.json") && !has(folder, "metrics.jsonl"))
        st = err_fail(WEFT_USAGE,
                      "%s has neither metrics.jsonl nor sweep.json: name the folder of a run "
                      "(run.out), or of a sweep (sweep.out)",
                      path);
    if (folder >= 0)
        close(folder);
    return st;
}

/* Of a folder that is gone the run has what was read before. */
static void put(source *s, json_t *runs, json_t *sweeps)
{
    json_t *notes = json_array();
    const int folder = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    json_t *sweep = s->file_name && folder >= 0 ? sweep_json(s, sweeps, folder, notes) : NULL;
    if (sweep)
        json_array_append_new(sweeps, sweep);
    else if (!s->file_name)
        json_array_append_new(runs, run_json(s, runs, folder));
    json_decref(notes);
    if (folder >= 0)
        close(folder);
}

static json_t *made_json(void)
{
    json_t *here = cli_environment(), *made = json_object();
    static const char *const names[] = {"date", "weft", "commit"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        json_object_set(made, names[i], json_object_get(here, names[i]));
    json_decref(here);
    return made;
}

/* Will there be anything new? Of a run that ended early perhaps. */
static bool is_final(const json_t *runs, const json_t *sweeps)
{
    const json_t *run;
    size_t i;
    json_array_foreach (runs, i, run) {
        const char *state = json_string_value(json_object_get(run, "state"));
        if (!state || strcmp(state, "complete"))
            return false;
    }
    return !json_array_size(sweeps);
}

json_t *report_json(report *r, const char *live)
{
    json_t *runs = json_array(), *sweeps = json_array();
    for (uint32_t i = 0; i < r->sources.n; i++)
        put(&r->sources.at[i], runs, sweeps);
    live = is_final(runs, sweeps) ? NULL : live;
    json_t *ask = live ? json_pack("{s:s, s:i}", "url", live, "seconds", 2) : json_null();
    return json_pack("{s:i, s:o, s:o, s:o, s:o}", "version", 1, "made", made_json(), "live", ask,
                     "runs", runs, "sweeps", sweeps);
}
