/* run/scalars.c: see scalars.h. */
#include "run/scalars.h"

#include "base/err.h"
#include "plan/scalar.h"
#include "run/exec/arena.h"

#include <stdlib.h>
#include <string.h>

static bool is_reported(const plan_scalar_slot *x)
{
    return x->saved == SCALAR_OF_PLUGIN && strchr(x->name, '.');
}

void run_scalars_begin(run_scalars *s, run_executor *e)
{
    const uint32_t n = e->plan->scalars.n;
    *s = (run_scalars){.exec = e};
    s->copy = mem_alloc((uint64_t)n * SCALAR_BYTES);
    s->reported = mem_alloc(n * sizeof *s->reported);
    for (uint32_t i = 0; i < n; i++)
        if (is_reported(&e->plan->scalars.at[i]))
            s->reported[s->nscalars++].name = e->plan->scalars.at[i].name;
}

void run_scalars_free(run_scalars *s)
{
    free(s->copy);
    free(s->reported);
    *s = (run_scalars){0};
}

weft_status run_scalars_read(run_scalars *s)
{
    const uint64_t bytes = (uint64_t)s->exec->plan->scalars.n * SCALAR_BYTES;
    weft_status st = run_exec_read(s->exec, 0, s->copy, bytes);
    for (uint32_t i = 0; st == WEFT_OK && i < s->nscalars; i++)
        st = run_scalars_value(s, s->reported[i].name, &s->reported[i].value);
    return st;
}

weft_status run_scalars_value(const run_scalars *s, const char *name, double *out)
{
    const uint64_t at = plan_scalar(s->exec->plan, name);
    float value;
    if (at == UINT64_MAX)
        return err_fail(WEFT_INTERNAL, "the plan has no scalar '%s'", name);
    memcpy(&value, s->copy + at, sizeof value);
    *out = (double)value;
    return WEFT_OK;
}
