/* sim/cluster.c: a cluster file: options, reading, and what must hold among the values. */
#include "sim/sim.h"

#include "base/err.h"
#include <stdlib.h>
#include <string.h>

#define OPTION(type, key, dflt, help, choices, min, max)                                           \
    &(const weft_option)                                                                           \
    {                                                                                              \
        sizeof(weft_option), type, key, dflt, help, choices, min, max                              \
    }
#define TEXT(key, help) OPTION(WEFT_OPT_STRING, key, "", help, NULL, 0, 0)
#define INT(key, dflt, min, max, help) OPTION(WEFT_OPT_INT, key, dflt, help, NULL, min, max)
#define REAL(key, dflt, min, max, help) OPTION(WEFT_OPT_REAL, key, dflt, help, NULL, min, max)
#define CHOICE(key, dflt, choices, help) OPTION(WEFT_OPT_CHOICE, key, dflt, help, choices, 0, 0)

static const weft_option *const cluster_options[] = {
    TEXT("name", "what reports call it"),
    INT("devices", "8", 1, 65536, "devices of a machine, and the ranks that a machine gets"),
    INT("machines", "0", 0, 1e6, "machines; 0: as many as the job needs"),
    NULL,
};

static const weft_option *const device_options[] = {
    TEXT("name", "what reports call it"),
    REAL("memory", "80", 1e-3, 1e6, "GB of memory that a job can use"),
    REAL("bandwidth", "2039", 1e-3, 1e6, "GB/s of its memory"),
    REAL("stream", "0.85", 0.01, 1, "share of that which long kernels reach"),
    REAL("fp32", "0", 0, 1e6, "TFLOP/s of products in fp32; 0: it has none"),
    REAL("fp16", "0", 0, 1e6, "TFLOP/s of products in fp16"),
    REAL("bf16", "0", 0, 1e6, "TFLOP/s of products in bf16"),
    REAL("reach", "1", 0.01, 1, "share of the peak that the largest products reach"),
    REAL("ramp", "0", 0, 1e6, "inner length of a product at which half of that is reached"),
    REAL("units", "0", 0, 1e6, "processors, which get tiles in rounds; 0: rounds do not count"),
    REAL("tile_rows", "128", 1, 65536, "rows of the result that a processor computes at a time"),
    REAL("tile_columns", "128", 1, 65536, "columns of it"),
    REAL("launch", "0", 0, 1e6, "microseconds between one kernel and the next"),
    REAL("copy", "25", 1e-3, 1e6, "GB/s between its memory and the host's, in one direction"),
    CHOICE("attention", "fused", "fused|stored|recomputed",
           "scores of attention: never in memory; kept for backward; computed again there"),
    REAL("error", "10", 0, 100, "percent: standard deviation of kernel times from this profile"),
    NULL,
};

static const weft_option *const link_options[] = {
    INT("devices", "0", 0, 1e9, "devices that this level joins, all levels below included; 0: all"),
    REAL("ports", "1", 1e-6, 1e6, "connections of each group of the level below into this one"),
    REAL("bandwidth", "1", 1e-9, 1e6, "GB/s of a connection in one direction"),
    REAL("oversubscription", "1", 1e-3, 1e6, "what all connections together can be too much by"),
    REAL("reach", "1", 0.01, 1, "share of the bandwidth that long messages reach"),
    REAL("latency", "0", 0, 1e9, "microseconds of a step of a long message"),
    REAL("short_latency", "0", 0, 1e9, "microseconds of a step of a short message; 0: as above"),
    REAL("short_reach", "1", 0.01, 1, "share of the bandwidth that short messages reach"),
    REAL("error", "20", 0, 100, "percent: standard deviation of times over these links"),
    NULL,
};

#define LINK "link."

/* Make the sections known that are in the text; others are refused, those of jobs, too. */
static weft_status add_sections(config *c, const char *name)
{
    uint32_t links = 0;
    const char *section;
    weft_status st = config_add(c, "cluster", "cluster files", cluster_options);
    if (st == WEFT_OK)
        st = config_add(c, "accelerator", "cluster files", device_options);
    for (uint32_t i = 0; st == WEFT_OK && (section = config_section_at(c, i)); i++) {
        if (!strcmp(section, "cluster") || !strcmp(section, "accelerator"))
            continue;
        if (strncmp(section, LINK, strlen(LINK)) != 0 || strchr(section + strlen(LINK), '.') ||
            !section[strlen(LINK)])
            return err_fail(WEFT_USAGE,
                            "%s: [%s] is no section of a cluster file, which has [cluster], "
                            "[accelerator] and a section [link.NAME] for each level of links",
                            name, section);
        if (strlen(section + strlen(LINK)) >= WEFT_MAX_NAME)
            return err_fail(WEFT_USAGE, "%s: [%s]: the name is too long", name, section);
        if (++links > SIM_LEVELS)
            return err_fail(WEFT_USAGE, "%s: [%s]: more than %u levels of links", name, section,
                            SIM_LEVELS);
        st = config_add(c, section, "cluster files", link_options);
    }
    return st == WEFT_OK ? config_check(c) : st;
}

static double real_of(const config *c, const char *section, const char *key)
{
    char name[2 * WEFT_MAX_NAME + 8];
    snprintf(name, sizeof name, "%s.%s", section, key);
    return config_real(c, name);
}

static int64_t int_of(const config *c, const char *section, const char *key)
{
    char name[2 * WEFT_MAX_NAME + 8];
    snprintf(name, sizeof name, "%s.%s", section, key);
    return config_int(c, name);
}

static void copy_name(char out[WEFT_MAX_NAME], const char *text, const char *otherwise)
{
    snprintf(out, WEFT_MAX_NAME, "%s", text[0] ? text : otherwise);
}

#define LEAST_PEAK 1e6 /* FLOP/s */

static weft_status read_device(const config *c, const char *name, sim_device *d)
{
    const char *how = config_text(c, "accelerator.attention");
    *d = (sim_device){
        .memory = real_of(c, "accelerator", "memory") * 1e9,
        .bandwidth = real_of(c, "accelerator", "bandwidth") * 1e9,
        .stream = real_of(c, "accelerator", "stream"),
        .fp32 = real_of(c, "accelerator", "fp32") * 1e12,
        .fp16 = real_of(c, "accelerator", "fp16") * 1e12,
        .bf16 = real_of(c, "accelerator", "bf16") * 1e12,
        .reach = real_of(c, "accelerator", "reach"),
        .ramp = real_of(c, "accelerator", "ramp"),
        .units = real_of(c, "accelerator", "units"),
        .tile_rows = real_of(c, "accelerator", "tile_rows"),
        .tile_columns = real_of(c, "accelerator", "tile_columns"),
        .launch = real_of(c, "accelerator", "launch") * 1e-6,
        .copy = real_of(c, "accelerator", "copy") * 1e9,
        .attention = !strcmp(how, "fused")    ? SIM_FUSED
                     : !strcmp(how, "stored") ? SIM_STORED
                                              : SIM_RECOMPUTED,
        .error = real_of(c, "accelerator", "error") / 100,
    };
    copy_name(d->name, config_text(c, "accelerator.name"), "devices without a name");
    const double peaks[] = {d->fp32, d->fp16, d->bf16};
    for (uint32_t i = 0; i < 3; i++)
        if (peaks[i] > 0 && peaks[i] < LEAST_PEAK)
            return err_fail(WEFT_USAGE,
                            "%s: [accelerator] gives %g TFLOP/s as a peak; it is 0 or at least %g",
                            name, peaks[i] * 1e-12, LEAST_PEAK * 1e-12);
    if (d->fp32 + d->fp16 + d->bf16 > 0)
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "%s: [accelerator] has none of fp32, fp16 and bf16, the TFLOP/s of products; "
                    "give those that the device has",
                    name);
}

static sim_link read_link(const config *c, const char *section)
{
    int64_t devices = int_of(c, section, "devices");
    sim_link l = {
        .devices = devices ? (uint64_t)devices : UINT64_MAX,
        .ports = real_of(c, section, "ports"),
        .bandwidth = real_of(c, section, "bandwidth") * 1e9,
        .oversubscription = real_of(c, section, "oversubscription"),
        .reach = real_of(c, section, "reach"),
        .latency = real_of(c, section, "latency") * 1e-6,
        .short_latency = real_of(c, section, "short_latency") * 1e-6,
        .short_reach = real_of(c, section, "short_reach"),
        .error = real_of(c, section, "error") / 100,
    };
    copy_name(l.name, section + strlen(LINK), "");
    if (l.short_latency <= 0) {
        l.short_latency = l.latency;
        l.short_reach = 1;
    }
    return l;
}

/* Innermost first, whatever the order in the file. */
static int fewer_devices(const void *a, const void *b)
{
    const sim_link *x = a, *y = b;
    return x->devices < y->devices ? -1 : x->devices > y->devices;
}

static weft_status check_links(const char *name, const sim_cluster *c)
{
    bool whole = false; /* some level is the machine, or all are beyond it */
    if (!c->nlinks)
        return err_fail(WEFT_USAGE, "%s: no section [link.NAME]: say what joins the devices", name);
    for (uint32_t i = 0; i < c->nlinks; i++) {
        uint64_t devices = c->links[i].devices, below = i ? c->links[i - 1].devices : 1;
        whole |= devices == c->per_machine;
        if (devices == below && i)
            return err_fail(WEFT_USAGE,
                            "%s: [link.%s] and [link.%s] join equally many devices; the key "
                            "`devices` of each says how many the level joins",
                            name, c->links[i - 1].name, c->links[i].name);
        if (devices != UINT64_MAX && devices % below)
            return err_fail(WEFT_USAGE,
                            "%s: [link.%s] joins %llu devices, which groups of %llu of the level "
                            "below do not make up",
                            name, c->links[i].name, (unsigned long long)devices,
                            (unsigned long long)below);
    }
    if (c->links[c->nlinks - 1].devices != UINT64_MAX)
        return err_fail(WEFT_USAGE,
                        "%s: [link.%s] is the outermost level and joins %llu devices; the "
                        "outermost level joins all: leave its key `devices` out",
                        name, c->links[c->nlinks - 1].name,
                        (unsigned long long)c->links[c->nlinks - 1].devices);
    if (!whole && c->nlinks > 1 && c->per_machine > 1)
        return err_fail(WEFT_USAGE,
                        "%s: no [link.NAME] has devices = %llu, the devices of a machine: say what "
                        "joins those",
                        name, (unsigned long long)c->per_machine);
    return WEFT_OK;
}

static weft_status read_all(config *c, const char *name, sim_cluster *out)
{
    const char *section;
    weft_status st = add_sections(c, name);
    if (st != WEFT_OK)
        return st;
    copy_name(out->name, config_text(c, "cluster.name"), "cluster");
    out->per_machine = (uint64_t)config_int(c, "cluster.devices");
    out->machines = (uint64_t)config_int(c, "cluster.machines");
    st = read_device(c, name, &out->device);
    for (uint32_t i = 0; st == WEFT_OK && (section = config_section_at(c, i)); i++)
        if (!strncmp(section, LINK, strlen(LINK)))
            out->links[out->nlinks++] = read_link(c, section);
    qsort(out->links, out->nlinks, sizeof *out->links, fewer_devices);
    return st == WEFT_OK ? check_links(name, out) : st;
}

weft_status sim_cluster_parse(const char *text, const char *name, sim_cluster *out)
{
    config *c = NULL;
    *out = (sim_cluster){0};
    weft_status st = config_load_text(text, name, &c);
    if (st == WEFT_OK)
        st = read_all(c, name, out);
    config_destroy(c);
    return st;
}

#define MAX_TEXT (1u << 20)

weft_status sim_cluster_read(const char *path, sim_cluster *out)
{
    *out = (sim_cluster){0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_fail_errno(WEFT_USAGE, "cannot open the cluster file %s", path);
    char *text = mem_alloc(MAX_TEXT + 1);
    size_t n = fread(text, 1, MAX_TEXT, f);
    weft_status st = WEFT_OK;
    if (ferror(f))
        st = err_fail_errno(WEFT_USAGE, "cannot read the cluster file %s", path);
    else if (n == MAX_TEXT || memchr(text, 0, n))
        st = err_fail(WEFT_USAGE, "%s is not a cluster file: it %s", path,
                      n == MAX_TEXT ? "has 1 MiB or more" : "has zero bytes");
    else
        st = sim_cluster_parse(text, path, out);
    fclose(f);
    free(text);
    return st;
}
