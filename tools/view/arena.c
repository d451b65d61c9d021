/* view/arena.c: what the arena holds while a rank walks the list "step", as a map of address over
 * entry of the list.
 *
 * A plan keeps addresses, not lifetimes, so the list is walked: a tensor lives from the entry that
 * writes it to the last one that reads a part of it; a write of what the instruction does not read
 * ends what was there. Temporaries of a call are one rectangle. What holds values from step to
 * step, parameters and states, is a region.
 *
 * JSON: {"bytes": SIZE, "entries": [NAME, ...], "kinds": [NAME, ...], "regions": [[KIND, OFFSET,
 * BYTES], ...], "tensors": [[OFFSET, BYTES, FIRST, LAST, KIND], ...], "left_out": N};
 * null for a list that is too long. Cost: operands of the list times tensors that live at once, at
 * most some 0.3 s. */
#include "base/mem.h"
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES 20000u  /* a list with more has no map */
#define WORK 100000000u /* tensors that are compared; a list that takes more has no map */
#define TENSORS 4000u   /* the largest, by bytes and entries, are kept */

enum { SAVED, BETWEEN, TEMPORARY, GATHERED, EXCHANGED, GRADIENTS, PARAMETERS, STATES, KINDS };
static const char *const kind_name[KINDS] = {
    "saved for backward", "between blocks", "temporary",  "gathered parameters",
    "communication",      "gradients",      "parameters", "masters and states"};

typedef struct tensor {
    uint64_t at, end;
    uint32_t first, last, kind;
} tensor;

typedef struct region {
    uint64_t at, end;
    uint32_t kind;
} region;

typedef struct map {
    const plan *p;
    VEC(tensor) tensors; /* in the order of their first use */
    VEC(uint32_t) alive; /* those that were not overwritten */
    VEC(region) regions;
    uint64_t work;
} map;

static uint32_t kind_of(uint32_t base)
{
    return base == BASE_PARAM   ? GATHERED
           : base == BASE_GRAD  ? GRADIENTS
           : base == BASE_SAVED ? SAVED
           : base == BASE_FRAME ? TEMPORARY
                                : BETWEEN;
}

static bool in_region(const map *m, uint64_t at)
{
    for (uint32_t i = 0; i < m->regions.n; i++)
        if (m->regions.at[i].at <= at && at < m->regions.at[i].end)
            return true;
    return false;
}

/* Entry `entry` reads or, unless it keeps what is there, writes [at, end). */
static void use(map *m, const tensor *x, bool writes)
{
    bool found = false;
    m->work += m->regions.n + m->alive.n;
    if (in_region(m, x->at) || x->at == x->end)
        return;
    for (uint32_t i = 0; i < m->alive.n; i++) {
        tensor *t = &m->tensors.at[m->alive.at[i]];
        if (t->at >= x->end || x->at >= t->end)
            continue;
        if (writes) {
            m->alive.at[i--] = m->alive.at[--m->alive.n];
        } else {
            t->last = x->first;
            found = true;
        }
    }
    if (found)
        return;
    *vec_push(&m->alive) = m->tensors.n;
    *vec_push(&m->tensors) = *x;
}

/* --- the list --- */

static tensor operand(const plan *p, const plan_instr *x, uint32_t k, const uint64_t *bases,
                      uint32_t entry)
{
    const plan_ref *r = &p->refs.at[x->first_ref + k];
    const uint64_t at = r->absent ? 0 : bases[r->base] + r->offset;
    const uint64_t end = r->absent ? 0 : at + view_operand_bytes(p, x, k);
    return (tensor){at, end, entry, entry, kind_of(r->base)};
}

/* Does the instruction use values that are where its output `out` will be? */
static bool keeps(const plan *p, const plan_instr *x, const uint64_t *bases, const tensor *out)
{
    if (p->kernels.at[x->kernel].spec.flags & WEFT_SPEC_ACCUMULATE)
        return true;
    for (uint32_t k = 0; k < x->nin; k++) {
        const tensor in = operand(p, x, k, bases, 0);
        if (in.at < out->end && out->at < in.end)
            return true;
    }
    return false;
}

static void walk_call(map *m, const plan_entry *e, uint32_t entry, const uint64_t *bases)
{
    const plan *p = m->p;
    const plan_segment *s = &p->segments.at[e->what];
    tensor frame = {UINT64_MAX, 0, entry, entry, TEMPORARY};
    for (uint32_t i = 0; i < s->n; i++) {
        const plan_instr *x = &p->instrs.at[s->first + i];
        for (uint32_t k = 0; k < x->nin + x->nout; k++) {
            const tensor t = operand(p, x, k, bases, entry);
            if (t.at == t.end || p->refs.at[x->first_ref + k].base == BASE_ABSOLUTE)
                continue;
            if (t.kind == TEMPORARY) {
                frame.at = t.at < frame.at ? t.at : frame.at;
                frame.end = t.end > frame.end ? t.end : frame.end;
            } else {
                use(m, &t, k >= x->nin && !keeps(p, x, bases, &t));
            }
        }
    }
    if (frame.end)
        use(m, &frame, true);
}

/* The buffers of a collective are in use from its start to its wait. Rank 0 has no shifts. */
static void walk_collective(map *m, const plan_collective *c, uint32_t entry, bool starts)
{
    const plan_channel *ch = &m->p->channels.at[c->channel];
    const uint32_t n = ch->coords ? ch->ncoords : m->p->spec->mesh.size[ch->mesh_axis];
    const uint64_t whole = c->count * weft_dtype_size(c->dtype);
    const bool to_parts = c->kind == WEFT_REDUCE_SCATTER || c->kind == WEFT_SCATTER;
    const bool of_parts = c->kind == WEFT_ALL_GATHER || c->kind == WEFT_GATHER;
    const tensor in = {c->in, c->in + (of_parts ? whole / n : whole), entry, entry, BETWEEN};
    const tensor out = {c->out, c->out + (to_parts ? whole / n : whole), entry, entry,
                        of_parts ? GATHERED : BETWEEN};
    const tensor scratch = {c->scratch, c->scratch + c->scratch_bytes, entry, entry, EXCHANGED};
    if (c->kind != WEFT_RECV)
        use(m, &in, false);
    if (c->kind != WEFT_SEND)
        use(m, &out, starts && (c->out != c->in || c->kind == WEFT_RECV || of_parts));
    if (!m->p->bytes.host) /* else it is in host memory */
        use(m, &scratch, starts);
}

static void walk(map *m, const uint64_t *bases)
{
    const plan *p = m->p;
    for (uint32_t i = 0; i < p->step.entries.n && m->work < WORK; i++) {
        const plan_entry *e = &p->step.entries.at[i];
        if (e->kind == ENTRY_CALL)
            walk_call(m, e, i, bases + e->first_base);
        else if (e->kind == ENTRY_START || e->kind == ENTRY_WAIT)
            walk_collective(m, &p->collectives.at[e->what], i, e->kind == ENTRY_START);
    }
}

/* --- regions --- */

static void add_region(map *m, uint64_t at, uint64_t elements, uint32_t dtype, uint32_t kind)
{
    if (elements && at != UINT64_MAX)
        *vec_push(&m->regions) = (region){at, at + elements * weft_dtype_size(dtype), kind};
}

/* A job in fp32 has no masters: its parameters are where their values are. */
static void add_pieces(map *m)
{
    const plan *p = m->p;
    for (uint32_t i = 0; i < p->pieces.n; i++) {
        const plan_piece *x = &p->pieces.at[i];
        plan_extent held, copied;
        plan_extent_of(p, x, 0, PLAN_EXTENT_HELD, &held);
        plan_extent_of(p, x, 0, PLAN_EXTENT_COPIED, &copied);
        const bool has_copy = copied.count && copied.copy != UINT64_MAX;
        const bool is_parameter = !strcmp(x->name, x->param);
        add_region(m, copied.copy, copied.count, x->copy_dtype, PARAMETERS);
        if (!has_copy || held.offset != copied.copy)
            add_region(m, held.offset, held.count, x->shape.dtype,
                       is_parameter && !has_copy ? PARAMETERS : STATES);
    }
}

static int by_place(const void *a, const void *b)
{
    const region *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Neighbours of a kind become one; between them is padding. */
static void join_regions(map *m)
{
    const uint64_t padding = 4096;
    uint32_t n = 0;
    region *at = m->regions.at;
    if (m->regions.n)
        qsort(at, m->regions.n, sizeof *at, by_place);
    for (uint32_t i = 0; i < m->regions.n; i++) {
        if (n && at[n - 1].kind == at[i].kind && at[i].at <= at[n - 1].end + padding)
            at[n - 1].end = at[i].end > at[n - 1].end ? at[i].end : at[n - 1].end;
        else
            at[n++] = at[i];
    }
    m->regions.n = n;
}

/* --- JSON --- */

static double weight(const tensor *t)
{
    return (double)(t->end - t->at) * (t->last - t->first + 1);
}

static int by_weight(const void *a, const void *b)
{
    const double x = weight(a), y = weight(b);
    return x > y ? -1 : x < y;
}

static json_t *map_json(map *m)
{
    json_t *regions = json_array(), *tensors = json_array(), *entries = json_array();
    json_t *kinds = json_array();
    for (uint32_t i = 0; i < KINDS; i++)
        json_array_append_new(kinds, json_string(kind_name[i]));
    for (uint32_t i = 0; i < m->p->step.entries.n; i++)
        json_array_append_new(entries, json_string(m->p->step.entries.at[i].name));
    for (uint32_t i = 0; i < m->regions.n; i++) {
        const region *r = &m->regions.at[i];
        json_array_append_new(regions, json_pack("[iII]", (int)r->kind, (json_int_t)r->at,
                                                 (json_int_t)(r->end - r->at)));
    }
    if (m->tensors.n)
        qsort(m->tensors.at, m->tensors.n, sizeof *m->tensors.at, by_weight);
    const uint32_t kept = m->tensors.n < TENSORS ? m->tensors.n : TENSORS;
    for (uint32_t i = 0; i < kept; i++) {
        const tensor *t = &m->tensors.at[i];
        json_array_append_new(tensors,
                              json_pack("[IIiii]", (json_int_t)t->at, (json_int_t)(t->end - t->at),
                                        (int)t->first, (int)t->last, (int)t->kind));
    }
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:i}", "bytes", (json_int_t)m->p->bytes.peak,
                     "entries", entries, "kinds", kinds, "regions", regions, "tensors", tensors,
                     "left_out", (int)(m->tensors.n - kept));
}

json_t *view_arena_json(const plan *p)
{
    map m = {.p = p};
    if (p->step.entries.n > ENTRIES)
        return json_null();
    uint64_t *bases = plan_bases(p, 0);
    add_pieces(&m);
    join_regions(&m);
    walk(&m, bases);
    json_t *x = m.work < WORK ? map_json(&m) : json_null();
    free(bases);
    free(m.alive.at);
    free(m.tensors.at);
    free(m.regions.at);
    return x;
}
