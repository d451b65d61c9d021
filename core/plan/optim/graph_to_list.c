/* plan/optim/graph_to_list.c: writes a small graph into a list: update rules, and periodic lists of
 * plugins.
 *
 * Runs of elementwise nodes of one size become programs that pass over memory once; any other node
 * (a norm, a product, a sum over ranks) is an instruction or a collective of its own. An assignment
 * whose target a later run still reads is deferred to the end. Temporaries are allocated from the
 * zone of activations, which is free after the micro-batches, and freed after their last use. */
#include "plan/optim/graph_to_list.h"

#include "base/err.h"
#include "plan/collective.h"
#include "plan/emit.h"
#include "plan/lower/repack.h"
#include "plan/position.h"
#include "plan/scalar.h"

#include <string.h>

/* Elements of the memory of `t`. */
static uint64_t capacity(const graph *g, weft_tensor t)
{
    const uint64_t max = graph_tensor_at(g, t)->capacity;
    return max ? max : graph_local_elements(g, t);
}

/* Does a later node read the target of assignment `at`? */
static bool read_later(const graph_nodes *nodes, uint32_t at)
{
    for (uint32_t i = at + 1; i < nodes->n; i++)
        for (uint32_t k = 0; k < nodes->at[i].nin; k++)
            if (nodes->at[i].in[k] == nodes->at[at].out[0])
                return true;
    return false;
}

static bool has_home(const plan_to_list *s, weft_tensor t, plan_tensor_place *out)
{
    return s->job->find && s->job->find(s->job->ctx, t, out);
}

bool plan_graph_to_list_sums_number(const plan_to_list *s, const graph_node *n)
{
    plan_tensor_place h;
    if (n->comm != WEFT_ALL_REDUCE || n->group)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        const weft_tensor t = k ? n->out[0] : n->in[0];
        const graph_tensor *x = graph_tensor_at(s->g, t);
        if (graph_local_elements(s->g, t) != 1 || x->kind != WEFT_T_ACTIVATION ||
            x->shape.dtype != WEFT_F32 || has_home(s, t, &h))
            return false;
    }
    uint32_t readers = 0;
    for (uint32_t i = 0; i < s->nodes->n; i++)
        for (uint32_t k = 0; k < s->nodes->at[i].nin; k++)
            readers += s->nodes->at[i].in[k] == n->in[0];
    return readers == 1;
}

/* The level of each node: how many dependent sums of numbers come before it. An assignment comes
 * after all earlier readers of its target. */
static uint32_t *find_levels(const plan_to_list *s)
{
    uint32_t *level = pool_array(s->memory, s->nodes->n, sizeof *level);
    uint32_t *made = pool_array(s->memory, s->g->tensors.n + 1, sizeof *made); /* [tensor] */
    uint32_t *read = pool_array(s->memory, s->g->tensors.n + 1, sizeof *read);
    for (uint32_t i = 0; i < s->nodes->n; i++) {
        const graph_node *n = &s->nodes->at[i];
        uint32_t *mine = &level[i];
        for (uint32_t k = 0; k < n->nin; k++)
            *mine = made[n->in[k]] > *mine ? made[n->in[k]] : *mine;
        if (n->assign && read[n->out[0]] > *mine)
            *mine = read[n->out[0]];
        for (uint32_t k = 0; k < n->nin; k++)
            read[n->in[k]] = *mine > read[n->in[k]] ? *mine : read[n->in[k]];
        for (uint32_t k = 0; k < n->nout && !n->assign; k++)
            made[n->out[k]] = *mine + plan_graph_to_list_sums_number(s, n);
    }
    return level;
}

/* Order the nodes by level, sums of numbers last in each; then the deferred assignments. */
static void put_in_order(plan_to_list *s, bool by_levels)
{
    uint32_t *level = find_levels(s), levels = 1;
    if (!by_levels)
        memset(level, 0, s->nodes->n * sizeof *level);
    for (uint32_t i = 0; i < s->nodes->n; i++)
        levels = level[i] >= levels ? level[i] + 1 : levels;
    s->order.at = pool_array(s->memory, s->nodes->n, sizeof *s->order.at);
    for (uint32_t step = 0; step <= 2 * levels; step++)
        for (uint32_t i = 0; i < s->nodes->n; i++) {
            const graph_node *n = &s->nodes->at[i];
            const bool late = n->assign && read_later(s->nodes, i);
            const uint32_t mine = late        ? 2 * levels
                                  : by_levels ? 2 * level[i] + plan_graph_to_list_sums_number(s, n)
                                              : 0;
            if (mine == step)
                s->order.at[s->order.n++] = *n;
        }
}

/* --- memory --- */

typedef struct operands {
    weft_operand io[64];
    plan_ref refs[64];
    uint64_t bases[BASE_FIRST + 64];
    plan_tensor_place home[BASE_FIRST + 64];
    uint32_t nbases, n;
} operands;

static plan_tensor_place place_of(plan_to_list *s, weft_tensor t)
{
    const graph_tensor *x = graph_tensor_at(s->g, t);
    plan_tensor_place h = {.dtype = x->shape.dtype};
    if (x->part_of) {
        h.at = place_of(s, x->part_of).at;
        h.axis = x->part_axis;
        h.shift = graph_local_elements(s->g, t) * weft_dtype_size(h.dtype);
    } else if (x->kind == WEFT_T_SCALAR) {
        h.at = plan_scalar_offset(s->b->p, x->name, x->constant ? x->value : 0);
    } else if (s->cell[t]) {
        h.at = s->b->zones.zone + s->cell[t] - 1;
    } else if (!has_home(s, t, &h)) {
        if (!s->temp[t])
            s->temp[t] = 1 + plan_space_take(&s->b->zones.activations,
                                             capacity(s->g, t) * weft_dtype_size(x->shape.dtype));
        h.at = s->b->zones.zone + s->temp[t] - 1;
    }
    return h;
}

static weft_status add_operand(plan_to_list *s, operands *o, weft_tensor t, bool as_range)
{
    weft_shape local = graph_local_shape(s->g, t);
    if (o->n == 64 || o->nbases == MAX_BASES)
        return err_fail(WEFT_UNSUPPORTED, "%s: more than %u operands at once", s->job->name,
                        MAX_BASES - BASE_FIRST);
    const plan_tensor_place h = place_of(s, t);
    weft_operand *io = &o->io[o->n];
    *io = (weft_operand){.dtype = h.dtype, .rank = local.rank};
    for (uint32_t i = 0; i < local.rank; i++)
        io->size[i] = local.axes[i].size;
    if (as_range && local.rank) {
        io->rank = 1;
        io->size[0] = (int64_t)graph_shape_elements(&local);
    }
    if (s->job->absolute && graph_tensor_at(s->g, t)->kind == WEFT_T_SCALAR) {
        o->refs[o->n++] = (plan_ref){BASE_ABSOLUTE, 0, h.at};
        return WEFT_OK;
    }
    o->home[o->nbases] = h;
    o->bases[o->nbases] = h.at;
    o->refs[o->n++] = (plan_ref){o->nbases++, 0, 0};
    return WEFT_OK;
}

static weft_status emit_operands(plan_to_list *s, operands *o, const weft_opspec *op,
                                 const uint64_t *first)
{
    const char *segment = s->job->segment ? s->job->segment : s->job->name;
    weft_status st = plan_emit_op(s->b->p, s->l, op,
                                  &(plan_emission){.segment = segment,
                                                   .name = s->job->name,
                                                   .refs = o->refs,
                                                   .bases = o->bases,
                                                   .nbases = o->nbases,
                                                   .first = first});
    if (st != WEFT_OK)
        return st;
    for (uint32_t i = BASE_FIRST; i < o->nbases; i++)
        plan_list_shift(s->b->p, s->l, i, o->home[i].axis, o->home[i].shift);
    return WEFT_OK;
}

/* --- one run --- */

static weft_status emit_program(plan_to_list *s, uint32_t first, uint32_t end)
{
    graph_fused f;
    weft_status st = plan_runs_fuse(s, first, end, s->memory, &f);
    operands o = {.nbases = BASE_FIRST};
    for (uint32_t i = 0; st == WEFT_OK && i < f.nin + f.nout; i++)
        st = add_operand(s, &o, i < f.nin ? f.in[i] : f.out[i - f.nin], true);
    const weft_opspec op = plan_program_spec(&f.program, f.nin, f.nout, o.io);
    return st != WEFT_OK || !f.nout ? st : emit_operands(s, &o, &op, NULL);
}

static weft_status emit_node(plan_to_list *s, const graph_node *n)
{
    operands o = {.nbases = BASE_FIRST};
    weft_status st = WEFT_OK;
    weft_attr attrs[POSITION_ATTRS];
    uint64_t first[WEFT_MAX_MESH];
    const uint32_t nattr = plan_position(s->b->p, s->g, n, s->job->param, attrs, first);
    for (uint32_t k = 0; st == WEFT_OK && k < n->nin + n->nout; k++)
        st = add_operand(s, &o, k < n->nin ? n->in[k] : n->out[k - n->nin], false);
    const weft_opspec op = {.struct_size = sizeof op,
                            .id = n->id,
                            .attrs = nattr ? attrs : n->attrs,
                            .nattr = nattr ? nattr : n->nattr,
                            .nin = n->nin,
                            .nout = n->nout,
                            .in = o.io,
                            .out = o.io + n->nin};
    return st != WEFT_OK ? st : emit_operands(s, &o, &op, first);
}

/* Copy the bits as 32-bit words, which an elementwise copy does not change; memory is a multiple of
 * 64 bytes. */
static weft_status emit_bits(plan_to_list *s, const graph_node *n)
{
    static const weft_ew_step copy = {.op = WEFT_EW_COPY, .dst = 2};
    static const uint16_t reg = 2;
    const weft_ew_program program = {sizeof program, 1, 3, s->job->gate ? 1 : -1, &copy, &reg};
    operands o = {.nbases = BASE_FIRST};
    weft_status st = add_operand(s, &o, n->in[0], true);
    if (st == WEFT_OK && s->job->gate)
        st = add_operand(s, &o, s->job->gate, true);
    if (st == WEFT_OK)
        st = add_operand(s, &o, n->out[0], true);
    const uint64_t bytes = graph_local_elements(s->g, n->out[0]) * weft_dtype_size(o.io[0].dtype);
    for (uint32_t i = 0; i < o.n; i++)
        if (o.io[i].dtype != WEFT_F32)
            o.io[i] = (weft_operand){WEFT_F32, 1, 0, 0, {(int64_t)((bytes + 3) / 4)}};
    const weft_opspec op = plan_program_spec(&program, o.n - 1, 1, o.io);
    return st != WEFT_OK ? st : emit_operands(s, &o, &op, NULL);
}

/* Fill the memory of a whole tensor up to its room: with 0 behind it and, for the real elements,
 * with 1. */
static weft_status emit_fill(plan_to_list *s, const graph_node *n)
{
    plan *p = s->b->p;
    const bool real = !n->nin;
    const weft_tensor t = real ? n->out[0] : n->in[0];
    const plan_tensor_place h = place_of(s, t);
    const uint64_t mine = graph_local_elements(s->g, t), max = capacity(s->g, t);
    const plan_ref first = {BASE_FIRST, 0, 0},
                   behind = {BASE_FIRST, 0, mine * weft_dtype_size(h.dtype)};
    const uint64_t bases[BASE_FIRST + 1] = {[BASE_FIRST] = h.at};
    weft_status st = WEFT_OK;
    if (max == mine && !real)
        return WEFT_OK;
    uint32_t seg = plan_segment_begin(p, s->job->name);
    if (real)
        st = plan_segment_add_fill(p, seg, h.dtype, mine, 1, first);
    if (st == WEFT_OK && max > mine)
        st = plan_segment_add_fill(p, seg, h.dtype, max - mine, 0, behind);
    if (st == WEFT_OK)
        plan_list_call(p, s->l, plan_segment_end(p, seg, BASE_FIRST + 1), bases, BASE_FIRST + 1, 0,
                       s->job->name);
    return st;
}

static weft_status emit_copy(plan_to_list *s, const plan_repack *r, const int64_t from[3],
                             uint64_t read, uint64_t write)
{
    const uint64_t bases[BASE_FIRST + 2] = {[BASE_FIRST] = read, write};
    const plan_ref refs[2] = {{BASE_FIRST, 0, 0}, {BASE_FIRST + 1, 0, 0}};
    weft_operand io[2];
    const weft_opspec op = plan_repack_spec(r, from, io);
    return plan_emit_op(
        s->b->p, s->l, &op,
        &(plan_emission){
            .segment = s->job->name, .refs = refs, .bases = bases, .nbases = BASE_FIRST + 2});
}

/* A collective with the copies of lower/repack.h before and after it. With both, the first goes
 * straight to the output. */
static weft_status emit_repacked(plan_to_list *s, const plan_repack *r, plan_collective *c)
{
    const uint64_t in = c->in, out = c->out;
    const uint64_t temp = plan_space_take(&s->b->zones.activations, r->bytes);
    weft_status st = WEFT_OK;
    if (c->in_shift || c->out_shift)
        st =
            err_fail(WEFT_UNSUPPORTED,
                     "%s: communication of slices along another axis than the first", s->job->name);
    c->in = !r->packs ? in : r->unpacks ? out : s->b->zones.zone + temp;
    c->out = r->unpacks ? s->b->zones.zone + temp : out;
    if (st == WEFT_OK && r->packs)
        st = emit_copy(s, r, r->pack, in, c->in);
    if (st == WEFT_OK)
        st = plan_emit_collective(s->b, s->l, c, 0);
    if (st == WEFT_OK && r->unpacks)
        st = emit_copy(s, r, r->unpack, c->out, out);
    plan_space_give(&s->b->zones.activations, temp, r->bytes);
    return st;
}

/* Over a group: all ranks copy, then those of the group communicate in place. */
static weft_status emit_grouped(plan_to_list *s, const graph_node *n, plan_collective *c)
{
    const graph_group *k = &s->g->groups[n->group - 1];
    plan *p = s->b->p;
    operands o = {.nbases = BASE_FIRST};
    weft_status st = add_operand(s, &o, n->in[0], true);
    if (st == WEFT_OK)
        st = add_operand(s, &o, n->out[0], true);
    const weft_opspec op = plan_copy_spec(o.io);
    if (st == WEFT_OK)
        st = emit_operands(s, &o, &op, NULL);
    c->in = c->out;
    c->channel = plan_channel_some(p, pool_printf(&p->pool, "%s.update", k->name), k->mesh_axis,
                                   k->coords, k->n);
    return st == WEFT_OK ? plan_emit_collective(s->b, s->l, c, 0) : st;
}

static weft_status emit_comm(plan_to_list *s, const graph_node *n)
{
    plan *p = s->b->p;
    plan_repack r;
    const plan_tensor_place in = place_of(s, n->in[0]), out = place_of(s, n->out[0]);
    const uint64_t a = capacity(s->g, n->in[0]), z = capacity(s->g, n->out[0]);
    plan_collective c = {.channel = n->group ? 0 : plan_channel_number(p, "update", n->mesh_axis),
                         .kind = n->comm,
                         .redop = n->redop,
                         .dtype = in.dtype,
                         .count = a > z ? a : z,
                         .in = in.at,
                         .out = out.at};
    if (in.shift || out.shift) {
        c.in_shift = in.shift;
        c.out_shift = out.shift;
        c.shift_axis = in.shift ? in.axis : out.axis;
        if (in.shift && out.shift && in.axis != out.axis)
            return err_fail(WEFT_UNSUPPORTED, "%s: communication between slices of two mesh axes",
                            s->job->name);
    }
    c.name = pool_printf(&p->pool, "%s of %s, %s", sched_kind_word(n->comm),
                         graph_tensor_at(s->g, n->in[0])->name, s->job->name);
    if (n->group)
        return emit_grouped(s, n, &c);
    plan_repack_find(s->g, n, &r);
    return r.bytes ? emit_repacked(s, &r, &c) : plan_emit_collective(s->b, s->l, &c, 0);
}

static void give_back(plan_to_list *s, uint32_t run, bool all)
{
    for (weft_tensor t = 1; t <= s->g->tensors.n; t++)
        if (s->temp[t] && (all || s->last[t] <= run + 1)) {
            plan_space_give(&s->b->zones.activations, s->temp[t] - 1,
                            capacity(s->g, t) *
                                weft_dtype_size(graph_tensor_at(s->g, t)->shape.dtype));
            s->temp[t] = 0;
        }
}

void plan_graph_to_list_begin(plan_to_list *s, const plan_to_list_work *w, bool by_levels)
{
    const uint64_t n = w->g->tensors.n + 1;
    s->g = w->g;
    s->nodes = w->nodes;
    s->job = &w->job;
    s->last = pool_array(s->memory, n, sizeof *s->last);
    s->temp = pool_array(s->memory, n, sizeof *s->temp);
    s->cell = pool_array(s->memory, n, sizeof *s->cell);
    s->wanted = pool_array(s->memory, n, sizeof *s->wanted);
    put_in_order(s, by_levels);
    plan_runs_divide(s);
}

void plan_graph_to_list_end(plan_to_list *s)
{
    give_back(s, 0, true);
}

weft_status plan_graph_to_list_resume(plan_to_list *s)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = s->at, k; st == WEFT_OK && i < s->order.n; s->at = i = k) {
        const graph_node *x = &s->order.at[i];
        if (plan_graph_to_list_sums_number(s, x))
            break;
        for (k = i + 1; k < s->order.n && s->run_of[k] == s->run_of[i];)
            k++;
        st = plan_runs_elementwise(s->g, x) ? emit_program(s, i, k)
             : x->comm                      ? emit_comm(s, x)
             : x->assign                    ? emit_bits(s, x)
             : !x->op                       ? emit_fill(s, x)
                                            : emit_node(s, x);
        give_back(s, s->run_of[i], false);
    }
    if (st != WEFT_OK)
        err_context("%s", s->job->name);
    return st;
}

bool plan_graph_to_list_held(const plan_to_list *s, uint64_t *held)
{
    uint64_t bytes = 0;
    plan_tensor_place h;
    uint32_t first = 0;
    while (first < s->order.n && !plan_graph_to_list_sums_number(s, &s->order.at[first]))
        first++;
    const bool waits = first < s->order.n;
    for (uint32_t i = 0; i < s->order.n; i++)
        for (uint32_t k = 0; k < s->order.at[i].nout && !s->order.at[i].assign; k++) {
            const weft_tensor t = s->order.at[i].out[k];
            if (s->wanted[t] && !graph_tensor_at(s->g, t)->part_of &&
                (!waits || s->last[t] > s->run_of[first]) && graph_local_elements(s->g, t) > 1 &&
                !has_home(s, t, &h))
                bytes += capacity(s->g, t) * weft_dtype_size(graph_tensor_at(s->g, t)->shape.dtype);
        }
    *held = bytes;
    return waits;
}
