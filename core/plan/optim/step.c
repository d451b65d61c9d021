/* plan/optim/step.c: what follows the passes: norm (norm.c), scalars, updates, the loss of all ranks; and
 * saving.
 *
 * Lists do not branch. Whether a step is skipped is a scalar, the gate: 0 when the gradient norm is
 * not finite, and then every assignment of the updates leaves its target alone, on every rank
 * alike, because every rank has the same norm. */
#include "base/err.h"
#include "plan/build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the scalars, as a small graph of one-element tensors --- */

typedef struct scalars {
    graph g;
    weft_builder w;
    weft_status status;
} scalars;

static weft_tensor number(scalars *s, double value)
{
    weft_tensor t = 0;
    if (!s->status)
        s->status = s->w.constant(s->w.ctx, value, &t);
    return t;
}

static weft_tensor named(scalars *s, const char *name)
{
    weft_tensor t = 0;
    if (!s->status)
        s->status = s->w.scalar(s->w.ctx, name, &t);
    return t;
}

static weft_tensor apply(scalars *s, const char *id, weft_tensor a, weft_tensor b, weft_tensor c)
{
    weft_tensor in[3] = {a, b, c}, out = 0;
    if (!s->status)
        s->status = s->w.op(s->w.ctx, id, NULL, 0, in, c ? 3 : b ? 2 : 1, &out, 1);
    return out;
}

static void set(scalars *s, const char *name, weft_tensor value)
{
    weft_tensor to = named(s, name);
    if (!s->status)
        s->status = s->w.assign(s->w.ctx, to, value);
}

/* The updates done, this one included. fp32 counts to 2^24 alone, so the count is the sum of two
 * numbers, exact up to 2^48: "count", the nearest fp32, and "count.low", what rounding left
 * over (Dekker's sum of two numbers; 0 up to 2^24). */
static weft_tensor next_count(scalars *s, weft_tensor gate, weft_tensor *low)
{
    weft_tensor count = named(s, "count");
    weft_tensor more = apply(s, "add", named(s, "count.low"), gate, 0);
    weft_tensor next = apply(s, "add", count, more, 0);
    *low = apply(s, "sub", more, apply(s, "sub", next, count, 0), 0);
    set(s, "count", next);
    set(s, "count.low", *low);
    return next;
}

/* The learning rate after count + rest updates: linear warm-up, then constant, linear or cosine
 * decay to min_lr at the last step. */
static weft_tensor learning_rate(scalars *s, const spec_schedule *rate, weft_tensor count,
                                 weft_tensor rest)
{
    const double top = rate->rate, low = rate->min_rate, warmup = rate->warmup;
    const double span = fmax(1, rate->steps - warmup);
    const float near = (float)warmup;
    weft_tensor past = apply(s, "sub", count, number(s, near), 0);
    past = apply(s, "add", past, apply(s, "sub", rest, number(s, warmup - (double)near), 0), 0);
    weft_tensor t = apply(s, "div", past, number(s, span), 0);
    t = apply(s, "min", apply(s, "max", t, number(s, 0), 0), number(s, 1), 0);
    weft_tensor share = number(s, 1); /* of the way between low and top */
    if (rate->kind == SPEC_COSINE) {
        weft_tensor turn = apply(s, "cos", apply(s, "mul", t, number(s, M_PI), 0), 0, 0);
        share = apply(s, "mul", apply(s, "add", turn, number(s, 1), 0), number(s, 0.5), 0);
    } else if (rate->kind == SPEC_LINEAR) {
        share = apply(s, "sub", number(s, 1), t, 0);
    }
    weft_tensor decayed = apply(s, "mul", share, number(s, top - low), 0);
    decayed = apply(s, "add", decayed, number(s, low), 0);
    if (rate->kind == SPEC_CONSTANT)
        decayed = number(s, top);
    if (warmup < 1)
        return decayed;
    weft_tensor rising = apply(s, "mul", count, number(s, top / warmup), 0);
    weft_tensor warm = apply(s, "less", past, number(s, 0), 0);
    return apply(s, "select", rising, decayed, warm);
}

/* Dynamic loss scaling: half after a step that overflowed, double after `scale_window` good ones in
 * a row. Neither below 1, where nothing is gained, nor so high that squares of gradients overflow.
 */
static weft_tensor next_scale(scalars *s, const spec *wanted, weft_tensor scale, weft_tensor gate)
{
    double window = wanted->scale_window ? (double)wanted->scale_window : 1e30;
    weft_tensor good = apply(s, "add", named(s, "scale.good"), number(s, 1), 0);
    good = apply(s, "mul", good, gate, 0);
    weft_tensor enough = apply(s, "less", number(s, window - 1), good, 0);
    weft_tensor twice = apply(s, "mul", scale, number(s, 2), 0);
    twice = apply(s, "min", twice, number(s, 0x1p40), 0);
    weft_tensor half = apply(s, "mul", scale, number(s, 0.5), 0);
    half = apply(s, "max", half, number(s, 1), 0);
    set(s, "scale.good", apply(s, "select", number(s, 0), good, enough));
    weft_tensor next = apply(s, "select", apply(s, "select", twice, scale, enough), half, gate);
    set(s, "scale", next);
    return next;
}

/* By how much what compressed sums have kept counts in the next step (compress.c). */
static void next_kept(scalars *s, weft_tensor gate, weft_tensor scale, weft_tensor next)
{
    weft_tensor turned = next ? apply(s, "div", next, scale, 0) : number(s, 1);
    set(s, "kept", apply(s, "mul", gate, turned, 0));
}

static void scalar_graph(scalars *s, const spec *wanted, bool keeps)
{
    weft_tensor scale = named(s, "scale");
    weft_tensor norm = apply(s, "sqrt", named(s, "sumsq"), 0, 0);
    norm = apply(s, "div", norm, scale, 0);
    weft_tensor gate = apply(s, "finite", norm, 0, 0);
    weft_tensor low = 0, count = next_count(s, gate, &low);
    weft_tensor skipped = apply(s, "sub", number(s, 1), gate, 0);
    weft_tensor clip = number(s, 1);
    if (wanted->clip > 0) { /* as torch.nn.utils.clip_grad_norm_ */
        weft_tensor room = apply(s, "add", norm, number(s, 1e-6), 0);
        clip = apply(s, "min", number(s, 1), apply(s, "div", number(s, wanted->clip), room, 0), 0);
    }
    set(s, "norm", norm);
    set(s, "gate", gate);
    set(s, "clip", apply(s, "div", clip, scale, 0));
    set(s, "lr", learning_rate(s, &wanted->schedule, count, low));
    set(s, "skipped", apply(s, "add", named(s, "skipped"), skipped, 0));
    weft_tensor next = wanted->scaled ? next_scale(s, wanted, scale, gate) : 0;
    if (keeps)
        next_kept(s, gate, scale, next);
}

/* A job of another precision has no loss scale, and one that was saved without "count.low" had
 * counted to 2^24 at most. */
static void keep_scalars(builder *b)
{
    scalar_keep(b, "count", SCALAR_SAVED);
    scalar_keep(b, "skipped", SCALAR_SAVED);
    scalar_keep(b, "count.low", SCALAR_OPTIONAL);
    if (b->p->spec->scaled) {
        scalar_keep(b, "scale", SCALAR_OPTIONAL);
        scalar_keep(b, "scale.good", SCALAR_OPTIONAL);
    }
}

static weft_status build_scalars(builder *b, list *l)
{
    scalars s = {0};
    graph_init(&s.g, b->g->mesh, WEFT_F32, WEFT_F32);
    s.w = graph_builder(&s.g);
    scalar_graph(&s, b->p->spec, b->kept[0] || b->kept[1]);
    fused f;
    if (!s.status)
        s.status = graph_fuse(&s.g, 0, s.g.nodes.n, 0, &f);
    if (!s.status) {
        weft_operand io[64] = {{0}};
        ref refs[64];
        for (uint32_t i = 0; i < f.nin + f.nout; i++) {
            const tensor *t = graph_tensor(&s.g, i < f.nin ? f.in[i] : f.out[i - f.nin]);
            io[i].dtype = WEFT_F32;
            refs[i] = (ref){BASE_ABSOLUTE, 0, scalar_offset(b, t->name, 0)};
        }
        weft_opspec op = {.struct_size = sizeof op,
                          .id = "ew",
                          .nin = f.nin,
                          .nout = f.nout,
                          .in = io,
                          .out = io + f.nin,
                          .program = &f.program};
        uint32_t seg = segment_begin(b->p, "scalars");
        s.status = segment_add(b->p, seg, &op, 0, refs);
        seg = segment_end(b->p, seg, BASE_FIRST);
        uint64_t bases[BASE_FIRST] = {0};
        list_call(b->p, l, seg, bases, BASE_FIRST, 0, "norm, clip and learning rate");
        keep_scalars(b);
    }
    graph_free(&s.g);
    return s.status;
}

weft_status build_end_of_step(builder *b, list *l)
{
    l->tail = l->entries.n;
    weft_status s = build_norm(b, l);
    if (!s)
        s = build_scalars(b, l);
    if (!s)
        s = build_updates(b, l);
    if (!s)
        s = rule_scalars_assign(b, l);
    if (!s)
        s = sync_scalar(b, l, "loss", loss_axes(b));
    return s ? s : shard_gathered(b, l);
}

/* --- the loss, which one stage makes and all know in the end --- */

uint64_t loss_axes(const builder *b)
{
    return b->loss_axes | (b->stages->axis < 0 ? 0 : (uint64_t)1 << b->stages->axis);
}

weft_status clear_loss(builder *b, list *l)
{
    for (uint32_t i = 0; i < b->g->nodes.n; i++)
        if (stage_here(b->stages, b->g->nodes.at[i].block) &&
            !strcmp(graph_tensor(b->g, b->g->nodes.at[i].out[0])->name, "loss"))
            return WEFT_OK;
    weft_operand io = {.dtype = WEFT_F32};
    const ref where = {BASE_ABSOLUTE, 0, scalar_offset(b, "loss", 0)};
    const weft_ew_step zero = {.op = WEFT_EW_CONST, .scalar = 1};
    const uint16_t reg = 0;
    const weft_ew_program program = {sizeof program, 1, 1, -1, &zero, &reg};
    weft_opspec op = {
        .struct_size = sizeof op, .id = "ew", .nout = 1, .out = &io, .program = &program};
    uint32_t seg = segment_begin(b->p, "no loss yet");
    weft_status s = segment_add(b->p, seg, &op, 0, &where);
    if (s)
        return s;
    const uint64_t bases[BASE_FIRST] = {0};
    list_call(b->p, l, segment_end(b->p, seg, BASE_FIRST), bases, BASE_FIRST, 0, "no loss yet");
    return WEFT_OK;
}

/* --- saving: every parameter and state; extent.c has who writes what of it --- */

/* Where a parameter, or the group that it is in, begins in a region that is cut from `level` on. */
static uint64_t piece_at(const flat *f, const flat_param *p, uint32_t level, uint64_t region,
                         uint64_t size)
{
    if (f->blocks.at[p->block].level)
        return flat_own(f, p->group, level, region, size).at;
    return region + flat_index(f, p->first, level) * size;
}

static void set_slices(const flat *f, const flat_param *p, uint32_t level, piece *x)
{
    const flat_block *k = &f->blocks.at[p->block];
    if (!k->level)
        return;
    x->shard_axis = 1 + k->axis;
    x->pos = p->first - f->groups.at[p->group].at[0];
    x->slice = f->groups.at[p->group].count / k->parts;
    x->sliced = k->level >= level;
    x->copy_sliced = k->level >= FLAT_PARAMS;
}

static void add_piece(builder *b, const flat_param *p, const char *suffix, uint64_t region,
                      uint32_t level)
{
    plan *pl = b->p;
    piece *x = vec_push(&pl->pieces);
    *x = (piece){.param = pool_text(&pl->pool, p->name), .copy = UINT64_MAX};
    x->name = suffix ? pool_printf(&pl->pool, "%s.%s", p->name, suffix) : x->param;
    x->init = suffix ? NULL : pool_text(&pl->pool, p->init);
    x->shape = p->whole;
    x->shape.dtype = WEFT_F32;
    for (uint32_t i = 0; i < x->shape.rank; i++)
        x->shape.axes[i].name = pool_text(&pl->pool, x->shape.axes[i].name);
    for (uint32_t a = 0; a < WEFT_MAX_MESH; a++) {
        x->split[a] = p->place[a].kind == WEFT_SPLIT ? 1 + p->place[a].axis : 0;
        x->only[a] = p->place[a].kind == WEFT_HELD ? 1 + p->place[a].axis : 0;
    }
    if (b->stages->axis >= 0)
        x->only[b->stages->axis] = 1 + b->stages->mine;
    x->apart = p->never_axes & p->partial_axes;
    x->writer = p->guest ? WRITER_ELSEWHERE : 0;
    set_slices(b->f, p, level, x);
    x->offset = piece_at(b->f, p, level, region, 4);
    if (!suffix && b->f->compute != b->f->master) {
        x->copy = piece_at(b->f, p, FLAT_PARAMS, b->f->compute, b->f->compute_size);
        x->copy_dtype = b->g->compute;
    }
}

weft_status build_save(builder *b)
{
    plan *p = b->p;
    const flat *f = b->f;
    uint32_t level = f->compute == f->master ? FLAT_PARAMS : FLAT_STATE;
    for (uint32_t i = 0; i < f->params.n; i++) {
        add_piece(b, &f->params.at[i], NULL, f->master, level);
        for (uint32_t k = 0; k < f->states.n; k++)
            add_piece(b, &f->params.at[i], f->states.at[k].name, f->states.at[k].offset,
                      FLAT_STATE);
    }
    plan_choose_writers(p);
    for (uint32_t i = 0; i < p->pieces.n; i++)
        list_add(p, &p->save, ENTRY_WRITE, i, 0, p->pieces.at[i].name);
    return WEFT_OK;
}
