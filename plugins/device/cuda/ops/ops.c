/* ops.c: the ops of this device. Adding one is a line here, a plan, and a kernel. */
#include "ops.h"
#include "driver/device.h"
#include <string.h>

#define ROWS .plan = plan_rows, .run = run_rows
#define TEAMS .plan = plan_teams, .run = run_teams
#define COLS .plan = plan_columns, .run = run_columns
#define XENT .plan = plan_xent, .run = run_xent
#define VOCAB .plan = plan_vocab
#define PRODUCT                                                                                    \
    .plan = plan_product, .ready = ready_product, .run = run_product, .drop = drop_product
#define JOINED .plan = plan_joined, .ready = ready_joined, .run = run_joined, .drop = drop_joined
#define SUMS K("product*", "colsum_part*", "colsum_total", "accumulate"), JOINED
#define HEADS .ready = ready_attention, .run = run_attention, .drop = drop_attention
#define FORWARD .plan = plan_attention, .kernels = {"attention*", "stats_by_token"}, HEADS
#define BACKWARD                                                                                   \
    .plan = plan_attention_dx,                                                                     \
    .kernels = {"attention_delta*", "attention_dkv*", "attention_dq*", "stats_by_head"}, HEADS
#define K(...) .kernels = {__VA_ARGS__}
#define EW K("ew"), .plan = plan_ew, .ready = ready_ew, .run = run_ew, .drop = drop_ew

static const struct gpu_op ops[] = {
    {"embedding", "cV*F iT", "cT*F", K("embedding*"), .plan = plan_embedding, .run = run_rows},
    {"embedding.dw", "cT*F iT xV*F", "gV*F",
     K("embed_keys", "sort_count", "sort_scan", "sort_scatter", "embed_runs*", "embed_crossing"),
     .plan = plan_embedding_dw, .run = run_embedding_dw},
    {"layernorm", "cTC cC cC", "cTC fT fT", K("layernorm*"), TEAMS},
    {"layernorm.dx", "cTC cTC cC fT fT", "cTC", K("layernorm_dx*"), TEAMS},
    {"layernorm.dw", "cTC cTC fT fT", "gC gC", K("layernorm_dw_part*", "colsum_total"), COLS},
    {"rmsnorm", "c*TC cC", "c*TC f*T", K("rmsnorm*"), TEAMS},
    {"rmsnorm.dx", "c*TC c*TC cC f*T", "c*TC", K("rmsnorm_dx*"), TEAMS},
    {"rmsnorm.dw", "c*TC c*TC f*T", "gC", K("rmsnorm_dw_part*", "colsum_total"), COLS},
    {"linear", "cT*I c*O*I c*O?", "cT*O", K("product*"), PRODUCT, .form = PRODUCT_Y},
    {"linear.dx", "cT*O c*O*I", "cT*I", K("product*"), PRODUCT, .form = PRODUCT_DX},
    {"linear.dw", "cT*O cT*I", "g*O*I", K("product*"), PRODUCT, .form = PRODUCT_DW},
    {"linear+gelu", "cT*I c*O*I c*O?", "cT*O~ cT*O", K("product*", "gelu*"), JOINED,
     .form = JOINED_GELU},
    {"linear+bias_residual", "cT*I c*O*I c*O cT*O", "- cT*O", K("product*", "bias_residual*"),
     JOINED, .form = JOINED_RESIDUAL},
    {"linear.dx+gelu.dx", "cT*O c*O*I cT*I", "- cT*I", K("product*", "gelu_dx*"), JOINED,
     .form = JOINED_GELU_DX},
    {"linear.dw+colsum", "cT*O cT*I", "g*O*I g*O", SUMS, .form = JOINED_DW_DB},
    {"colsum+linear.dw", "cT*O cT*I", "g*O g*O*I", SUMS, .form = JOINED_DB_DW},
    {"colsum", "cT*O", "g*O", K("colsum_part*", "colsum_total"), COLS},
    {"gelu", "cT*F c*F?", "cT*F", K("gelu*"), ROWS},
    {"gelu.dx", "cT*F cT*F c*F?", "cT*F", K("gelu_dx*"), ROWS},
    {"bias_residual", "cT*C c*C cT*C", "cT*C", K("bias_residual*"), ROWS},
    {"swiglu", "cT*F cT*F", "cT*F", K("swiglu*"), ROWS},
    {"swiglu.dx", "cT*F cT*F cT*F", "cT*F cT*F", K("swiglu_dx*"), ROWS},
    {"rope", "cTHD", "cTHD", K("rope*"), plan_rope, ready_rope, run_rope, drop_rope},
    {"attention", "cT3HD iT?", "cTHD fTH", FORWARD},
    {"attention.dx", "cTHD cT3HD cTHD fTH iT?", "cT3HD", BACKWARD},
    {"attention", "cTHD cTGD cTGD iT?", "cTHD fTH", FORWARD, .from = 3},
    {"attention.dx", "cTHD cTHD cTGD cTGD cTHD fTH iT?", "cTHD cTGD cTGD", BACKWARD, .from = 6},
    {"softmax_xent", "cTV iT f", "cTV f", K("softmax_xent*", "loss_total"), XENT},
    {"softmax_xent.loss", "cTV iT", "f", K("softmax_xent_loss*", "loss_total"), XENT},
    {"xent.max", "cTV", "fT", K("xent_max*"), VOCAB, .run = run_blocks},
    {"xent.sums", "cTV iT fT", "fTP", K("xent_sums*"), VOCAB, .run = run_blocks},
    {"xent.finish", "cTV iT fT fTP f", "cTV f", K("xent_finish*", "loss_total"), VOCAB,
     .run = run_xent},
    {"xent.loss", "iT fT fTP", "f", K("xent_loss", "loss_total"), VOCAB, .run = run_loss},
    {"accumulate", NULL, NULL, K("accumulate"), .plan = plan_flat, .run = run_flat},
    {"sumsq", NULL, NULL, K("sumsq_part", "sumsq_total"), .plan = plan_sumsq, .run = run_sumsq},
    {"interchange", "cABC", "cBAC", K("interchange*"), .plan = plan_interchange,
     .run = run_interchange},
    {"ew", EW},
    {"copy", EW, .form = WEFT_EW_COPY},
    {"add", EW, .form = WEFT_EW_ADD},
    {"sub", EW, .form = WEFT_EW_SUB},
    {"mul", EW, .form = WEFT_EW_MUL},
    {"div", EW, .form = WEFT_EW_DIV},
    {"min", EW, .form = WEFT_EW_MIN},
    {"max", EW, .form = WEFT_EW_MAX},
    {"sqrt", EW, .form = WEFT_EW_SQRT},
    {"neg", EW, .form = WEFT_EW_NEG},
    {"abs", EW, .form = WEFT_EW_ABS},
    {"sign", EW, .form = WEFT_EW_SIGN},
    {"exp", EW, .form = WEFT_EW_EXP},
    {"log", EW, .form = WEFT_EW_LOG},
    {"pow", EW, .form = WEFT_EW_POW},
    {"select", EW, .form = WEFT_EW_SELECT},
    {"less", EW, .form = WEFT_EW_LESS},
    {"finite", EW, .form = WEFT_EW_FINITE},
    {"cos", EW, .form = WEFT_EW_COS},
    {"round", EW, .form = WEFT_EW_ROUND},
    {"floor", EW, .form = WEFT_EW_FLOOR},
};

/* Which ops may add into their outputs: those with a gradient type in them, and the flat sums. */
static bool may_accumulate(const struct gpu_op *op)
{
    return op->out ? op->out[0] == 'g' : op->plan == plan_flat || op->plan == plan_sumsq;
}

static weft_status refuse(const struct gpu_module *m, const weft_opspec *spec)
{
    return gpu_fail(m, WEFT_UNSUPPORTED,
                    "op %s: the cuda device has no kernel for it; load a plugin that brings one",
                    spec->id);
}

static weft_status plan_found(const struct gpu_module *m, const weft_opspec *spec,
                              const struct gpu_op *op, struct gpu_sizes *z, uint64_t *workspace)
{
    weft_match match = {.bound = 0};
    *z = (struct gpu_sizes){.accumulate = (spec->flags & WEFT_SPEC_ACCUMULATE) != 0};
    *workspace = 0;
    if (z->accumulate && !may_accumulate(op))
        return gpu_fail(m, WEFT_UNSUPPORTED, "op %s: the cuda device cannot add into its output",
                        spec->id);
    if (spec->nin > WEFT_MAX_OPERANDS || spec->nout > WEFT_MAX_OPERANDS)
        return gpu_fail(m, WEFT_USAGE, "op %s: more than %d operands", spec->id, WEFT_MAX_OPERANDS);
    if (op->in) {
        weft_status st = weft_match_spec(&match, "cuda", spec, op->in, op->out);
        if (st != WEFT_OK)
            return m->host->fail(m->host->ctx, st, match.why);
        z->dt = match.dt;
        for (uint32_t k = 0; k < spec->nout && k < 2; k++)
            z->gt[k] = spec->out[k].dtype;
    }
    return op->plan(m, op, spec, &match, z, workspace);
}

weft_status gpu_op_plan(const struct gpu_module *m, const weft_opspec *spec,
                        const struct gpu_op **op, struct gpu_sizes *z, uint64_t *workspace)
{
    const weft_status st = weft_check_args(m->host, spec, sizeof *spec,
                                           WEFT_SPEC_ACCUMULATE | WEFT_SPEC_DETERMINISTIC);
    *op = NULL;
    if (st != WEFT_OK)
        return st;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (strcmp(ops[k].id, spec->id) == 0 && spec->nin >= ops[k].from)
            *op = &ops[k];
    return !(*op) ? refuse(m, spec) : plan_found(m, spec, *op, z, workspace);
}

/* --- prepared ops --- */

struct gpu_job gpu_job_of(const weft_prepared *p, const void *const *in, void *const *out, void *ws)
{
    struct gpu_job j = {.ws = ws, .z = p->z};
    for (uint32_t k = 0; k < p->nin && k < GPU_INPUTS; k++)
        j.in[k] = in[k];
    for (uint32_t k = 0; k < p->nout && k < GPU_OUTPUTS; k++)
        j.out[k] = out[k];
    return j;
}

static weft_status make_ready(weft_prepared *p, const weft_opspec *spec)
{
    weft_status st = gpu_op_plan(p->d->m, spec, &p->op, &p->z, &p->workspace);
    if (st == WEFT_OK)
        st = gpu_enter(p->d);
    for (int k = 0; st == WEFT_OK && k < GPU_KERNELS && p->op->kernels[k]; k++)
        st = gpu_find_kernel(p->d, p->op->kernels[k], p->z.dt, &p->f[k]);
    if (st == WEFT_OK && p->op->ready)
        st = p->op->ready(p, spec);
    return st;
}

weft_status gpu_prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out)
{
    const weft_host *host = d->m->host;
    weft_prepared *p = host->alloc(host->ctx, sizeof *p, 0);
    if (!p)
        return gpu_fail(d->m, WEFT_NO_MEMORY, "op %s: no memory for its records", spec->id);
    p->d = d;
    p->nin = spec->nin;
    p->nout = spec->nout;
    p->deterministic = (spec->flags & WEFT_SPEC_DETERMINISTIC) != 0;
    weft_status st = make_ready(p, spec);
    if (st != WEFT_OK) {
        host->free(host->ctx, p);
        return st;
    }
    p->next = d->prepared;
    p->link = &d->prepared;
    if (p->next)
        p->next->link = &p->next;
    d->prepared = p;
    *out = p;
    return WEFT_OK;
}

void gpu_release(weft_prepared *p)
{
    if (!p)
        return;
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    (void)!p->d->cu->cuCtxSetCurrent(p->d->context);
    if (p->op->drop)
        p->op->drop(p);
    p->d->m->host->free(p->d->m->host->ctx, p);
}

weft_status gpu_run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                    void *workspace, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(p->d->m->host);
    weft_status st = gpu_enter(p->d);
    return st != WEFT_OK ? st : p->op->run(p, s, in, out, workspace);
}

bool gpu_is_float(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}
