/* plan/scalar.c: find the plan's scalars by name; which of them the core writes. */
#include "plan/scalar.h"

#include "base/err.h"

#include <string.h>

uint64_t plan_scalar_offset(plan *p, const char *name, double start)
{
    const uint64_t have = plan_scalar(p, name), at = (uint64_t)p->scalars.n * SCALAR_BYTES;
    if (have != UINT64_MAX)
        return have;
    *vec_push(&p->scalars) = (plan_scalar_slot){pool_text(&p->pool, name), at, start, 0};
    return at;
}

void plan_scalar_save(plan *p, const char *name, uint32_t saved)
{
    p->scalars.at[plan_scalar_offset(p, name, 0) / SCALAR_BYTES].saved = saved;
}

/* Does the core itself write the scalar (step.c, norm.c)? */
static bool is_core(const graph *g, weft_tensor t)
{
    static const char *const names[] = {"lr",      "count",      "count.low", "loss",
                                        "scale",   "clip",       "gate",      "norm",
                                        "skipped", "scale.good", "kept",      "step"};
    const graph_tensor *x = graph_tensor_at(g, t);
    bool found = x->constant || !strncmp(x->name, "sumsq", 5) || !strncmp(x->name, "count.", 6);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= !strcmp(x->name, names[i]);
    return found;
}

bool plan_scalar_assigned(const graph *g, const graph_node *n)
{
    return n->assign && graph_tensor_at(g, n->out[0])->kind == WEFT_T_SCALAR;
}

weft_status plan_scalar_check_target(const graph *g, const graph_node *n, const char *who)
{
    if (!is_core(g, n->out[0]))
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "%s: assign() to the scalar '%s', which the core writes; give the plugin's "
                    "scalar another name",
                    who, graph_tensor_at(g, n->out[0])->name);
}
