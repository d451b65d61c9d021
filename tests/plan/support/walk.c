/* The machine's lists: calls after the micro-batches, collectives, and final checks. All ranks of a
 * plan are simulated together, entry by entry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#include <cmocka.h>

/* --- calls --- */

static const plan_instr *first_of(const machine *m, const plan_entry *e)
{
    return &m->p->instrs.at[m->p->segments.at[e->what].first];
}

/* Cells [first, end) of operand `k` of a call of one instruction. */
typedef struct cells {
    uint64_t first, end;
} cells;

static cells operand(const machine *m, const plan_entry *e, const plan_instr *x, uint32_t k)
{
    const weft_opspec *op = &m->p->kernels.at[x->kernel].spec;
    const weft_operand *o = k < x->nin ? &op->in[k] : &op->out[k - x->nin];
    uint64_t at = machine_place(m, e, x, k);
    uint64_t bytes = (uint64_t)(o->rank ? o->size[0] : 1) * weft_dtype_size(o->dtype);
    return (cells){at / 2, (at + bytes) / 2};
}

static void square(machine *m, const plan_entry *e)
{
    cells c = operand(m, e, first_of(m, e), 0);
    uint64_t wide = weft_dtype_size(m->g.grad_dtype) / 2;
    for (uint64_t i = c.first; i < c.end; i++) {
        tag t = m->cells[i];
        if (t.what == T_SUM && (t.sums != m->axes || t.n != m->writes[t.id] * m->passes))
            fail_msg("the norm squares %s before it is complete",
                     graph_tensor_at(&m->g, t.id)->name);
        if (t.what != T_SUM && t.what != T_NOTHING)
            fail_msg("the norm squares what is no gradient, at byte %llu", (unsigned long long)i);
        if (t.what == T_SUM && (i - c.first) % wide == 0)
            m->squared[t.id][t.at]++;
    }
}

/* The parameter of a cell of an update operand, with its element; 0: none. */
static tag element_of(const machine *m, uint64_t cell)
{
    tag t = m->cells[cell], out = {.id = t.id, .at = t.at};
    if (t.what == T_SUM)
        out.id = graph_tensor_at(&m->g, t.id)->of;
    return t.what == T_NOTHING ? (tag){0} : out;
}

static void update(machine *m, const plan_entry *e)
{
    const plan_instr *x = first_of(m, e);
    const weft_opspec *op = &m->p->kernels.at[x->kernel].spec;
    cells to = operand(m, e, x, x->nin);
    uint64_t n = (uint64_t)op->out[0].size[0], wide = (to.end - to.first) / n;
    for (uint32_t k = 0; k < x->nin; k++) { /* all operands cover the same elements */
        cells c = operand(m, e, x, k);
        for (uint64_t i = 0; op->in[k].rank && i < n; i++) {
            tag a = element_of(m, c.first + i * ((c.end - c.first) / n));
            tag b = element_of(m, to.first + i * wide);
            if (a.id != b.id || a.at != b.at)
                fail_msg("%s: element %llu of operand %u is of another parameter", e->name,
                         (unsigned long long)i, k);
        }
    }
    for (uint32_t k = 0; k < x->nout; k++) {
        cells c = operand(m, e, x, x->nin + k);
        for (uint64_t i = c.first; i < c.end; i++) {
            tag old = m->cells[i];
            if (old.what == T_UPDATED || old.what == T_SUM || old.what == T_BUSY)
                fail_msg("%s writes twice, or a gradient", e->name);
            if (old.what != T_NOTHING)
                m->cells[i].what = T_UPDATED;
        }
        m->updated += n;
    }
}

/* Add the gradients of a micro-batch to those of the previous ones. */
static void accumulate(machine *m, const plan_entry *e)
{
    const plan_instr *x = first_of(m, e);
    cells from = operand(m, e, x, 0), to = operand(m, e, x, 1);
    assert_true(m->p->kernels.at[x->kernel].spec.flags & WEFT_SPEC_ACCUMULATE);
    for (uint64_t i = 0; i < to.end - to.first; i++) {
        tag a = m->cells[from.first + i], *b = &m->cells[to.first + i];
        if (a.what == T_NOTHING && b->what == T_NOTHING)
            continue;
        if (a.what != T_SUM || b->what != T_SUM || a.id != b->id || a.at != b->at ||
            a.sums != b->sums || a.n != m->writes[a.id])
            fail_msg("rank %u adds other gradients, at byte %llu", m->rank,
                     (unsigned long long)(to.first + i) * 2);
        b->n = (uint16_t)(b->n + a.n);
    }
}

static void clear(machine *m, const plan_entry *e)
{
    const plan_segment *s = &m->p->segments.at[e->what];
    for (uint32_t i = 0; i < s->n; i++) {
        cells c = operand(m, e, &m->p->instrs.at[s->first + i], 0);
        machine_mark(m, c.first * 2, (c.end - c.first) * 2, (tag){0}, 0);
    }
}

static void call(machine *m, const plan_entry *e)
{
    if (!strncmp(e->name, "forward ", 8) || !strncmp(e->name, "backward ", 9))
        machine_call_block(m, e);
    else if (!strcmp(e->name, "sum of squares"))
        square(m, e);
    else if (!strncmp(e->name, "update ", 7))
        update(m, e);
    else if (!strcmp(e->name, "accumulate"))
        accumulate(m, e);
    else if (!strcmp(e->name, "clear padding"))
        clear(m, e);
}

/* --- collectives --- */

typedef struct sides { /* of one rank */
    cells in, out;
} sides;

static uint32_t ranks_of(const plan *p, uint32_t number)
{
    const plan_channel *c = &p->channels.at[number];
    return c->coords ? c->ncoords : p->spec->mesh.size[c->mesh_axis];
}

static sides sides_of(const machine *m, const plan_collective *c)
{
    uint64_t at = graph_mesh_coord(&m->p->spec->mesh, m->rank, c->shift_axis);
    uint64_t all = c->count * weft_dtype_size(c->dtype);
    uint64_t part = all / ranks_of(m->p, c->channel);
    uint64_t in = c->in + at * c->in_shift, out = c->out + at * c->out_shift;
    return (sides){{in / 2, (in + (c->kind == WEFT_ALL_GATHER ? part : all)) / 2},
                   {out / 2, (out + (c->kind == WEFT_REDUCE_SCATTER ? part : all)) / 2}};
}

static void seize(machine *m, const plan_entry *e, cells c, bool read)
{
    for (uint64_t i = c.first; i < c.end; i++) {
        tag t = m->cells[i];
        if (t.what == T_BUSY && t.id == e->what + 1)
            continue; /* in place */
        if (t.what == T_BUSY)
            fail_msg("%s: byte %llu is in use by collective %u", e->name, (unsigned long long)i * 2,
                     t.id - 1);
        if (t.what == T_SUM && read) {
            uint32_t passes = machine_afresh(m, t.id) && !t.sums ? 1 : m->passes;
            if (t.n != m->writes[t.id] * passes)
                fail_msg("%s starts before %s is complete", e->name,
                         graph_tensor_at(&m->g, t.id)->name);
        }
        m->before[i] = t;
        m->cells[i] = (tag){.what = T_BUSY, .id = e->what + 1};
    }
}

/* A sum's residual is its own, over all micro-batches: the memory has no other use. */
static void check_kept(machine *m, const plan_collective *c)
{
    const tag mine = {.what = T_KEPT, .id = c->channel + 1};
    if (!c->residual_bytes)
        return;
    assert_true(c->compress && c->residual >= m->p->bytes.peak - m->p->residual_bytes);
    assert_true(c->residual + c->residual_bytes <= m->p->bytes.peak && c->residual % 64 == 0);
    if (m->cells[c->residual / 2].what == T_NOTHING) {
        assert_false(c->residual_used); /* the first of the step */
        for (uint64_t i = c->residual / 2; i < (c->residual + c->residual_bytes) / 2; i++)
            assert_int_equal(m->cells[i].what, T_NOTHING);
        machine_mark(m, c->residual, c->residual_bytes, mine, 4);
    } else {
        assert_true(c->residual_used);
    }
    machine_expect(m, c->residual, c->residual_bytes, mine, 4, c->name);
}

static void begin_collective(machine *m, const plan_entry *e)
{
    const plan_collective *c = &m->p->collectives.at[e->what];
    sides s = sides_of(m, c);
    if (s.out.first < s.in.end && s.in.first < s.out.end) { /* as weft/coll.h means in place */
        cells large = c->kind == WEFT_ALL_GATHER ? s.out : s.in;
        cells small = c->kind == WEFT_ALL_GATHER ? s.in : s.out;
        uint32_t me, *ranks = malloc(m->p->spec->ranks * sizeof *ranks);
        plan_group(m->p, c->channel, m->rank, ranks, &me);
        uint64_t own = large.end - large.first == small.end - small.first ? 0 : me;
        free(ranks);
        assert_int_equal(small.first, large.first + own * (small.end - small.first));
    }
    seize(m, e, s.in, true);
    seize(m, e, s.out, false);
    check_kept(m, c);
    for (uint64_t i = c->scratch / 2; i < (c->scratch + c->scratch_bytes) / 2; i++)
        if (m->cells[i].what == T_BUSY)
            fail_msg("%s: its scratch is in use by collective %u", e->name, m->cells[i].id - 1);
    machine_mark(m, c->scratch, c->scratch_bytes, (tag){.what = T_BUSY, .id = e->what + 1}, 0);
}

static bool equal(tag a, tag b)
{
    return a.what == b.what && a.id == b.id && a.at == b.at && a.n == b.n && a.sums == b.sums;
}

/* Cell `i` of what rank `me` of the group receives; `all` are the members. */
static tag received(machine *const *all, uint32_t n, uint32_t me, const plan_collective *c,
                    uint64_t i)
{
    sides own = sides_of(all[me], c);
    if (c->kind == WEFT_ALL_GATHER) {
        uint64_t part = own.in.end - own.in.first;
        const machine *from = all[n == 1 ? 0 : i / part];
        return from->before[sides_of(from, c).in.first + i % part];
    }
    uint64_t skip = c->kind == WEFT_REDUCE_SCATTER ? me * (own.out.end - own.out.first) : 0;
    tag t = all[me]->before[own.in.first + skip + i];
    for (uint32_t r = 0; r < n; r++) {
        tag other = all[r]->before[sides_of(all[r], c).in.first + skip + i];
        if ((t.what == T_SUM || c->kind == WEFT_REDUCE_SCATTER) && !equal(t, other))
            fail_msg("%s sums different things", c->name);
    }
    if (t.what != T_SUM && t.what != T_NOTHING)
        fail_msg("%s sums what is no gradient", c->name);
    t.sums += t.what == T_SUM;
    return t;
}

static void release(machine *m, const plan_entry *e, cells c, bool restore)
{
    for (uint64_t i = c.first; i < c.end; i++) {
        if (m->cells[i].what != T_BUSY || m->cells[i].id != e->what + 1)
            fail_msg("%s: byte %llu was taken away", e->name, (unsigned long long)i * 2);
        m->cells[i] = restore ? m->before[i] : (tag){.what = T_SCRATCH};
    }
}

/* The result of a rank depends on the inputs of all, so all results are computed before any is
 * set. */
static tag *result_of(machine *all, uint32_t n, uint32_t rank, const plan_collective *c)
{
    uint32_t me, *ranks = malloc(all->p->spec->ranks * sizeof *ranks);
    uint32_t size = plan_group(all->p, c->channel, all[rank].rank, ranks, &me);
    machine **members = malloc(size * sizeof(machine *));
    for (uint32_t i = 0; i < size; i++)
        members[i] = n == 1 ? all : &all[ranks[i]];
    if (n == 1 && c->kind != WEFT_ALL_REDUCE)
        fail_msg("%s needs all ranks", c->name);
    cells out = sides_of(&all[rank], c).out;
    tag *t = malloc((out.end - out.first) * sizeof *t);
    for (uint64_t i = 0; i < out.end - out.first; i++)
        t[i] = received(members, size, me, c, i);
    free(members);
    free(ranks);
    return t;
}

static void end_collective(machine *all, uint32_t n, const plan_entry *e)
{
    const plan_collective *c = &all->p->collectives.at[e->what];
    tag **results = malloc(n * sizeof *results);
    for (uint32_t r = 0; r < n; r++)
        results[r] = result_of(all, n, r, c);
    for (uint32_t r = 0; r < n; r++) {
        machine *m = &all[r];
        sides s = sides_of(m, c);
        bool apart = s.out.end <= s.in.first || s.in.end <= s.out.first;
        release(m, e, (cells){c->scratch / 2, (c->scratch + c->scratch_bytes) / 2}, false);
        if (apart || c->kind == WEFT_REDUCE_SCATTER)
            release(m, e, s.in, c->kind == WEFT_ALL_GATHER);
        if (apart || c->kind != WEFT_REDUCE_SCATTER)
            release(m, e, s.out, false);
        memcpy(&m->cells[s.out.first], results[r], (s.out.end - s.out.first) * sizeof(tag));
        free(results[r]);
    }
    free(results);
}

void machine_walk(machine *all, uint32_t n, const plan_list *l)
{
    for (uint32_t i = 0; i < l->entries.n; i++) {
        const plan_entry *e = &l->entries.at[i];
        for (uint32_t r = 0; r < n; r++)
            switch (e->kind) {
            case ENTRY_CALL: call(&all[r], e); break;
            case ENTRY_START: begin_collective(&all[r], e); break;
            case ENTRY_WAIT: break;
            default: fail_msg("%s: what kind of entry is that?", e->name);
            }
        if (e->kind == ENTRY_WAIT)
            end_collective(all, n, e);
    }
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(all[r].at, all[r].nwork);
}

/* --- after the last entry --- */

static void check_pieces(machine *m)
{
    for (uint32_t i = 0; i < m->p->pieces.n; i++) {
        const plan_piece *x = &m->p->pieces.at[i];
        plan_extent own;
        plan_extent_of(m->p, x, m->rank, PLAN_EXTENT_HELD, &own);
        tag done = {.what = T_UPDATED, .id = machine_param(m, x->param)};
        done.at = (uint32_t)own.first;
        if (own.count)
            machine_expect(m, own.offset, own.count * 4, done, 4, x->name);
        uint64_t size = weft_dtype_size(x->copy_dtype);
        plan_extent_of(m->p, x, m->rank, PLAN_EXTENT_COPIED, &own);
        done.at = (uint32_t)own.first;
        if (x->copy != UINT64_MAX && own.count)
            machine_expect(m, own.copy, own.count * size, done, size, x->name);
        assert_true(x->writer < m->p->spec->ranks);
    }
}

/* The norm counts each element of a gradient once: on every rank if it is unsharded, else on one of
 * the ranks that share it. */
static void check_norm(const machine *all, uint32_t n, weft_tensor t)
{
    weft_shape s = graph_local_shape(&all->g, t);
    uint32_t parts = 1;
    for (uint32_t k = 0; k < all->p->pieces.n && machine_level(all, t); k++)
        if (all->p->pieces.at[k].shard_axis)
            parts = all->p->spec->mesh.size[all->p->pieces.at[k].shard_axis - 1];
    for (uint64_t i = 0; i < graph_shape_elements(&s); i++) {
        uint32_t times = 0;
        for (uint32_t r = 0; r < n; r++)
            times += all[r].squared[t][i];
        assert_int_equal(times, n / parts);
    }
}

void machine_end_of_step(machine *all, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(all[r].works, 2 * all[r].g.blocks.n * all[r].passes);
        check_pieces(&all[r]);
        for (uint32_t i = 0; i < all->p->collectives.n; i++) { /* still there in the next step */
            const plan_collective *c = &all->p->collectives.at[i];
            machine_expect(&all[r], c->residual, c->residual_bytes,
                           (tag){.what = T_KEPT, .id = c->channel + 1}, 4, c->name);
        }
    }
    for (weft_tensor t = 1; t <= all->g.tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(&all->g, t);
        if (x->kind == WEFT_T_PARAM && !x->grad)
            fail_msg("%s has no gradient", x->name);
        if (x->kind != WEFT_T_GRAD)
            continue;
        check_norm(all, n, t);
        tag whole = {T_SUM, (uint8_t)all->axes, (uint16_t)(all->writes[t] * all->passes), t, 0};
        for (uint32_t r = 0; r < n && !machine_level(all, t); r++)
            machine_expect(&all[r], all[r].grad_at[t], machine_bytes(&all[r], t), whole,
                           weft_dtype_size(all->g.grad_dtype), x->name);
    }
}

void machine_team(const plan *p, int want, machine **out)
{
    *out = malloc(p->spec->ranks * sizeof **out);
    for (uint32_t r = 0; r < p->spec->ranks; r++)
        machine_begin(&(*out)[r], p, want, r);
}

void machine_dismiss(machine *all)
{
    uint32_t n = all->p->spec->ranks;
    for (uint32_t r = 0; r < n; r++)
        machine_end(&all[r]);
    free(all);
}
