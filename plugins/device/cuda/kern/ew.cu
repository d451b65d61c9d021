/* kern/ew.cu: elementwise programs: one pass over all operands, for any rule and any chain.
 *
 * A block first computes the scalars, then takes tiles of WIDE elements a thread. A thread reads
 * all operands that are vectors into slots, follows the instructions, and writes all outputs.
 * Reading comes before writing, so an output may alias any input. Slots are shared memory
 * that only their own thread touches; results that the next instruction alone reads stay in
 * registers (chosen by ew.c). AdamW takes two hundred instructions an element, as many as a
 * GPU has time for while its 28 bytes move: common programs are in known.cu. */
#include "ew.cuh"

/* This block's shared memory: scalars, instructions, slots of two quads a thread. */
struct ew_shared {
    float *scalar;
    struct ew_instr *instr;
    char *slots;
};

FN char *slot_half(const struct ew_shared &s, uint32_t slot, int half)
{
    return s.slots + ((slot * 2 + half) * threads() + thread()) * sizeof(quad);
}

FN void slot_put(const struct ew_shared &s, uint32_t slot, const float (&x)[WIDE])
{
    for (int h = 0; h < 2; h++) {
        quad q;
        for (int i = 0; i < 4; i++)
            q.w[i] = as_bits(x[4 * h + i]);
        store_shared_quad(slot_half(s, slot, h), q);
    }
}

FN void slot_get(const struct ew_shared &s, uint32_t slot, float (&x)[WIDE])
{
    for (int h = 0; h < 2; h++) {
        const quad q = load_quad(slot_half(s, slot, h));
        for (int i = 0; i < 4; i++)
            x[4 * h + i] = as_float(q.w[i]);
    }
}

FN void operand_get(const struct ew_shared &s, uint32_t from, const float (&before)[WIDE],
                    float (&x)[WIDE])
{
    if (from & EW_SCALAR) {
        const float one = s.scalar[from & ~EW_SCALAR];
        for (int i = 0; i < WIDE; i++)
            x[i] = one;
    } else if (from == EW_BEFORE) {
        for (int i = 0; i < WIDE; i++)
            x[i] = before[i];
    } else {
        slot_get(s, from, x);
    }
}

FN void run_tile(const struct ew_job &j, const struct ew_code &code, const struct ew_shared &s,
                 int64_t i)
{
    float a[WIDE], b[WIDE] = {0}, c[WIDE] = {0}, r[WIDE] = {0};
    for (uint32_t k = 0; k < code.nin; k++)
        if (code.in_slot[k] != EW_NOWHERE) {
            read_vector(j.in[k], code.in_type[k], i, code.count, a);
            slot_put(s, code.in_slot[k], a);
        }
    for (uint32_t n = 0; n < code.ninstr; n++) {
        const struct ew_instr x = s.instr[n];
        operand_get(s, x.a, r, a);
        if (x.b != EW_NOWHERE)
            operand_get(s, x.b, r, b);
        if (x.c != EW_NOWHERE)
            operand_get(s, x.c, r, c);
        apply<WIDE>(x.op, a, b, c, r);
        if (x.dst != EW_NOWHERE)
            slot_put(s, x.dst, r);
    }
    for (uint32_t k = 0; k < code.nout; k++)
        if (!code.out_one[k]) {
            operand_get(s, code.out[k], r, a);
            write_vector(j.out[k], code.out_type[k], i, code.count, a);
        }
}

/* Shared memory as ew.c counts it: code, scalars, instructions, each rounded up to 16 bytes, slots.
 */
FN struct ew_shared shared_of(const struct ew_code &code)
{
    char *at = shared_bytes();
    const uint64_t scalars = (code.nscalar * sizeof(float) + 15) / 16 * 16;
    const uint64_t instrs = (code.ninstr * sizeof(struct ew_instr) + 15) / 16 * 16;
    return {(float *)at, (struct ew_instr *)(at + scalars), at + scalars + instrs};
}

ENTRY(ew, EW_THREADS, struct ew_job)
{
    SHARED(struct ew_code, head, 1);
    if (thread() == 0)
        head[0] = *j.code;
    sync_block();
    const struct ew_code &code = head[0];
    const struct ew_shared s = shared_of(code);
    const struct ew_instr *instr = (const struct ew_instr *)(j.code + 1);
    for (uint32_t n = thread(); n < code.ninstr; n += threads())
        s.instr[n] = instr[n];
    if (!make_scalars(j, code, s.scalar))
        return;
    if (j.scalars) {
        if (thread() == 0)
            put_scalars(j, s.scalar);
        return;
    }
    for (int64_t i = first_element(); i < code.count; i += tile_step())
        run_tile(j, code, s, i);
}
