/* doctor/doctor.c: the table of checks, and the walk over it (see doctor.h). The order is that of
 * the report; a check may ask for facts of those before it. */
#include "doctor/internal.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_SECONDS 20

static const doctor_check checks[] = {
    {"job", "the job's plan", check_job, true},
    {"system", "kernel and program", check_system, false},
    {"processor", "CPUs, and how many this process may use", check_processor, false},
    {"frequency", "governor and turbo", check_frequency, false},
    {"clock", "the source of time", check_clock, false},
    {"topology", "packages, NUMA nodes, caches, where devices are", check_topology, true},
    {"memory", "memory, swap, overcommitment", check_memory, false},
    {"hugepages", "transparent and reserved huge pages", check_huge_pages, false},
    {"limits", "locked memory, open files", check_limits, false},
    {"container", "CPU and memory limits of control groups", check_container, false},
    {"network", "interfaces: link, speed, MTU, slot", check_network, false},
    {"sockets", "buffers and queues of the kernel's TCP", check_sockets, false},
    {"rdma", "RDMA ports, rates, GIDs", check_rdma, false},
    {"gpus", "GPUs and their driver", check_gpus, false},
    {"libcuda", "the driver's library", check_libcuda, true},
    {"libnccl", "the collective library for GPUs", check_libnccl, true},
    {"shared", "the size of /dev/shm", check_shared, false},
    {"peers", "whether ranks of this machine may map each other's memory", check_peers, true},
    {"plugins", "which devices and transports can work here", check_plugins, true},
    {"fit", "whether the job fits", check_fit, false},
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
    tell_begin(x->d, x->check->id, x->check->title);
    x->check->run(x->d);
    return x->d->check;
}

static void run_check_apart(doctor *d, const doctor_check *c)
{
    char why[256];
    one x = {d, c};
    d->check = run_apart(run_one, &x, CHECK_SECONDS, why, sizeof why);
    if (d->check && json_is_array(json_object_get(d->check, "findings")))
        return;
    json_decref(d->check);
    tell_begin(d, c->id, c->title);
    tell_line(d, "could not be found out");
    tell(d, DOCTOR_WARNING, "looking at %s %s", c->title, why);
    tell_why(d,
             "It calls code that is not weft's, and a job that uses the same would end likewise.");
    tell_type(d, "weft doctor --json 2>&1 >/dev/null; ldconfig -p | grep -E 'hwloc|cuda|nccl'");
}

static void run_checks(doctor *d)
{
    for (uint32_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        one x = {d, &checks[i]};
        if (checks[i].apart)
            run_check_apart(d, &checks[i]);
        else
            run_one(&x);
        tell_end(d);
        if (!i && see_fact(d, "job", "usage", 0))
            return; /* the request is wrong */
    }
}

static json_t *whole_report(const doctor *d)
{
    char host[128] = "", boot[64] = "";
    see_text(d, host, sizeof host, "/proc/sys/kernel/hostname");
    see_text(d, boot, sizeof boot, "/proc/sys/kernel/random/boot_id");
    return json_pack("{s:s, s:o, s:o, s:O}", "weft", WEFT_VERSION, "host",
                     tell_text("%s", *host ? host : "?"), "boot", tell_text("%s", boot), "checks",
                     d->done);
}

void doctor_fit(const doctor_job *job, json_t *report)
{
    const char *root = getenv("WEFT_DOCTOR_ROOT");
    doctor d = {.root = root ? root : "", .job = job, .done = json_object_get(report, "checks")};
    const doctor_check *fit = &checks[sizeof checks / sizeof checks[0] - 1];
    const size_t last = json_array_size(d.done) - 1;
    if (strcmp(report_text(json_array_get(d.done, last), "id"), fit->id) != 0)
        return;
    json_array_remove(d.done, last);
    json_t *plan = json_object_get(json_array_get(d.done, 0), "facts");
    if (json_object_get(plan, "here"))
        json_object_set_new(plan, "here", json_integer(job->here));
    run_one(&(one){&d, fit});
    tell_end(&d);
    pool_free(&d.pool);
}

weft_status doctor_examine(const doctor_job *job, json_t **out)
{
    const char *root = getenv("WEFT_DOCTOR_ROOT");
    doctor d = {.root = root ? root : "", .job = job, .done = json_array()};
    run_checks(&d);
    weft_status s = WEFT_OK;
    *out = NULL;
    if (see_fact(&d, "job", "usage", 0))
        s = fail(WEFT_USAGE, "%s", see_fact_text(&d, "job", "error"));
    else
        *out = whole_report(&d);
    json_decref(d.done);
    pool_free(&d.pool);
    return s;
}
