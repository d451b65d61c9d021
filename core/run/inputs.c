/* run/inputs.c: see inputs.h. */
#include "run/inputs.h"

#include "base/err.h"
#include "base/number/half.h"
#include "run/exec/arena.h"

#include <stdlib.h>
#include <string.h>

static uint64_t row_bytes(const weft_field *f)
{
    uint64_t n = weft_dtype_size(f->dtype);
    for (uint32_t k = 0; k < f->rank; k++)
        n *= (uint64_t)f->axes[k].size;
    return n;
}

static bool is_rounded(const plan_input_slot *x, const weft_field *f)
{
    return f && f->dtype == WEFT_F32 && x->dtype != WEFT_F32;
}

static bool has_input(const plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->inputs.n; i++)
        if (!strcmp(p->inputs.at[i].name, name))
            return true;
    return false;
}

void run_inputs_take(run_inputs *in, const plan *p)
{
    const spec *s = p->spec;
    const uint64_t sequence = (uint64_t)s->sequence, rows = s->micro_batch * sequence;
    uint64_t max = 0;
    for (uint32_t i = 0; i < s->nfields; i++) {
        in->sample_bytes[i] = sequence * row_bytes(&s->fields[i]);
        if (!has_input(p, s->fields[i].name))
            continue;
        in->field[i] = mem_alloc(s->micro_batch * in->sample_bytes[i]);
        in->any = true;
    }
    for (uint32_t i = 0; i < p->inputs.n; i++) {
        const plan_input_slot *x = &p->inputs.at[i];
        if (is_rounded(x, graph_find_field(s->fields, s->nfields, x->name)))
            max = x->elements > max ? x->elements : max;
    }
    in->rounded = max ? mem_alloc(max * sizeof *in->rounded) : NULL;
    in->positions = mem_alloc(rows * sizeof *in->positions);
    for (uint64_t i = 0; i < rows; i++)
        in->positions[i] = (int32_t)(i % sequence);
}

void run_inputs_free(run_inputs *in)
{
    for (uint32_t i = 0; i < GRAPH_MAX_FIELDS; i++)
        free(in->field[i]);
    free(in->positions);
    free(in->rounded);
    *in = (run_inputs){0};
}

static const void *rounded(const run_inputs *in, const plan_input_slot *x, const float *from)
{
    for (uint64_t i = 0; i < x->elements; i++)
        in->rounded[i] = x->dtype == WEFT_F16 ? f16_from(from[i]) : bf16_from(from[i]);
    return in->rounded;
}

weft_status run_inputs_read(run_inputs *in, data_set *from, uint64_t first, uint64_t count,
                            uint64_t at)
{
    void *out[GRAPH_MAX_FIELDS] = {0};
    for (uint32_t i = 0; i < from->info.nfields; i++)
        if (in->field[i])
            out[i] = (char *)in->field[i] + at * in->sample_bytes[i];
    return in->any ? data_set_read(from, first, count, out) : WEFT_OK;
}

/* The memory from which an input is written. */
static weft_status source_of(const run_executor *e, const run_inputs *in, const plan_input_slot *x,
                             const void **out)
{
    const spec *s = e->plan->spec;
    const uint64_t before = plan_token_part(e->plan, e->rank) * x->elements;
    const weft_field *f = graph_find_field(s->fields, s->nfields, x->name);
    *out = &in->first_token;
    if (!strcmp(x->name, GRAPH_FIRST_TOKEN))
        return WEFT_OK;
    if (!f)
        return err_fail(WEFT_INTERNAL, "no field of the data fills the input '%s'", x->name);
    const bool own = f < s->fields || f >= s->fields + s->nfields;
    const char *rows = own ? (const char *)in->positions : in->field[f - s->fields];
    *out = rows + before * weft_dtype_size(f->dtype);
    if (is_rounded(x, f))
        *out = rounded(in, x, *out);
    return WEFT_OK;
}

weft_status run_inputs_fill(run_executor *e, uint32_t micro_batch, const run_inputs *in)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < e->plan->inputs.n; i++) {
        const plan_input_slot *x = &e->plan->inputs.at[i];
        const void *from;
        st = source_of(e, in, x, &from);
        if (st == WEFT_OK)
            st = run_exec_write(e, x->offset + micro_batch * x->stride, from, x->bytes);
    }
    return st;
}

weft_status run_inputs_step(run_executor *e, uint64_t step)
{
    const uint64_t at = plan_scalar(e->plan, "step");
    const float number = (float)step;
    return at == UINT64_MAX ? WEFT_OK : run_exec_write(e, at, &number, sizeof number);
}
