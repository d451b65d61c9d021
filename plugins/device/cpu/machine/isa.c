/* isa.c: selects the sets of kernels; names for the log.
 *
 * A set is weft's own kernels for an instruction set together with oneDNN's products for it, so
 * that two machines that use the same set get the same bits. oneDNN takes its instruction set once
 * a process, before its first use, and prefers what it is given to ONEDNN_MAX_CPU_ISA: that
 * variable is read here and limits both. */
#define _GNU_SOURCE
#include "cpu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct set {
    const char *name;
    const struct cpu_kernels *kernels;
    bool (*here)(void);
    unsigned products; /* dnnl_cpu_isa_t */
};

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_any(void)
{
    return true;
}

/* Every CPU with these also has the rest of x86-64-v3: F16C, LZCNT and MOVBE. */
static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool has_v4bf16(void)
{
    return has_v4() && __builtin_cpu_supports("avx512bf16");
}

/* The tiles of AMX with products of bf16, and an operating system that saves them and lets this
 * process use them (ARCH_REQ_XCOMP_PERM). */
static bool has_v4amx(void)
{
    const unsigned tiles = 1u << 24, bf16 = 1u << 22, saved = 3u << 17;
    const long ask = 0x1023, state = 18;
    unsigned a, b, c, d, low, high;
    if (!has_v4bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & tiles) || !(d & bf16))
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & saved) == saved && syscall(SYS_arch_prctl, ask, state) == 0;
}

/* Narrowest first. */
static const struct set sets[] = {
    {"v2", &cpu_kernels_v2, has_any, dnnl_cpu_isa_sse41},
    {"v3", &cpu_kernels_v3, has_v3, dnnl_cpu_isa_avx2},
    {"v4", &cpu_kernels_v4, has_v4, dnnl_cpu_isa_avx512_core},
    {"v4bf16", &cpu_kernels_v4bf16, has_v4bf16, dnnl_cpu_isa_avx512_core_bf16},
    {"v4amx", &cpu_kernels_v4amx, has_v4amx, dnnl_cpu_isa_avx512_core_amx},
};

/* How many of the sets ONEDNN_MAX_CPU_ISA allows. */
static size_t allowed(void)
{
    static const struct limit {
        const char *name;
        size_t sets;
    } limits[] = {{"SSE41", 1},
                  {"AVX", 1},
                  {"AVX2", 2},
                  {"AVX2_VNNI", 2},
                  {"AVX2_VNNI_2", 2},
                  {"AVX512_MIC", 2},
                  {"AVX512_MIC_4OPS", 2},
                  {"AVX512_CORE", 3},
                  {"AVX512_CORE_VNNI", 3},
                  {"AVX512_CORE_BF16", 4},
                  {"AVX512_CORE_FP16", 4}};
    const char *asked = getenv("ONEDNN_MAX_CPU_ISA");
    if (!asked)
        asked = getenv("DNNL_MAX_CPU_ISA");
    for (size_t k = 0; asked && k < sizeof limits / sizeof *limits; k++)
        if (strcasecmp(asked, limits[k].name) == 0)
            return limits[k].sets;
    return sizeof sets / sizeof *sets;
}

/* False: oneDNN computes for another instruction set since before, and stays with it. */
static bool tell_products(const struct set *s)
{
    dnnl_set_cpu_isa_hints(dnnl_cpu_isa_no_hints);
    dnnl_set_max_cpu_isa((dnnl_cpu_isa_t)s->products);
    return (unsigned)dnnl_get_effective_cpu_isa() == s->products;
}
#else
static bool has_any(void)
{
    return true;
}

static const struct set sets[] = {{"plain", &cpu_kernels_plain, has_any, 0}};

static size_t allowed(void)
{
    return sizeof sets / sizeof *sets;
}

static bool tell_products(const struct set *s)
{
    (void)s;
    return true;
}
#endif

/* The number of sets that are here, of the narrowest ones. */
static size_t count_here(void)
{
    size_t n = 1;
    const size_t max = allowed();
    while (n < max && sets[n].here())
        n++;
    return n;
}

/* *first and *n: the sets that device.isa selects: all that are here, or one. */
static weft_status select_sets(const struct cpu_module *m, const char *asked, size_t *first,
                               size_t *n)
{
    const size_t here = count_here();
    *first = 0;
    *n = here;
    if (strcmp(asked, "auto") == 0)
        return WEFT_OK;
    while (*first < here && strcmp(asked, sets[*first].name) != 0)
        ++*first;
    *n = 1;
    if (*first < here)
        return WEFT_OK;
    return cpu_fail(m, WEFT_ABSENT,
                    "device.isa = %s, but this CPU%s has %s at most; use isa = auto", asked,
                    allowed() == here ? ", or ONEDNN_MAX_CPU_ISA," : "", sets[here - 1].name);
}

weft_status cpu_kernel_sets(void *module, const weft_conf *conf, char *text, uint64_t *bytes)
{
    size_t first, n, used = 0;
    weft_status st = select_sets(module, conf->text(conf->ctx, "isa"), &first, &n);
    for (size_t k = 0; st == WEFT_OK && k < n; k++)
        used += (size_t)snprintf(text + used, *bytes - used, "%s%s", k ? "|" : "",
                                 sets[first + k].name);
    *bytes = used;
    return st;
}

weft_status cpu_isa_choose(const struct cpu_module *m, const char *asked, const char *agreed,
                           const struct cpu_kernels **out)
{
    size_t first, n;
    weft_status st = select_sets(m, agreed ? agreed : asked, &first, &n);
    if (st != WEFT_OK)
        return st;
    const struct set *chosen = &sets[first + n - 1];
    *out = chosen->kernels;
    if (!tell_products(chosen) && agreed)
        return cpu_fail(m, WEFT_UNSUPPORTED,
                        "oneDNN computes with %s here and cannot be limited to the kernels %s, "
                        "which all ranks have",
                        cpu_isa_products(), chosen->name);
    return WEFT_OK;
}

#if defined(__x86_64__)
/* The CPU's brand string, without padding blanks. */
void cpu_isa_brand(char *out, size_t cap)
{
    unsigned r[12];
    char text[sizeof r + 1] = {0};
    for (unsigned leaf = 0; leaf < 3; leaf++)
        if (!__get_cpuid(0x80000002u + leaf, &r[4 * leaf], &r[4 * leaf + 1], &r[4 * leaf + 2],
                         &r[4 * leaf + 3])) {
            snprintf(out, cap, "unnamed CPU");
            return;
        }
    memcpy(text, r, sizeof r);
    const char *p = text + strspn(text, " ");
    size_t n = strlen(p);
    while (n > 0 && p[n - 1] == ' ')
        n--;
    snprintf(out, cap, "%.*s", (int)n, p);
}

const char *cpu_isa_products(void)
{
    switch ((int)dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: return "sse4.1";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2:
    case dnnl_cpu_isa_avx2_vnni: return "avx2";
    case dnnl_cpu_isa_avx512_core:
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_bf16";
    case dnnl_cpu_isa_avx512_core_amx: return "amx";
    default: return "no wide vectors";
    }
}
#else
/* The model name from the device tree, if there is one. */
void cpu_isa_brand(char *out, size_t cap)
{
    char line[256];
    FILE *f = fopen("/proc/device-tree/model", "re");
    snprintf(out, cap, "%s", f && fgets(line, sizeof line, f) ? line : "unnamed CPU");
    if (f)
        fclose(f);
}

const char *cpu_isa_products(void)
{
    return "oneDNN's choice";
}
#endif
