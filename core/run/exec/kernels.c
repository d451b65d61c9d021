/* run/exec/kernels.c: see kernels.h. */
#include "run/exec/kernels.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/call.h"
#include "run/exec/arena.h"
#include "run/exec/sites.h"

#include <stdlib.h>
#include <string.h>

/* The native handle of the stream, for kernels of plugins. */
static void *native(const run_executor *e)
{
    return e->table->native_stream ? PLUGIN_GET(e->table, native_stream, e->stream) : NULL;
}

/* Prepare kernel `i`. The attribute "first" depends on this rank's coordinates. */
static weft_status prepare_here(run_executor *e, uint32_t i)
{
    const plan_kernel *k = &e->plan->kernels.at[i];
    run_exec_kernel *out = &e->kernels[i];
    const graph_mesh *m = &e->plan->spec->mesh;
    weft_opspec op = k->spec;
    weft_attr *attrs = mem_alloc(op.nattr * sizeof *attrs + 1);
    for (uint32_t x = 0; x < op.nattr; x++) {
        attrs[x] = op.attrs[x];
        for (uint32_t a = 0; a < m->n && !strcmp(attrs[x].key, "first"); a++)
            attrs[x].i += (int64_t)(k->first[a] * graph_mesh_coord(m, e->rank, a));
    }
    op.attrs = attrs;
    out->own = k->own;
    weft_prepared *own = NULL;
    weft_status st =
        k->own ? PLUGIN_CALL(k->own, prepare, k->module, k->conf, &op, native(e), &out->prepared)
               : PLUGIN_CALL(e->table, prepare, e->device, &op, &own);
    if (!k->own)
        out->prepared = own;
    free(attrs);
    return st;
}

weft_status run_kernels_prepare(run_executor *e)
{
    const plan *p = e->plan;
    e->kernels = mem_alloc(p->kernels.n * sizeof *e->kernels + 1);
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        weft_status st = prepare_here(e, i);
        if (st != WEFT_OK) {
            err_context("op %s on device %s", p->kernels.at[i].spec.id, p->spec->device.c->name);
            return st;
        }
    }
    return WEFT_OK;
}

/* run_kernels_call() notes and checks device calls once a segment, not once a kernel. */
static inline weft_status run(run_executor *e, const run_exec_kernel *k, const void *const *in,
                              void *const *out, void *workspace)
{
    if (k->own)
        return PLUGIN_CALL(k->own, run, k->prepared, native(e), in, out, workspace, 0);
    return e->table->run(k->prepared, e->stream, in, out, workspace, 0);
}

/* In a traced step: wait for the device after each kernel, to measure it. */
static weft_status run_traced(run_executor *e, uint32_t number, const void *const *in,
                              void *const *out, void *workspace)
{
    const uint64_t began = clock_ns();
    weft_status st = run(e, &e->kernels[number], in, out, workspace);
    if (st == WEFT_OK)
        st = run_exec_sync(e);
    const char *id = e->plan->kernels.at[number].spec.id;
    const run_span span = {id, began, clock_ns(), e->step, TRACE_KERNEL};
    run_trace_note(&e->trace, (run_trace_event){.span = span});
    return st;
}

/* The addresses of `n` operands, inputs before outputs. */
static inline void resolve(char *base, const uint64_t *bases, const plan_ref *r, uint32_t n,
                           void **out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = r[i].absent ? NULL : base + bases[r[i].base] + r[i].offset;
}

weft_status run_kernels_call(run_executor *e, const plan_entry *x)
{
    const plan *p = e->plan;
    const plan_segment *s = &p->segments.at[x->what];
    const uint64_t *bases = &e->bases[x->first_base];
    const bool traced = run_trace_wants(&e->trace, e->step);
    const uint32_t mark = err_count;
    host_call_site *sites = run_site_instr(e, s->first);
    weft_status st = WEFT_OK;
    call_site_enter(sites);
    call_enter(e->table, "run");
    host_call_row row = call_row_begin(s->n);
    const plan_instr *n = &p->instrs.at[s->first], *const end = n + s->n;
    const plan_ref *const refs = p->refs.at;
    const run_exec_kernel *const kernels = e->kernels;
    char *const base = e->base, *const workspace = base + p->workspace;
    for (; st == WEFT_OK && n < end; n++) {
        void *all[2 * WEFT_MAX_OPERANDS];
        const void *const *in = (const void *const *)all;
        resolve(base, bases, &refs[n->first_ref], n->nin + n->nout, all);
        call_row_next(&row);
        st = traced ? run_traced(e, n->kernel, in, all + n->nin, workspace)
                    : run(e, &kernels[n->kernel], in, all + n->nin, workspace);
    }
    call_leave();
    for (uint32_t k = 0; st == WEFT_OK && k < s->n && call_site_is_new(sites); k++)
        call_site_count(sites + s->n - 1 - k); /* the first one at last */
    if (st != WEFT_OK) {
        st = host_call_check(e->table, "run", st, mark, CALL_PLAIN);
        err_context("op %s", p->kernels.at[n[-1].kernel].spec.id);
    }
    return st;
}

void run_kernels_release(run_executor *e)
{
    for (uint32_t i = 0; e->kernels && i < e->plan->kernels.n; i++) {
        const run_exec_kernel *k = &e->kernels[i];
        if (k->prepared && k->own)
            PLUGIN_DO(k->own, release, k->prepared);
        else if (k->prepared)
            PLUGIN_DO(e->table, release, k->prepared);
    }
    free(e->kernels);
}
