/* chain.c: chains the instructions of an elementwise program through one register.
 *
 * kern/ew.c keeps each result in registers for the next instruction. Where an instruction uses the
 * previous result, that operand need not be read: it becomes `a`, by swapping factors or summands
 * or by the step with reversed operands. A result that no other instruction reads is not stored.
 * The pass then records when inputs are last read and outputs written, so that kern/ew.c knows
 * whether one may alias the other. O(n^2) in the instructions, once. */
#include "ops.h"

static bool same(struct ew_ref a, struct ew_ref b)
{
    return a.kind == b.kind && a.at == b.at;
}

/* Rewrite instruction i with operand `side` (1: b, 2: c) as `a`; false if no op allows it. */
static bool turn(struct ew_instr *i, int side)
{
    const struct ew_ref a = i->a, b = i->b, c = i->c;
    if (side == 1)
        switch (i->op) {
        case WEFT_EW_SUB: i->op = EW_RSUB; break;
        case WEFT_EW_DIV: i->op = EW_RDIV; break;
        case WEFT_EW_ADD:
        case WEFT_EW_MUL:
        case EW_MULADD:
        case EW_NMULADD: break;
        default: return false;
        }
    else if (i->op == EW_MULADD)
        i->op = EW_ADDMUL;
    else if (i->op == EW_NMULADD)
        i->op = EW_SUBMUL;
    else
        return false;
    *i = side == 1 ? (struct ew_instr){i->op, i->dst, b, a, c}
                   : (struct ew_instr){i->op, i->dst, c, a, b};
    return true;
}

static bool take_before(struct ew_instr *i, struct ew_ref before)
{
    const bool have = same(i->a, before) || (same(i->b, before) && turn(i, 1)) ||
                      (same(i->c, before) && turn(i, 2));
    if (have)
        i->a.kind = EW_BEFORE;
    return have;
}

/* True if the result of instruction i is read from memory before it is overwritten. */
static bool is_read(const struct ew_code *c, uint32_t i)
{
    const struct ew_ref ref = c->instr[i].dst;
    for (uint32_t k = i + 1; k < c->ninstr; k++) {
        const struct ew_instr *s = &c->instr[k];
        if (same(s->a, ref) || same(s->b, ref) || same(s->c, ref))
            return true;
        if (same(s->dst, ref))
            return false;
    }
    for (uint32_t k = 0; k < c->nout; k++)
        if (same(c->out[k], ref))
            return true;
    return false;
}

static void note_reads(struct ew_code *c, struct ew_ref ref, uint32_t i)
{
    if (ref.kind == EW_INPUT)
        c->in_last[ref.at] = (int32_t)i;
}

void cpu_ew_chain(struct ew_code *c)
{
    for (uint32_t i = c->ninstr; i-- > 1;)
        take_before(&c->instr[i], c->instr[i - 1].dst);
    for (uint32_t k = 0; k < WEFT_MAX_OPERANDS; k++)
        c->in_last[k] = c->out_born[k] = -1;
    for (uint32_t i = 0; i < c->ninstr; i++) {
        struct ew_instr *s = &c->instr[i];
        note_reads(c, s->a, i);
        note_reads(c, s->b, i);
        note_reads(c, s->c, i);
        if (s->dst.kind == EW_OUTPUT)
            c->out_born[s->dst.at] = (int32_t)i;
        else if (!is_read(c, i))
            s->dst.kind = EW_NONE;
    }
}
