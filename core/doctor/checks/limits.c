/* doctor/checks/limits.c: what this process may take: locked memory, files, CPU time, memory. */
#include "doctor/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CAP_IPC_LOCK_BIT 14

/* --- limits of the process --- */

/* "Max open files   1024   524288   files": soft and hard; INT64_MAX for "unlimited". */
static bool limit_of(const doctor *d, const char *name, int64_t out[2])
{
    char line[256], word[2][32];
    if (!see_line(d, "/proc/self/limits", name, line, sizeof line) ||
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
    return see_line(d, "/proc/self/status", "CapEff", caps, sizeof caps) &&
           strtoull(caps, NULL, 16) >> CAP_IPC_LOCK_BIT & 1;
}

static const char *lock_text(int64_t bytes)
{
    return bytes == INT64_MAX ? "unlimited" : tell_size((uint64_t)bytes);
}

static void judge_locked(doctor *d, const int64_t lock[2])
{
    const char *const *rdma = see_names(d, "/sys/class/infiniband");
    if (!*rdma || lock[0] >= (int64_t)1 << 30)
        return;
    tell(d, DOCTOR_WARNING, "a process may lock %s of memory", lock_text(lock[0]));
    tell_why(d,
             "%s works on memory that is registered with it and then locked: a rank's whole "
             "arena. What is more than that is refused when the job starts. (In a service: "
             "LimitMEMLOCK=infinity. In a container: docker run --ulimit memlock=-1.)",
             *rdma);
    if (lock[1] == INT64_MAX)
        tell_type(d, "ulimit -l unlimited");
    else
        tell_type(d, "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/weft.conf  # "
                     "then log in again");
}

void check_limits(doctor *d)
{
    int64_t lock[2], files[2];
    bool locks = limit_of(d, "Max locked memory", lock),
         opens = limit_of(d, "Max open files", files);
    if (locks && may_lock_anything(d))
        lock[0] = lock[1] = INT64_MAX;
    if (locks) {
        tell_line(d, "locked memory: %s", lock_text(lock[0]));
        tell_number(d, "locked", lock[0]);
        judge_locked(d, lock);
    }
    if (opens) {
        tell_line(d, "open files: %" PRId64 " (at most %" PRId64 ")", files[0], files[1]);
        tell_number(d, "files", files[0]);
        tell_number(d, "files_most", files[1]);
    }
    if (opens && files[0] < 1024) {
        tell(d, DOCTOR_WARNING, "a process may have %" PRId64 " files open", files[0]);
        tell_why(d, "Every connection with another rank is one.");
        tell_type(d, "ulimit -n %" PRId64, files[1] < 65536 ? files[1] : 65536);
    }
    if (!locks && !opens)
        tell_line(d, "the kernel does not say");
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

static void look_at_new(const doctor *d, const char *at, group *g)
{
    char text[128], path[512];
    double quota, period;
    int64_t limit, used = 0;
    uint64_t cached = 0, stalls;
    if (see_text(d, text, sizeof text, "%s/cpu.max", at) &&
        sscanf(text, "%lf %lf", &quota, &period) == 2)
        take_cpus(g, quota, period);
    snprintf(path, sizeof path, "%s/memory.stat", at);
    see_bytes(d, path, "file", &cached);
    see_number(d, &used, "%s/memory.current", at);
    if (see_number(d, &limit, "%s/memory.max", at) && limit > 0)
        take_memory(g, (uint64_t)limit, used > 0 ? (uint64_t)used : 0, cached);
    snprintf(path, sizeof path, "%s/cpu.stat", at);
    if (see_bytes(d, path, "nr_throttled", &stalls) && stalls < INT64_MAX)
        g->throttled = (int64_t)stalls;
}

static void look_at_old(const doctor *d, const char *below, group *g)
{
    int64_t quota, period, limit, used = 0;
    uint64_t cached = 0, stalls;
    char path[512];
    if (see_number(d, &quota, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", below) &&
        see_number(d, &period, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", below))
        take_cpus(g, (double)quota, (double)period);
    snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.stat", below);
    see_bytes(d, path, "total_cache", &cached);
    see_number(d, &used, "/sys/fs/cgroup/memory%s/memory.usage_in_bytes", below);
    if (see_number(d, &limit, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", below) && limit > 0)
        take_memory(g, (uint64_t)limit, used > 0 ? (uint64_t)used : 0, cached);
    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.stat", below);
    if (see_bytes(d, path, "nr_throttled", &stalls) && stalls < INT64_MAX)
        g->throttled = (int64_t)stalls;
}

/* The group of this process and those above it. A container sees its own group at the top. */
static void look_upwards(const doctor *d, const char *own, bool old, group *g)
{
    char path[384], whole[448];
    snprintf(path, sizeof path, "%s", strcmp(own, "/") ? own : "");
    for (uint32_t depth = 0; depth < 64; depth++) {
        snprintf(whole, sizeof whole, "%s%s", old ? "" : "/sys/fs/cgroup", path);
        if (old)
            look_at_old(d, path, g);
        else
            look_at_new(d, whole, g);
        char *cut = strrchr(path, '/');
        if (!cut)
            break;
        *cut = 0;
    }
}

/* /proc/self/cgroup has "0::/path" for the one tree of version 2, and "4:memory:/path" for each of
 * version 1. */
static void find_groups(const doctor *d, group *g)
{
    char text[8192], *rest;
    see_text(d, text, sizeof text, "/proc/self/cgroup");
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *what = strchr(line, ':'), *path = what ? strchr(what + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        what++;
        char names[256];
        snprintf(names, sizeof names, ",%s,", what);
        if (!*what)
            look_upwards(d, path, false, g);
        else if (strstr(names, ",cpu,") || strstr(names, ",memory,"))
            look_upwards(d, path, true, g);
    }
}

void check_container(doctor *d)
{
    group g = {0};
    find_groups(d, &g);
    int64_t cpus = see_fact(d, "processor", "allowed", 0);
    char time[64] = "all CPUs", memory[64] = "all memory";
    if (g.cpus > 0)
        snprintf(time, sizeof time, "the time of %.2f CPUs", g.cpus);
    if (g.memory)
        snprintf(memory, sizeof memory, "%s of memory", tell_size(g.memory));
    tell_line(d, "may use %s and %s", time, memory);
    if (g.cpus > 0)
        tell_number(d, "thousandths", (int64_t)(g.cpus * 1000 < 1e15 ? g.cpus * 1000 : 1e15));
    if (g.memory) {
        tell_number(d, "memory", (int64_t)g.memory);
        tell_number(d, "memory_free", g.memory > g.usage ? (int64_t)(g.memory - g.usage) : 0);
    }
    if (g.throttled > 0)
        tell_line(d, "was stopped %" PRId64 " times so far because its time was used up",
                  g.throttled);
    if (g.cpus > 0 && cpus && g.cpus < (double)cpus) {
        tell(d, DOCTOR_WARNING, "%" PRId64 " CPUs are visible, and the time of %.2f may be used",
             cpus, g.cpus);
        tell_why(d, "With device.threads = auto ranks start no more threads than that, and pin "
                    "none. When the time of a period is used up, all of them are stopped until "
                    "the next, some 100 ms later.");
        tell_type(d,
                  "weft train ... device.threads=%d  # a rank; or give the container more: "
                  "docker update --cpus=%" PRId64 " NAME",
                  g.cpus >= 1 ? (int)g.cpus : 1, cpus);
    }
}
