/* isa.c: selects the instruction set of the kernels; names for the log. */
#include "cpu.h"
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

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

static bool has_any(void)
{
    return true;
}

/* Widest first: auto selects the first that this CPU supports. */
static const struct set {
    const struct cpu_kernels *kernels;
    bool (*here)(void);
} sets[] = {{&cpu_kernels_v4bf16, has_v4bf16},
            {&cpu_kernels_v4, has_v4},
            {&cpu_kernels_v3, has_v3},
            {&cpu_kernels_v2, has_any}};
#else
static bool has_any(void)
{
    return true;
}

static const struct set {
    const struct cpu_kernels *kernels;
    bool (*here)(void);
} sets[] = {{&cpu_kernels_plain, has_any}};
#endif

weft_status cpu_isa_choose(const struct cpu_module *m, const char *asked,
                           const struct cpu_kernels **out)
{
    const char *most = NULL;
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        const bool here = sets[k].here();
        if (here && !most)
            most = sets[k].kernels->isa;
        if (here && (strcmp(asked, "auto") == 0 || strcmp(asked, sets[k].kernels->isa) == 0)) {
            *out = sets[k].kernels;
            return WEFT_OK;
        }
    }
    return cpu_fail(m, WEFT_ABSENT, "device.isa = %s, but this CPU has %s at most; use isa = auto",
                    asked, most);
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
