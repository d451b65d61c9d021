/* doctor/checks/plugin.c: which devices and transports say that they could work here; and whether
 * ranks of this machine may map each other's memory. Each is tried in a process of its own. */
#define _GNU_SOURCE
#include "doctor/internal.h"

#include "base/err.h"
#include "config/config.h"
#include "host/call.h"
#include "host/host.h"
#include "run/train.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft/coll.h>
#include <weft/device.h>
#include <weft/link.h>

#define PROBE_SECONDS 5

/* --- plugins --- */

typedef struct trial {
    host *host;
    config *cfg;
    const component *c;
    uint32_t device_caps; /* of all devices that are installed */
} trial;

static bool is(const component *c, const char *iface)
{
    return c->iface && !strcmp(c->iface, iface);
}

static weft_status probe(trial *t, int32_t *score)
{
    const char *const ifaces[] = {t->c->iface, NULL};
    char section[128];
    const component *c;
    bool device = is(t->c, "weft.device/1");
    snprintf(section, sizeof section, "%s%s%s", t->c->kind, device ? "" : ".",
             device ? "" : t->c->name);
    weft_status s = host_find(t->host, t->c->kind, t->c->name, ifaces, &c);
    if (!s)
        s = config_add(t->cfg, section, "plugin", c->options);
    if (!s)
        s = config_check(t->cfg);
    if (!s)
        s = host_open(t->host, c);
    err_clear();
    if (s)
        return s;
    const weft_conf *conf = config_conf(t->cfg, section, c->options);
    if (device)
        return PLUGIN_CALL((const weft_device_table *)c->table, probe, c->module, conf, score);
    if (is(c, "weft.coll/1"))
        return PLUGIN_CALL((const weft_coll_table *)c->table, probe, c->module, conf,
                           t->device_caps, score);
    const weft_link_group group = {sizeof group, 0, 1, WEFT_DEV_HOST_MEMORY, NULL};
    return PLUGIN_CALL((const weft_link_table *)c->table, probe, c->module, conf, &group, score);
}

static json_t *try_one(void *ctx)
{
    int32_t score = 0;
    weft_status s = probe(ctx, &score);
    return json_pack("{s:i, s:o}", "score", s ? 0 : score, "why", tell_text("%s", err_text()));
}

static void tell_plugin(doctor *d, trial *t)
{
    char why[256] = "";
    json_t *got = run_apart(try_one, t, PROBE_SECONDS, why, sizeof why);
    if (!got) {
        tell_line(d, "%s %s: its probe %s", t->c->kind, t->c->name, why);
        tell(d, DOCTOR_WARNING, "the probe of %s (%s) %s", t->c->name, t->c->kind, why);
        tell_why(d, "With auto every installed plugin is asked, and one that does not answer ends "
                    "the job; it, or a library that it loads, is broken.");
        tell_type(d, "weft plugins %s; ldd %s", t->c->name, t->c->path);
        return;
    }
    int64_t score = json_integer_value(json_object_get(got, "score"));
    if (score > 0)
        tell_line(d, "%s %s: can be used", t->c->kind, t->c->name);
    else
        tell_line(d, "%s %s: no: %s", t->c->kind, t->c->name,
                  *report_text(got, "why") ? report_text(got, "why") : "it gives no reason");
    tell_number(d, t->c->name, score);
    json_decref(got);
}

static void tell_unusable(doctor *d, const component *c)
{
    tell(d, DOCTOR_WARNING, "the plugin %s (%s) cannot be used: %s", c->name, c->kind, c->help);
    tell_why(d, "A job that names it is refused.");
    tell_type(d, "weft plugins; rm %s  # or build it anew for this version", c->path);
}

static void look_at_all(doctor *d, trial *t)
{
    const component **all;
    uint32_t n;
    if (host_list(t->host, &all, &n)) {
        tell_line(d, "%s", err_text());
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (is(all[i], "weft.device/1"))
            t->device_caps |= (uint32_t)((const weft_device_table *)all[i]->table)->caps;
    for (uint32_t i = 0; i < n; i++) {
        t->c = all[i];
        if (!t->c->iface)
            tell_unusable(d, t->c);
        else if (!strcmp(t->c->kind, "comm") || is(t->c, "weft.device/1"))
            tell_plugin(d, t);
    }
}

void check_plugins(doctor *d)
{
    trial t = {0};
    config *own = NULL;
    const doctor_job *j = d->job;
    if (j && config_load(j->ini, j->overrides, j->noverrides, &own))
        own = NULL;
    weft_status s = config_load(NULL, NULL, 0, &t.cfg);
    if (!s)
        s = host_create(own ? config_raw(own, "run.plugins") : NULL, &t.host);
    if (!s) {
        host_serve(t.host, "weft.host.tls/1", job_planning_tls());
        look_at_all(d, &t);
    } else {
        tell_line(d, "%s", err_text());
    }
    host_destroy(t.host);
    config_destroy(t.cfg);
    config_destroy(own);
}

/* --- peers --- */

typedef struct handle {
    pid_t owner;
    int fd;
} handle;

/* As a rank opens the memory of another. */
static json_t *open_other(void *ctx)
{
    const handle *h = ctx;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h->owner, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *p = fd >= 0 ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    return json_pack("{s:i}", "errno", p == MAP_FAILED ? errno : 0);
}

void check_peers(doctor *d)
{
    if (*d->root) {
        tell_line(d, "not tried: %s is not this machine", d->root);
        return;
    }
    char why[256] = "";
    handle h = {getpid(), memfd_create("weft-doctor", MFD_CLOEXEC)};
    if (h.fd < 0 || ftruncate(h.fd, 4096)) {
        snprintf(why, sizeof why, "the kernel gives no memfd (%s)", strerror(errno));
    } else {
        json_t *got = run_apart(open_other, &h, PROBE_SECONDS, why, sizeof why);
        int64_t e = got ? json_integer_value(json_object_get(got, "errno")) : 0;
        if (e)
            snprintf(why, sizeof why, "opening /proc/PID/fd of another process: %s",
                     strerror((int)e));
        json_decref(got);
    }
    if (h.fd >= 0)
        close(h.fd);
    tell_line(d, "%s", *why ? "they may not" : "they may");
    tell_number(d, "mapped", !*why);
    if (!*why)
        return;
    tell(d, DOCTOR_WARNING, "processes of this user cannot map each other's memory: %s", why);
    tell_why(d, "Shared memory between ranks of a machine is reached so. A sandbox, a seccomp "
                "profile, or /proc mounted for others only is in the way; sockets remain.");
    tell_type(d, "docker run --security-opt seccomp=unconfined ...  # all ranks in one container; "
                 "or weft train ... comm.plugin=tcp");
}
