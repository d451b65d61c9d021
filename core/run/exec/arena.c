/* run/exec/arena.c: copies between host memory and the arena, each followed by a wait. */
#include "run/exec/arena.h"

#include "base/err.h"
#include "base/time/yield.h"
#include "host/call.h"
#include "run/exec/library.h"
#include "run/exec/sites.h"

weft_status run_exec_sync(run_executor *e)
{
    weft_status st = PLUGIN_CALL(e->table, record, e->event, e->stream, 0);
    run_exec_waiting w = {0};
    uint64_t no_yield_ns = 0;
    while (st == WEFT_OK && (st = PLUGIN_POLL(e->table, event_query, e->event, 0)) == WEFT_BUSY) {
        st = job_failure(e->job);
        if (st == WEFT_OK)
            st = run_library_health(e);
        if (st == WEFT_OK)
            st = run_sites_waits(e, &w);
        if (!yield_core(&no_yield_ns))
            clock_pause();
    }
    if (st == WEFT_OK)
        run_sites_waited(e, &w);
    return st;
}

weft_status run_exec_write(run_executor *e, uint64_t offset, const void *from, uint64_t bytes)
{
    weft_status st =
        PLUGIN_CALL(e->table, copy, e->device, e->stream, e->base + offset, from, bytes, 0);
    return st != WEFT_OK ? st : run_exec_sync(e);
}

weft_status run_exec_read(run_executor *e, uint64_t offset, void *to, uint64_t bytes)
{
    weft_status st =
        PLUGIN_CALL(e->table, copy, e->device, e->stream, to, e->base + offset, bytes, 0);
    return st != WEFT_OK ? st : run_exec_sync(e);
}

weft_status run_exec_view(run_executor *e, uint64_t offset, uint64_t bytes, pool *copies,
                          const void **out)
{
    *out = e->base + offset;
    if (e->table->caps & WEFT_DEV_HOST_MEMORY)
        return WEFT_OK;
    void *copy = pool_alloc(copies, bytes);
    *out = copy;
    return run_exec_read(e, offset, copy, bytes);
}

weft_status run_exec_zero(run_executor *e, uint64_t offset, uint64_t bytes)
{
    weft_status st =
        PLUGIN_CALL(e->table, fill, e->device, e->stream, e->base + offset, 0, bytes, 0);
    return st != WEFT_OK ? st : run_exec_sync(e);
}

weft_status run_exec_scalar(run_executor *e, const char *name, double *out)
{
    float value;
    uint64_t at = plan_scalar(e->plan, name);
    if (at == UINT64_MAX)
        return err_fail(WEFT_INTERNAL, "the plan has no scalar '%s'", name);
    weft_status st = run_exec_read(e, at, &value, sizeof value);
    if (st == WEFT_OK)
        *out = value;
    return st;
}

weft_status run_exec_set_scalars(run_executor *e)
{
    for (uint32_t i = 0; i < e->plan->scalars.n; i++) {
        float value = (float)e->plan->scalars.at[i].value;
        weft_status st = run_exec_write(e, e->plan->scalars.at[i].offset, &value, sizeof value);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}
