/* run/results.c: see results.h. */
#include "run/results.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "comm/comm.h"
#include "plan/scalar.h"
#include "run/exec/arena.h"
#include "run/exec/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define SKIPS_IN_A_ROW 20

static uint64_t bytes_sent(const run_executor *e)
{
    return (e->world ? comm_bytes_sent(e->world) : 0) + run_library_sent(e);
}

static uint64_t resident_bytes(void)
{
    struct rusage u = {0};
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss * 1024;
}

/* With one axis the sum says it. */
static void open_axes(run_results *r)
{
    const graph_mesh *mesh = &r->spec->mesh;
    uint32_t n = 0;
    for (uint32_t a = 0; a < mesh->n; a++)
        n += mesh->size[a] > 1;
    for (uint32_t a = 0; a < mesh->n && n > 1; a++) {
        if (mesh->size[a] == 1)
            continue;
        snprintf(r->name[r->naxes], sizeof *r->name, "axis.%s.exposed_comm_ms", mesh->name[a]);
        r->axes[r->naxes].name = r->name[r->naxes];
        r->axis[r->naxes++] = a;
    }
}

static bool is_reported(const plan_scalar_slot *x)
{
    return x->saved == SCALAR_OF_PLUGIN && strchr(x->name, '.');
}

static void open_scalars(run_results *r)
{
    const uint32_t n = r->exec->plan->scalars.n;
    r->scalars = mem_alloc((uint64_t)n * SCALAR_BYTES);
    r->reported = mem_alloc(n * sizeof *r->reported);
    for (uint32_t i = 0; i < n; i++)
        if (is_reported(&r->exec->plan->scalars.at[i]))
            r->reported[r->nreported++].name = r->exec->plan->scalars.at[i].name;
}

void run_results_open(run_results *r, uint64_t first)
{
    open_axes(r);
    open_scalars(r);
    run_ranks_begin(&r->ranks, r->exec->job, r->exec->rank, r->spec->ranks, first);
}

void run_results_close(run_results *r)
{
    free(r->scalars);
    free(r->reported);
    run_ranks_free(&r->ranks);
}

void run_results_begin(run_results *r)
{
    r->before = r->exec->times;
    r->began_ns = clock_ns();
    r->sent = bytes_sent(r->exec);
}

static void measure(run_results *r, run_metrics *m)
{
    const spec *s = r->spec;
    const run_exec_times *now = &r->exec->times;
    const double seconds = (double)(clock_ns() - r->began_ns) * 1e-9;
    m->tokens = s->batch * (uint64_t)s->sequence;
    m->step_ms = seconds * 1e3;
    m->tokens_per_s = (double)m->tokens / seconds;
    m->mfu = r->peak_flops > 0 ? r->exec->plan->flops_step / seconds / r->peak_flops : 0;
    m->comm_bytes = bytes_sent(r->exec) - r->sent;
    m->exposed_comm_ms = (double)(now->exposed_ns - r->before.exposed_ns) * 1e-6;
    m->axes = r->axes;
    for (uint32_t a = 0; a < r->naxes; a++)
        r->axes[a].value =
            (double)(now->axis_ns[r->axis[a]] - r->before.axis_ns[r->axis[a]]) * 1e-6;
    m->naxes = r->naxes;
    m->bubble_ms = (double)(now->bubble_ns - r->before.bubble_ns) * 1e-6;
    m->optimizer_ms = (double)(now->tail_ns - r->before.tail_ns) * 1e-6;
    m->compute_ms = m->step_ms - m->exposed_comm_ms - m->bubble_ms - m->optimizer_ms;
    m->peak_bytes = r->peak_bytes;
    m->resident_bytes = resident_bytes();
}

static weft_status scalar_value(const run_results *r, const char *name, double *out)
{
    const uint64_t at = plan_scalar(r->exec->plan, name);
    float value;
    if (at == UINT64_MAX)
        return err_fail(WEFT_INTERNAL, "the plan has no scalar '%s'", name);
    memcpy(&value, r->scalars + at, sizeof value);
    *out = (double)value;
    return WEFT_OK;
}

static void tell_skipped(const run_metrics *m)
{
    char scale[64] = "";
    if (m->scale > 0)
        snprintf(scale, sizeof scale, "; the loss scale is now %.0f", m->scale);
    if (log_rank() <= 0)
        log_line(WEFT_LOG_WARN, "step %llu is skipped: the gradient norm is not finite%s",
                 (unsigned long long)m->step, scale);
}

weft_status run_results_end(run_results *r, run_metrics *m)
{
    double gate = 1;
    static const char *const names[] = {"loss", "norm", "lr", "gate", "skipped", "scale"};
    double *const to[] = {&m->loss, &m->grad_norm, &m->lr, &gate, &m->skipped, &m->scale};
    const size_t n = sizeof to / sizeof *to - !r->spec->scaled;
    measure(r, m);
    weft_status st =
        run_exec_read(r->exec, 0, r->scalars, (uint64_t)r->exec->plan->scalars.n * SCALAR_BYTES);
    for (uint32_t i = 0; st == WEFT_OK && i < r->nreported; i++)
        st = scalar_value(r, r->reported[i].name, &r->reported[i].value);
    for (size_t i = 0; st == WEFT_OK && i < n; i++)
        st = scalar_value(r, names[i], to[i]);
    if (st != WEFT_OK)
        return st;
    m->told = r->reported;
    m->nscalars = r->nreported;
    m->skips = gate == 0;
    r->skips_in_a_row = m->skips ? r->skips_in_a_row + 1 : 0;
    if (m->skips)
        tell_skipped(m);
    if (r->skips_in_a_row >= SKIPS_IN_A_ROW && m->scale <= 1) /* above 1, a lower scale may help */
        return err_fail(WEFT_IO,
                        "the gradient norm was not finite in %d consecutive steps: the run has "
                        "diverged; try a lower optim.lr",
                        SKIPS_IN_A_ROW);
    return run_ranks_step(&r->ranks, m);
}
