/* bench/sweep/environment.c: how busy the machine is, and where its processes run (see sweep.h). */
#define _GNU_SOURCE
#include "bench/sweep/sweep.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* "cpu3 12 0 4 900 ...": user, nice, system, idle, waiting, interrupts, soft interrupts, stolen by
 * other virtual machines. */
static double busy_of(const char *line, const cpu_set_t *usable)
{
    unsigned long cpu;
    int used = 0;
    double busy = 0;
    if (sscanf(line, "cpu%lu%n", &cpu, &used) != 1 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, usable))
        return 0;
    char *at;
    line += used;
    for (uint32_t i = 0; i < 8; i++) {
        const double ticks = (double)strtoull(line, &at, 10);
        line = at;
        busy += i == 3 || i == 4 ? 0 : ticks;
    }
    return busy;
}

double bench_sweep_busy_seconds(void)
{
    FILE *f = fopen("/proc/stat", "re");
    char line[512];
    cpu_set_t usable;
    double ticks = 0;
    if (!f || sched_getaffinity(0, sizeof usable, &usable)) {
        if (f)
            fclose(f);
        return -1;
    }
    while (fgets(line, sizeof line, f))
        ticks += busy_of(line, &usable);
    fclose(f);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

static bool is_bound(pid_t process, const cpu_set_t *usable)
{
    cpu_set_t own;
    return sched_getaffinity(process, sizeof own, &own) == 0 && CPU_COUNT(&own) < CPU_COUNT(usable);
}

uint32_t bench_sweep_bound_processes(pid_t first)
{
    char path[64];
    long child;
    uint32_t n = 0;
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable))
        return 0;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)first, (long)first);
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%ld", &child) == 1)
        n += bench_sweep_bound_processes((pid_t)child);
    if (f)
        fclose(f);
    return n + is_bound(first, &usable);
}
