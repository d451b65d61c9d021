/* ops.c: the ops of this device.
 *
 * To add one: a line here; its plan (ops.h; plan_rows where it fits); its kernel, with X(name) in
 * CPU_KERNELS of kern/kern.h and its file in the list of CMakeLists.txt; a field of cpu_args for an
 * attribute that the kernel reads. Tests: plugins/op/builtin/builtin.h has the list. */
#include "ops.h"
#include "cpu.h"
#include <string.h>

#define AT(name) .kernel = offsetof(struct cpu_kernels, name)
#define ROWS .plan = plan_rows, .run = run_rows
#define COLS .plan = plan_rows, .run = run_columns
#define PRODUCT .ready = product_ready, .run = product_run, .drop = product_drop
#define HEADS .plan = plan_attention, .ready = ready_attention, .run = run_attention
#define CACHED                                                                                     \
    .plan = plan_attention_cached, .ready = ready_attention_cached, .run = run_attention_cached
#define EW .plan = plan_ew, .ready = ready_ew, .run = run_ew, .drop = drop_ew

static const struct cpu_op ops[] = {
    {"embedding", "cV*F iT", "cT*F", plan_embedding, .run = run_rows, AT(embedding)},
    {"embedding.dw", "cT*F iT xV*F", "gV*F", plan_embedding_dw, .run = run_embedding_dw,
     AT(embedding_dw)},
    {"layernorm", "cTC cC cC", "cTC fT fT", ROWS, AT(layernorm)},
    {"layernorm.dx", "cTC cTC cC fT fT", "cTC", ROWS, AT(layernorm_dx)},
    {"layernorm.dw", "cTC cTC fT fT", "gC gC", COLS, AT(layernorm_dw)},
    {"rmsnorm", "c*TC cC", "c*TC f*T", ROWS, AT(rmsnorm)},
    {"rmsnorm.dx", "c*TC c*TC cC f*T", "c*TC", ROWS, AT(rmsnorm_dx)},
    {"rmsnorm.dw", "c*TC c*TC f*T", "gC", COLS, AT(rmsnorm_dw)},
    {"linear", "cT*I c*O*I c*O?", "cT*O", plan_product, PRODUCT, .form = PRODUCT_Y},
    {"linear.dx", "cT*O c*O*I", "cT*I", plan_product, PRODUCT, .form = PRODUCT_DX},
    {"linear.dw", "cT*O cT*I", "g*O*I", plan_product, PRODUCT, .form = PRODUCT_DW},
    {"bmm", "c*BTI c*BOI", "c*BTO", plan_product, PRODUCT, .form = PRODUCT_Y},
    {"bmm.dx", "c*BTO c*BOI", "c*BTI", plan_product, PRODUCT, .form = PRODUCT_DX},
    {"bmm.dw", "c*BTO c*BTI", "g*BOI", plan_product, PRODUCT, .form = PRODUCT_DW},
    {"colsum", "cT*O", "g*O", COLS, AT(colsum)},
    {"gelu", "cT*F c*F?", "cT*F", ROWS, AT(gelu)},
    {"gelu.dx", "cT*F cT*F c*F?", "cT*F", ROWS, AT(gelu_dx)},
    {"bias_residual", "cT*C c*C cT*C", "cT*C", ROWS, AT(bias_residual)},
    {"swiglu", "cT*F cT*F", "cT*F", ROWS, AT(swiglu)},
    {"swiglu.dx", "cT*F cT*F cT*F", "cT*F cT*F", ROWS, AT(swiglu_dx)},
    {"rope", "cTHD iT?", "cTHD", plan_rope, ready_rope, run_rows, drop_rope, AT(rope)},
    {"attention", "cT3HD iT?", "cTHD fTH", HEADS, AT(attention)},
    {"attention.dx", "cTHD cT3HD cTHD fTH iT?", "cT3HD", HEADS, AT(attention_dx)},
    {"attention", "cTHD cTGD cTGD iT?", "cTHD fTH", HEADS, AT(attention), .from = 3},
    {"attention.dx", "cTHD cTHD cTGD cTGD cTHD fTH iT?", "cTHD cTGD cTGD", HEADS, AT(attention_dx),
     .from = 6},
    {"cache.write", NULL, NULL, plan_cache_write, .run = run_cache_write},
    {"attention.cached", NULL, NULL, CACHED},
    {"softmax_xent", "cTV iT f", "cTV f", plan_xent, .run = run_xent, AT(xent)},
    {"softmax_xent.loss", "cTV iT", "f", plan_xent, .run = run_xent, AT(xent_loss)},
    {"xent.max", "cTV", "fT", plan_vocab, .run = run_rows, AT(vocab_max)},
    {"xent.sums", "cTV iT fT", "fTP", plan_vocab, .run = run_rows, AT(vocab_sums)},
    {"xent.finish", "cTV iT fT fTP f", "cTV f", plan_vocab, .run = run_xent, AT(vocab_finish)},
    {"xent.loss", "iT fT fTP", "f", plan_vocab, .run = run_xent, AT(vocab_loss)},
    {"random", "x x*F", "f*F", plan_random, .run = run_random, AT(random)},
    {"dropout", "cT*F x", "cT*F", plan_random, .run = run_random, AT(dropout)},
    {"dropout", "cT*F x c*F", "cT*F", plan_random, .run = run_random, AT(dropout), .from = 3},
    {"dropout", "cT*F x c*F cT*F", "cT*F", plan_random, .run = run_random, AT(dropout), .from = 4},
    {"accumulate", NULL, NULL, plan_flat, .run = run_flat, AT(accumulate)},
    {"sum_axis", NULL, NULL, plan_reduce, .run = run_reduce, AT(sum_axis)},
    {"max_axis", NULL, NULL, plan_reduce, .run = run_reduce, AT(max_axis)},
    {"broadcast", NULL, NULL, plan_broadcast, .run = run_broadcast, AT(broadcast)},
    {"repeat", NULL, NULL, plan_broadcast, .run = run_broadcast, AT(broadcast)},
    {"cast", NULL, NULL, plan_cast, .run = run_flat, AT(cast)},
    {"sumsq", NULL, NULL, plan_sumsq, .run = run_sumsq, AT(sumsq)},
    {"interchange", "cABC", "cBAC", plan_interchange, .run = run_interchange},
    {"ew", NULL, NULL, EW},
    {"copy", NULL, NULL, EW, .form = WEFT_EW_COPY},
    {"add", NULL, NULL, EW, .form = WEFT_EW_ADD},
    {"sub", NULL, NULL, EW, .form = WEFT_EW_SUB},
    {"mul", NULL, NULL, EW, .form = WEFT_EW_MUL},
    {"div", NULL, NULL, EW, .form = WEFT_EW_DIV},
    {"min", NULL, NULL, EW, .form = WEFT_EW_MIN},
    {"max", NULL, NULL, EW, .form = WEFT_EW_MAX},
    {"sqrt", NULL, NULL, EW, .form = WEFT_EW_SQRT},
    {"neg", NULL, NULL, EW, .form = WEFT_EW_NEG},
    {"abs", NULL, NULL, EW, .form = WEFT_EW_ABS},
    {"sign", NULL, NULL, EW, .form = WEFT_EW_SIGN},
    {"exp", NULL, NULL, EW, .form = WEFT_EW_EXP},
    {"log", NULL, NULL, EW, .form = WEFT_EW_LOG},
    {"pow", NULL, NULL, EW, .form = WEFT_EW_POW},
    {"select", NULL, NULL, EW, .form = WEFT_EW_SELECT},
    {"less", NULL, NULL, EW, .form = WEFT_EW_LESS},
    {"finite", NULL, NULL, EW, .form = WEFT_EW_FINITE},
    {"cos", NULL, NULL, EW, .form = WEFT_EW_COS},
    {"round", NULL, NULL, EW, .form = WEFT_EW_ROUND},
    {"floor", NULL, NULL, EW, .form = WEFT_EW_FLOOR},
};

/* Ops that may accumulate into outputs: those with a gradient type, and sums of any shape. */
static bool may_accumulate(const struct cpu_op *op)
{
    if (op->out)
        return op->out[0] == 'g';
    return op->plan == plan_flat || op->plan == plan_sumsq ||
           op->kernel == offsetof(struct cpu_kernels, sum_axis);
}

static weft_status refuse(const struct cpu_module *m, const weft_opspec *spec)
{
    return cpu_fail(m, WEFT_UNSUPPORTED,
                    "op %s: the cpu device has no kernel for it; load a plugin that brings one",
                    spec->id);
}

static weft_status plan_found(const struct cpu_module *m, const weft_opspec *spec,
                              const struct cpu_op *op, struct cpu_args *a, uint64_t *workspace)
{
    weft_match match = {.bound = 0};
    *a = (struct cpu_args){.nin = spec->nin,
                           .accumulate = (spec->flags & WEFT_SPEC_ACCUMULATE) != 0};
    *workspace = 0;
    if (a->accumulate && !may_accumulate(op))
        return cpu_fail(m, WEFT_UNSUPPORTED, "op %s: the cpu device cannot add into its output",
                        spec->id);
    if (spec->nin > WEFT_MAX_OPERANDS || spec->nout > WEFT_MAX_OPERANDS)
        return cpu_fail(m, WEFT_USAGE, "op %s: more than %d operands", spec->id, WEFT_MAX_OPERANDS);
    if (op->in) {
        weft_status st = weft_match_spec(&match, "cpu", spec, op->in, op->out);
        if (st != WEFT_OK)
            return m->host->fail(m->host->ctx, st, match.why);
        a->dt = match.dt;
        for (uint32_t k = 0; k < spec->nout && k < 2; k++)
            a->gt[k] = spec->out[k].dtype;
    }
    return op->plan(m, op, spec, &match, a, workspace);
}

weft_status cpu_op_plan(const struct cpu_module *m, const weft_opspec *spec,
                        const struct cpu_op **op, struct cpu_args *a, uint64_t *workspace)
{
    const weft_status st = weft_check_args(m->host, spec, sizeof *spec,
                                           WEFT_SPEC_ACCUMULATE | WEFT_SPEC_DETERMINISTIC);
    *op = NULL;
    if (st != WEFT_OK)
        return st;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (strcmp(ops[k].id, spec->id) == 0 && spec->nin >= ops[k].from)
            *op = &ops[k];
    return !(*op) ? refuse(m, spec) : plan_found(m, spec, *op, a, workspace);
}
