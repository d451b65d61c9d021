/* plan/emit.c: append entries to lists. */
#include "plan/emit.h"

#include "plan/collective.h"
#include "plan/scalar.h"

plan_entry *plan_list_add(plan *p, plan_list *l, uint32_t kind, uint32_t what, uint32_t micro_batch,
                          const char *name)
{
    plan_entry *e = vec_push(&l->entries);
    *e = (plan_entry){kind, what, 0, micro_batch, pool_text(&p->pool, name), l->interval, 0};
    e->live = p->zones->zone + p->zones->activations.live + p->zones->comm.live;
    return e;
}

void plan_list_call(plan *p, plan_list *l, uint32_t seg, const uint64_t *bases, uint32_t nbases,
                    uint32_t micro_batch, const char *name)
{
    uint32_t first = p->bases.n;
    for (uint32_t i = 0; i < nbases; i++)
        *vec_push(&p->bases) = bases[i];
    plan_list_add(p, l, ENTRY_CALL, seg, micro_batch, name)->first_base = first;
}

void plan_list_shift(plan *p, const plan_list *l, uint32_t base, uint32_t mesh_axis,
                     uint64_t stride)
{
    if (stride)
        *vec_push(&p->shifts) =
            (plan_shift){l->entries.at[l->entries.n - 1].first_base + base, mesh_axis, stride};
}

weft_opspec plan_program_spec(const weft_ew_program *program, uint32_t nin, uint32_t nout,
                              const weft_operand *io)
{
    return (weft_opspec){.struct_size = sizeof(weft_opspec),
                         .id = "ew",
                         .nin = nin,
                         .nout = nout,
                         .in = io,
                         .out = io + nin,
                         .program = program};
}

weft_opspec plan_unary_spec(const char *id, const weft_operand io[2], uint32_t flags)
{
    return (weft_opspec){.struct_size = sizeof(weft_opspec),
                         .id = id,
                         .nin = 1,
                         .nout = 1,
                         .in = io,
                         .out = io + 1,
                         .flags = flags};
}

weft_opspec plan_copy_spec(const weft_operand io[2])
{
    static const weft_ew_step step = {.op = WEFT_EW_COPY, .dst = 1};
    static const uint16_t reg = 1;
    static const weft_ew_program program = {sizeof program, 1, 2, -1, &step, &reg};
    return plan_program_spec(&program, 1, 1, io);
}

weft_status plan_emit_op(plan *p, plan_list *l, const weft_opspec *op, const plan_emission *x)
{
    static const uint64_t zeros[BASE_FIRST] = {0};
    uint32_t seg = plan_segment_begin(p, x->segment), nbases = x->bases ? x->nbases : BASE_FIRST;
    weft_status st = plan_segment_add(p, seg, op, 0, x->refs, x->first);
    if (st != WEFT_OK)
        return st;
    plan_list_call(p, l, plan_segment_end(p, seg, nbases), x->bases ? x->bases : zeros, nbases,
                   x->micro_batch, x->name ? x->name : x->segment);
    return WEFT_OK;
}

weft_status plan_segment_add_fill(plan *p, uint32_t seg, uint32_t dtype, uint64_t elements,
                                  float value, plan_ref where)
{
    const weft_ew_step step = {.op = WEFT_EW_CONST, .flags = WEFT_EW_SCALAR, .imm = value};
    const uint16_t reg = 0;
    const weft_ew_program program = {sizeof program, 1, 1, -1, &step, &reg};
    const weft_operand io = {dtype, elements ? 1 : 0, 0, 0, {(int64_t)elements}};
    const weft_opspec op = plan_program_spec(&program, 0, 1, &io);
    return plan_segment_add(p, seg, &op, 0, &where, NULL); /* keeps a copy of the program */
}

weft_status plan_emit_zero(plan *p, plan_list *l, const char *name, uint64_t at)
{
    static const uint64_t bases[BASE_FIRST] = {0};
    uint32_t seg = plan_segment_begin(p, name);
    weft_status st =
        plan_segment_add_fill(p, seg, WEFT_F32, 0, 0, (plan_ref){BASE_ABSOLUTE, 0, at});
    if (st == WEFT_OK)
        plan_list_call(p, l, plan_segment_end(p, seg, BASE_FIRST), bases, BASE_FIRST, 0, name);
    return st;
}

weft_status plan_emit_start(plan_builder *b, plan_list *l, const plan_collective *like,
                            uint32_t micro_batch, uint32_t *number)
{
    weft_status st = plan_collective_add(b, like, number);
    if (st == WEFT_OK)
        plan_list_add(b->p, l, ENTRY_START, *number, micro_batch, like->name);
    return st;
}

void plan_emit_wait(plan_builder *b, plan_list *l, uint32_t number, uint32_t micro_batch)
{
    plan_list_add(b->p, l, ENTRY_WAIT, number, micro_batch, b->p->collectives.at[number].name);
    plan_collective_give(b, number);
}

weft_status plan_emit_collective(plan_builder *b, plan_list *l, const plan_collective *like,
                                 uint32_t micro_batch)
{
    uint32_t number;
    weft_status st = plan_emit_start(b, l, like, micro_batch, &number);
    if (st == WEFT_OK)
        plan_emit_wait(b, l, number, micro_batch);
    return st;
}

weft_status plan_emit_scalar_sum(plan_builder *b, plan_list *l, const char *scalar, uint64_t axes)
{
    weft_status st = WEFT_OK;
    for (; st == WEFT_OK && axes; axes &= axes - 1) {
        plan_collective c = {
            .channel = plan_channel_number(b->p, "scalars", (uint32_t)__builtin_ctzll(axes)),
            .kind = WEFT_ALL_REDUCE,
            .redop = WEFT_SUM,
            .dtype = WEFT_F32,
            .count = 1};
        c.name = pool_printf(&b->p->pool, "all-reduce of %s", scalar);
        c.in = c.out = plan_scalar_offset(b->p, scalar, 0);
        st = plan_emit_collective(b, l, &c, 0);
    }
    return st;
}
