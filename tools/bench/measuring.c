/* bench/measuring.c: see measuring.h. */
#define _GNU_SOURCE
#include "bench/measuring.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "bench/measure.h"
#include "launch/launch.h"

weft_status bench_measure_kinds(const config *c, const char *key, uint32_t kind[MEASURING_KINDS],
                                uint32_t *n)
{
    char text[256], *rest = text, *word;
    snprintf(text, sizeof text, "%s", config_text(c, key));
    *n = 0;
    while ((word = strsep(&rest, ", \t"))) {
        uint32_t found = bench_measure_kind(word);
        if (*word && !found)
            return config_fail(c, key,
                               "'%s' is none of all_reduce, reduce_scatter, all_gather, broadcast, "
                               "reduce, gather, scatter and all_to_all",
                               word);
        if (*word && *n == MEASURING_KINDS)
            return config_fail(c, key, "more than %d operations", MEASURING_KINDS);
        if (*word)
            kind[(*n)++] = found;
    }
    return *n ? WEFT_OK : config_fail(c, key, "names no operation");
}

uint32_t bench_measure_type(const char *name)
{
    static const char *const types[] = {"fp32", "bf16", "fp16", "int32", "int64"};
    for (uint32_t i = 0; i < 5; i++)
        if (strcmp(name, types[i]) == 0)
            return WEFT_F32 + i;
    return 0;
}

weft_status bench_measure_arena(uint64_t bytes, comm_arena *out)
{
    const uint64_t page = 2u << 20;
    bytes = (bytes + page - 1) & ~(page - 1);
    *out = (comm_arena){.bytes = bytes, .fd = memfd_create("weft measuring", MFD_CLOEXEC)};
    if (out->fd < 0 || ftruncate(out->fd, (off_t)bytes))
        return err_fail_errno(WEFT_NO_MEMORY, "no memory file of %llu bytes",
                              (unsigned long long)bytes);
    out->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    if (out->base == MAP_FAILED)
        return err_fail_errno(WEFT_NO_MEMORY, "cannot map %llu bytes", (unsigned long long)bytes);
    (void)madvise(out->base, bytes, MADV_HUGEPAGE);
    return WEFT_OK;
}

int bench_measure_leave(job *j, comm_world *w, weft_status st)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", err_text());
    if (st != WEFT_OK && !job_control_say(text))
        log_line(WEFT_LOG_ERROR, "%s", text);
    if (!job_leave(j, st, text) && st == WEFT_OK)
        st = WEFT_PEER;
    comm_world_destroy(w); /* its links use the job; the others know by now why they end */
    job_free(j);
    return err_exit_code(st);
}
