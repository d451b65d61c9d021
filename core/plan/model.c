/* plan/model.c: see model.h. */
#include "plan/model.h"

#include "base/err.h"
#include "base/number/digest.h"
#include "graph/arguments.h"
#include "host/call.h"

#include <inttypes.h>
#include <string.h>

/* Sizes whose product with the width of a model stays far below 2^63. */
#define MAX_BATCH ((int64_t)1 << 30)
#define MAX_SEQUENCE ((int64_t)1 << 24)

static weft_status check_sizes(const spec *s, int64_t batch)
{
    if (batch < 1 || batch > MAX_BATCH)
        return err_fail(WEFT_USAGE,
                        "train.microbatch gives the ranks %lld samples together; at most %lld are "
                        "possible",
                        (long long)batch, (long long)MAX_BATCH);
    if (s->sequence < 1 || s->sequence > MAX_SEQUENCE)
        return err_fail(WEFT_USAGE, "train.sequence is %lld; it must be from 1 to %lld",
                        (long long)s->sequence, (long long)MAX_SEQUENCE);
    return WEFT_OK;
}

static weft_status check_result(const graph *g, uint32_t want, int64_t vocab, weft_tensor result)
{
    weft_status st = graph_check_tensor(g, "build", "its result", result);
    if (st != WEFT_OK)
        return st;
    const graph_tensor *t = graph_tensor_at(g, result);
    if (t->kind != WEFT_T_ACTIVATION)
        return err_fail(WEFT_USAGE, "its result is %s, which no op of the graph makes", t->name);
    if (want != WEFT_MODEL_LOGITS &&
        (t->shape.dtype != WEFT_F32 || graph_shape_elements(&t->shape) != 1))
        return err_fail(WEFT_USAGE,
                        "its loss is %s, of element type %u and %" PRIu64 " elements; a loss is "
                        "one WEFT_F32",
                        t->name, t->shape.dtype, graph_shape_elements(&t->shape));
    const weft_shape *x = &t->shape;
    if (want == WEFT_MODEL_LOGITS &&
        (x->dtype != g->compute || x->rank != 2 || strcmp(x->axes[0].name, "tokens") ||
         x->axes[0].size != g->rows || x->axes[1].size != vocab))
        return err_fail(WEFT_USAGE,
                        "its outputs are %s; logits are [tokens %" PRId64 ", vocab %" PRId64
                        "] of the job's compute type",
                        t->name, g->rows, vocab);
    return WEFT_OK;
}

/* The parameters are those of the job's other graphs, and as many elements as describe() said. */
static weft_status check_params(const graph *g, const spec *s, uint64_t *built)
{
    uint64_t elements = 0, digest = DIGEST_BEGIN;
    for (uint32_t i = 0; i < g->tensors.n; i++) {
        const graph_tensor *t = &g->tensors.at[i];
        if (t->kind != WEFT_T_PARAM)
            continue;
        elements += graph_shape_elements(&t->shape);
        digest_mix(&digest, t->name, strlen(t->name) + 1);
        digest_mix(&digest, &t->block, sizeof t->block);
        for (uint32_t k = 0; k < t->shape.rank; k++) {
            digest_mix(&digest, t->shape.axes[k].name, strlen(t->shape.axes[k].name) + 1);
            digest_mix(&digest, &t->shape.axes[k].size, sizeof t->shape.axes[k].size);
        }
    }
    if (!elements || elements != s->model.params)
        return err_fail(WEFT_USAGE,
                        "it builds parameters of %" PRIu64
                        " elements, and its describe() gave %" PRIu64
                        "; both must be the same, and at least 1",
                        elements, s->model.params);
    if (*built && digest != *built)
        return err_fail(WEFT_USAGE, "it builds other parameters for another batch or for "
                                    "evaluation; names, axes, blocks and order must be the same");
    *built = digest;
    return WEFT_OK;
}

weft_status plan_model_build(graph *g, const spec *s, uint32_t dp_size, double average,
                             uint32_t want, uint64_t *built, weft_tensor *result)
{
    const host_component *c = s->family.c;
    const weft_model_table *table = c->table;
    const int64_t batch = (int64_t)(s->micro_batch * dp_size);
    weft_status st = check_sizes(s, batch);
    if (st != WEFT_OK)
        return st;
    g->fields = s->fields;
    g->nfields = s->nfields;
    g->rows = batch * s->sequence;
    const weft_builder b = graph_builder(g);
    const weft_model_args args = {.struct_size = sizeof args,
                                  .want = want,
                                  .vocab = s->model.vocab,
                                  .batch = batch,
                                  .sequence = s->sequence,
                                  .weight = 1.0 / (average * (double)s->sequence),
                                  .conf = s->family.conf,
                                  .fields = s->nfields ? s->fields : NULL,
                                  .nfields = s->nfields};
    *result = 0;
    st = PLUGIN_CALL(table, build, c->module, &args, &b, result);
    if (st == WEFT_OK)
        st = check_result(g, want, s->model.vocab, *result);
    if (st == WEFT_OK)
        st = check_params(g, s, built);
    if (st != WEFT_OK)
        err_context("model family %s", c->name);
    return st;
}
