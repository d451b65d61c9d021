/* report/record.c: see record.h. The file is replaced whole; of an earlier one the list "begins" is
 * kept. */
#include "report/record.h"

#include "base/log.h"
#include "cli/environment.h"
#include "data/file.h"
#include "job/control/progress.h"
#include "report/report.h"
#include "view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME "run.json"
#define TEMPORARY ".run.json.tmp"
#define BEGINS 1000u        /* that are kept */
#define ALL_RANKS 256u      /* a job with more has in its plan the first rank of each stage */
#define EARLIER (64u << 20) /* bytes; a larger file is none of ours */

static json_int_t own; /* the member id of this run's entry in "begins" */

static json_t *mesh_json(const spec *s)
{
    json_t *mesh = json_array();
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        const spec_link *l = &s->links[s->axis_link[a]];
        json_t *x = json_object();
        json_object_set_new(x, "axis", report_text(s->mesh.name[a]));
        json_object_set_new(x, "size", json_integer(s->mesh.size[a]));
        json_object_set_new(x, "transport", report_text(s->mesh.size[a] > 1 ? l->c->name : NULL));
        json_object_set_new(
            x, "inside", report_text(s->mesh.size[a] > 1 && l->intra.c ? l->intra.c->name : NULL));
        json_array_append_new(mesh, x);
    }
    return mesh;
}

static json_t *machines_json(const spec *s)
{
    if (!s->hosts.machine)
        return json_null();
    json_t *machines = json_array();
    for (uint32_t r = 0; r < s->ranks; r++)
        json_array_append_new(machines, json_integer(s->hosts.machine[r]));
    return machines;
}

/* What is there already; NULL: nothing. */
static json_t *read_whole(int folder)
{
    struct stat st;
    FILE *f = report_open(folder, NAME, false, &st);
    json_t *all = f && st.st_size < (off_t)EARLIER ? json_loadf(f, 0, NULL) : NULL;
    if (f)
        fclose(f);
    return all;
}

/* The list "begins" of an earlier part of the run; empty where there is none. */
static json_t *begins_before(int folder)
{
    json_t *all = read_whole(folder);
    json_t *begins = json_incref(json_object_get(all, "begins"));
    json_decref(all);
    if (json_is_array(begins))
        return begins;
    json_decref(begins);
    return json_array();
}

static json_t *begins_json(const run_begin *b, int folder)
{
    const int attempt = (int)job_attempt_number();
    json_t *begins = b->resumed || attempt > 1 ? begins_before(folder) : json_array();
    if (getrandom(&own, sizeof own, 0) != (ssize_t)sizeof own)
        own = 0;
    own &= (1LL << 53) - 1; /* as much as a number of JavaScript holds */
    json_array_append_new(begins, json_pack("{s:I, s:I, s:I, s:i, s:i}", "id", own, "time",
                                            (json_int_t)time(NULL), "after", (json_int_t)b->after,
                                            "attempt", attempt, "ranks", (int)b->job->spec.ranks));
    while (json_array_size(begins) > BEGINS)
        json_array_remove(begins, 0);
    return begins;
}

static json_t *record_json(const run_begin *b, int folder)
{
    const run_prepared *j = b->job;
    json_t *x = json_object();
    char *dump = config_dump(j->cfg);
    json_object_set_new(x, "version", json_integer(1)); /* members are added, never changed */
    json_object_set_new(x, "name", report_text(config_text(j->cfg, "run.name")));
    json_object_set_new(x, "ranks", json_integer(j->spec.ranks));
    json_object_set_new(x, "steps", json_integer((json_int_t)j->set.steps));
    json_object_set_new(x, "peak_flops", json_real(b->peak_flops));
    json_object_set_new(x, "begins", begins_json(b, folder));
    json_object_set_new(x, "job", report_text(dump));
    json_object_set_new(x, "environment", cli_environment());
    json_object_set_new(x, "mesh", mesh_json(&j->spec));
    json_object_set_new(x, "machines", machines_json(&j->spec));
    json_object_set_new(x, "plan", view_json(&j->plans, j->spec.ranks > ALL_RANKS));
    json_object_set_new(x, "schedule", view_schedule_json(&j->plans));
    json_object_set_new(x, "arena", view_arena_json(plan_of(&j->plans, 0)));
    free(dump);
    return x;
}

/* 0, or -1 with errno. */
static int write_whole(int folder, const json_t *x)
{
    unlinkat(folder, TEMPORARY, 0);
    const int fd =
        openat(folder, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return -1;
    struct stat before;
    if (!fstatat(folder, NAME, &before, AT_SYMLINK_NOFOLLOW) && S_ISREG(before.st_mode))
        fchmod(fd, before.st_mode & 0777);
    int bad = json_dumpf(x, f, JSON_COMPACT | JSON_REAL_PRECISION(9)) || fputc('\n', f) == EOF;
    bad |= fflush(f) || data_file_sync(fd);
    bad |= fclose(f);
    if (!bad && !renameat(folder, TEMPORARY, folder, NAME))
        return 0;
    const int error = errno;
    unlinkat(folder, TEMPORARY, 0);
    errno = error;
    return -1;
}

static int folder_of(const run_begin *b)
{
    return b->folder >= 0 ? b->folder : open(b->job->set.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* `x` NULL: nothing is to be written. */
static void put_record(const run_begin *b, int folder, json_t *x, const char *lacks)
{
    if (x && (folder < 0 || write_whole(folder, x)))
        log_line(WEFT_LOG_WARN, "%s/" NAME " cannot be written (%s): weft report will lack %s",
                 b->job->set.out, strerror(errno), lacks);
    json_decref(x);
    if (folder >= 0 && folder != b->folder)
        close(folder);
}

void report_record(const run_begin *b)
{
    if (b->after >= b->job->set.steps) /* resumed with nothing to do: no file changes */
        return;
    const int folder = folder_of(b);
    put_record(b, folder, record_json(b, folder), "the plan of this run");
}

/* False: the newest entry is not of this run. */
static bool note_end(json_t *x, const run_end *e)
{
    json_t *begins = json_object_get(x, "begins");
    json_t *last = json_array_get(begins, json_array_size(begins) - 1);
    if (!own || json_integer_value(json_object_get(last, "id")) != own)
        return false;
    json_object_set_new(last, "ended", json_integer((json_int_t)time(NULL)));
    json_object_set_new(last, "step", json_integer((json_int_t)e->step));
    json_object_set_new(last, "why", report_text(*e->why ? e->why : NULL));
    return true;
}

void report_record_end(const run_end *e)
{
    const int folder = folder_of(e->begin);
    json_t *x = folder >= 0 ? read_whole(folder) : NULL;
    if (!note_end(x, e)) {
        json_decref(x);
        x = NULL;
    }
    put_record(e->begin, folder, x, "the end of this run");
}
