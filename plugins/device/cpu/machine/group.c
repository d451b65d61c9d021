/* group.c: the CPU quota that the control groups of this process allow (cpu.max, cfs_quota_us).
 *
 * /proc/self/cgroup names one group per hierarchy: "0::/path" in version 2, "3:cpu,cpuacct:/path"
 * in version 1. Limits of all ancestor groups apply too, so the smallest one counts. In a container
 * the path may be the host's; the container's own group is then the root. */
#include "group.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 1024, DEPTH_MAX = 64 };

/* Read the first line of a file below `root`; false if there is none. */
static bool first_line(const char *root, const char *folder, const char *name, char *out, int room)
{
    char path[2 * PATH];
    const int n = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    FILE *f = n > 0 && n < (int)sizeof path ? fopen(path, "re") : NULL;
    const bool got = f && fgets(out, room, f);
    if (f)
        fclose(f);
    return got;
}

static void take(double *cpus, double quota, double period)
{
    if (quota > 0 && period > 0 && (*cpus <= 0 || quota / period < *cpus))
        *cpus = quota / period;
}

static void look_at(const char *root, const char *folder, double *cpus)
{
    char text[128], second[128];
    double quota, period;
    if (first_line(root, folder, "cpu.max", text, sizeof text) &&
        sscanf(text, "%lf %lf", &quota, &period) == 2) /* "max 100000": no limit */
        take(cpus, quota, period);
    if (first_line(root, folder, "cpu.cfs_quota_us", text, sizeof text) &&
        first_line(root, folder, "cpu.cfs_period_us", second, sizeof second))
        take(cpus, strtod(text, NULL), strtod(second, NULL));
}

/* Check group `own` of the hierarchy mounted at `mount`, and all its ancestors. */
static void look_upwards(const char *root, const char *mount, const char *own, double *cpus)
{
    char folder[PATH];
    const size_t top = strlen(mount);
    const int n = snprintf(folder, sizeof folder, "%s%s", mount, strcmp(own, "/") != 0 ? own : "");
    if (n < 0 || n >= (int)sizeof folder)
        return;
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        look_at(root, folder, cpus);
        char *cut = strrchr(folder, '/');
        if (!cut || (size_t)(cut - folder) < top)
            return;
        *cut = 0;
    }
}

double cpu_group_limit(const char *root)
{
    char path[PATH], line[PATH];
    double cpus = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *what = strchr(line, ':'), *own = what ? strchr(what + 1, ':') : NULL;
        if (!own)
            continue;
        *own++ = 0;
        what++;
        char names[PATH + 2];
        snprintf(names, sizeof names, ",%s,", what);
        if (*what == 0) {
            look_upwards(root, "/sys/fs/cgroup", own, &cpus);
            look_upwards(root, "/sys/fs/cgroup/unified", own, &cpus);
        } else if (strstr(names, ",cpu,")) {
            look_upwards(root, "/sys/fs/cgroup/cpu", own, &cpus);
        }
    }
    if (f)
        fclose(f);
    return cpus;
}
