/* bench/sweep/environment.c: the machine and the program that numbers belong to (see sweep.h).
 */
#define _GNU_SOURCE
#include "bench/sweep/sweep.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

uint32_t bench_sweep_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

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

static json_t *processor(void)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    json_t *name = NULL;
    while (f && !name && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && (!strncmp(line, "model name", 10) || !strncmp(line, "Processor", 9)))
            name = json_string(bench_sweep_trimmed(colon + 1));
    }
    if (f)
        fclose(f);
    return name ? name : json_string("unknown");
}

static void put_text(json_t *to, const char *key, const char *text)
{
    json_t *v = json_string(text);
    json_object_set_new(to, key, v ? v : json_string("?")); /* not UTF-8 */
}

json_t *bench_sweep_environment(void)
{
    json_t *x = json_object();
    char host[256] = "", date[40] = "", abi[24];
    struct utsname u = {0};
    struct sysinfo info = {0};
    double load[3] = {-1, -1, -1};
    const time_t now = time(NULL);
    struct tm t;
    gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &t))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &t);
    uname(&u);
    sysinfo(&info);
    if (getloadavg(load, 3) < 3)
        load[0] = load[1] = load[2] = -1;
    snprintf(abi, sizeof abi, "%u.%u", WEFT_ABI_MAJOR, WEFT_ABI_MINOR);
    put_text(x, "date", date);
    put_text(x, "host", host);
    put_text(x, "system", u.sysname);
    put_text(x, "kernel", u.release);
    put_text(x, "machine", u.machine);
    json_object_set_new(x, "processor", processor());
    json_object_set_new(x, "cpus", json_integer(get_nprocs()));
    json_object_set_new(x, "cpus_usable", json_integer(bench_sweep_cpus()));
    json_object_set_new(x, "memory_bytes",
                        json_integer((json_int_t)info.totalram * (json_int_t)info.mem_unit));
    json_object_set_new(x, "load", json_pack("[fff]", load[0], load[1], load[2]));
    put_text(x, "weft", WEFT_VERSION);
    put_text(x, "commit", cli_commit());
    put_text(x, "abi", abi);
    return x;
}
