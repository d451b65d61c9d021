/* doctor/checks/cpu.c: kernel and program, the CPUs, their frequency, the clock. */
#include "doctor/checks/checks.h"

#include "base/number/digest.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER __VERSION__ /* has its name */
#else
#define COMPILER "gcc " __VERSION__
#endif

#define CPU "/sys/devices/system/cpu"

/* --- system --- */

/* A digest of the program file, which is equal on machines with the same program. */
static uint64_t program_digest(void)
{
    uint64_t h = DIGEST_BEGIN;
    unsigned char part[65536];
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, part, sizeof part)) > 0;)
        digest_mix(&h, part, (uint64_t)n);
    if (fd >= 0)
        close(fd);
    return h;
}

void doctor_check_system(doctor *d)
{
    char kernel[128], host[128];
    const bool known = doctor_read_text(d, kernel, sizeof kernel, "/proc/sys/kernel/osrelease");
    if (!known)
        snprintf(kernel, sizeof kernel, "unknown");
    if (!doctor_read_text(d, host, sizeof host, "/proc/sys/kernel/hostname"))
        snprintf(host, sizeof host, "a machine without a host name");
    if (!known)
        doctor_set_unknown(d);
    doctor_add_line(d, "%s, Linux %s, weft %s built by " COMPILER, host, kernel, WEFT_VERSION);
    doctor_add_text(d, "kernel", "%s", kernel);
    doctor_add_text(d, "weft", "%s, program %016" PRIx64, WEFT_VERSION, program_digest());
}

/* --- processor --- */

static bool has(const char *flags, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = flags; (at = strstr(at, word)); at += n)
        if ((at == flags || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

static const char *isa_of(const char *flags)
{
    if (has(flags, "amx_bf16"))
        return "AVX-512 and AMX";
    if (has(flags, "avx512f"))
        return has(flags, "avx512_bf16") ? "AVX-512 with bf16" : "AVX-512";
    return has(flags, "avx2") ? "AVX2" : "SSE4.2";
}

void doctor_check_processor(doctor *d)
{
    char model[128], flags[8192], online[256], allowed[256];
    int64_t smt = 0;
    bool x86 = doctor_read_line(d, "/proc/cpuinfo", "flags", flags, sizeof flags);
    if (!doctor_read_line(d, "/proc/cpuinfo", "model name", model, sizeof model))
        snprintf(model, sizeof model, "an unnamed processor");
    doctor_read_text(d, online, sizeof online, CPU "/online");
    doctor_read_line(d, "/proc/self/status", "Cpus_allowed_list", allowed, sizeof allowed);
    doctor_read_number(d, &smt, CPU "/smt/active");
    uint32_t all = doctor_count_cpus(online), may = doctor_count_cpus(allowed);
    if (!all)
        all = may;
    if (!may)
        may = all;
    if (!all)
        doctor_set_unknown(d);
    doctor_add_line(d, "%s, %u CPUs%s, %s", model, all, smt == 1 ? " (several a core)" : "",
                    x86 ? isa_of(flags) : "unknown instructions");
    doctor_add_text(d, "model", "%s", model);
    doctor_add_text(d, "isa", "%s", x86 ? isa_of(flags) : "unknown");
    doctor_add_number(d, "cpus", all);
    doctor_add_number(d, "allowed", may);
    doctor_add_number(d, "smt", smt == 1);
    if (x86 && !has(flags, "avx2")) {
        doctor_add_finding(d, DOCTOR_NOTE, "the processor has no AVX2");
        doctor_add_reason(d, "Kernels use SSE4.2, with half the vector width or less. In a virtual "
                             "machine the host may have AVX2 and hide it.");
        doctor_add_command(d,
                           "grep -o -w -m1 avx2 /proc/cpuinfo; qemu-system-x86_64 -cpu host ...");
    }
    if (may < all) {
        doctor_add_finding(d, DOCTOR_NOTE, "this process may use %u of %u CPUs (%s)", may, all,
                           allowed);
        doctor_add_reason(d, "An affinity mask (taskset, a cpuset or the job scheduler) excludes "
                             "the others; device.threads = auto counts the CPUs in the mask.");
        doctor_add_command(d, "taskset -cp $$; taskset -c %s weft ...", online);
    }
}

/* --- frequency --- */

typedef struct governors {
    uint32_t cpus, save,
        slow; /* CPUs with a governor; with an active powersave; with another slow governor */
    bool mixed;
    char name[64];
    char slow_name[64];
} governors;

static void read_governor(doctor *d, const char *cpu, governors *g)
{
    static const char *const slow[] = {"ondemand", "conservative", "schedutil", NULL};
    char name[64], wish[64];
    if (!doctor_read_text(d, name, sizeof name, CPU "/%s/cpufreq/scaling_governor", cpu))
        return;
    g->mixed |= g->cpus++ && strcmp(name, g->name) != 0;
    snprintf(g->name, sizeof g->name, "%s", name);
    bool driven = doctor_read_text(d, wish, sizeof wish,
                                   CPU "/%s/cpufreq/energy_performance_preference", cpu) &&
                  !strcmp(wish, "performance");
    g->save += !strcmp(name, "powersave") && !driven;
    for (uint32_t i = 0; slow[i]; i++)
        if (!strcmp(name, slow[i])) {
            g->slow++;
            snprintf(g->slow_name, sizeof g->slow_name, "%s", name);
        }
}

static void assess_governors(doctor *d, const governors *g)
{
    if (!g->save && !g->slow)
        return;
    if (g->save)
        doctor_add_finding(d, DOCTOR_WARNING, "%u of %u CPUs have the governor powersave", g->save,
                           g->cpus);
    else
        doctor_add_finding(d, DOCTOR_NOTE, "%u of %u CPUs have the governor %s", g->slow, g->cpus,
                           g->slow_name);
    doctor_add_reason(
        d, "The clock frequency follows the load with a delay and falls in every wait for another "
           "rank. Steps are slower, and the slowest rank sets the pace of all.");
    doctor_add_command(d, "echo performance | sudo tee " CPU "/cpu*/cpufreq/scaling_governor");
}

static void assess_turbo(doctor *d)
{
    int64_t off, boost;
    const char *how = NULL;
    if (doctor_read_number(d, &off, CPU "/intel_pstate/no_turbo") && off == 1)
        how = "echo 0 | sudo tee " CPU "/intel_pstate/no_turbo";
    else if (doctor_read_number(d, &boost, CPU "/cpufreq/boost") && boost == 0)
        how = "echo 1 | sudo tee " CPU "/cpufreq/boost";
    if (!how)
        return;
    doctor_add_finding(d, DOCTOR_NOTE, "turbo is disabled");
    doctor_add_reason(
        d, "CPUs stay at their base frequency even where power and temperature allow more.");
    doctor_add_command(d, "%s", how);
}

void doctor_check_frequency(doctor *d)
{
    governors g = {0};
    unsigned number;
    for (const char *const *n = doctor_list_folder(d, CPU); *n; n++)
        if (sscanf(*n, "cpu%u", &number) == 1)
            read_governor(d, *n, &g);
    if (!g.cpus) {
        doctor_add_unknown(d, "not controlled by this system (as in most virtual machines)");
        return;
    }
    doctor_add_line(d, "governor %s on %u CPUs", g.mixed ? "mixed" : g.name, g.cpus);
    doctor_add_text(d, "governor", "%s", g.mixed ? "mixed" : g.name);
    assess_governors(d, &g);
    assess_turbo(d);
}

/* --- clock --- */

void doctor_check_clock(doctor *d)
{
    static const char *const slow[] = {"hpet",    "acpi_pm",         "pit",
                                       "jiffies", "refined-jiffies", NULL};
#define CLOCK "/sys/devices/system/clocksource/clocksource0"
    char now[64], can[256];
    if (!doctor_read_text(d, now, sizeof now, CLOCK "/current_clocksource")) {
        doctor_add_unknown(d, "not reported by the kernel");
        return;
    }
    doctor_read_text(d, can, sizeof can, CLOCK "/available_clocksource");
    doctor_add_line(d, "%s", now);
    doctor_add_text(d, "source", "%s", now);
    for (uint32_t i = 0; slow[i]; i++)
        if (!strcmp(now, slow[i])) {
            doctor_add_finding(d, DOCTOR_WARNING, "time comes from %s, a slow clock source", now);
            doctor_add_reason(
                d, "Each reading of the clock is a system call to a slow device: about a "
                   "microsecond instead of 20 nanoseconds, in every wait for a message.");
            if (has(can, "tsc"))
                doctor_add_command(d, "echo tsc | sudo tee " CLOCK "/current_clocksource");
            else
                doctor_add_command(d, "sudo dmesg | grep -i -E 'tsc|clocksource'  # then boot with "
                                      "tsc=reliable if the CPU has an invariant TSC");
        }
}
