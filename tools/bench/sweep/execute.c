/* bench/sweep/execute.c: plan one combination, then train it, in child processes (see sweep.h).
 *
 * A row's job is a copy of the sweep's config with the row's keys set. Planning is a fork that
 * answers through a pipe. Training is `weft train` with the job as a file, in a process group with
 * a deadline; its output goes to a log file. */
#define _GNU_SOURCE
#include "bench/sweep/sweep.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/number/digest.h"
#include "base/time/awake.h"
#include "base/time/pressure.h"
#include "config/differ.h"
#include "host/host.h"
#include "host/watch.h"
#include "run/prepare.h"
#include "view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_MS 250
#define PLAN_SECONDS 300
#define SAID_BYTES 65536 /* of the end of what a run said */

/* --- the job --- */

/* Does the reference on one rank take the key from a row? */
static bool is_of_reference(const config *cfg, const char *key)
{
    return strcmp(key, SWEEP_RANKS) && config_effect(cfg, key) & CONFIG_ALONE;
}

/* Set the keys of `settings` ("section.key=value"). */
static weft_status set_all(config *c, const char *const *settings)
{
    weft_status st = WEFT_OK;
    for (; *settings && st == WEFT_OK; settings++) {
        char key[64];
        const char *equals = strchr(*settings, '=');
        snprintf(key, sizeof key, "%.*s", (int)(equals - *settings), *settings);
        st = config_set(c, key, equals + 1, "weft bench");
    }
    return st;
}

static weft_status set_row(const bench_sweep *s, const bench_sweep_row *r, bool alone, config *c)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < s->ncolumns && st == WEFT_OK; i++) {
        const char *key = s->column[i].key;
        if (r->value[i] && strcmp(key, SWEEP_RANKS) && (!alone || r->plan.binding >> i & 1))
            st = config_set(c, key, r->value[i], s->axis[s->column[i].axis].where);
    }
    return st;
}

weft_status bench_sweep_job(const bench_sweep *s, const bench_sweep_row *r, bool alone,
                            const char *folder, config **out)
{
    static const char *const one[] = {"parallel.strategy=none", "optim.placement=none",
                                      "comm.compress=none", NULL};
    static const char *const quiet[] = {"train.eval_every=0", "checkpoint.every=0",
                                        "log.progress=0", "log.trace_steps=", NULL};
    char steps[24];
    config *c = config_copy(s->cfg, "sweep");
    config_share_command_line(c);
    weft_status st = set_row(s, r, alone, c);
    if (st == WEFT_OK && alone)
        st = set_all(c, one);
    if (st == WEFT_OK)
        st = set_all(c, quiet);
    snprintf(steps, sizeof steps, "%llu", (unsigned long long)(s->warmup + s->steps));
    if (st == WEFT_OK)
        st = config_set(c, "run.steps", steps, "sweep.steps");
    if (st == WEFT_OK && folder)
        st = config_set(c, "run.out", folder, "sweep.out");
    if (st == WEFT_OK)
        *out = c;
    else
        config_destroy(c);
    return st;
}

/* --- planning --- */

/* Plugins lie in folders named after their kind. Strategies are in the plan, with all that they do;
 * one rank uses no transport. */
static bool is_file_of_job(const char *path, bool alone)
{
    const char *file = strrchr(path, '/'), *kind = file;
    while (kind && kind > path && kind[-1] != '/')
        kind--;
    return !kind || (strncmp(kind, "parallel/", 9) && (!alone || strncmp(kind, "comm/", 5)));
}

/* A line of a strategy, or of a mesh axis with one coordinate. */
static bool is_in_plan(const graph_mesh *mesh, const char *line)
{
    bool is = !strncmp(line, "parallel.", 9);
    for (uint32_t a = 0; !is && a < mesh->n && !strncmp(line, "comm.", 5); a++) {
        const size_t n = strlen(mesh->name[a]);
        is = mesh->size[a] == 1 && !strncmp(line + 5, mesh->name[a], n) && line[5 + n] == '.';
    }
    return is;
}

/* A number of the lines in any order, which depends on when a plugin was looked at. */
static uint64_t digest_lines(const graph_mesh *mesh, char *text)
{
    uint64_t sum = 0;
    for (char *line; (line = strsep(&text, "\n"));) {
        uint64_t h = DIGEST_BEGIN;
        digest_mix(&h, line, strlen(line));
        sum += is_in_plan(mesh, line) ? 0 : h;
    }
    return sum;
}

/* A number of all that the job is: its keys; the mesh axes that split something; its plan; the
 * files of its plugins. Keys of plugins that it does not use are not in it, nor [comm] on one rank.
 */
static uint64_t identity_of(const config *cfg, const run_prepared *p)
{
    const host_file *files;
    const graph_mesh *mesh = &p->spec.mesh;
    uint32_t n = 0;
    const bool alone = p->spec.ranks == 1;
    uint64_t h = DIGEST_BEGIN, keys;
    for (uint32_t a = 0; a < mesh->n; a++) {
        if (mesh->size[a] == 1)
            continue;
        digest_mix(&h, mesh->name[a], strlen(mesh->name[a]) + 1);
        digest_mix(&h, &mesh->size[a], sizeof mesh->size[a]);
    }
    if (host_used_files(p->host, true, &files, &n) != WEFT_OK)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_file_of_job(files[i].path, alone))
            digest_mix(&h, files[i].digest, strlen(files[i].digest));
    char *text = config_dump_used(cfg, alone ? "comm" : NULL);
    keys = digest_lines(mesh, text);
    free(text);
    digest_mix(&h, &keys, sizeof keys);
    digest_mix(&h, &p->plans.digest, sizeof p->plans.digest);
    digest_mix(&h, &p->spec.ranks, sizeof p->spec.ranks);
    return h;
}

static bool has_former(const config *cfg)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (line.former)
            return true;
    return false;
}

static uint64_t digest_device(const config *cfg)
{
    config_line line;
    uint64_t sum = 0; /* in any order */
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++) {
        uint64_t h = DIGEST_BEGIN;
        digest_mix(&h, line.name, strlen(line.name) + 1);
        digest_mix(&h, line.value, strlen(line.value));
        sum += strcmp(line.section, "device") || line.stale ? 0 : h;
    }
    return sum;
}

/* Bytes of step number `step`, including the periodic lists that it runs. */
static uint64_t sent_in(const plan *p, uint64_t step)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->step.entries.n; i++) {
        const plan_entry *e = &p->step.entries.at[i];
        if (e->kind == ENTRY_START && plan_runs(p, e, step))
            sum += p->collectives.at[e->what].sent;
    }
    for (uint32_t i = 0; i < p->extra.n; i++)
        if (step % p->extra.at[i].every == 0)
            sum += view_traffic_of(p, &p->extra.at[i].l, VIEW_ANY, VIEW_ANY, VIEW_ANY).sent;
    return sum;
}

/* Bytes per step over the measured steps: periodic lists do not run in each. */
static void plan_here(const bench_sweep *s, config *cfg, uint32_t ranks, bench_sweep_plan *out)
{
    run_prepared p;
    log_setup(WEFT_LOG_ERROR, -1);
    out->status = run_prepare(cfg, ranks, true, NULL, &p);
    if (out->status == WEFT_OK && !p.spec.nsinks)
        out->status = config_fail(cfg, "log.sinks",
                                  "it names no sink, and a sweep reads OUT/metrics.jsonl of each "
                                  "run: name the sink that writes it (jsonl)");
    snprintf(out->why, sizeof out->why, "%s", out->status ? err_text() : "");
    if (out->status)
        return;
    out->ranks = p.spec.ranks;
    out->former = has_former(cfg);
    if (out->former && !s->former)
        resolve_warn_former(cfg);
    for (uint32_t i = 0; i < s->ncolumns; i++)
        out->binding |= (uint64_t)is_of_reference(cfg, s->column[i].key) << i;
    out->exact = p.spec.compute == WEFT_F32 && !p.plans.at[0].changes;
    out->peak = p.plans.peak;
    out->bubble = p.plans.stage_axis >= 0 ? view_bubble(&p.plans, false) : 0;
    for (uint32_t r = 0; r < p.spec.ranks; r++)
        out->flops += plan_of(&p.plans, r)->flops_step;
    out->flops_first = plan_of(&p.plans, 0)->flops_step;
    out->compute = p.spec.compute;
    out->device = digest_device(cfg);
    const char *threads = config_raw(cfg, "device.threads"); /* a number that it checked, or auto */
    out->threads = threads ? (uint32_t)strtoul(threads, NULL, 10) : 0;
    out->identity = identity_of(cfg, &p);
    for (uint64_t step = s->warmup + 1; step <= s->warmup + s->steps; step++)
        out->sent += sent_in(plan_of(&p.plans, 0), step);
    out->sent /= s->steps;
}

static int answer_to; /* in the child */

/* Planning has ended with this sentence: a plugin does not return (host/watch.h). */
static bool answer_late(const char *text)
{
    bench_sweep_plan late = {.status = WEFT_INTERNAL};
    snprintf(late.why, sizeof late.why, "%s", text);
    return write(answer_to, &late, sizeof late) == (ssize_t)sizeof late;
}

/* The answer of the child, or why there is none. */
static void receive_plan(int from, pid_t child, bench_sweep_plan *out)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    int status = 0;
    bool late = false;
    const uint64_t until = pressure_ms() + PLAN_SECONDS * 1000;
    while (!late && poll(&ready, 1, TICK_MS) <= 0)
        late = pressure_ms() >= until;
    if (late)
        kill(child, SIGKILL);
    bool whole = !late && read(from, out, sizeof *out) == (ssize_t)sizeof *out;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (whole)
        return;
    *out = (bench_sweep_plan){.status = WEFT_INTERNAL};
    if (late)
        snprintf(out->why, sizeof out->why, "planning took longer than %d seconds", PLAN_SECONDS);
    else
        snprintf(out->why, sizeof out->why, "planning ended with %s %d",
                 WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void plan_in_child(const bench_sweep *s, config *cfg, uint32_t ranks, bench_sweep_plan *out)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        *out = (bench_sweep_plan){.status = WEFT_IO, .why = "no pipe to plan through"};
        return;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bench_sweep_plan mine = {0};
        answer_to = ends[1];
        host_watch_report_to(answer_late);
        plan_here(s, cfg, ranks, &mine);
        _exit(write(ends[1], &mine, sizeof mine) == (ssize_t)sizeof mine ? 0 : 1);
    }
    close(ends[1]);
    if (child > 0)
        receive_plan(ends[0], child, out);
    else
        *out = (bench_sweep_plan){.status = WEFT_IO, .why = "no process to plan in"};
    close(ends[0]);
}

void bench_sweep_plan_row(const bench_sweep *s, bench_sweep_row *r, bool alone)
{
    config *cfg = NULL;
    const char *asked = bench_sweep_value(s, r, SWEEP_RANKS);
    const uint64_t ranks = alone ? 1 : asked ? strtoull(asked, NULL, 10) : 0;
    weft_status st = bench_sweep_job(s, r, alone, NULL, &cfg);
    if (st == WEFT_OK) {
        plan_in_child(s, cfg, (uint32_t)ranks, &r->plan);
    } else {
        r->plan.status = st;
        snprintf(r->plan.why, sizeof r->plan.why, "%s", err_text());
    }
    config_destroy(cfg);
    r->status = r->plan.status ? SWEEP_SKIPPED : SWEEP_WAITS;
    r->why = r->plan.why;
}

/* --- training --- */

/* What an earlier run has measured for the device, which this one would measure again. */
static weft_status give_peak(const bench_sweep *s, const bench_sweep_row *r, config *c)
{
    char text[32];
    const double peak = bench_sweep_peak(s, r);
    snprintf(text, sizeof text, "%.9g", peak * 1e-9);
    return peak > 0 && config_real(c, "log.peak_gflops") <= 0
               ? config_set(c, "log.peak_gflops", text, "weft bench")
               : WEFT_OK;
}

static weft_status write_job(const bench_sweep *s, const bench_sweep_row *r,
                             const bench_sweep_try *t, const char *path)
{
    config *cfg;
    weft_status st = bench_sweep_job(s, r, t->alone, t->folder, &cfg);
    if (st != WEFT_OK)
        return st;
    st = give_peak(s, r, cfg);
    char *text = config_written(cfg, "sweep");
    config_destroy(cfg);
    FILE *f = fopen(path, "we");
    bool bad = !f || fputs(text, f) == EOF;
    bad = (f && fclose(f)) || bad;
    free(text);
    return bad ? err_fail_errno(WEFT_IO, "%s cannot be written", path) : st;
}

static void become_train(uint32_t ranks, const char *file, const char *log)
{
    char number[16];
    snprintf(number, sizeof number, "%u", ranks);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int none = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (none < 0 || out < 0 || dup2(none, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        return;
    char *argv[] = {"weft", "train", "-n", number, (char *)(uintptr_t)file, NULL};
    execv("/proc/self/exe", argv);
}

/* Waits until the process ends; false: timeout. *pinned: the most processes of it that were seen
 * bound to a part of the processors. */
static bool stand_by(const bench_sweep *s, const bench_sweep_try *t, pid_t child, uint32_t *pinned)
{
    struct pollfd ended = {.fd = pidfd_open(child, 0), .events = POLLIN};
    const uint64_t until = awake_ms() + s->deadline * 1000;
    bool late = false, over = false;
    while (!over && !late && !*t->stop) {
        over = poll(&ended, 1, TICK_MS) > 0 || ended.fd < 0;
        late = !over && awake_ms() > until;
        const uint32_t now = over ? 0 : bench_sweep_bound_processes(child);
        *pinned = now > *pinned ? now : *pinned;
        t->tick(t->ctx);
    }
    if (!over) {
        kill(-child, SIGTERM);
        if (poll(&ended, 1, 3000) <= 0)
            kill(-child, SIGKILL);
    }
    if (ended.fd >= 0)
        close(ended.fd);
    return !late;
}

/* A line of the log behind the time with which it may begin: rows with equal reasons are equal. */
static char *without_time(char *line)
{
    char *end = line + strspn(line, "0123456789-:T.");
    return end > line && !strncmp(end, "Z ", 2) ? end + 2 : line;
}

/* The last line of the log that describes an error. The launcher, the ranks and the libraries of
 * the job all write there; what a line says decides nothing but which one is shown. */
static const char *last_words(bench_sweep *s, const char *log)
{
    char *text = pool_alloc(&s->pool, SAID_BYTES + 1), *found = NULL;
    FILE *f = fopen(log, "re");
    struct stat st;
    if (f && !fstat(fileno(f), &st) && st.st_size > SAID_BYTES)
        (void)!fseek(f, -SAID_BYTES, SEEK_END);
    if (f) {
        text[fread(text, 1, SAID_BYTES, f)] = 0;
        fclose(f);
    }
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *error = strstr(line, " error: ");
        if (error || (*line && !found))
            found = error ? error + 8 : without_time(line);
    }
    return found ? found : "no output";
}

static void set_outcome(bench_sweep *s, bench_sweep_row *r, const bench_sweep_try *t, int status,
                        bool in_time, const char *log)
{
    bool ended = WIFEXITED(status);
    if (*t->stop) {
        r->status = SWEEP_FAILED;
        r->why = "the sweep was stopped";
    } else if (!in_time) {
        r->status = SWEEP_FAILED;
        r->why =
            pool_printf(&s->pool, "not done after %llu seconds (sweep.deadline); last output: %s",
                        (unsigned long long)s->deadline, last_words(s, log));
    } else if (!ended || WEXITSTATUS(status)) {
        r->status = ended && WEXITSTATUS(status) == 77 ? SWEEP_SKIPPED : SWEEP_FAILED;
        r->why = ended ? last_words(s, log)
                       : pool_printf(&s->pool, "ended by signal %d", WTERMSIG(status));
    } else if (bench_sweep_measure(s, r, t)) {
        r->status = SWEEP_DONE;
    } else if (access(pool_printf(&s->pool, "%s/metrics.jsonl", t->folder), F_OK)) {
        r->status = SWEEP_FAILED;
        r->why = pool_printf(&s->pool,
                             "%s has no metrics.jsonl, which a sweep reads: log.sinks has to name "
                             "the sink that writes it (jsonl)",
                             t->folder);
    } else {
        r->status = SWEEP_FAILED;
        r->why = pool_printf(&s->pool, "%s/metrics.jsonl has not all of the %llu steps", t->folder,
                             (unsigned long long)(s->warmup + s->steps));
    }
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

/* The processors that others kept busy meanwhile, and the memory of the largest of its processes,
 * which the launcher has waited for. */
static void note_use(bench_sweep_row *r, const struct rusage *used, double wall, double busy)
{
    const double own = seconds_of(used->ru_utime) + seconds_of(used->ru_stime);
    const double others = (busy - own) / wall;
    const uint64_t resident = (uint64_t)used->ru_maxrss * 1024;
    r->other_cores = others > r->other_cores ? others : r->other_cores;
    r->resident = resident > r->resident ? resident : r->resident;
}

void bench_sweep_run(bench_sweep *s, bench_sweep_row *r, const bench_sweep_try *t)
{
    char *file = pool_printf(&s->pool, "%s.ini", t->folder);
    char *log = pool_printf(&s->pool, "%s.log", t->folder);
    int status = 0;
    if (write_job(s, r, t, file) != WEFT_OK) {
        r->status = SWEEP_FAILED;
        r->why = pool_text(&s->pool, err_text());
        return;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        become_train(t->alone ? 1 : r->plan.ranks, file, log);
        _exit(126);
    }
    if (child < 0) {
        r->status = SWEEP_FAILED;
        r->why = "no process to train in";
        return;
    }
    setpgid(child, child);
    const uint64_t began = clock_ns();
    const double busy = bench_sweep_busy_seconds();
    uint32_t pinned = 0;
    bool in_time = stand_by(s, t, child, &pinned);
    r->pinned = !r->looked || pinned < r->pinned ? pinned : r->pinned;
    r->looked = true;
    struct rusage used = {0};
    while (wait4(child, &status, 0, &used) < 0 && errno == EINTR)
        ;
    note_use(r, &used, (double)(clock_ns() - began) * 1e-9, bench_sweep_busy_seconds() - busy);
    set_outcome(s, r, t, status, in_time, log);
}
