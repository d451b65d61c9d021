/* plan/segment.c: kernels and segments, each stored once.
 *
 * Every block is lowered separately; a segment whose instructions and operands all equal those of
 * an earlier one is replaced by it. So 48 equal blocks share one segment, and nothing has to
 * declare them equal. */
#include "plan/emit.h"

#include <string.h>

static bool same_operands(const weft_operand *a, const weft_operand *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (a[i].dtype != b[i].dtype || a[i].rank != b[i].rank)
            return false;
        for (uint32_t k = 0; k < a[i].rank; k++)
            if (a[i].size[k] != b[i].size[k])
                return false;
    }
    return true;
}

static bool same_program(const weft_ew_program *a, const weft_ew_program *b, uint32_t nout)
{
    if (!a || !b)
        return a == b;
    return a->nsteps == b->nsteps && a->nregs == b->nregs && a->gate == b->gate &&
           (!a->nsteps || !memcmp(a->steps, b->steps, a->nsteps * sizeof *a->steps)) &&
           !memcmp(a->out_reg, b->out_reg, nout * sizeof *a->out_reg);
}

static bool same_spec(const weft_opspec *a, const weft_opspec *b)
{
    if (strcmp(a->id, b->id) || a->flags != b->flags || a->nattr != b->nattr || a->nin != b->nin ||
        a->nout != b->nout || !same_operands(a->in, b->in, a->nin) ||
        !same_operands(a->out, b->out, a->nout) || !same_program(a->program, b->program, a->nout))
        return false;
    for (uint32_t i = 0; i < a->nattr; i++)
        if (strcmp(a->attrs[i].key, b->attrs[i].key) || a->attrs[i].i != b->attrs[i].i ||
            memcmp(&a->attrs[i].f, &b->attrs[i].f, sizeof(double)) ||
            a->attrs[i].bytes != b->attrs[i].bytes ||
            (a->attrs[i].bytes && memcmp(a->attrs[i].data, b->attrs[i].data, a->attrs[i].bytes)))
            return false;
    return true;
}

static void own_spec(pool *p, weft_opspec *s)
{
    s->id = pool_text(p, s->id);
    weft_attr *attrs = pool_copy(p, s->attrs, s->nattr * sizeof *attrs);
    for (uint32_t i = 0; i < s->nattr; i++) {
        attrs[i].key = pool_text(p, attrs[i].key);
        if (attrs[i].bytes)
            attrs[i].data = pool_copy(p, attrs[i].data, attrs[i].bytes);
    }
    s->attrs = attrs;
    s->in = pool_copy(p, s->in, s->nin * sizeof *s->in);
    s->out = pool_copy(p, s->out, s->nout * sizeof *s->out);
    if (s->program) {
        weft_ew_program *own = pool_copy(p, s->program, sizeof *own);
        own->steps = pool_copy(p, own->steps, own->nsteps * sizeof *own->steps);
        own->out_reg = pool_copy(p, own->out_reg, s->nout * sizeof *own->out_reg);
        s->program = own;
    }
}

/* Find or add the kernel of an op; equal ones are shared. */
static weft_status find_kernel(plan *p, const weft_opspec *wanted, double flops,
                               const uint64_t first[WEFT_MAX_MESH], uint32_t *out)
{
    weft_opspec own = *wanted;
    const weft_opspec *op = &own;
    own.flags |= p->spec->deterministic ? WEFT_SPEC_DETERMINISTIC : 0;
    for (uint32_t i = 0; i < p->kernels.n; i++)
        if (same_spec(&p->kernels.at[i].spec, op) &&
            !memcmp(p->kernels.at[i].first, first, sizeof p->kernels.at[i].first)) {
            *out = i;
            return WEFT_OK;
        }
    plan_kernel k = {.spec = *op, .flops = flops};
    memcpy(k.first, first, sizeof k.first);
    weft_status st = plan_kernel_choose(p, op, &k);
    if (st != WEFT_OK)
        return st;
    *vec_push(&p->kernels) = k;
    own_spec(&p->pool, &p->kernels.at[p->kernels.n - 1].spec);
    *out = p->kernels.n - 1;
    return WEFT_OK;
}

uint32_t plan_segment_begin(plan *p, const char *name)
{
    plan_segment *s = vec_push(&p->segments);
    *s = (plan_segment){.name = pool_text(&p->pool, name), .first = p->instrs.n};
    return p->segments.n - 1;
}

weft_status plan_segment_add(plan *p, uint32_t seg, const weft_opspec *op, double flops,
                             const plan_ref *refs, const uint64_t *first)
{
    static const uint64_t nowhere[WEFT_MAX_MESH] = {0};
    uint32_t number;
    weft_status st = find_kernel(p, op, flops, first ? first : nowhere, &number);
    if (st != WEFT_OK)
        return st;
    *vec_push(&p->instrs) = (plan_instr){number, p->refs.n, op->nin, op->nout};
    for (uint32_t i = 0; i < op->nin + op->nout; i++)
        *vec_push(&p->refs) = refs[i];
    p->segments.at[seg].n++;
    p->segments.at[seg].flops += flops;
    return WEFT_OK;
}

static bool same_segment(const plan *p, const plan_segment *a, const plan_segment *b)
{
    if (a->n != b->n || a->nbases != b->nbases || a->flops != b->flops)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const plan_instr *x = &p->instrs.at[a->first + i], *y = &p->instrs.at[b->first + i];
        if (x->kernel != y->kernel || memcmp(&p->refs.at[x->first_ref], &p->refs.at[y->first_ref],
                                             (x->nin + x->nout) * sizeof(plan_ref)))
            return false;
    }
    return true;
}

uint32_t plan_segment_end(plan *p, uint32_t seg, uint32_t nbases)
{
    plan_segment *s = &p->segments.at[seg];
    s->nbases = nbases;
    for (uint32_t i = 0; i < seg; i++)
        if (same_segment(p, &p->segments.at[i], s)) {
            p->refs.n = s->n ? p->instrs.at[s->first].first_ref : p->refs.n;
            p->instrs.n = s->first;
            p->segments.n = seg;
            return i;
        }
    return seg;
}
