/* plan/optim/norm.c: the global norm of the gradients, each element counted once.
 *
 * Coordinates of a mesh axis either have the same gradients after their sums, and one of them
 * counts for all, or different ones: slices of a group, parts of a parameter that the axis splits.
 * So the elements of buckets are classified by the axes over which they differ; each class has its
 * own sum of squares, which is summed over exactly these axes. Of the stages that share a parameter
 * only one counts it.
 *
 * Parameters that are not updated in this step do not count. Those that are updated with the mean
 * of n steps have the sum in memory, so they are a class, too: its sum of squares counts 1 / n^2.
 */
#include "plan/optim/optim.h"

#include "base/err.h"
#include "plan/emit.h"
#include "plan/lower/sync.h"
#include "plan/scalar.h"

#define MAX_KINDS 8u

typedef struct kinds {
    uint64_t differ[MAX_KINDS];
    const char *scalar[MAX_KINDS];
    bool adding[MAX_KINDS];
    uint32_t sums[MAX_KINDS]; /* the gradient is the sum of so many steps; 0: of one */
    bool some[MAX_KINDS];     /* not all of its parameters are updated in every step */
    uint32_t n;
} kinds;

static uint32_t kind_of(const kinds *x, uint64_t differ, uint32_t sums)
{
    uint32_t i = 0;
    while (i < x->n && (x->differ[i] != differ || x->sums[i] != sums))
        i++;
    return i;
}

/* A range of a bucket whose elements differ over the same mesh axes: a group, or the elements
 * between two parameters of other kinds, with padding. */
typedef struct stretch {
    uint64_t first, end, differ;
} stretch;

/* The range that begins at `from`; false at the bucket's end. */
static bool next_stretch(const plan_builder *b, const plan_bucket *k, uint64_t from, stretch *out)
{
    const plan_flat *f = b->f;
    *out = (stretch){from, k->end, k->group ? f->groups.at[k->group - 1].differ : 0};
    bool found = k->group;
    for (uint32_t i = 0; i < f->params.n && !k->group; i++) {
        const plan_flat_param *p = &f->params.at[i];
        if (p->first + p->count <= from || p->first >= k->end)
            continue;
        if (found && p->cut_axes != out->differ) {
            out->end = p->first;
            break;
        }
        out->differ = p->cut_axes;
        found = true;
    }
    return from < k->end;
}

static weft_status find_kinds(const plan_builder *b, kinds *x)
{
    *x = (kinds){0};
    for (uint32_t i = 0; i < b->sync->buckets.n; i++) {
        const plan_bucket *k = &b->sync->buckets.at[i];
        stretch p;
        for (uint64_t at = k->first; !k->not_owned && next_stretch(b, k, at, &p); at = p.end) {
            const uint32_t sums = plan_interval_sums(b->p, k->interval),
                           known = kind_of(x, p.differ, sums);
            x->some[known % MAX_KINDS] |= k->interval;
            if (known < x->n)
                continue;
            if (x->n == MAX_KINDS)
                return err_fail(WEFT_UNSUPPORTED,
                                "gradients are cut in more than %u ways over the mesh axes",
                                MAX_KINDS);
            x->scalar[x->n] = x->n ? pool_printf(&b->p->pool, "sumsq.%u", x->n) : "sumsq";
            x->sums[x->n] = sums;
            x->differ[x->n++] = p.differ;
        }
    }
    return WEFT_OK;
}

static weft_status square_stretch(plan_builder *b, plan_list *l, const plan_bucket *k,
                                  const stretch *part, kinds *x)
{
    const plan_flat *f = b->f;
    const uint32_t kind = kind_of(x, part->differ, plan_interval_sums(b->p, k->interval));
    uint64_t n = part->end - part->first, bases[BASE_FIRST + 1] = {0}, stride = 0;
    uint32_t axis = 0;
    bases[BASE_FIRST] = f->grads + plan_flat_index(f, part->first, FLAT_GRADS) * f->grad_size;
    if (k->group) {
        const plan_flat_block *fb = &f->blocks.at[f->groups.at[k->group - 1].block];
        plan_flat_slice own = plan_flat_own(f, k->group - 1, FLAT_GRADS, f->grads, f->grad_size);
        n /= fb->parts;
        axis = fb->axis;
        bases[BASE_FIRST] = own.at;
        stride = own.shift;
    }
    weft_operand io[2] = {{b->g->grad_dtype, 1, 0, 0, {(int64_t)n}}, {.dtype = WEFT_F32}};
    plan_ref refs[2] = {{BASE_FIRST, 0, 0},
                        {BASE_ABSOLUTE, 0, plan_scalar_offset(b->p, x->scalar[kind], 0)}};
    const weft_opspec op = plan_unary_spec("sumsq", io, x->adding[kind] ? WEFT_SPEC_ACCUMULATE : 0);
    l->interval = k->interval;
    weft_status st = plan_emit_op(
        b->p, l, &op,
        &(plan_emission){
            .segment = "sum of squares", .refs = refs, .bases = bases, .nbases = BASE_FIRST + 1});
    l->interval = 0;
    if (st != WEFT_OK)
        return st;
    plan_list_shift(b->p, l, BASE_FIRST, axis, stride);
    x->adding[kind] = true;
    return WEFT_OK;
}

static weft_status square_sum(plan_builder *b, plan_list *l, const plan_bucket *k, kinds *x)
{
    weft_status st = WEFT_OK;
    stretch p;
    for (uint64_t at = k->first; st == WEFT_OK && next_stretch(b, k, at, &p); at = p.end)
        st = square_stretch(b, l, k, &p, x);
    return st;
}

/* A register with the squares of kind i: their sum, or that of the mean of several steps. */
static uint16_t squares_of(const kinds *x, uint32_t i, weft_ew_program *p, weft_ew_step *steps)
{
    if (!x->sums[i])
        return (uint16_t)i;
    const uint16_t share = (uint16_t)p->nregs++, out = (uint16_t)p->nregs++;
    steps[p->nsteps++] = (weft_ew_step){.op = WEFT_EW_CONST,
                                        .dst = share,
                                        .flags = WEFT_EW_SCALAR,
                                        .imm = 1 / ((float)x->sums[i] * (float)x->sums[i])};
    steps[p->nsteps++] = (weft_ew_step){
        .op = WEFT_EW_MUL, .dst = out, .a = (uint16_t)i, .b = share, .flags = WEFT_EW_SCALAR};
    return out;
}

/* sumsq = the sum over all kinds; 0 if there are none. */
static weft_status add_kinds(plan_builder *b, plan_list *l, const kinds *x)
{
    weft_operand io[MAX_KINDS + 1] = {{0}};
    plan_ref refs[MAX_KINDS + 1];
    weft_ew_step steps[3 * MAX_KINDS] = {
        {.op = WEFT_EW_CONST, .dst = (uint16_t)x->n, .flags = WEFT_EW_SCALAR}};
    uint16_t reg = (uint16_t)x->n;
    weft_ew_program program = {sizeof program, x->n ? 0 : 1, x->n + 1, -1, steps, &reg};
    for (uint32_t i = 0; i <= x->n; i++) {
        io[i].dtype = WEFT_F32;
        refs[i] = (plan_ref){BASE_ABSOLUTE, 0,
                             plan_scalar_offset(b->p, i < x->n ? x->scalar[i] : "sumsq", 0)};
    }
    uint16_t sum = x->n ? squares_of(x, 0, &program, steps) : 0;
    for (uint32_t i = 1; i < x->n; i++) {
        const uint16_t more = squares_of(x, i, &program, steps);
        steps[program.nsteps++] = (weft_ew_step){
            .op = WEFT_EW_ADD, .dst = (uint16_t)x->n, .a = sum, .b = more, .flags = WEFT_EW_SCALAR};
        sum = (uint16_t)x->n;
    }
    reg = x->n ? sum : reg;
    weft_opspec op = plan_program_spec(&program, x->n, 1, io);
    return plan_emit_op(b->p, l, &op,
                        &(plan_emission){.segment = "all sums of squares", .refs = refs});
}

/* What skipped steps leave out must not count: their sum begins at 0 in each step. */
static weft_status clear_kinds(plan_builder *b, plan_list *l, kinds *x)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < x->n; i++)
        if ((x->adding[i] = x->some[i]))
            st = plan_emit_zero(b->p, l, "no squares yet",
                                plan_scalar_offset(b->p, x->scalar[i], 0));
    return st;
}

/* Wait for the buckets in starting order; add each one's squares as soon as it is done. */
weft_status plan_grad_norm(plan_builder *b, plan_list *l)
{
    kinds x;
    weft_status st = find_kinds(b, &x);
    if (st == WEFT_OK)
        st = clear_kinds(b, l, &x);
    for (uint32_t i = 0; st == WEFT_OK && i < b->sync->buckets.n; i++) {
        st = plan_sync_finish(b, l, &b->sync->buckets.at[i]);
        if (st == WEFT_OK && !b->sync->buckets.at[i].not_owned)
            st = square_sum(b, l, &b->sync->buckets.at[i], &x);
    }
    for (uint32_t i = 0; st == WEFT_OK && i < x.n; i++)
        st = plan_emit_scalar_sum(b, l, x.scalar[i], x.differ[i]);
    if (st == WEFT_OK && (x.n != 1 || x.sums[0]))
        st = add_kinds(b, l, &x);
    return st != WEFT_OK ? st : plan_emit_scalar_sum(b, l, "sumsq", plan_stage_axis_bit(b->stages));
}
