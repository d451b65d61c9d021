/* kern/known.cu: the programs of known.h, one kernel each.
 *
 * They do what the kernel ew does with the same program, operation by operation. But the compiler
 * knows the steps, and slots are registers: an AdamW takes a third of the instructions, and waits
 * for memory alone. */
#include "ew.cuh"
#include "known.h"

#define KNOWN_SLOTS 4

/* A thread's values: slots, the last result, and the scalars of each step. */
template <class P> struct values {
    float slot[KNOWN_SLOTS][WIDE], last[WIDE], scalar[P::steps][3];
};

/* The value that a step's operand `from` is: operand number `which` of step `n`. */
template <class P, uint16_t from, int n, int which>
FN void value_of(const struct values<P> &v, float (&x)[WIDE])
{
    for (int i = 0; i < WIDE; i++)
        if constexpr ((from & EW_SCALAR) != 0)
            x[i] = v.scalar[n][which];
        else if constexpr (from == EW_BEFORE)
            x[i] = v.last[i];
        else if constexpr (from < KNOWN_SLOTS)
            x[i] = v.slot[from][i];
        else
            x[i] = 0;
}

template <class P, int n> FN void follow(struct values<P> &v)
{
    if constexpr (n < P::steps) {
        constexpr struct ew_instr s = P::step[n];
        float a[WIDE], b[WIDE], c[WIDE];
        value_of<P, s.a, n, 0>(v, a);
        value_of<P, s.b, n, 1>(v, b);
        value_of<P, s.c, n, 2>(v, c);
        apply<WIDE>(s.op, a, b, c, v.last);
        if constexpr (s.dst < KNOWN_SLOTS)
            for (int i = 0; i < WIDE; i++)
                v.slot[s.dst][i] = v.last[i];
        follow<P, n + 1>(v);
    }
}

template <class P, int k>
FN void read_all(const struct ew_job &j, const struct ew_code &code, int64_t i, struct values<P> &v)
{
    if constexpr (k < P::nin) {
        constexpr uint16_t slot = P::in[k];
        if constexpr (slot < KNOWN_SLOTS)
            read_vector(j.in[k], code.in_type[k], i, code.count, v.slot[slot]);
        read_all<P, k + 1>(j, code, i, v);
    }
}

template <class P, int k>
FN void write_all(const struct ew_job &j, const struct ew_code &code, int64_t i,
                  const struct values<P> &v)
{
    if constexpr (k < P::nout) {
        float x[WIDE];
        constexpr uint16_t from = P::out[k];
        if (k >= code.nout)
            return;
        value_of<P, from, 0, 0>(v, x);
        write_vector(j.out[k], code.out_type[k], i, code.count, x);
        write_all<P, k + 1>(j, code, i, v);
    }
}

template <class P> FN void run_known(const struct ew_job &j)
{
    SHARED(struct ew_code, head, 1);
    if (thread() == 0)
        head[0] = *j.code;
    sync_block();
    const struct ew_code &code = head[0];
    const struct ew_instr *instr = (const struct ew_instr *)(j.code + 1);
    float *scalar = (float *)shared_bytes();
    if (!make_scalars(j, code, scalar))
        return;
    struct values<P> v;
#pragma unroll
    for (int n = 0; n < P::steps; n++) {
        const uint16_t from[3] = {instr[n].a, instr[n].b, instr[n].c};
#pragma unroll
        for (int k = 0; k < 3; k++)
            v.scalar[n][k] = (from[k] & EW_SCALAR) != 0 ? scalar[from[k] & ~EW_SCALAR] : 0.0f;
    }
    for (int64_t i = first_element(); i < code.count; i += tile_step()) {
        read_all<P, 0>(j, code, i, v);
        follow<P, 0>(v);
        write_all<P, 0>(j, code, i, v);
    }
}

#define KNOWN(name, NAME)                                                                          \
    struct name##_program {                                                                        \
        static constexpr uint16_t in[] = KNOWN_##NAME##_IN, out[] = KNOWN_##NAME##_OUT;            \
        static constexpr struct ew_instr step[] = KNOWN_##NAME##_STEPS;                            \
        static constexpr int nin = sizeof in / sizeof *in, nout = sizeof out / sizeof *out;        \
        static constexpr int steps = sizeof step / sizeof *step;                                   \
    };                                                                                             \
    ENTRY(known_##name, EW_THREADS, struct ew_job)                                                 \
    {                                                                                              \
        run_known<name##_program>(j);                                                              \
    }

KNOWN(add, ADD)
KNOWN(sgd, SGD)
KNOWN(adam, ADAM)
KNOWN(adamw, ADAMW)
