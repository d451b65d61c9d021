/* doctor/checks/job.c: the job's plan, and whether what it needs is here. The plan is made first,
 * in a process of its own (it opens plugins); what the other checks have found is then held against
 * it.
 */
#include "doctor/internal.h"

#include "base/err.h"
#include "resolve/topology.h"
#include "run/train.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <weft/device.h>
#include <weft/link.h>

/* --- the plan --- */

/* What is wrong in the file alone: nothing of this machine can help. */
static weft_status check_file(const doctor_job *j)
{
    spec s = {0};
    config *cfg;
    host *h = NULL;
    weft_status st = config_load(j->ini, j->overrides, j->noverrides, &cfg);
    if (st)
        return st;
    st = host_create(config_raw(cfg, "run.plugins"), &h);
    if (!st)
        st = resolve_plugins(cfg, h, &s);
    resolve_free(&s);
    host_destroy(h);
    config_destroy(cfg);
    return st;
}

/* Descriptors that rank 0 has open at most: a connection a channel and peer, the store's, others.
 */
static int64_t descriptors(const plan *p)
{
    uint32_t *ranks = mem_alloc(p->spec->ranks * sizeof *ranks), me;
    int64_t n = 64 + (int64_t)p->spec->ranks;
    for (uint32_t i = 0; i < p->channels.n; i++) {
        const spec_link *l = &p->spec->links[p->channels.at[i].link];
        const weft_link_table *far = where_coll(l) ? NULL : l->c->table;
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
            const piece *x = &p->at[i].pieces.at[k];
            double n = x->writer == WRITER_ELSEWHERE ? 0 : 4;
            for (uint32_t a = 0; a < x->shape.rank; a++)
                n *= (double)x->shape.axes[a].size;
            bytes += n;
        }
    return bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
}

static void tell_disk(doctor *d, const prepared_job *p)
{
    tell_fact(d, "out", "%s", config_text(p->cfg, "run.out"));
    if (!config_int(p->cfg, "checkpoint.every"))
        return;
    tell_number(d, "checkpoint", (int64_t)checkpoint_bytes(&p->plans));
    tell_number(d, "checkpoints", config_int(p->cfg, "checkpoint.keep") + 1);
}

static uint32_t here_of(const doctor_job *j, uint32_t ranks)
{
    return j->here && j->here < ranks ? j->here : ranks;
}

static void tell_plan(doctor *d, const prepared_job *p)
{
    const spec *s = &p->spec;
    uint64_t caps = 0;
    for (uint32_t i = 0; s->ranks > 1 && i < s->nlinks; i++)
        caps |= where_caps(s, &s->links[i]) | where_near_caps(s, &s->links[i]);
    const weft_device_table *device = s->device.c->table;
    const char *threads = config_raw(p->cfg, "device.threads");
    tell_line(d, "%u rank%s, with an arena of up to %s each", s->ranks, s->ranks == 1 ? "" : "s",
              tell_size(p->plans.peak));
    if (s->comm_choice)
        tell_line(d, "%s", s->comm_choice);
    tell_number(d, "ranks", s->ranks);
    tell_number(d, "here", here_of(d->job, s->ranks));
    tell_number(d, "peak", (int64_t)p->plans.peak);
    tell_number(d, "on_host", (device->caps & WEFT_DEV_HOST_MEMORY) != 0);
    tell_number(d, "registers", (caps & WEFT_LINK_REGISTER) != 0);
    tell_number(d, "descriptors", descriptors(&p->plans.at[0]));
    tell_number(d, "threads", threads ? strtol(threads, NULL, 10) : 0);
}

void check_job(doctor *d)
{
    const doctor_job *j = d->job;
    if (!j) {
        tell_line(d, "none was named: weft doctor JOB.ini says whether it fits, too");
        return;
    }
    if (check_file(j)) {
        tell_number(d, "usage", 1);
        tell_fact(d, "error", "%s", err_text());
        return;
    }
    prepared_job p;
    job_sites sites = {0};
    const resolve_meeting apart = {.sites = &sites};
    bool several = j->here && j->here < j->ranks;
    if (several)
        job_even_sites(j->ranks, (j->ranks + j->here - 1) / j->here, &sites);
    if (job_prepare(j->ini, j->overrides, j->noverrides, j->ranks, true, several ? &apart : NULL,
                    &p)) {
        tell_line(d, "%s is refused", j->ini);
        tell(d, DOCTOR_PROBLEM, "%s", err_text());
        tell_why(d, "weft train refuses the job before it starts a rank.");
        tell_type(d, "weft plan %s", j->ini);
    } else {
        tell_plan(d, &p);
        tell_disk(d, &p);
    }
    job_unprepare(&p);
    job_free_sites(&sites);
}

/* --- does it fit? --- */

static void fit_memory(doctor *d, int64_t here, int64_t peak)
{
    int64_t free = see_fact(d, "memory", "available", -1),
            group = see_fact(d, "container", "memory_free", INT64_MAX),
            promise = see_fact(d, "memory", "promisable", INT64_MAX);
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
    const char *all = tell_size(need < 1e18 ? (uint64_t)need : 1ull << 59);
    tell_line(d, "memory: %s of the %s that %s", all, tell_size((uint64_t)free), of);
    if (need <= 0.9 * (double)free)
        return;
    tell(d, need > (double)free ? DOCTOR_PROBLEM : DOCTOR_WARNING,
         "%" PRId64 " rank%s with %s each need %s of the %s that %s", here, here == 1 ? "" : "s",
         tell_size((uint64_t)peak), all, tell_size((uint64_t)free), of);
    tell_why(d, "The arena of each rank is touched before the first step; what is missing ends it "
                "there, or has the kernel kill a process.");
    tell_type(d,
              "weft plan %s  # then lower train.microbatch, set train.recompute=block, or take "
              "more machines",
              d->job->ini);
}

/* With threads = auto a rank takes its share of the cores, and one at least. */
static void fit_cores(doctor *d, int64_t here)
{
    const int64_t time = see_fact(d, "container", "thousandths", 0);
    int64_t cpus = see_fact(d, "processor", "allowed", 0),
            all = see_fact(d, "processor", "cpus", 0), cores = see_fact(d, "topology", "cores", 0),
            own = see_fact(d, "job", "threads", 0);
    if (cores <= 0 || cores > cpus || cpus < all)
        cores = cpus; /* of a part of the CPUs it is not known how many share a core */
    if (cores <= 0)
        return;
    int64_t share = cores / here; /* as the cpu device divides them */
    if (time > 0 && time / 1000 / here < share)
        share = time / 1000 / here;
    int64_t threads = own > 0 ? own : share > 0 ? share : 1;
    tell_line(d,
              "threads: %" PRId64 " for each of %" PRId64 " rank%s that share %" PRId64 " core%s",
              threads, here, here == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
    if (threads <= cores / here)
        return;
    tell(d, DOCTOR_WARNING,
         "%" PRId64 " ranks with %" PRId64 " thread%s each share %" PRId64 " cores", here, threads,
         threads == 1 ? "" : "s", cores);
    tell_why(d, "Ranks that wait for each other take turns on a core, and each turn costs "
                "milliseconds; no thread is pinned then.");
    tell_type(d, "weft train -n %" PRId64 " %s", cores, d->job->ini);
}

static void fit_locked(doctor *d, int64_t peak)
{
    int64_t may = see_fact(d, "limits", "locked", INT64_MAX);
    if (!see_fact(d, "job", "registers", 0) || peak <= may)
        return;
    tell(d, DOCTOR_PROBLEM, "a rank has to lock %s, and may lock %s", tell_size((uint64_t)peak),
         tell_size((uint64_t)may));
    tell_why(d, "The transport registers the arena with its device, and the kernel refuses.");
    tell_type(d, "ulimit -l unlimited  # refused? echo '* - memlock unlimited' | sudo tee "
                 "/etc/security/limits.d/weft.conf, then log in again");
}

static void fit_files(doctor *d)
{
    int64_t need = see_fact(d, "job", "descriptors", 0),
            may = see_fact(d, "limits", "files", INT64_MAX),
            most = see_fact(d, "limits", "files_most", INT64_MAX);
    if (need <= may)
        return;
    tell(d, DOCTOR_WARNING,
         "rank 0 may have up to %" PRId64 " files open, and its limit is %" PRId64, need, may);
    tell_why(d, "Each connection with another rank is one.");
    if (need <= most)
        tell_type(d, "ulimit -n %" PRId64, most < 1048576 ? most : 1048576);
    else
        tell_type(d,
                  "echo '* - nofile 1048576' | sudo tee /etc/security/limits.d/weft.conf  # then "
                  "log in again");
}

/* The file system that the folder is on, or will be: that of the nearest one above it. */
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

/* The newest is complete before the oldest goes, so there is one more than is kept. */
static void fit_disk(doctor *d)
{
    char path[PATH_MAX];
    struct statvfs s;
    const double each = (double)see_fact(d, "job", "checkpoint", 0),
                 n = (double)see_fact(d, "job", "checkpoints", 0);
    if (!disk_of(see_fact_text(d, "job", "out"), path, &s))
        return;
    const double free = (double)s.f_bavail * (double)s.f_frsize;
    if (each <= 0 || each * n <= free)
        return;
    tell(d, DOCTOR_WARNING, "%.0f checkpoints of %s are more than the %s that are free in %s", n,
         tell_size((uint64_t)each), tell_size((uint64_t)free), path);
    tell_why(d, "The run ends when one cannot be written, with those before it intact. Where the "
                "folder is every machine's own, each holds its part alone.");
    tell_type(d, "df -h %s  # then a folder elsewhere: run.out=DIR, or fewer: checkpoint.keep=1",
              path);
}

void check_fit(doctor *d)
{
    int64_t here = see_fact(d, "job", "here", 0), peak = see_fact(d, "job", "peak", 0);
    const int64_t share = d->job && d->job->share ? d->job->share : here;
    if (here <= 0) {
        tell_line(d, "%s", d->job ? "not known without a plan" : "no job was named");
        return;
    }
    if (see_fact(d, "job", "on_host", 0)) {
        fit_memory(d, here, peak);
        fit_cores(d, share);
    }
    fit_locked(d, peak);
    fit_files(d);
    fit_disk(d);
}
