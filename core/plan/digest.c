/* plan/digest.c: FNV-1a hash of everything on which two ranks must agree. */
#include "base/number/digest.h"

#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void mix_text(uint64_t *h, const char *text)
{
    digest_mix(h, text, strlen(text) + 1);
}

/* Plans of a version that called an algorithm otherwise have the same digest. */
static const char *first_name(const char *algorithm)
{
    for (const sched_rename *x = sched_renames; x->was; x++)
        if (!strcmp(x->is, algorithm))
            return x->was;
    return algorithm;
}

static void mix_list(uint64_t *h, const plan_list *l)
{
    for (uint32_t i = 0; i < l->entries.n; i++) {
        const plan_entry *e = &l->entries.at[i];
        uint32_t numbers[4] = {e->kind, e->what, e->first_base, e->micro_batch};
        digest_mix(h, numbers, sizeof numbers);
        mix_text(h, e->name);
        if (e->interval)
            digest_mix(h, &e->interval, sizeof e->interval);
    }
}

static void mix_operands(uint64_t *h, const weft_operand *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        digest_mix(h, &o[i].dtype, sizeof o[i].dtype);
        digest_mix(h, o[i].size, o[i].rank * sizeof *o[i].size);
    }
}

/* The part's beginning per mesh axis. Axes behind the sixth count where they have a part: so the
 * digests of plans with fewer axes are those of earlier versions, which had room for six. */
static void mix_first(uint64_t *h, const uint64_t first[WEFT_MAX_MESH])
{
    digest_mix(h, first, 6 * sizeof *first);
    for (uint32_t a = 6; a < WEFT_MAX_MESH; a++)
        if (first[a])
            digest_mix(h, (const uint64_t[]){a, first[a]}, 2 * sizeof *first);
}

static void mix_spec(uint64_t *h, const weft_opspec *op)
{
    mix_text(h, op->id);
    digest_mix(h, &op->flags, sizeof op->flags);
    mix_operands(h, op->in, op->nin);
    mix_operands(h, op->out, op->nout);
    for (uint32_t i = 0; i < op->nattr; i++) {
        mix_text(h, op->attrs[i].key);
        digest_mix(h, &op->attrs[i].i, sizeof op->attrs[i].i);
        digest_mix(h, &op->attrs[i].f, sizeof op->attrs[i].f);
        if (op->attrs[i].bytes)
            digest_mix(h, op->attrs[i].data, op->attrs[i].bytes);
    }
    if (op->program) {
        digest_mix(h, op->program->steps, op->program->nsteps * sizeof *op->program->steps);
        digest_mix(h, op->program->out_reg, op->nout * sizeof *op->program->out_reg);
    }
}

/* How a state starts, and its type, where they are not 0 in fp32. */
static void mix_start(uint64_t *h, const plan_piece *x)
{
    if (x->name == x->param || (!x->init && x->shape.dtype == WEFT_F32))
        return;
    mix_text(h, x->init ? x->init : "zeros");
    digest_mix(h, &x->shape.dtype, sizeof x->shape.dtype);
}

/* --- parts, to name what differs --- */

#define SEGMENTS_NAMED 256u /* each with a line of its own */

static uint64_t segment_digest(const plan *p, const plan_segment *s)
{
    uint64_t h = DIGEST_BEGIN;
    mix_text(&h, s->name);
    for (uint32_t i = 0; i < s->n; i++) {
        const plan_instr *x = &p->instrs.at[s->first + i];
        mix_spec(&h, &p->kernels.at[x->kernel].spec);
        mix_text(&h, p->kernels.at[x->kernel].from ? p->kernels.at[x->kernel].from : "");
        for (uint32_t k = 0; k < x->nin + x->nout; k++) {
            const plan_ref *r = &p->refs.at[x->first_ref + k];
            const uint64_t numbers[] = {r->base, r->absent, r->offset};
            digest_mix(&h, numbers, sizeof numbers);
        }
    }
    return h;
}

static void print_list(const plan_list *l, const char *stage, FILE *to)
{
    uint64_t h = DIGEST_BEGIN;
    mix_list(&h, l);
    fprintf(to, "%slist %s %016" PRIx64 "\n", stage, l->name ? l->name : "(empty)", h);
}

void plan_print_parts(const plan *p, const char *stage, FILE *to)
{
    uint64_t rest = DIGEST_BEGIN;
    for (uint32_t i = 0; i < p->segments.n; i++) {
        const plan_segment *s = &p->segments.at[i];
        const uint64_t h = segment_digest(p, s);
        if (i < SEGMENTS_NAMED)
            fprintf(to, "%ssegment %u, %s %016" PRIx64 "\n", stage, i, s->name, h);
        else
            digest_mix(&rest, &h, sizeof h);
    }
    fprintf(to, "%sthe segments after %u %016" PRIx64 "\n", stage, SEGMENTS_NAMED, rest);
    print_list(&p->step, stage, to);
    print_list(&p->eval, stage, to);
    print_list(&p->save, stage, to);
    for (uint32_t i = 0; i < p->extra.n; i++)
        print_list(&p->extra.at[i].l, stage, to);
    fprintf(to, "%scollectives, scalars or memory %016" PRIx64 "\n", stage, p->digest);
}

void plan_digest(plan *p)
{
    uint64_t h = DIGEST_BEGIN;
    mix_list(&h, &p->step);
    mix_list(&h, &p->eval);
    mix_list(&h, &p->save);
    for (uint32_t i = 0; i < p->extra.n; i++)
        mix_list(&h, &p->extra.at[i].l);
    digest_mix(&h, p->refs.at, p->refs.n * sizeof *p->refs.at);
    digest_mix(&h, p->bases.at, p->bases.n * sizeof *p->bases.at);
    digest_mix(&h, p->instrs.at, p->instrs.n * sizeof *p->instrs.at);
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        mix_spec(&h, &p->kernels.at[i].spec);
        if (p->kernels.at[i].from) /* else as before plugins had kernels */
            mix_text(&h, p->kernels.at[i].from);
        mix_first(&h, p->kernels.at[i].first);
    }
    for (uint32_t i = 0; i < p->pieces.n; i++)
        mix_start(&h, &p->pieces.at[i]);
    for (uint32_t i = 0; i < p->intervals.n; i++) {
        const plan_interval *x = &p->intervals.at[i];
        digest_mix(&h, (const uint64_t[]){x->from, x->every, x->mean}, 3 * sizeof(uint64_t));
    }
    for (uint32_t i = 0; i < p->scalars.n; i++)
        digest_mix(&h, &p->scalars.at[i].value, sizeof(double));
    for (uint32_t i = 0; i < p->collectives.n; i++) {
        const plan_collective *c = &p->collectives.at[i];
        uint64_t numbers[] = {c->channel,  c->kind,         c->redop,      c->dtype,
                              c->count,    c->in,           c->out,        c->scratch,
                              c->in_shift, c->out_shift,    c->shift_axis, c->compress,
                              c->residual, c->residual_used};
        digest_mix(&h, numbers, sizeof numbers);
        mix_text(&h, first_name(c->algorithm));
    }
    for (uint32_t i = 0; i < p->shifts.n; i++) {
        const plan_shift *x = &p->shifts.at[i];
        uint64_t numbers[] = {x->base, x->mesh_axis, x->stride};
        digest_mix(&h, numbers, sizeof numbers);
    }
    digest_mix(&h, &p->bytes, sizeof p->bytes);
    p->digest = h;
}
