/* doctor/checks/job.c: the job's plan, and whether this machine meets its needs. The plan is made
 * first, in a child process, because planning opens plugins; the check "fit" then compares it with
 * the facts of the other checks. */
#include "doctor/checks/checks.h"

#include "base/err.h"
#include "host/watch.h"
#include "launch/hosts/ssh.h"
#include "resolve/topology.h"
#include "run/prepare.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <weft/device.h>
#include <weft/link.h>

/* --- the plan --- */

/* Errors in the file itself, which no setting of this machine can fix. */
static weft_status check_file(const config *given)
{
    spec s = {0};
    config *cfg = config_copy(given, NULL);
    host *h = NULL;
    host_limits_set(cfg);
    weft_status st = host_create(config_raw(cfg, "run.plugins"), &h);
    if (st == WEFT_OK)
        st = resolve_plugins(cfg, h, &s);
    resolve_free(&s);
    host_destroy(h);
    config_destroy(cfg);
    return st;
}

/* Upper bound of the file descriptors of rank 0: one per channel and peer, those of the store, and
 * others. */
static int64_t descriptors(const plan *p)
{
    uint32_t *ranks = mem_alloc(p->spec->ranks * sizeof *ranks), me;
    int64_t n = 64 + (int64_t)p->spec->ranks;
    for (uint32_t i = 0; i < p->channels.n; i++) {
        const spec_link *l = &p->spec->links[p->channels.at[i].link];
        const weft_link_table *far = resolve_collective_library(l) ? NULL : l->c->table;
        uint32_t members = plan_group(p, i, 0, ranks, &me);
        if (members && far && !(far->caps & WEFT_LINK_LOCAL))
            n += members - 1;
    }
    free(ranks);
    return n;
}

/* Bytes of a checkpoint of the whole job: each parameter and state once, in fp32. */
static uint64_t checkpoint_bytes(const plan_set *p)
{
    double bytes = 0;
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < p->at[i].pieces.n; k++) {
            const plan_piece *x = &p->at[i].pieces.at[k];
            double n = x->writer == PLAN_WRITER_ELSEWHERE ? 0 : 4;
            for (uint32_t a = 0; a < x->shape.rank; a++)
                n *= (double)x->shape.axes[a].size;
            bytes += n;
        }
    return bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
}

static void report_disk(doctor *d, const run_prepared *p)
{
    doctor_add_text(d, "out", "%s", config_text(p->cfg, "run.out"));
    if (!config_int(p->cfg, "checkpoint.every"))
        return;
    doctor_add_number(d, "checkpoint", (int64_t)checkpoint_bytes(&p->plans));
    doctor_add_number(d, "checkpoints", config_int(p->cfg, "checkpoint.keep") + 1);
}

static uint32_t here_of(const doctor_job *j, uint32_t ranks)
{
    return j->here && j->here < ranks ? j->here : ranks;
}

static void report_plan(doctor *d, const run_prepared *p)
{
    const spec *s = &p->spec;
    uint64_t caps = 0;
    for (uint32_t i = 0; s->ranks > 1 && i < s->nlinks; i++)
        caps |= resolve_link_caps(s, &s->links[i]) | resolve_intra_caps(s, &s->links[i]);
    const weft_device_table *device = s->device.c->table;
    const char *threads = config_raw(p->cfg, "device.threads");
    doctor_add_line(d, "%u rank%s, with an arena of up to %s each", s->ranks,
                    s->ranks == 1 ? "" : "s", mem_size(p->plans.peak).text);
    if (s->comm_choice)
        doctor_add_line(d, "%s", s->comm_choice);
    if (s->comm_why)
        doctor_add_line(d, "%s", s->comm_why);
    doctor_add_number(d, "ranks", s->ranks);
    doctor_add_number(d, "here", here_of(d->job, s->ranks));
    doctor_add_number(d, "peak", (int64_t)p->plans.peak);
    doctor_add_number(d, "on_host", (device->caps & WEFT_DEV_HOST_MEMORY) != 0);
    doctor_add_number(d, "registers", (caps & WEFT_LINK_REGISTER) != 0);
    doctor_add_number(d, "descriptors", descriptors(&p->plans.at[0]));
    doctor_add_number(d, "threads", threads ? strtol(threads, NULL, 10) : 0);
}

void doctor_check_job(doctor *d)
{
    const doctor_job *j = d->job;
    if (!j) {
        doctor_add_unknown(d,
                           "no job was named; weft doctor JOB.ini also checks whether a job fits");
        return;
    }
    config *cfg = config_copy(j->cfg, NULL);
    if (check_file(cfg) != WEFT_OK) {
        doctor_add_number(d, "usage", 1);
        doctor_add_text(d, "error", "%s", err_text());
        config_destroy(cfg);
        return;
    }
    run_prepared p;
    job_hosts hosts = {0};
    const resolve_meeting elsewhere = {.hosts = &hosts};
    bool several = j->here && j->here < j->ranks;
    if (several)
        job_even_hosts(j->ranks, (j->ranks + j->here - 1) / j->here, &hosts);
    if (run_prepare(cfg, j->ranks, true, several ? &elsewhere : NULL, &p) != WEFT_OK) {
        doctor_add_line(d, "%s is refused", j->ini);
        doctor_add_finding(d, DOCTOR_PROBLEM, "%s", err_text());
        doctor_add_reason(d, "weft train refuses the job before it starts a rank.");
        doctor_add_command(d, "weft plan %s", j->ini);
    } else {
        report_plan(d, &p);
        report_disk(d, &p);
    }
    run_unprepare(&p);
    job_free_hosts(&hosts);
    config_destroy(cfg);
}

/* --- does it fit? --- */

static void fit_memory(doctor *d, int64_t here, int64_t peak)
{
    int64_t free = doctor_fact_number(d, "memory", "available", -1),
            group = doctor_fact_number(d, "container", "memory_free", INT64_MAX),
            promise = doctor_fact_number(d, "memory", "promisable", INT64_MAX);
    if (free < 0)
        return;
    const char *of = "the machine has available";
    if (group < free) {
        free = group;
        of = "its control group leaves";
    }
    if (promise < free) {
        free = promise;
        of = "the kernel will promise";
    }
    const double need = (double)here * (double)peak;
    const mem_size_text all = mem_size(need);
    doctor_add_line(d, "memory: %s of the %s that %s", all.text, mem_size(free).text, of);
    if (need <= 0.9 * (double)free)
        return;
    doctor_add_finding(d, need > (double)free ? DOCTOR_PROBLEM : DOCTOR_WARNING,
                       "%" PRId64 " rank%s with %s each need %s of the %s that %s", here,
                       here == 1 ? "" : "s", mem_size(peak).text, all.text, mem_size(free).text,
                       of);
    doctor_add_reason(d, "Each rank writes its whole arena before the first step. Without enough "
                         "memory the rank fails there, or the kernel kills a process.");
    doctor_add_command(
        d,
        "weft plan %s  # then lower train.microbatch, set train.recompute=block, or take "
        "more machines",
        d->job->ini);
}

/* The keys of the command line, " train.batch=64", as they are typed again. */
static const char *typed(pool *p, const config *cfg)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._-+,:/@%=";
    const char *all = "";
    config_line line;
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++) {
        const char *word = pool_printf(p, "%s=%s", line.name, line.value);
        if (line.typed && !line.stale)
            all = pool_printf(p, "%s %s", all,
                              word[strspn(word, plain)] ? launch_quote(p, word) : word);
    }
    return all;
}

/* With threads = auto a rank uses its share of the cores, and at least one. */
static void fit_cores(doctor *d, int64_t here)
{
    const int64_t time = doctor_fact_number(d, "container", "thousandths", 0);
    int64_t cpus = doctor_fact_number(d, "processor", "allowed", 0),
            all = doctor_fact_number(d, "processor", "cpus", 0),
            cores = doctor_fact_number(d, "topology", "cores", 0),
            own = doctor_fact_number(d, "job", "threads", 0);
    if (cores <= 0 || cores > cpus || cpus < all)
        cores = cpus; /* for a subset of the CPUs the number of cores is unknown */
    if (cores <= 0)
        return;
    int64_t share = cores / here; /* as the cpu device divides them */
    if (time > 0 && time / 1000 / here < share)
        share = time / 1000 / here;
    int64_t threads = own > 0 ? own : share > 0 ? share : 1;
    doctor_add_line(
        d, "threads: %" PRId64 " for each of %" PRId64 " rank%s that share %" PRId64 " core%s",
        threads, here, here == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
    if (threads <= cores / here)
        return;
    doctor_add_finding(d, DOCTOR_WARNING,
                       "%" PRId64 " ranks with %" PRId64 " thread%s each share %" PRId64 " cores",
                       here, threads, threads == 1 ? "" : "s", cores);
    doctor_add_reason(d, "Ranks that wait for each other share a core, and each context switch "
                         "costs milliseconds. Threads are then not pinned.");
    pool p = {0};
    doctor_add_command(
        d, "weft train -n %" PRId64 " %s%s%s", cores, d->job->ini, typed(&p, d->job->cfg),
        d->job->here && d->job->here < d->job->ranks ? "  # that many on each machine" : "");
    pool_free(&p);
}

static void fit_locked(doctor *d, int64_t peak)
{
    int64_t may = doctor_fact_number(d, "limits", "locked", INT64_MAX);
    if (!doctor_fact_number(d, "job", "registers", 0) || peak <= may)
        return;
    doctor_add_finding(d, DOCTOR_PROBLEM, "a rank needs %s of locked memory, and its limit is %s",
                       mem_size(peak).text, mem_size(may).text);
    doctor_add_reason(d, "The transport registers the arena with its device, and the kernel "
                         "refuses that above the limit.");
    doctor_add_command(d,
                       "ulimit -l unlimited  # if refused: echo '* - memlock unlimited' | sudo tee "
                       "/etc/security/limits.d/weft.conf, then log in again");
}

static void fit_files(doctor *d)
{
    int64_t need = doctor_fact_number(d, "job", "descriptors", 0),
            may = doctor_fact_number(d, "limits", "files", INT64_MAX),
            max = doctor_fact_number(d, "limits", "files_most", INT64_MAX);
    if (need <= may)
        return;
    doctor_add_finding(d, DOCTOR_WARNING,
                       "rank 0 may have up to %" PRId64 " files open, and its limit is %" PRId64,
                       need, may);
    doctor_add_reason(d, "Each connection to another rank needs one descriptor.");
    if (need <= max)
        doctor_add_command(d, "ulimit -n %" PRId64, max < 1048576 ? max : 1048576);
    else
        doctor_add_command(d, DOCTOR_RAISE_FILES);
}

/* The file system of the folder, or of its nearest existing parent. */
static bool disk_of(const char *folder, char path[PATH_MAX], struct statvfs *s)
{
    snprintf(path, PATH_MAX, "%s", folder);
    while (statvfs(path, s)) {
        char *cut = strrchr(path, '/');
        if (!strcmp(path, ".") || !strcmp(path, "/"))
            return false;
        if (!cut)
            snprintf(path, PATH_MAX, ".");
        else
            cut[cut == path] = 0;
    }
    return true;
}

/* The newest checkpoint is complete before the oldest is removed, so there is one more than
 * checkpoint.keep. */
static void fit_disk(doctor *d)
{
    char path[PATH_MAX];
    struct statvfs s;
    const double each = (double)doctor_fact_number(d, "job", "checkpoint", 0),
                 n = (double)doctor_fact_number(d, "job", "checkpoints", 0);
    if (!disk_of(doctor_fact_text(d, "job", "out"), path, &s))
        return;
    const double free = (double)s.f_bavail * (double)s.f_frsize;
    if (each <= 0 || each * n <= free)
        return;
    doctor_add_finding(d, DOCTOR_WARNING,
                       "%.0f checkpoints of %s need more than the %s that are free in %s", n,
                       mem_size(each).text, mem_size(free).text, path);
    doctor_add_reason(d,
                      "The run ends when a checkpoint cannot be written; earlier ones stay intact. "
                      "If the folder is local to each machine, each holds only its own part.");
    doctor_add_command(
        d,
        "df -h %s  # then use another folder: run.out=DIR, or fewer checkpoints: checkpoint.keep=1",
        path);
}

void doctor_check_fit(doctor *d)
{
    int64_t here = doctor_fact_number(d, "job", "here", 0),
            peak = doctor_fact_number(d, "job", "peak", 0);
    const int64_t share = d->job && d->job->share ? d->job->share : here;
    if (here <= 0) {
        doctor_add_unknown(d, "%s",
                           d->job ? "unknown, because there is no plan" : "no job was named");
        return;
    }
    if (doctor_fact_number(d, "job", "on_host", 0)) {
        fit_memory(d, here, peak);
        fit_cores(d, share);
    }
    fit_locked(d, peak);
    fit_files(d);
    fit_disk(d);
}
