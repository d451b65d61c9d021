/* doctor/checks/limits.c: limits of this process and of its control groups: locked memory, files,
 * CPU time, memory. */
#include "doctor/checks/checks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CAP_IPC_LOCK_BIT 14

/* --- limits of the process --- */

/* "Max open files   1024   524288   files": soft and hard; INT64_MAX for "unlimited". */
static bool limit_of(const doctor *d, const char *name, int64_t out[2])
{
    char line[256], word[2][32];
    if (!doctor_read_line(d, "/proc/self/limits", name, line, sizeof line) ||
        sscanf(line, "%31s %31s", word[0], word[1]) != 2)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        char *end;
        out[i] = strtoll(word[i], &end, 10);
        if (!strcmp(word[i], "unlimited"))
            out[i] = INT64_MAX;
        else if (end == word[i] || *end || out[i] < 0)
            return false;
    }
    return true;
}

static bool may_lock_anything(const doctor *d)
{
    char caps[64];
    return doctor_read_line(d, "/proc/self/status", "CapEff", caps, sizeof caps) &&
           strtoull(caps, NULL, 16) >> CAP_IPC_LOCK_BIT & 1;
}

static mem_size_text lock_text(int64_t bytes)
{
    return bytes == INT64_MAX ? (mem_size_text){"unlimited"} : mem_size((double)bytes);
}

static void assess_locked(doctor *d, const int64_t lock[2])
{
    const char *const *rdma = doctor_list_folder(d, "/sys/class/infiniband");
    if (!*rdma || lock[0] >= (int64_t)1 << 30)
        return;
    doctor_add_finding(d, DOCTOR_WARNING, "the limit of locked memory is %s",
                       lock_text(lock[0]).text);
    doctor_add_reason(d,
                      "%s needs registered memory, which is locked: the whole arena of a rank. A "
                      "larger arena than the limit is refused when the job starts. (In a service: "
                      "LimitMEMLOCK=infinity. In a container: docker run --ulimit memlock=-1.)",
                      *rdma);
    if (lock[1] == INT64_MAX)
        doctor_add_command(d, "ulimit -l unlimited");
    else
        doctor_add_command(
            d, "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/weft.conf  # "
               "then log in again");
}

void doctor_check_limits(doctor *d)
{
    int64_t lock[2], files[2];
    bool locks = limit_of(d, "Max locked memory", lock),
         opens = limit_of(d, "Max open files", files);
    if (locks && may_lock_anything(d))
        lock[0] = lock[1] = INT64_MAX;
    if (locks) {
        doctor_add_line(d, "locked memory: %s", lock_text(lock[0]).text);
        doctor_add_number(d, "locked", lock[0]);
        assess_locked(d, lock);
    }
    if (opens) {
        doctor_add_line(d, "open files: %" PRId64 " (at most %" PRId64 ")", files[0], files[1]);
        doctor_add_number(d, "files", files[0]);
        doctor_add_number(d, "files_most", files[1]);
    }
    if (opens && files[0] < 1024) {
        doctor_add_finding(d, DOCTOR_WARNING, "the limit of open files is %" PRId64, files[0]);
        doctor_add_reason(d, "Every connection to another rank needs one descriptor.");
        if (files[1] > files[0])
            doctor_add_command(d, "ulimit -n %" PRId64, files[1] < 65536 ? files[1] : 65536);
        else
            doctor_add_command(d, DOCTOR_RAISE_FILES);
    }
    if (!locks || !opens)
        doctor_add_unknown(d, "%s: not reported by the kernel",
                           locks   ? "open files"
                           : opens ? "locked memory"
                                   : "limits");
}

/* --- control groups --- */

typedef struct group {
    double cpus;            /* 0: no limit */
    uint64_t memory, usage; /* 0: no limit */
    int64_t throttled;
} group;

static void take_cpus(group *g, double quota, double period)
{
    if (quota > 0 && period > 0 && (g->cpus <= 0 || quota / period < g->cpus))
        g->cpus = quota / period;
}

static void take_memory(group *g, uint64_t limit, uint64_t used, uint64_t cached)
{
    if (!limit || limit >= 1ull << 60 || (g->memory && limit >= g->memory))
        return;
    g->memory = limit;
    g->usage = used > cached ? used - cached : 0;
}

static void read_cgroup_v2(const doctor *d, const char *at, group *g)
{
    char text[128], path[512];
    double quota, period;
    int64_t limit, used = 0;
    uint64_t cached = 0, stalls;
    if (doctor_read_text(d, text, sizeof text, "%s/cpu.max", at) &&
        sscanf(text, "%lf %lf", &quota, &period) == 2)
        take_cpus(g, quota, period);
    snprintf(path, sizeof path, "%s/memory.stat", at);
    doctor_read_bytes(d, path, "file", &cached);
    doctor_read_number(d, &used, "%s/memory.current", at);
    if (doctor_read_number(d, &limit, "%s/memory.max", at) && limit > 0)
        take_memory(g, (uint64_t)limit, used > 0 ? (uint64_t)used : 0, cached);
    snprintf(path, sizeof path, "%s/cpu.stat", at);
    if (doctor_read_bytes(d, path, "nr_throttled", &stalls) && stalls < INT64_MAX)
        g->throttled = (int64_t)stalls;
}

static void read_cgroup_v1(const doctor *d, const char *below, group *g)
{
    int64_t quota, period, limit, used = 0;
    uint64_t cached = 0, stalls;
    char path[512];
    if (doctor_read_number(d, &quota, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", below) &&
        doctor_read_number(d, &period, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", below))
        take_cpus(g, (double)quota, (double)period);
    snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.stat", below);
    doctor_read_bytes(d, path, "total_cache", &cached);
    doctor_read_number(d, &used, "/sys/fs/cgroup/memory%s/memory.usage_in_bytes", below);
    if (doctor_read_number(d, &limit, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", below) &&
        limit > 0)
        take_memory(g, (uint64_t)limit, used > 0 ? (uint64_t)used : 0, cached);
    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.stat", below);
    if (doctor_read_bytes(d, path, "nr_throttled", &stalls) && stalls < INT64_MAX)
        g->throttled = (int64_t)stalls;
}

/* The group of this process and its parents. In a container its own group is the root. */
static void read_cgroup_and_parents(const doctor *d, const char *own, bool old, group *g)
{
    char path[384], whole[448];
    snprintf(path, sizeof path, "%s", strcmp(own, "/") ? own : "");
    for (uint32_t depth = 0; depth < 64; depth++) {
        snprintf(whole, sizeof whole, "%s%s", old ? "" : "/sys/fs/cgroup", path);
        if (old)
            read_cgroup_v1(d, path, g);
        else
            read_cgroup_v2(d, whole, g);
        char *cut = strrchr(path, '/');
        if (!cut)
            break;
        *cut = 0;
    }
}

/* /proc/self/cgroup has "0::/path" for the one tree of version 2, and "4:memory:/path" for each of
 * version 1. */
static void read_cgroups(const doctor *d, group *g)
{
    char text[8192], *rest;
    doctor_read_text(d, text, sizeof text, "/proc/self/cgroup");
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *what = strchr(line, ':'), *path = what ? strchr(what + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        what++;
        char names[256];
        snprintf(names, sizeof names, ",%s,", what);
        if (!*what)
            read_cgroup_and_parents(d, path, false, g);
        else if (strstr(names, ",cpu,") || strstr(names, ",memory,"))
            read_cgroup_and_parents(d, path, true, g);
    }
}

void doctor_check_container(doctor *d)
{
    group g = {0};
    if (!doctor_path_exists(d, "/proc/self/cgroup")) {
        doctor_add_unknown(d, "not reported by the kernel");
        return;
    }
    read_cgroups(d, &g);
    int64_t cpus = doctor_fact_number(d, "processor", "allowed", 0);
    char time[64] = "all CPUs", memory[64] = "all memory";
    if (g.cpus > 0)
        snprintf(time, sizeof time, "a quota of %.2f CPUs", g.cpus);
    if (g.memory)
        snprintf(memory, sizeof memory, "%s of memory", mem_size(g.memory).text);
    doctor_add_line(d, "may use %s and %s", time, memory);
    if (g.cpus > 0)
        doctor_add_number(d, "thousandths", (int64_t)(g.cpus * 1000 < 1e15 ? g.cpus * 1000 : 1e15));
    if (g.memory) {
        doctor_add_number(d, "memory", (int64_t)g.memory);
        doctor_add_number(d, "memory_free", g.memory > g.usage ? (int64_t)(g.memory - g.usage) : 0);
    }
    if (g.throttled > 0)
        doctor_add_line(d, "throttled %" PRId64 " times so far because its CPU quota was used up",
                        g.throttled);
    if (g.cpus > 0 && cpus && g.cpus < (double)cpus) {
        doctor_add_finding(d, DOCTOR_WARNING,
                           "%" PRId64 " CPUs are visible, and the CPU quota is %.2f", cpus, g.cpus);
        doctor_add_reason(d, "With device.threads = auto ranks start no more threads than the "
                             "quota, and pin none. When the quota of a period is used up, all "
                             "threads are stopped until the next period, about 100 ms later.");
        doctor_add_command(
            d,
            "weft train ... device.threads=%d  # per rank; or raise the quota of the container: "
            "docker update --cpus=%" PRId64 " NAME",
            g.cpus >= 1 ? (int)g.cpus : 1, cpus);
    }
}
