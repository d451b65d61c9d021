/* resolve/kernel_set.c: the set of kernels that all ranks compute with.
 *
 * Replicas compute the same updates and have to stay equal bit for bit, and kernels for another
 * instruction set may round differently. Ranks exchange the sets that their machines have, and all
 * use the widest that every rank has. One rank alone uses what its device chooses. */
#include "resolve/internal.h"

#include "base/err.h"
#include "base/log.h"
#include "host/call.h"

#include <stdlib.h>
#include <string.h>

typedef struct kernel_sets {
    char text[129]; /* "v2|v3|v4", narrowest first; empty: the device has one set */
} kernel_sets;

static weft_status ask_device(const resolve_state *r, kernel_sets *mine)
{
    const host_component *device = r->spec->device.c;
    const weft_device_table *table = device->table;
    uint64_t bytes = sizeof mine->text - 1;
    *mine = (kernel_sets){{0}};
    if (!table->kernel_sets)
        return WEFT_OK;
    weft_status st =
        PLUGIN_CALL(table, kernel_sets, device->module, r->spec->device.conf, mine->text, &bytes);
    if (st == WEFT_OK && bytes >= sizeof mine->text)
        st = err_fail(WEFT_INTERNAL, "kernel_sets() of the device %s gives %llu bytes, and %zu fit",
                      device->name, (unsigned long long)bytes, sizeof mine->text - 1);
    if (st == WEFT_OK)
        mine->text[bytes] = 0;
    return st;
}

static bool has(const kernel_sets *sets, const char *name, size_t n)
{
    for (const char *at = sets->text; *at; at += *at == '|') {
        const size_t here = strcspn(at, "|");
        if (here == n && !memcmp(at, name, n))
            return true;
        at += here;
    }
    return false;
}

/* Removes from `common` what `sets` lacks. */
static void keep_common(kernel_sets *common, const kernel_sets *sets)
{
    kernel_sets left = {{0}};
    size_t used = 0;
    for (const char *at = common->text; *at; at += *at == '|') {
        const size_t n = strcspn(at, "|");
        if (has(sets, at, n))
            used += (size_t)snprintf(left.text + used, sizeof left.text - used, "%s%.*s",
                                     used ? "|" : "", (int)n, at);
        at += n;
    }
    *common = left;
}

static const char *widest(const kernel_sets *sets)
{
    const char *last = strrchr(sets->text, '|');
    return last ? last + 1 : sets->text;
}

/* The first rank that lacks the widest set of rank `of`. */
static uint32_t first_without(const resolve_state *r, const kernel_sets *all, uint32_t of)
{
    const char *name = widest(&all[of]);
    uint32_t rank = 0;
    while (rank < r->spec->ranks && has(&all[rank], name, strlen(name)))
        rank++;
    return rank;
}

static void say(const resolve_state *r, const kernel_sets *all)
{
    uint32_t best = 0;
    for (uint32_t rank = 1; rank < r->spec->ranks; rank++)
        if (strlen(all[rank].text) > strlen(all[best].text))
            best = rank;
    const uint32_t without = first_without(r, all, best);
    if (without < r->spec->ranks && r->meeting.who && !r->meeting.who->rank)
        log_line(WEFT_LOG_INFO,
                 "ranks have different instruction sets: all compute with the kernels %s, since "
                 "rank %u has no %s, which rank %u has",
                 r->spec->kernel_set, without, widest(&all[best]), best);
}

static weft_status choose(resolve_state *r, kernel_sets *all)
{
    kernel_sets common = all[0];
    for (uint32_t rank = 1; rank < r->spec->ranks; rank++) {
        all[rank].text[sizeof all[rank].text - 1] = 0;
        if (!*all[rank].text != !*all[0].text)
            return err_fail(WEFT_USAGE,
                            "the device of rank %u %s sets of kernels, and that of rank 0 %s: give "
                            "all ranks the same [device] and the same build",
                            rank, *all[rank].text ? "has" : "has no",
                            *all[0].text ? "does" : "does not");
        const kernel_sets before = common;
        keep_common(&common, &all[rank]);
        if (*before.text && !*common.text)
            return err_fail(WEFT_USAGE,
                            "rank %u may compute with the kernels %s alone, and ranks before it "
                            "with %s: results of different kernels differ in their last bits, so "
                            "give all ranks the same [device]",
                            rank, all[rank].text, before.text);
    }
    if (*common.text)
        r->spec->kernel_set = pool_printf(&r->spec->pool, "%s", widest(&common));
    return WEFT_OK;
}

weft_status resolve_kernel_set(resolve_state *r)
{
    if (!r->meeting.job)
        return WEFT_OK;
    kernel_sets mine, *all = mem_alloc(r->spec->ranks * sizeof *all);
    weft_status st = ask_device(r, &mine);
    if (st == WEFT_OK)
        st = job_exchange(r->meeting.job, "kernel sets", &mine, sizeof mine, all);
    if (st == WEFT_OK)
        st = choose(r, all);
    if (st == WEFT_OK && r->spec->kernel_set)
        say(r, all);
    free(all);
    return st;
}
