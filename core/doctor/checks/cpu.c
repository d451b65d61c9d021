/* doctor/checks/cpu.c: kernel and program, the CPUs, their frequency, the clock. */
#include "doctor/internal.h"

#include "base/digest.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPU "/sys/devices/system/cpu"

/* --- system --- */

/* A mark of the program's own file: the same program has the same on every machine. */
static uint64_t program_mark(void)
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

void check_system(doctor *d)
{
    char kernel[128], host[128];
    if (!see_text(d, kernel, sizeof kernel, "/proc/sys/kernel/osrelease"))
        snprintf(kernel, sizeof kernel, "unknown");
    if (!see_text(d, host, sizeof host, "/proc/sys/kernel/hostname"))
        snprintf(host, sizeof host, "a machine without a name");
    tell_line(d, "%s, Linux %s, weft %s built by %s", host, kernel, WEFT_VERSION, __VERSION__);
    tell_fact(d, "kernel", "%s", kernel);
    tell_fact(d, "weft", "%s, program %016" PRIx64, WEFT_VERSION, program_mark());
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

void check_processor(doctor *d)
{
    char model[128], flags[8192], online[256], allowed[256];
    int64_t smt = 0;
    bool x86 = see_line(d, "/proc/cpuinfo", "flags", flags, sizeof flags);
    if (!see_line(d, "/proc/cpuinfo", "model name", model, sizeof model))
        snprintf(model, sizeof model, "an unnamed processor");
    see_text(d, online, sizeof online, CPU "/online");
    see_line(d, "/proc/self/status", "Cpus_allowed_list", allowed, sizeof allowed);
    see_number(d, &smt, CPU "/smt/active");
    uint32_t all = see_count(online), may = see_count(allowed);
    if (!all)
        all = may;
    if (!may)
        may = all;
    tell_line(d, "%s, %u CPUs%s, %s", model, all, smt == 1 ? " (several a core)" : "",
              x86 ? isa_of(flags) : "unknown instructions");
    tell_fact(d, "model", "%s", model);
    tell_fact(d, "isa", "%s", x86 ? isa_of(flags) : "unknown");
    tell_number(d, "cpus", all);
    tell_number(d, "allowed", may);
    tell_number(d, "smt", smt == 1);
    if (x86 && !has(flags, "avx2")) {
        tell(d, DOCTOR_NOTE, "the processor has no AVX2");
        tell_why(d, "Kernels run with SSE4.2, on a quarter of the width or less. In a virtual "
                    "machine the host may have it and hide it.");
        tell_type(d, "grep -o -w -m1 avx2 /proc/cpuinfo; qemu-system-x86_64 -cpu host ...");
    }
    if (may < all) {
        tell(d, DOCTOR_NOTE, "this process may use %u of %u CPUs (%s)", may, all, allowed);
        tell_why(d, "A mask of taskset, a cpuset or the job scheduler leaves out the others; "
                    "device.threads = auto counts those that are left.");
        tell_type(d, "taskset -cp $$; taskset -c %s weft ...", online);
    }
}

/* --- frequency --- */

typedef struct governors {
    uint32_t cpus, save, slow; /* with a governor; powersave that saves; other slow ones */
    bool mixed;
    char name[64];
    char slow_name[64];
} governors;

static void look_at_governor(doctor *d, const char *cpu, governors *g)
{
    static const char *const slow[] = {"ondemand", "conservative", "schedutil", NULL};
    char name[64], wish[64];
    if (!see_text(d, name, sizeof name, CPU "/%s/cpufreq/scaling_governor", cpu))
        return;
    g->mixed |= g->cpus++ && strcmp(name, g->name) != 0;
    snprintf(g->name, sizeof g->name, "%s", name);
    bool driven =
        see_text(d, wish, sizeof wish, CPU "/%s/cpufreq/energy_performance_preference", cpu) &&
        !strcmp(wish, "performance");
    g->save += !strcmp(name, "powersave") && !driven;
    for (uint32_t i = 0; slow[i]; i++)
        if (!strcmp(name, slow[i])) {
            g->slow++;
            snprintf(g->slow_name, sizeof g->slow_name, "%s", name);
        }
}

static void judge_governors(doctor *d, const governors *g)
{
    if (!g->save && !g->slow)
        return;
    if (g->save)
        tell(d, DOCTOR_WARNING, "%u of %u CPUs have the governor powersave", g->save, g->cpus);
    else
        tell(d, DOCTOR_NOTE, "%u of %u CPUs have the governor %s", g->slow, g->cpus, g->slow_name);
    tell_why(d, "The clock rises only after the load has, and falls in every wait for another "
                "rank: steps are slower, and the slowest rank sets the pace of all.");
    tell_type(d, "echo performance | sudo tee " CPU "/cpu*/cpufreq/scaling_governor");
}

static void judge_turbo(doctor *d)
{
    int64_t off, boost;
    const char *how = NULL;
    if (see_number(d, &off, CPU "/intel_pstate/no_turbo") && off == 1)
        how = "echo 0 | sudo tee " CPU "/intel_pstate/no_turbo";
    else if (see_number(d, &boost, CPU "/cpufreq/boost") && boost == 0)
        how = "echo 1 | sudo tee " CPU "/cpufreq/boost";
    if (!how)
        return;
    tell(d, DOCTOR_NOTE, "turbo is switched off");
    tell_why(d, "CPUs keep to their base clock even where power and heat would allow more.");
    tell_type(d, "%s", how);
}

void check_frequency(doctor *d)
{
    governors g = {0};
    unsigned number;
    for (const char *const *n = see_names(d, CPU); *n; n++)
        if (sscanf(*n, "cpu%u", &number) == 1)
            look_at_governor(d, *n, &g);
    if (!g.cpus) {
        tell_line(d, "not in this system's hands (as in most virtual machines)");
        return;
    }
    tell_line(d, "governor %s on %u CPUs", g.mixed ? "mixed" : g.name, g.cpus);
    tell_fact(d, "governor", "%s", g.mixed ? "mixed" : g.name);
    judge_governors(d, &g);
    judge_turbo(d);
}

/* --- clock --- */

void check_clock(doctor *d)
{
    static const char *const slow[] = {"hpet",    "acpi_pm",         "pit",
                                       "jiffies", "refined-jiffies", NULL};
#define CLOCK "/sys/devices/system/clocksource/clocksource0"
    char now[64], can[256];
    if (!see_text(d, now, sizeof now, CLOCK "/current_clocksource")) {
        tell_line(d, "the kernel does not say");
        return;
    }
    see_text(d, can, sizeof can, CLOCK "/available_clocksource");
    tell_line(d, "%s", now);
    tell_fact(d, "source", "%s", now);
    for (uint32_t i = 0; slow[i]; i++)
        if (!strcmp(now, slow[i])) {
            tell(d, DOCTOR_WARNING, "time comes from %s", now);
            tell_why(d, "Each look at the clock is a system call and a slow device: about a "
                        "microsecond instead of 20 nanoseconds, in every wait for a message.");
            if (has(can, "tsc"))
                tell_type(d, "echo tsc | sudo tee " CLOCK "/current_clocksource");
            else
                tell_type(d, "sudo dmesg | grep -i -E 'tsc|clocksource'  # then boot with "
                             "tsc=reliable if the CPU has an invariant one");
        }
}
