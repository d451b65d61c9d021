/* doctor/doctor.c: the table of checks, in the order of the report, and the loop over it. A check
 * may read the facts of earlier checks. */
#include "doctor/checks/checks.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_SECONDS 20

typedef struct doctor_check {
    const char *id, *title;
    void (*run)(doctor *d);
    bool sandboxed; /* it calls libraries or plugins, so it runs in a child process */
} doctor_check;

static const doctor_check checks[] = {
    {"job", "the job's plan", doctor_check_job, true},
    {"system", "kernel and program", doctor_check_system, false},
    {"processor", "CPUs, and how many this process may use", doctor_check_processor, false},
    {"frequency", "governor and turbo", doctor_check_frequency, false},
    {"clock", "the clock source", doctor_check_clock, false},
    {"topology", "packages, NUMA nodes, caches, location of devices", doctor_check_topology, true},
    {"memory", "memory, swap, overcommit", doctor_check_memory, false},
    {"hugepages", "transparent and reserved huge pages", doctor_check_huge_pages, false},
    {"limits", "locked memory, open files", doctor_check_limits, false},
    {"container", "CPU and memory limits of control groups", doctor_check_container, false},
    {"network", "interfaces: link, speed, MTU, slot", doctor_check_network, false},
    {"sockets", "buffers and queues of TCP", doctor_check_sockets, false},
    {"rdma", "RDMA ports, rates, GIDs", doctor_check_rdma, false},
    {"gpus", "GPUs and their driver", doctor_check_gpus, false},
    {"libcuda", "the driver's library", doctor_check_libcuda, true},
    {"libnccl", "the collective library for GPUs", doctor_check_libnccl, true},
    {"libucp", "UCX, and how the site has set it up", doctor_check_libucp, true},
    {"shared", "the size of /dev/shm", doctor_check_shared, false},
    {"peers", "whether ranks of this machine can map each other's memory", doctor_check_peers,
     true},
    {"plugins", "which devices and transports can work here", doctor_check_plugins, true},
    {"fit", "whether the job fits", doctor_check_fit, false}, /* last: doctor_fit() repeats it */
};

const char *doctor_check_at(uint32_t i, const char **title)
{
    if (i >= sizeof checks / sizeof checks[0])
        return NULL;
    *title = checks[i].title;
    return checks[i].id;
}

typedef struct one {
    doctor *d;
    const doctor_check *check;
} one;

static json_t *run_one(void *ctx)
{
    one *x = ctx;
    doctor_begin_check(x->d, x->check->id, x->check->title);
    x->check->run(x->d);
    return x->d->check;
}

static void run_check_sandboxed(doctor *d, const doctor_check *c)
{
    char why[256];
    one x = {d, c};
    d->check = doctor_run_sandboxed(run_one, &x, CHECK_SECONDS, why, sizeof why);
    if (d->check && json_is_array(json_object_get(d->check, "findings")))
        return;
    json_decref(d->check);
    doctor_begin_check(d, c->id, c->title);
    doctor_add_line(d, "unknown: the check did not complete");
    doctor_add_finding(d, DOCTOR_WARNING, "the check '%s' %s", c->title, why);
    doctor_add_reason(
        d, "The check calls a library; a job that uses this library would fail in the same way.");
    doctor_add_command(
        d, "weft doctor --json 2>&1 >/dev/null; ldconfig -p | grep -E 'hwloc|cuda|nccl'");
}

static void run_checks(doctor *d)
{
    for (uint32_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        one x = {d, &checks[i]};
        if (checks[i].sandboxed)
            run_check_sandboxed(d, &checks[i]);
        else
            run_one(&x);
        doctor_end_check(d);
        if (!i && doctor_fact_number(d, "job", "usage", 0))
            return; /* the job file is invalid */
    }
}

static json_t *whole_report(const doctor *d)
{
    char host[128] = "", boot[64] = "";
    doctor_read_text(d, host, sizeof host, "/proc/sys/kernel/hostname");
    doctor_read_text(d, boot, sizeof boot, "/proc/sys/kernel/random/boot_id");
    return json_pack("{s:i, s:s, s:o, s:o, s:O}", "version", 1, "weft", WEFT_VERSION, "host",
                     doctor_json_text("%s", *host ? host : "?"), "boot",
                     doctor_json_text("%s", boot), "checks", d->done);
}

void doctor_fit(const doctor_job *job, json_t *report)
{
    const char *root = getenv("WEFT_DOCTOR_ROOT");
    doctor d = {.root = root ? root : "", .job = job, .done = json_object_get(report, "checks")};
    const doctor_check *fit = &checks[sizeof checks / sizeof checks[0] - 1];
    const size_t last = json_array_size(d.done) - 1;
    if (strcmp(doctor_report_text(json_array_get(d.done, last), "id"), fit->id) != 0)
        return;
    json_array_remove(d.done, last);
    json_t *plan = json_object_get(json_array_get(d.done, 0), "facts");
    if (json_object_get(plan, "here"))
        json_object_set_new(plan, "here", json_integer(job->here));
    run_one(&(one){&d, fit});
    doctor_end_check(&d);
    pool_free(&d.pool);
}

weft_status doctor_examine(const doctor_job *job, json_t **out)
{
    const char *root = getenv("WEFT_DOCTOR_ROOT");
    doctor d = {.root = root ? root : "", .job = job, .done = json_array()};
    run_checks(&d);
    weft_status st = WEFT_OK;
    *out = NULL;
    if (doctor_fact_number(&d, "job", "usage", 0))
        st = err_fail(WEFT_USAGE, "%s", doctor_fact_text(&d, "job", "error"));
    else
        *out = whole_report(&d);
    json_decref(d.done);
    pool_free(&d.pool);
    return st;
}
