/* run/inputs.c: see inputs.h. */
#include "run/inputs.h"

#include "run/exec/arena.h"

#include <stdlib.h>
#include <string.h>

void run_inputs_take(run_inputs *in, uint64_t microbatch, uint64_t sequence)
{
    const uint64_t n = microbatch * sequence;
    in->tokens = mem_alloc(3 * n * 4); /* and the other two */
    in->targets = in->tokens + n;
    in->positions = in->targets + n;
    for (uint64_t i = 0; i < n; i++)
        in->positions[i] = (int32_t)(i % sequence);
}

void run_inputs_free(run_inputs *in)
{
    free(in->tokens);
    *in = (run_inputs){0};
}

weft_status run_inputs_fill(executor *e, uint32_t micro_batch, const run_inputs *in)
{
    const plan *p = e->plan;
    const uint32_t part = plan_token_part(p, e->rank);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < p->inputs.n; i++) {
        const input_slot *x = &p->inputs.at[i];
        const int32_t *rows = !strcmp(x->name, "tokens")    ? in->tokens
                              : !strcmp(x->name, "targets") ? in->targets
                                                            : in->positions;
        const void *from = rows + part * x->elements;
        if (!strcmp(x->name, "first_token"))
            from = &in->first_token;
        st = run_exec_write(e, x->offset + micro_batch * x->stride, from, x->bytes);
    }
    return st;
}

weft_status run_inputs_step(executor *e, uint64_t step)
{
    const uint64_t at = plan_scalar(e->plan, "step");
    const float number = (float)step;
    return at == UINT64_MAX ? WEFT_OK : run_exec_write(e, at, &number, sizeof number);
}
