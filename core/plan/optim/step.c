/* plan/optim/step.c: the end of a step, after the micro-batches: norm (norm.c), scalars with
 * the learning rate, updates, the loss of all ranks.
 *
 * Lists do not branch. A scalar, the gate, decides whether a step is skipped: it is 0 if the
 * gradient norm is not finite. Then no assignment of the updates changes its target, on any rank,
 * because all ranks have the same norm. */
#include "plan/optim/optim.h"

#include "plan/emit.h"
#include "plan/lower/walk.h"
#include "plan/optim/rule.h"
#include "plan/scalar.h"

#include <math.h>
#include <string.h>
#include <weft/expr.h>

/* --- the scalars, computed by a small graph of one-element tensors --- */

typedef struct scalars {
    graph g;
    weft_builder w;
    weft_expr e;
} scalars;

static weft_tensor named(scalars *s, const char *name)
{
    weft_tensor t = 0;
    if (s->e.st == WEFT_OK)
        s->e.st = s->w.scalar(s->w.ctx, name, 0, &t);
    return t;
}

static void set(scalars *s, const char *name, weft_tensor value)
{
    weft_assign(&s->e, named(s, name), value);
}

/* The number of updates including this one. fp32 counts only to 2^24, so the count is the sum of
 * two numbers, exact up to 2^48: "count", the nearest fp32, and "count.low", its rounding error
 * (Dekker's sum of two numbers; 0 up to 2^24). */
static weft_tensor next_count(scalars *s, const char *name, const char *low_name, weft_tensor gate,
                              weft_tensor *low)
{
    weft_expr *e = &s->e;
    weft_tensor count = named(s, name);
    weft_tensor more = weft_op2(e, "add", named(s, low_name), gate);
    weft_tensor next = weft_op2(e, "add", count, more);
    *low = weft_op2(e, "sub", more, weft_op2(e, "sub", next, count));
    set(s, name, next);
    set(s, low_name, *low);
    return next;
}

/* The learning rate after count + rest updates: linear warm-up, then constant, linear or cosine
 * decay to min_lr at the last step. */
static weft_tensor learning_rate(weft_expr *e, const spec_schedule *of, weft_tensor count,
                                 weft_tensor rest)
{
    const double peak = of->lr, min_lr = of->min_lr, warmup = of->warmup;
    const double span = fmax(1, of->steps - warmup);
    const float rounded = (float)warmup;
    weft_tensor past = weft_op2(e, "sub", count, weft_number(e, rounded));
    past = weft_op2(e, "add", past,
                    weft_op2(e, "sub", rest, weft_number(e, warmup - (double)rounded)));
    weft_tensor t = weft_op2(e, "div", past, weft_number(e, span));
    t = weft_op2(e, "min", weft_op2(e, "max", t, weft_number(e, 0)), weft_number(e, 1));
    weft_tensor share = weft_number(e, 1); /* of the difference between maximum and minimum rate */
    if (of->kind == SPEC_COSINE) {
        weft_tensor turn = weft_op1(e, "cos", weft_op2(e, "mul", t, weft_number(e, M_PI)));
        share =
            weft_op2(e, "mul", weft_op2(e, "add", turn, weft_number(e, 1)), weft_number(e, 0.5));
    } else if (of->kind == SPEC_LINEAR) {
        share = weft_op2(e, "sub", weft_number(e, 1), t);
    }
    weft_tensor decayed = weft_op2(e, "mul", share, weft_number(e, peak - min_lr));
    decayed = weft_op2(e, "add", decayed, weft_number(e, min_lr));
    if (of->kind == SPEC_CONSTANT)
        decayed = weft_number(e, peak);
    if (warmup < 1)
        return decayed;
    weft_tensor rising = weft_op2(e, "mul", count, weft_number(e, peak / warmup));
    weft_tensor warm = weft_op2(e, "less", past, weft_number(e, 0));
    return weft_op3(e, "select", rising, decayed, warm);
}

/* Dynamic loss scaling: halve after a step that overflowed, double after `scale_window` good ones
 * in a row. Never below 1, where nothing is gained, nor so high that squares of gradients
 * overflow. */
static weft_tensor next_scale(scalars *s, const spec *wanted, weft_tensor scale, weft_tensor gate)
{
    weft_expr *e = &s->e;
    double window = wanted->scale_window ? (double)wanted->scale_window : 1e30;
    weft_tensor good = weft_op2(e, "add", named(s, "scale.good"), weft_number(e, 1));
    good = weft_op2(e, "mul", good, gate);
    weft_tensor enough = weft_op2(e, "less", weft_number(e, window - 1), good);
    weft_tensor twice = weft_op2(e, "mul", scale, weft_number(e, 2));
    twice = weft_op2(e, "min", twice, weft_number(e, 0x1p40));
    weft_tensor half = weft_op2(e, "mul", scale, weft_number(e, 0.5));
    half = weft_op2(e, "max", half, weft_number(e, 1));
    set(s, "scale.good", weft_op3(e, "select", weft_number(e, 0), good, enough));
    weft_tensor next =
        weft_op3(e, "select", weft_op3(e, "select", twice, scale, enough), half, gate);
    set(s, "scale", next);
    return next;
}

/* The factor "kept" of the error-feedback residuals in the next step (compress.c). */
static void next_residual_scale(scalars *s, weft_tensor gate, weft_tensor scale, weft_tensor next)
{
    weft_expr *e = &s->e;
    weft_tensor turned = next ? weft_op2(e, "div", next, scale) : weft_number(e, 1);
    set(s, "kept", weft_op2(e, "mul", gate, turned));
}

static void scalar_graph(scalars *s, const spec *wanted, bool keeps)
{
    weft_expr *e = &s->e;
    weft_tensor scale = named(s, "scale");
    weft_tensor norm = weft_op1(e, "sqrt", named(s, "sumsq"));
    norm = weft_op2(e, "div", norm, scale);
    weft_tensor gate = weft_op1(e, "finite", norm);
    weft_tensor low = 0, count = next_count(s, "count", "count.low", gate, &low);
    weft_tensor skipped = weft_op2(e, "sub", weft_number(e, 1), gate);
    weft_tensor clip = weft_number(e, 1);
    if (wanted->clip > 0) { /* same as torch.nn.utils.clip_grad_norm_ */
        weft_tensor above_zero = weft_op2(e, "add", norm, weft_number(e, 1e-6));
        clip = weft_op2(e, "min", weft_number(e, 1),
                        weft_op2(e, "div", weft_number(e, wanted->clip), above_zero));
    }
    set(s, "norm", norm);
    set(s, "gate", gate);
    set(s, "clip", weft_op2(e, "div", clip, scale));
    set(s, "lr", learning_rate(e, &wanted->schedule, count, low));
    set(s, "skipped", weft_op2(e, "add", named(s, "skipped"), skipped));
    weft_tensor next = wanted->scaled ? next_scale(s, wanted, scale, gate) : 0;
    if (keeps)
        next_residual_scale(s, gate, scale, next);
}

/* Set which scalars checkpoints have. The loss scale may be missing: jobs of other precisions have
 * none. So may "count.low": jobs saved without it counted to 2^24 at most. */
static void keep_scalars(plan_builder *b)
{
    plan_scalar_save(b->p, "count", SCALAR_SAVED);
    plan_scalar_save(b->p, "skipped", SCALAR_SAVED);
    plan_scalar_save(b->p, "count.low", SCALAR_OPTIONAL);
    if (b->p->spec->scaled) {
        plan_scalar_save(b->p, "scale", SCALAR_OPTIONAL);
        plan_scalar_save(b->p, "scale.good", SCALAR_OPTIONAL);
    }
}

static void begin_scalars(const plan_builder *b, scalars *s)
{
    *s = (scalars){0};
    graph_init(&s->g, b->g->mesh, b->g->ops, WEFT_F32, WEFT_F32);
    s->w = graph_builder(&s->g);
    s->e.b = &s->w;
}

static weft_status emit_program(plan *p, plan_list *l, const graph *g, const graph_fused *f,
                                const char *name)
{
    weft_operand io[2 * WEFT_MAX_OPERANDS] = {{0}};
    plan_ref refs[2 * WEFT_MAX_OPERANDS];
    for (uint32_t i = 0; i < f->nin + f->nout; i++) {
        const graph_tensor *t = graph_tensor_at(g, i < f->nin ? f->in[i] : f->out[i - f->nin]);
        io[i].dtype = WEFT_F32;
        refs[i] = (plan_ref){BASE_ABSOLUTE, 0, plan_scalar_offset(p, t->name, 0)};
    }
    const weft_opspec op = plan_program_spec(&f->program, f->nin, f->nout, io);
    return plan_emit_op(p, l, &op,
                        &(plan_emission){.segment = "scalars", .name = name, .refs = refs});
}

/* Emit the graph as one program, and free it. */
static weft_status end_scalars(plan_builder *b, plan_list *l, scalars *s, const char *name)
{
    graph_fused f;
    if (s->e.st == WEFT_OK)
        s->e.st = graph_fuse(&s->g, &s->g.nodes, 0, NULL, &s->g.pool, &f);
    if (s->e.st == WEFT_OK)
        s->e.st = emit_program(b->p, l, &s->g, &f, name);
    graph_free(&s->g);
    return s->e.st;
}

static weft_status build_scalars(plan_builder *b, plan_list *l)
{
    scalars s;
    begin_scalars(b, &s);
    scalar_graph(&s, b->p->spec, b->zones.residual[0] || b->zones.residual[1]);
    const weft_status st = end_scalars(b, l, &s, "norm, clip and learning rate");
    if (st == WEFT_OK)
        keep_scalars(b);
    return st;
}

/* Parameters that are not updated in every step have a count of their own. */
static weft_status count_updates(plan_builder *b, plan_list *l)
{
    for (uint32_t i = 0; i < b->p->intervals.n; i++) {
        const plan_interval *x = &b->p->intervals.at[i];
        scalars s;
        weft_tensor low;
        begin_scalars(b, &s);
        next_count(&s, x->count, x->low, named(&s, "gate"), &low);
        l->interval = 1 + i;
        const weft_status st = end_scalars(b, l, &s, pool_printf(&b->p->pool, "next %s", x->count));
        l->interval = 0;
        if (st != WEFT_OK)
            return st;
        plan_scalar_save(b->p, x->count, SCALAR_OPTIONAL);
        plan_scalar_save(b->p, x->low, SCALAR_OPTIONAL);
    }
    return WEFT_OK;
}

weft_status plan_end_of_step(plan_builder *b)
{
    plan_list *l = &b->p->step;
    l->tail = l->entries.n;
    weft_status st = plan_grad_norm(b, l);
    if (st == WEFT_OK)
        st = build_scalars(b, l);
    if (st == WEFT_OK)
        st = count_updates(b, l);
    if (st == WEFT_OK)
        st = plan_updates(b, l);
    if (st == WEFT_OK)
        st = plan_interval_clear(b, l);
    if (st == WEFT_OK)
        st = plan_rule_scalars_assign(b, l);
    if (st == WEFT_OK)
        st = plan_emit_scalar_sum(b, l, "loss", plan_loss_axes(b));
    if (st == WEFT_OK)
        plan_zero_gathered(b, l);
    return st;
}

/* --- the loss: computed by one stage, then sent to all ranks --- */

uint64_t plan_loss_axes(const plan_builder *b)
{
    return b->loss_axes | plan_stage_axis_bit(b->stages);
}

weft_status plan_clear_loss(plan_builder *b, plan_list *l)
{
    for (uint32_t i = 0; i < b->g->nodes.n; i++)
        if (plan_stage_here(b->stages, b->g->nodes.at[i].block) &&
            !strcmp(graph_tensor_at(b->g, b->g->nodes.at[i].out[0])->name, "loss"))
            return WEFT_OK;
    return plan_emit_zero(b->p, l, "no loss yet", plan_scalar_offset(b->p, "loss", 0));
}
