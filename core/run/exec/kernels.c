/* run/exec/kernels.c: see kernels.h. */
#include "run/exec/kernels.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/call.h"
#include "run/exec/arena.h"

#include <stdlib.h>
#include <string.h>

/* The native handle of the stream, for kernels of plugins. */
static void *native(const executor *e)
{
    return e->table->native_stream ? PLUGIN_GET(e->table, native_stream, e->stream) : NULL;
}

/* Prepare kernel `i`. The attribute "first" depends on this rank's coordinates. */
static weft_status prepare_here(executor *e, uint32_t i)
{
    const kernel *k = &e->plan->kernels.at[i];
    const mesh *m = &e->plan->spec->mesh;
    weft_opspec op = k->spec;
    weft_attr *attrs = mem_alloc(op.nattr * sizeof *attrs + 1);
    for (uint32_t x = 0; x < op.nattr; x++) {
        attrs[x] = op.attrs[x];
        for (uint32_t a = 0; a < m->n && !strcmp(attrs[x].key, "first"); a++)
            attrs[x].i += (int64_t)(k->first[a] * graph_mesh_coord(m, e->rank, a));
    }
    op.attrs = attrs;
    weft_prepared *own = NULL;
    weft_status st =
        k->own ? PLUGIN_CALL(k->own, prepare, k->module, k->conf, &op, native(e), &e->kernels[i])
               : PLUGIN_CALL(e->table, prepare, e->device, &op, &own);
    if (!k->own)
        e->kernels[i] = own;
    free(attrs);
    return st;
}

weft_status run_kernels_prepare(executor *e)
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

/* run_kernels_call() records and checks device calls once per segment, not once per kernel. */
static inline weft_status run(executor *e, uint32_t number, const void *const *in, void *const *out)
{
    const kernel *k = &e->plan->kernels.at[number];
    void *workspace = e->base + e->plan->workspace;
    call_next();
    if (k->own)
        return PLUGIN_CALL(k->own, run, e->kernels[number], native(e), in, out, workspace, 0);
    return e->table->run(e->kernels[number], e->stream, in, out, workspace, 0);
}

/* In a traced step: wait for the device after each kernel, to measure it. */
static weft_status run_traced(executor *e, uint32_t number, const void *const *in, void *const *out)
{
    const uint64_t began = clock_ns();
    weft_status st = run(e, number, in, out);
    if (st == WEFT_OK)
        st = run_exec_sync(e);
    run_trace_note(&e->trace, e->plan->kernels.at[number].spec.id, TRACE_KERNEL, e->step, began,
                   clock_ns());
    return st;
}

static void *address(const executor *e, const uint64_t *bases, const ref *r)
{
    return r->absent ? NULL : e->base + bases[r->base] + r->offset;
}

weft_status run_kernels_call(executor *e, const entry *x)
{
    const plan *p = e->plan;
    const segment *s = &p->segments.at[x->what];
    const uint64_t *bases = &e->bases[x->first_base];
    const bool traced = run_trace_wants(&e->trace, e->step);
    const uint32_t mark = err_count;
    weft_status st = WEFT_OK;
    call_enter(e->table, "run");
    uint32_t i = 0;
    for (; st == WEFT_OK && i < s->n; i++) {
        const instr *n = &p->instrs.at[s->first + i];
        const ref *r = &p->refs.at[n->first_ref];
        const void *in[32];
        void *out[32];
        for (uint32_t k = 0; k < n->nin; k++)
            in[k] = address(e, bases, &r[k]);
        for (uint32_t k = 0; k < n->nout; k++)
            out[k] = address(e, bases, &r[n->nin + k]);
        st = traced ? run_traced(e, n->kernel, in, out) : run(e, n->kernel, in, out);
    }
    call_leave();
    if (st != WEFT_OK) {
        st = host_call_check(e->table, "run", st, mark, CALL_PLAIN);
        err_context("op %s", p->kernels.at[p->instrs.at[s->first + i - 1].kernel].spec.id);
    }
    return st;
}

void run_kernels_release(executor *e)
{
    for (uint32_t i = 0; e->kernels && i < e->plan->kernels.n; i++) {
        const kernel *k = &e->plan->kernels.at[i];
        if (e->kernels[i] && k->own)
            PLUGIN_DO(k->own, release, e->kernels[i]);
        else if (e->kernels[i])
            PLUGIN_DO(e->table, release, e->kernels[i]);
    }
    free(e->kernels);
}
