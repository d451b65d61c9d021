/* doctor/checks/ucp.c: libucp (UCX), and the variables by which a site sets it up. The check runs
 * in a child process, since the library takes over signals of the process that loads it. */
#include "doctor/checks/checks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED "libucp.so.0"
#define OLDEST 12u /* of 1.x */

typedef void version_function(unsigned *major, unsigned *minor, unsigned *release);

static bool report_version(doctor *d)
{
    unsigned major, minor, release;
    void *l = dlopen(NAMED, RTLD_NOW | RTLD_LOCAL);
    if (!l) {
        const char *why = dlerror();
        const bool absent = why && strstr(why, "No such file");
        doctor_add_line(d, "%s", absent ? "not installed" : why ? why : "cannot be loaded");
        if (!absent)
            doctor_set_unknown(d);
        return false;
    }
    version_function *ask;
    *(void **)&ask = dlsym(l, "ucp_get_version");
    if (!ask) {
        doctor_add_unknown(d, NAMED " does not report its version");
        return false;
    }
    ask(&major, &minor, &release);
    doctor_add_line(d, "UCX %u.%u.%u", major, minor, release);
    doctor_add_text(d, "version", "%u.%u.%u", major, minor, release);
    if (major == 1 && minor >= OLDEST)
        return true;
    doctor_add_finding(d, DOCTOR_NOTE, "UCX %u.%u is too old: 1.%u or a later 1.x is needed", major,
                       minor, OLDEST);
    doctor_add_reason(d, "Its transport cannot be used; the others can.");
    doctor_add_command(d, "ucx_info -v; ldconfig -p | grep libucp  # then install another version");
    return true;
}

/* UCX's names for what includes its TCP. */
#define OPEN ",all,tcp,"

/* "^" before a list means all but these. */
static bool allows_tcp(const char *list)
{
    const bool inverse = list[0] == '^';
    bool named = false;
    char item[32];
    for (const char *at = list + inverse; *at; at += *at == ',') {
        const int n = (int)strcspn(at, ",");
        snprintf(item, sizeof item, ",%.*s,", n < 28 ? n : 28, at);
        named |= n > 0 && strstr(OPEN, item);
        at += n;
    }
    return named != inverse;
}

static void report_settings(doctor *d)
{
    const char *tls = getenv("UCX_TLS"), *devices = getenv("UCX_NET_DEVICES");
    const bool rdma = *doctor_list_folder(d, "/sys/class/infiniband");
    if (tls)
        doctor_add_line(d, "UCX_TLS=%.200s", tls);
    if (devices)
        doctor_add_line(d, "UCX_NET_DEVICES=%.200s", devices);
    if (rdma && !tls && !devices)
        doctor_add_line(d, "auto leaves it aside, since neither UCX_TLS nor UCX_NET_DEVICES is "
                           "set; a job may name it");
    doctor_add_text(d, "tls", "%.200s", tls ? tls : "");
    doctor_add_text(d, "devices", "%.200s", devices ? devices : "");
    if (!tls || !allows_tcp(tls))
        return;
    doctor_add_finding(d, DOCTOR_NOTE, "UCX_TLS=%.100s lets UCX use TCP", tls);
    doctor_add_reason(d, "A job over it then listens on a port where UCX reads messages of anybody "
                         "who can reach it. The transport tcp authenticates first.");
    doctor_add_command(d, "export UCX_TLS=^tcp  # or name the transports of your network: rc,sm");
}

void doctor_check_libucp(doctor *d)
{
    if (report_version(d))
        report_settings(d);
}
