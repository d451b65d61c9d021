/* run/exec/sites.c: see sites.h. */
#include "run/exec/sites.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/watch.h"
#include "run/exec/library.h"

#include <stdio.h>
#include <stdlib.h>

#define MOMENT_NS 200000000u /* that a gap counts as at most: a process that was stopped */

/* Whether work on the device's streams waits for other ranks. */
static bool device_waits(const run_executor *e)
{
    if (e->library && !run_library_on_host(e))
        return true;
    for (uint32_t i = 0; e->collectives && i < e->plan->collectives.n; i++)
        if (e->collectives[i].op && comm_is_staged(e->collectives[i].op))
            return true;
    return false;
}

/* The watchdog's thread asks this while the rank's own is in a call. */
static bool whereabouts(const void *ctx, const host_call_site *site, char *out, size_t size)
{
    const run_executor *e = ctx;
    const run_exec_sites *s = e->sites;
    const plan *p = e->plan;
    const plan_list *l = atomic_load_explicit(&s->list, memory_order_acquire);
    const uint32_t at = atomic_load_explicit(&s->entry, memory_order_relaxed);
    if (!l || at >= l->entries.n)
        return false;
    const bool here = s->instr && site >= s->instr && site < s->instr + p->instrs.n;
    const uint32_t number = here ? p->instrs.at[site - s->instr].kernel : 0;
    snprintf(out, size, "rank %u, step %llu, entry %u of list %s, %.160s%s%.80s", e->rank,
             (unsigned long long)atomic_load_explicit(&s->step, memory_order_relaxed), at, l->name,
             l->entries.at[at].name, here ? ", op " : "",
             here ? p->kernels.at[number].spec.id : "");
    return true;
}

void run_sites_make(run_executor *e)
{
    const plan *p = e->plan;
    run_exec_sites *s = e->sites;
    if (!device_waits(e)) {
        s->instr = host_sites_new(p->instrs.n);
        s->collective = host_sites_new(p->collectives.n);
        s->waits = mem_alloc((p->collectives.n + 2 * (2 + p->extra.n)) * sizeof *s->waits);
    }
    host_watch_place(whereabouts, e);
}

void run_sites_free(run_executor *e)
{
    if (!e->sites)
        return;
    host_watch_place(NULL, NULL);
    host_sites_free(e->sites->instr);
    host_sites_free(e->sites->collective);
    free(e->sites->waits);
    free(e->sites);
    e->sites = NULL;
}

/* --- walks --- */

/* The place of a list's two waits. */
static run_exec_wait *waits_of(const run_executor *e, const plan_list *l)
{
    const plan *p = e->plan;
    uint32_t number = l == &p->step ? 0 : 1;
    for (uint32_t i = 0; i < p->extra.n; i++)
        if (l == &p->extra.at[i].l)
            number = 2 + i;
    return e->sites->waits + p->collectives.n + 2 * (uint64_t)number;
}

void run_sites_begin(run_executor *e, const plan_list *l)
{
    run_exec_sites *s = e->sites;
    atomic_store_explicit(&s->step, e->step, memory_order_relaxed);
    atomic_store_explicit(&s->entry, 0, memory_order_relaxed);
    atomic_store_explicit(&s->list, l, memory_order_release);
}

void run_sites_end(run_executor *e)
{
    atomic_store_explicit(&e->sites->list, NULL, memory_order_relaxed);
    e->sites->wait = NULL;
    call_site_enter(NULL);
}

/* --- waits for the device --- */

void run_sites_last_wait(run_executor *e, const plan_list *l, bool at_end)
{
    e->sites->wait = e->sites->waits ? waits_of(e, l) + at_end : NULL;
}

static weft_status too_long(const run_executor *e, const run_exec_wait *x, uint64_t max_ms)
{
    return err_fail(WEFT_IO,
                    "device %s has not finished its work: %.4g s have passed, all that "
                    "run.stuck_after allows; it took up to %.2g s here before; a kernel hangs or "
                    "is too slow: report it to its author, or set run.stuck_after higher (0: "
                    "run.deadline holds)",
                    e->plan->spec->device.c->name, (double)max_ms * 1e-3,
                    (double)x->longest_ns * 1e-9);
}

weft_status run_sites_waits(run_executor *e, run_exec_waiting *w)
{
    const run_exec_wait *x = e->sites ? e->sites->wait : NULL;
    const uint64_t now = clock_ns(), gap = w->last ? now - w->last : 0;
    w->last = now;
    w->ns += gap < MOMENT_NS ? gap : MOMENT_NS;
    call_tick();
    if ((double)w->ns > e->deadline * 1e9)
        return err_fail(WEFT_IO, "the device did not finish within %.3g seconds", e->deadline);
    const uint64_t max = x && x->seen >= CALL_SEEN ? host_limits_stuck(x->longest_ns / 1000000) : 0;
    return max && w->ns / 1000000 > max ? too_long(e, x, max) : WEFT_OK;
}

void run_sites_waited(run_executor *e, const run_exec_waiting *w)
{
    run_exec_wait *x = e->sites ? e->sites->wait : NULL;
    if (!x)
        return;
    e->sites->wait = NULL;
    x->seen += x->seen < CALL_SEEN;
    x->longest_ns = w->ns > x->longest_ns ? w->ns : x->longest_ns;
}
