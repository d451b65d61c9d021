/* doctor/checks/plugin.c: probes devices and transports on this machine, and tests whether its
 * ranks can map each other's memory. Each probe runs in a child process. */
#define _GNU_SOURCE
#include "doctor/checks/checks.h"
#include "doctor/checks/external.h"

#include "base/err.h"
#include "config/config.h"
#include "host/call.h"
#include "host/host.h"
#include "host/watch.h"
#include "run/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <weft/coll.h>
#include <weft/device.h>
#include <weft/link.h>

#define PROBE_SECONDS 5

/* --- plugins --- */

typedef struct probe_request {
    host *host;
    config *cfg;
    const host_component *c;
    uint32_t device_caps; /* of all devices that are installed */
} probe_request;

static bool is(const host_component *c, const char *iface)
{
    return c->iface && !strcmp(c->iface, iface);
}

/* *between is the score of a link between machines; others have none. */
static weft_status probe(probe_request *t, int32_t *score, int32_t *between)
{
    const char *const ifaces[] = {t->c->iface, NULL};
    char section[128];
    const host_component *c;
    bool device = is(t->c, "weft.device/1");
    snprintf(section, sizeof section, "%s%s%s", t->c->kind, device ? "" : ".",
             device ? "" : t->c->name);
    weft_status st = host_find(t->host, t->c->kind, t->c->name, ifaces, &c);
    if (st == WEFT_OK)
        st = config_add(t->cfg, section, "plugin", c->options);
    if (st == WEFT_OK)
        st = config_check(t->cfg);
    if (st == WEFT_OK)
        st = host_open(t->host, c);
    err_clear();
    if (st != WEFT_OK)
        return st;
    const weft_conf *conf = config_conf(t->cfg, section, c->own);
    if (device)
        return PLUGIN_CALL((const weft_device_table *)c->table, probe, c->module, conf, score);
    if (is(c, "weft.coll/1"))
        return PLUGIN_CALL((const weft_coll_table *)c->table, probe, c->module, conf,
                           t->device_caps, score);
    weft_link_group group = {sizeof group, 0, 0, WEFT_DEV_HOST_MEMORY, NULL};
    st = PLUGIN_CALL((const weft_link_table *)c->table, probe, c->module, conf, &group, between);
    group.same_machine = 1;
    err_clear();
    return st != WEFT_OK ? st
                         : PLUGIN_CALL((const weft_link_table *)c->table, probe, c->module, conf,
                                       &group, score);
}

static json_t *probe_child(void *ctx)
{
    int32_t score = 0, between = 0;
    weft_status st = probe(ctx, &score, &between);
    return json_pack("{s:i, s:i, s:o}", "score", st != WEFT_OK ? 0 : score, "between", between,
                     "why", doctor_json_text("%s", err_text()));
}

static void probe_plugin(doctor *d, probe_request *t)
{
    char why[256] = "";
    json_t *got = doctor_run_sandboxed(probe_child, t, PROBE_SECONDS, why, sizeof why);
    if (!got) {
        doctor_add_line(d, "%s %s: its probe %s", t->c->kind, t->c->name, why);
        doctor_add_finding(d, DOCTOR_WARNING, "the probe of %s (%s) %s", t->c->name, t->c->kind,
                           why);
        doctor_add_reason(
            d, "With auto every installed plugin is probed. A job leaves a transport of others out "
               "that fails in this way, and is ended by any other plugin. The plugin, or a library "
               "that it loads, is broken.");
        doctor_add_command(d, "weft plugins %s; ldd %s", t->c->name, t->c->path);
        return;
    }
    int64_t score = json_integer_value(json_object_get(got, "score"));
    if (score > 0 && is(t->c, "weft.link/1"))
        doctor_add_line(
            d,
            "%s %s: can be used; its score for `auto` is %lld inside a machine and %lld "
            "between machines",
            t->c->kind, t->c->name, (long long)score,
            (long long)json_integer_value(json_object_get(got, "between")));
    else if (score > 0)
        doctor_add_line(d, "%s %s: can be used", t->c->kind, t->c->name);
    else
        doctor_add_line(d, "%s %s: no: %s", t->c->kind, t->c->name,
                        *doctor_report_text(got, "why") ? doctor_report_text(got, "why")
                                                        : "it gives no reason");
    doctor_add_number(d, t->c->name, score);
    json_decref(got);
}

static void report_unusable(doctor *d, const host_component *c)
{
    doctor_add_finding(d, DOCTOR_WARNING, "the plugin %s (%s) cannot be used: %s", c->name, c->kind,
                       c->help);
    struct rlimit files;
    if (strstr(c->help, strerror(EMFILE)) && !getrlimit(RLIMIT_NOFILE, &files)) {
        doctor_add_reason(d, "The limit of open files is the cause (ulimit -n), not the plugin.");
        if (files.rlim_cur < files.rlim_max)
            doctor_add_command(d, "ulimit -n %llu", (unsigned long long)files.rlim_max);
        return;
    }
    doctor_add_reason(d, "A job that names it is refused.");
    doctor_add_command(d, "weft plugins; rm %s  # or build it anew for this version", c->path);
}

static void probe_all(doctor *d, probe_request *t)
{
    const host_component **all;
    uint32_t n;
    host_try_all(t->host);
    host_list(t->host, NULL, &all, &n);
    doctor_add_external(d, t->host, all, n);
    for (uint32_t i = 0; i < n; i++)
        if (is(all[i], "weft.device/1"))
            t->device_caps |= (uint32_t)((const weft_device_table *)all[i]->table)->caps;
    for (uint32_t i = 0; i < n; i++) {
        t->c = all[i];
        if (!t->c->iface && !doctor_is_external(t->host, t->c))
            report_unusable(d, t->c);
        else if (!t->c->iface)
            continue; /* doctor_add_external() has said it */
        else if (!strcmp(t->c->kind, "comm") || is(t->c, "weft.device/1"))
            probe_plugin(d, t);
    }
}

void doctor_check_plugins(doctor *d)
{
    probe_request t = {0};
    run_tables tables = {0};
    weft_status st = config_load(NULL, NULL, 0, &t.cfg);
    host_limits_set(d->job ? d->job->cfg : NULL);
    if (st == WEFT_OK)
        st = host_create(d->job ? config_raw(d->job->cfg, "run.plugins") : NULL, &t.host);
    if (st == WEFT_OK) {
        run_tables_serve(&tables, t.host, NULL, true);
        probe_all(d, &t);
    } else {
        doctor_add_unknown(d, "%s", err_text());
    }
    host_destroy(t.host);
    run_tables_free(&tables);
    config_destroy(t.cfg);
}

/* --- peers --- */

typedef struct handle {
    pid_t owner;
    int fd;
} handle;

/* Maps the memory of another process as a rank does. */
static json_t *map_other(void *ctx)
{
    const handle *h = ctx;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h->owner, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *p = fd >= 0 ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    return json_pack("{s:i}", "errno", p == MAP_FAILED ? errno : 0);
}

void doctor_check_peers(doctor *d)
{
    if (*d->root) {
        doctor_add_unknown(d, "not tested: %s is not this machine", d->root);
        return;
    }
    char why[256] = "";
    handle h = {getpid(), memfd_create("weft-doctor", MFD_CLOEXEC)};
    if (h.fd < 0 || ftruncate(h.fd, 4096)) {
        snprintf(why, sizeof why, "the kernel gives no memfd (%s)", strerror(errno));
    } else {
        json_t *got = doctor_run_sandboxed(map_other, &h, PROBE_SECONDS, why, sizeof why);
        int64_t e = got ? json_integer_value(json_object_get(got, "errno")) : 0;
        if (e)
            snprintf(why, sizeof why, "opening /proc/PID/fd of another process: %s",
                     strerror((int)e));
        json_decref(got);
    }
    if (h.fd >= 0)
        close(h.fd);
    doctor_add_line(d, "%s",
                    *why ? "ranks of this machine cannot map each other's memory"
                         : "ranks of this machine can map each other's memory");
    doctor_add_number(d, "mapped", !*why);
    if (!*why)
        return;
    doctor_add_finding(d, DOCTOR_WARNING,
                       "processes of this user cannot map each other's memory: %s", why);
    doctor_add_reason(d, "The transport shm maps memory in this way. A sandbox, a seccomp profile "
                         "or a restricted /proc prevents it; sockets still work.");
    doctor_add_command(
        d, "docker run --security-opt seccomp=unconfined ...  # all ranks in one container; "
           "or weft train ... comm.plugin=tcp");
}
