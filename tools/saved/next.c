/* saved/next.c: see next.h. */
#include "saved/next.h"

#include "base/number/half.h"
#include "graph/inputs.h"
#include "run/exec/arena.h"
#include "run/exec/walk.h"

#include <stdlib.h>
#include <string.h>

void saved_next_open(saved_job *s, saved_next *out)
{
    const spec *p = &s->j.spec;
    const uint64_t context = (uint64_t)p->sequence, vocab = p->model.vocab;
    *out = (saved_next){.s = s, .context = context, .vocab = vocab};
    out->tokens = mem_alloc(context * sizeof *out->tokens);
    out->positions = mem_alloc(context * sizeof *out->positions);
    out->logits = mem_alloc(vocab * sizeof *out->logits);
    out->raw = mem_alloc(vocab * sizeof *out->logits);
    out->rows = mem_alloc((s->plan->chunk + 1) * sizeof *out->rows);
    for (uint64_t i = 0; i < context; i++)
        out->positions[i] = (int32_t)i;
}

void saved_next_close(saved_next *x)
{
    free(x->tokens);
    free(x->positions);
    free(x->logits);
    free(x->raw);
    free(x->rows);
    *x = (saved_next){0};
}

void saved_next_append(saved_next *x, int32_t token)
{
    if (x->n == x->context) {
        const uint64_t kept = x->context - (x->context + 1) / 2;
        memmove(x->tokens, x->tokens + x->n - kept, kept * sizeof *x->tokens);
        x->forgotten += x->n - kept;
        x->n = kept;
        x->have = 0;
    }
    x->tokens[x->n++] = token;
}

/* Fill the inputs with `rows` rows. */
static weft_status fill(saved_next *x, const int32_t *tokens, const int32_t *positions,
                        uint64_t rows)
{
    static const int64_t first_token = 0;
    run_executor *e = &x->s->exec;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < e->plan->inputs.n; i++) {
        const plan_input_slot *slot = &e->plan->inputs.at[i];
        if (!strcmp(slot->name, GRAPH_FIRST_TOKEN))
            st = run_exec_write(e, slot->offset, &first_token, sizeof first_token);
        else
            st = run_exec_write(e, slot->offset,
                                !strcmp(slot->name, GRAPH_POSITIONS) ? positions : tokens,
                                rows * sizeof *tokens);
    }
    return st;
}

/* One chunk of what precedes the last token. */
static weft_status take_chunk(saved_next *x)
{
    const uint64_t chunk = x->s->plan->chunk, left = x->n - 1 - x->have;
    const uint64_t n = left < chunk ? left : chunk;
    /* Tokens behind the chunk are of the padding: any will do, and those of the array are valid. */
    const uint64_t from = x->have + chunk <= x->context ? x->have : x->context - chunk;
    const uint64_t skip = x->have - from;
    for (uint64_t i = 0; i < chunk; i++)
        x->rows[i] = i >= skip && i < skip + n ? (int32_t)(from + i) : -1;
    weft_status st = fill(x, x->tokens + from, x->rows, chunk);
    if (st == WEFT_OK)
        st = run_exec_list(&x->s->exec, &x->s->plan->step);
    x->have += n;
    return st;
}

static void widen(uint32_t dtype, const uint16_t *raw, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n && dtype == WEFT_BF16; i++)
        out[i] = bf16_value(raw[i]);
    for (uint64_t i = 0; i < n && dtype == WEFT_F16; i++)
        out[i] = f16_value(raw[i]);
}

static weft_status read_row(saved_next *x, uint64_t row)
{
    const uint32_t dtype = x->s->j.spec.compute;
    const uint64_t bytes = x->vocab * weft_dtype_size(dtype);
    void *to = dtype == WEFT_F32 ? (void *)x->logits : x->raw;
    weft_status st = run_exec_read(&x->s->exec, x->s->plan->logits + row * bytes, to, bytes);
    if (st == WEFT_OK)
        widen(dtype, x->raw, x->logits, x->vocab);
    return st;
}

weft_status saved_next_logits(saved_next *x)
{
    const plan *p = x->s->plan;
    const bool cached = p->chunk > 0;
    const uint64_t at = x->n - 1;
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && cached && x->have < at)
        st = take_chunk(x);
    if (st == WEFT_OK)
        st = cached ? fill(x, x->tokens + at, x->positions + at, 1)
                    : fill(x, x->tokens, x->positions, x->context);
    if (st == WEFT_OK)
        st = run_exec_list(&x->s->exec, &p->eval);
    x->have = x->n;
    return st != WEFT_OK ? st : read_row(x, cached ? 0 : at);
}
