/* run/exec/walk.c: see walk.h. */
#include "run/exec/walk.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/call.h"
#include "run/exec/arena.h"
#include "run/exec/kernels.h"
#include "run/exec/library.h"
#include "run/exec/recording.h"
#include "run/exec/sites.h"

#include <string.h>

/* How collectives are started and awaited: entry `i` of a list starts one. */
typedef struct run_exec_kind {
    weft_status (*start)(run_executor *e, const plan_list *l, uint32_t i);
    weft_status (*wait)(run_executor *e, uint32_t number);
    /* Begin and end of the last start, clock_ns(). NULL: the host does not wait. */
    void (*times)(const run_executor *e, uint32_t number, uint64_t *began, uint64_t *ended);
} run_exec_kind;

/* --- over links --- */

static bool waited_at_once(const plan_list *l, uint32_t i)
{
    return i + 1 < l->entries.n && l->entries.at[i + 1].kind == ENTRY_WAIT &&
           l->entries.at[i + 1].what == l->entries.at[i].what;
}

/* The device waits, not the host. */
static weft_status start_staged(run_executor *e, const plan_list *l, uint32_t i)
{
    const run_exec_collective *x = &e->collectives[l->entries.at[i].what];
    return comm_start(x->op, e->base + x->from, e->base + x->to, x->scratch, !waited_at_once(l, i));
}

static weft_status start_link(run_executor *e, const plan_list *l, uint32_t i)
{
    run_sites_wait_for(e, l->entries.at[i].what);
    weft_status st = run_exec_sync(e);
    return st != WEFT_OK ? st : start_staged(e, l, i);
}

static weft_status wait_op(run_executor *e, uint32_t number)
{
    return comm_wait(e->collectives[number].op, e->deadline);
}

static void op_times(const run_executor *e, uint32_t number, uint64_t *began, uint64_t *ended)
{
    comm_times(e->collectives[number].op, began, ended);
}

/* --- by a library on host memory --- */

static weft_status start_on_host(run_executor *e, const plan_list *l, uint32_t i)
{
    weft_status st = run_library_is_open(e) ? WEFT_OK : run_exec_sync(e);
    return st != WEFT_OK ? st : run_library_start_on_host(e, l, i);
}

static const run_exec_kind over_link = {start_link, wait_op, op_times},
                           over_staged_link = {start_staged, wait_op, op_times},
                           library_on_stream = {run_library_start, run_library_wait, NULL},
                           library_on_host = {start_on_host, run_library_wait_on_host,
                                              run_library_times};

void run_walk_choose_kinds(run_executor *e)
{
    const run_exec_kind *library = run_library_on_host(e) ? &library_on_host : &library_on_stream;
    for (uint32_t i = 0; i < e->plan->collectives.n; i++) {
        run_exec_collective *x = &e->collectives[i];
        if (run_library_has(e, i))
            x->kind = library;
        else if (x->op)
            x->kind = comm_is_staged(x->op) ? &over_staged_link : &over_link;
    }
}

/* --- the walk --- */

/* In a traced step. Where the device waits, and not the host, the operation is over once the device
 * is idle. */
static weft_status note_operation(run_executor *e, const plan_entry *x, const run_exec_kind *k)
{
    uint64_t began = 0, ended = 0;
    const weft_status st = run_exec_sync(e);
    if (st == WEFT_OK && k->times)
        k->times(e, x->what, &began, &ended);
    if (st == WEFT_OK)
        run_trace_end(&e->trace, x->what, began, ended);
    return st;
}

static weft_status wait(run_executor *e, const plan_entry *x, const run_exec_kind *k)
{
    const plan_collective *c = &e->plan->collectives.at[x->what];
    const bool pair = plan_between_two(c);
    const uint64_t began = clock_ns();
    weft_status st = k->wait(e, x->what);
    const uint64_t took = k->times ? clock_ns() - began : 0;
    *(pair ? &e->times.bubble_ns : &e->times.exposed_ns) += took;
    if (!pair)
        e->times.axis_ns[e->plan->channels.at[c->channel].mesh_axis] += took;
    return st == WEFT_OK && run_trace_wants(&e->trace, e->step) ? note_operation(e, x, k) : st;
}

static void mark(run_executor *e, const plan_list *l, uint32_t i)
{
    const plan_entry *x = &l->entries.at[i];
    static const char kinds[] = "?csw?";
    run_sites_entry(e, i);
    run_flight_note(&e->flight, e->step, i, kinds[x->kind], x->name);
    job_mark(e->job, e->step, i);
}

/* Replay the recorded calls [i, end). That may wait for earlier work of the device. */
static weft_status replay(run_executor *e, const plan_list *l, uint32_t i, uint32_t end,
                          weft_capture *work)
{
    call_site_enter(NULL);
    for (; i < end; i++)
        mark(e, l, i);
    weft_status st = job_failure(e->job);
    return st != WEFT_OK ? st : PLUGIN_CALL(e->table, replay, work, e->stream, 0);
}

/* The core's own part is watched, too: the frame of the executor encloses the calls of plugins. */
static weft_status run_collective(run_executor *e, const plan_list *l, uint32_t i)
{
    const plan_entry *x = &l->entries.at[i];
    const run_exec_kind *kind = e->collectives[x->what].kind;
    host_call_site *site = run_site_collective(e, x->what);
    if (!kind)
        return WEFT_OK;
    call_site_enter(site);
    call_enter(e, x->kind == ENTRY_START ? "start" : "wait");
    if (x->kind == ENTRY_START && run_trace_wants(&e->trace, e->step))
        run_trace_start(&e->trace, x->what, e->step);
    const weft_status st = x->kind == ENTRY_START ? kind->start(e, l, i) : wait(e, x, kind);
    call_leave();
    if (st == WEFT_OK && x->kind == ENTRY_WAIT)
        call_site_count(site);
    return st;
}

static weft_status run_entry(run_executor *e, const plan_list *l, uint32_t i)
{
    const plan_entry *x = &l->entries.at[i];
    mark(e, l, i);
    if (x->kind != ENTRY_CALL)
        return run_collective(e, l, i);
    weft_status st = job_failure(e->job);
    bool traced = run_trace_wants(&e->trace, e->step);
    uint64_t began = traced ? clock_ns() : 0;
    if (st == WEFT_OK)
        st = run_kernels_call(e, x);
    if (st == WEFT_OK && traced)
        st = run_exec_sync(e);
    if (st == WEFT_OK && traced)
        run_trace_note(&e->trace,
                       (run_trace_event){{x->name, began, clock_ns(), e->step, TRACE_COMPUTE},
                                         x->live,
                                         i < l->tail,
                                         x->micro_batch});
    return st;
}

/* Put rank, step and entry before the error; that of a collective already has its name. */
static void add_place(const run_executor *e, const plan_list *l, uint32_t i)
{
    const char *name = l->entries.at[i].name;
    const bool named = !strcmp(err_name(ERR_ENTRY), name);
    err_context("rank %u, step %llu, entry %u of list %s%s%s", e->rank, (unsigned long long)e->step,
                i, l->name, named ? "" : ", ", named ? "" : name);
}

static weft_status run_range(run_executor *e, const plan_list *l, uint32_t from, uint32_t end)
{
    const bool traced = run_trace_wants(&e->trace, e->step);
    if (e->trace.spans)
        run_spans_step(e->trace.spans, e->step, traced);
    for (uint32_t i = from, next; i < end; i = next) {
        weft_capture *work;
        next = i + 1;
        if (!plan_runs(e->plan, &l->entries.at[i], e->step))
            continue;
        next = traced ? i : run_recording_end(e, l, i, &work);
        weft_status st = next > i ? replay(e, l, i, next, work) : run_entry(e, l, i);
        next = next > i ? next : i + 1;
        if (st != WEFT_OK) {
            add_place(e, l, i);
            return st;
        }
    }
    if (end == l->entries.n)
        run_flight_note(&e->flight, e->step, end, 'e', l->name);
    run_sites_last_wait(e, l, end == l->entries.n);
    const weft_status st = run_exec_sync(e);
    if (st != WEFT_OK && end > from)
        add_place(e, l, end - 1);
    return st;
}

static uint64_t waited(const run_executor *e)
{
    return e->times.exposed_ns + e->times.bubble_ns;
}

/* The host waits for the device before the tail too, so that the time of the tail is known. */
weft_status run_exec_list(run_executor *e, const plan_list *l)
{
    run_sites_begin(e, l);
    weft_status st = l->tail ? run_range(e, l, 0, l->tail) : WEFT_OK;
    const uint64_t began = clock_ns() - waited(e);
    if (st == WEFT_OK)
        st = run_range(e, l, l->tail, l->entries.n);
    run_sites_end(e);
    if (l->tail)
        e->times.tail_ns += clock_ns() - waited(e) - began;
    if (st == WEFT_OK && l->tail && e->plan->residual_bytes)
        st = run_exec_read(e, plan_scalar(e->plan, "kept"), &e->residual_scale,
                           sizeof e->residual_scale);
    return st;
}
