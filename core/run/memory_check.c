/* run/memory_check.c: see memory_check.h. */
#include "run/memory_check.h"

#include "base/err.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <weft/device.h>

#define PATH_CAPACITY 1024
#define DEPTH_MAX 64

/* The number after `word` in a file; with `word` "", the number at its start. */
static bool number_in(const char *path, const char *word, uint64_t *out)
{
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "re");
    const size_t n = strlen(word);
    while (f && !found && fgets(line, sizeof line, f))
        found = !strncmp(line, word, n) && sscanf(line + n, " %" SCNu64, out) == 1;
    if (f)
        fclose(f);
    return found;
}

/* Free memory of one control group: its limit minus its usage; cached files are reclaimable. */
static void look_at(const char *folder, const char *limit, const char *used, const char *cache,
                    uint64_t *least)
{
    char path[2 * PATH_CAPACITY];
    uint64_t max, now = 0, cached = 0;
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    if (!number_in(path, "", &max) || max >= UINT64_C(1) << 60)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, used);
    number_in(path, "", &now);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    number_in(path, cache, &cached);
    now = now > cached ? now - cached : 0;
    const uint64_t left = max > now ? max - now : 0;
    *least = left < *least ? left : *least;
}

/* The group `own` below `mount` and all its parents. */
static void look_upwards(const char *mount, const char *own, bool old, uint64_t *least)
{
    char folder[PATH_CAPACITY];
    const size_t top = strlen(mount);
    const int n = snprintf(folder, sizeof folder, "%s%s", mount, strcmp(own, "/") ? own : "");
    for (int depth = 0; n > 0 && n < PATH_CAPACITY && depth < DEPTH_MAX; depth++) {
        if (old)
            look_at(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache ",
                    least);
        else
            look_at(folder, "memory.max", "memory.current", "file ", least);
        char *cut = strrchr(folder, '/');
        if (!cut || (size_t)(cut - folder) < top)
            return;
        *cut = 0;
    }
}

static uint64_t groups_leave(const char *root)
{
    char path[PATH_CAPACITY], mount[PATH_CAPACITY], line[PATH_CAPACITY];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *what = strchr(line, ':'), *own = what ? strchr(what + 1, ':') : NULL;
        if (!own)
            continue;
        *own++ = 0;
        what++;
        const bool old = *what;
        if (old && strcmp(what, "memory") != 0)
            continue;
        snprintf(mount, sizeof mount, "%.512s/sys/fs/cgroup%s", root, old ? "/memory" : "");
        look_upwards(mount, own, old, &least);
    }
    if (f)
        fclose(f);
    return least;
}

uint64_t run_memory_available(const char *root, const char **of)
{
    char path[PATH_CAPACITY];
    uint64_t kib = 0;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    const uint64_t machine =
        number_in(path, "MemAvailable:", &kib) && kib ? kib * 1024 : UINT64_MAX;
    const uint64_t group = groups_leave(root);
    *of = group < machine ? "its control group leaves" : "the machine has available";
    return group < machine ? group : machine;
}

/* Without a host map, all ranks are on this machine. */
static uint32_t machine_of(const spec *s, uint32_t rank)
{
    return s->hosts.machine ? s->hosts.machine[rank] : 0;
}

/* Host memory that the ranks on the machine of `rank` need: their arenas, if the device computes in
 * it, and with `copies` what they copy for a save. */
static double needed(const plan_set *plans, const spec *s, uint32_t rank, bool copies,
                     uint32_t *here)
{
    const weft_device_table *device = s->device.c->table;
    double need = 0;
    *here = 0;
    for (uint32_t r = 0; r < s->ranks; r++) {
        if (machine_of(s, r) != machine_of(s, rank))
            continue;
        const plan *p = plan_of(plans, r);
        need += device->caps & WEFT_DEV_HOST_MEMORY ? (double)p->bytes.peak : 0;
        need += copies ? (double)plan_saved_bytes(p, r) : 0;
        ++*here;
    }
    return need;
}

weft_status run_memory_check(const plan_set *plans, const spec *s, uint32_t rank)
{
    const char *of;
    uint32_t here;
    const double need = needed(plans, s, rank, false, &here);
    const double have = need > 0 ? (double)run_memory_available("", &of) : 0;
    if (need <= have)
        return WEFT_OK;
    return err_fail(
        WEFT_NO_MEMORY,
        "the arenas of the %u rank%s on this machine need %.2f GiB together, and %s %.2f "
        "GiB; lower train.microbatch, set train.recompute = block, or use more machines",
        here, here == 1 ? "" : "s", need / 0x1p30, of, have / 0x1p30);
}

weft_status run_memory_check_copies(const run_prepared *j, uint32_t rank, bool *copies)
{
    const char *of;
    uint32_t here;
    *copies = false;
    if (!j->set.save_every || j->set.save_mode == RUN_SAVE_INLINE)
        return WEFT_OK;
    const double need = needed(&j->plans, &j->spec, rank, true, &here);
    const double have = (double)run_memory_available("", &of);
    *copies = need <= have;
    if (*copies)
        return WEFT_OK;
    if (j->set.save_mode == RUN_SAVE_BESIDE)
        return err_fail(
            WEFT_NO_MEMORY,
            "checkpoint.async = on: the memory of the %u rank%s on this machine and the "
            "copies of what %s save%s need %.2f GiB of host memory together, and %s "
            "%.2f GiB; with checkpoint.async = off nothing is copied",
            here, here == 1 ? "" : "s", here == 1 ? "it" : "they", here == 1 ? "s" : "",
            need / 0x1p30, of, have / 0x1p30);
    log_line(WEFT_LOG_INFO,
             "saves stop the run until they are written: with copies of the state the ranks on "
             "this machine need %.2f GiB of host memory, and %s %.2f GiB",
             need / 0x1p30, of, have / 0x1p30);
    return WEFT_OK;
}
