/* kern/ew.c: interpreter for elementwise programs, on blocks of eight vectors.
 *
 * The interpreter is an accumulator machine: its one register is eight vectors long and stays in
 * CPU registers between instructions. An instruction may load the register, combines it with up to
 * two memory operands, and may store it. A chain of steps, as in optimizers, accesses memory only
 * for its operands, and eight vectors share the cost of decoding an instruction. The host side
 * (../ops/ew.c, ../ops/chain.c) compiles the instructions; this file
 *   1. resolves addresses, once for all whole blocks and once for the short block at the end;
 *   2. writes an fp32 result in place, if it does not alias an input that is still read; other
 *      results stay in a slot until the end of the block;
 *   3. writes bf16 outputs of large programs with non-temporal stores, if they alias no operand.
 * Operands are asked for two blocks ahead: on Zen 5 AdamW takes 3 to 5 % less time so, on Zen 4 as
 * long as without.
 * It is slower than code compiled for the program by about the loads of scalars and slots. */
#include "impl.h"
#include "kern/simd/vmath.h"
#include <math.h>

enum {
    WIDE = 8,
    BLOCK = WIDE * VL,
    LARGE = 32 << 20, /* bytes of operands that exceed the caches */
    AHEAD = 2,        /* blocks */
};

struct run {
    const struct ew_code *code;
    const struct cpu_job *j;
    struct ew_step *steps;
    float *slots;                          /* [nslot][EW_TILE] */
    uint8_t in_place[WEFT_MAX_OPERANDS];   /* outputs that are computed in place */
    uint8_t past_cache[WEFT_MAX_OPERANDS]; /* outputs with non-temporal stores */
};

/* Evaluate the expression for u = 0 .. WIDE - 1, unrolled so that acc stays in registers. */
#define ONE(n, expression)                                                                         \
    do {                                                                                           \
        enum { u = n };                                                                            \
        acc[u] = (expression);                                                                     \
    } while (0)
#define EACH(expression)                                                                           \
    do {                                                                                           \
        ONE(0, expression);                                                                        \
        ONE(1, expression);                                                                        \
        ONE(2, expression);                                                                        \
        ONE(3, expression);                                                                        \
        ONE(4, expression);                                                                        \
        ONE(5, expression);                                                                        \
        ONE(6, expression);                                                                        \
        ONE(7, expression);                                                                        \
    } while (0)
#define A acc[u]
#define B v_load(pb + u * sb)
#define C v_load(pc + u * sc)
#define BIT(mask) (vf)((vi)v_set1(1.0f) & (mask))

/* pow and cos are not vectorised: only programs of one element use them, such as that of the
 * learning rate. */
static void by_lanes(uint16_t op, float *d, const float *b, int64_t step)
{
    for (int64_t i = 0; i < BLOCK; i++)
        d[i] = op == WEFT_EW_POW ? powf(d[i], b[step ? i : 0]) : cosf(d[i]);
}

INLINE vf sign_of(vf a)
{
    vf one = BIT(a != v_set1(0.0f));
    vf signed_one = (vf)((vi)one | ((vi)a & (vi)v_set1(-0.0f)));
    return v_select(a != a, a, signed_one);
}

INLINE vf floor_of(vf a)
{
    const vi sign = (vi)a & (vi)v_set1(-0.0f);
    const vf r = v_round(a);
    return (vf)((vi)(r - BIT(r > a)) | sign);
}

/* v_min and v_max return b when a is NaN; this restores the NaN of a. */
INLINE vf keep_nan(vf r, vf a)
{
    return v_select(a != a, a, r);
}

/* Infrequent ops: d [BLOCK] is operand a and receives the result. */
static __attribute__((noinline)) void rare(const struct ew_step *s, float *d, const float *pb,
                                           const float *pc)
{
    const vi magnitude = (vi)(vu_set1(0x7fffffffu)), inf = (vi)vu_set1(0x7f800000u);
    const int64_t sb = s->b.step, sc = s->c.step;
    if (s->op == WEFT_EW_POW || s->op == WEFT_EW_COS) {
        by_lanes(s->op, d, pb, sb);
        return;
    }
    for (int64_t i = 0; i < BLOCK; i += VL, pb += sb, pc += sc) {
        const vf a = v_load(d + i), b = v_load(pb), c = v_load(pc);
        vf r;
        switch (s->op) {
        case WEFT_EW_MIN: r = keep_nan(v_min(a, b), a); break;
        case WEFT_EW_MAX: r = keep_nan(v_max(a, b), a); break;
        case WEFT_EW_LESS: r = BIT(a < b); break;
        case WEFT_EW_SELECT: r = v_select(c != v_set1(0.0f), a, b); break;
        case WEFT_EW_SIGN: r = sign_of(a); break;
        case WEFT_EW_EXP: r = v_exp(a); break;
        case WEFT_EW_LOG: r = v_log(a); break;
        case WEFT_EW_ROUND: r = v_round(a); break;
        case WEFT_EW_FLOOR: r = floor_of(a); break;
        default: r = BIT(((vi)a & magnitude) < inf); break;
        }
        v_store(d + i, r);
    }
}

INLINE char *address(const struct ew_place *p, int64_t offset)
{
    return p->base + (offset & p->moves);
}

/* Run all instructions on the block at byte `offset` of the fp32 operands. */
static void run_steps(const struct run *r, int64_t offset)
{
    vf acc[WIDE] = {0};
    for (uint32_t k = 0; k < r->code->ninstr; k++) {
        const struct ew_step *s = &r->steps[k];
        const float *pb = (const float *)address(&s->b, offset);
        const float *pc = (const float *)address(&s->c, offset);
        const int64_t sb = s->b.step, sc = s->c.step;
        if (s->loads) {
            const float *pa = (const float *)address(&s->a, offset);
            const int64_t sa = s->a.step;
            EACH(v_load(pa + u * sa));
        }
        switch (s->op) {
        case WEFT_EW_COPY: break;
        case WEFT_EW_ADD: EACH(A + B); break;
        case WEFT_EW_SUB: EACH(A - B); break;
        case WEFT_EW_MUL: EACH(A * B); break;
        case WEFT_EW_DIV: EACH(A / B); break;
        case EW_RSUB: EACH(B - A); break;
        case EW_RDIV: EACH(B / A); break;
        case EW_MULADD: EACH(v_fma(A, B, C)); break;
        case EW_NMULADD: EACH(v_fma(-A, B, C)); break;
        case EW_ADDMUL: EACH(v_fma(B, C, A)); break;
        case EW_SUBMUL: EACH(v_fma(-B, C, A)); break;
        case WEFT_EW_SQRT: EACH(v_sqrt(A)); break;
        case WEFT_EW_NEG: EACH(-A); break;
        case WEFT_EW_ABS: EACH((vf)((vi)A & (vi)vu_set1(0x7fffffffu))); break;
        default: {
            float part[BLOCK];
            EACH((v_store(part + u * VL, A), A));
            rare(s, part, pb, pc);
            EACH(v_load(part + u * VL));
        }
        }
        if (s->keeps) {
            float *to = (float *)address(&s->dst, offset);
            EACH((v_store(to + u * VL, A), A));
        }
    }
}

/* Resolve a value's address; in the short last block all values are in slots. */
static struct ew_place find(const struct run *r, struct ew_ref ref, int32_t whole)
{
    const struct ew_code *code = r->code;
    uint16_t slot = ref.at;
    switch (ref.kind) {
    case EW_INPUT:
        if (whole)
            return (struct ew_place){(char *)(uintptr_t)r->j->in[ref.at], -1, VL};
        slot = code->in_slot[ref.at];
        break;
    case EW_OUTPUT:
        if (whole && r->in_place[ref.at])
            return (struct ew_place){r->j->out[ref.at], -1, VL};
        slot = code->out_slot[ref.at];
        break;
    case EW_SLOT: break;
    case EW_SCALAR:
        return (struct ew_place){(char *)(code->scalar + (int64_t)ref.at * EW_MAX_LANES), 0, 0};
    default: return (struct ew_place){(char *)code->scalar, 0, 0};
    }
    return (struct ew_place){(char *)(r->slots + (int64_t)slot * EW_TILE), 0, VL};
}

static void find_all(const struct run *r, int32_t whole)
{
    for (uint32_t k = 0; k < r->code->ninstr; k++) {
        const struct ew_instr *i = &r->code->instr[k];
        r->steps[k] = (struct ew_step){.op = i->op,
                                       .loads = i->a.kind != EW_BEFORE,
                                       .keeps = i->dst.kind != EW_NONE,
                                       .a = find(r, i->a, whole),
                                       .b = find(r, i->b, whole),
                                       .c = find(r, i->c, whole),
                                       .dst = find(r, i->dst, whole)};
    }
}

/* Load inputs that cannot be read in place: 16-bit inputs, and all inputs of a short block. */
INLINE void load_inputs(const struct run *r, int64_t at, int64_t n)
{
    const struct ew_code *code = r->code;
    for (uint32_t k = 0; k < code->nin; k++) {
        const uint32_t dt = code->in_type[k];
        if (!code->in_vector[k] || (n == BLOCK && dt == WEFT_F32))
            continue;
        float *to = r->slots + (int64_t)code->in_slot[k] * EW_TILE;
        for (int64_t i = 0; i < n; i += VL)
            v_store(to + i, v_get_n(r->j->in[k], at + i, n - i, dt));
    }
}

INLINE void put_run(void *to, int64_t at, int64_t n, const float *from, const uint32_t dt)
{
    for (int64_t i = 0; i < n; i += VL)
        v_put_n(to, at + i, n - i, dt, v_load(from + i));
}

/* Store outputs that are not computed in place. */
INLINE void store_outputs(const struct run *r, int64_t at, int64_t n)
{
    const struct ew_code *code = r->code;
    for (uint32_t k = 0; k < code->nout; k++) {
        const struct ew_ref ref = code->out[k];
        void *to = r->j->out[k];
        float same[BLOCK];
        if (ref.kind == EW_NONE ||
            (n == BLOCK && r->in_place[k] && ref.kind == EW_OUTPUT && ref.at == k))
            continue;
        const struct ew_place p = find(r, ref, n == BLOCK);
        const float *from = (const float *)address(&p, at * 4);
        if (p.step == 0) {
            for (int64_t i = 0; i < BLOCK; i += VL)
                v_store(same + i, v_load(from));
            from = same;
        }
        if (n == BLOCK && r->past_cache[k])
            for (int64_t i = 0; i < BLOCK; i += VL)
                v_stream_bf16((uint16_t *)to + at + i, v_load(from + i));
        else if (code->out_type[k] == WEFT_F32)
            put_run(to, at, n, from, WEFT_F32);
        else if (code->out_type[k] == WEFT_BF16)
            put_run(to, at, n, from, WEFT_BF16);
        else
            put_run(to, at, n, from, WEFT_F16);
    }
}

INLINE int overlap(const struct ew_code *code, const void *a, uint32_t a_type, const void *b,
                   uint32_t b_type)
{
    const char *x = a, *y = b;
    return x < y + code->count * dt_size(b_type) && y < x + code->count * dt_size(a_type);
}

/* Check output k for aliasing: computed in place, stored non-temporally, or neither. */
static void judge_output(struct run *r, uint32_t k, int32_t large)
{
    const struct ew_code *code = r->code;
    const void *to = r->j->out[k];
    const uint32_t type = code->out_type[k];
    int32_t in_place = code->out_born[k] >= 0, apart = 1;
    for (uint32_t i = 0; i < code->nin; i++) {
        const void *from = r->j->in[i];
        if (!code->in_vector[i] || !overlap(code, to, type, from, code->in_type[i]))
            continue;
        apart = 0;
        if (from != to || code->in_type[i] != WEFT_F32 || code->in_last[i] > code->out_born[k])
            in_place = 0;
    }
    for (uint32_t i = 0; i < code->nout; i++)
        if (i != k && code->out[i].kind != EW_NONE &&
            overlap(code, to, type, r->j->out[i], code->out_type[i]))
            in_place = apart = 0;
    r->in_place[k] = (uint8_t)in_place;
    r->past_cache[k] = (uint8_t)(large && apart && type == WEFT_BF16 && (uintptr_t)to % 64 == 0);
}

/* Decide how outputs are stored; returns 1 if any uses non-temporal stores. */
static int32_t prepare(struct run *r)
{
    const struct ew_code *code = r->code;
    int64_t bytes = 0;
    int32_t past = 0;
    for (uint32_t k = 0; k < code->nin; k++)
        if (code->in_vector[k])
            bytes += code->count * dt_size(code->in_type[k]);
    for (uint32_t k = 0; k < code->nout; k++) {
        r->in_place[k] = r->past_cache[k] = 0;
        if (code->out[k].kind == EW_NONE)
            continue;
        judge_output(r, k, bytes >= LARGE);
        past |= r->past_cache[k];
    }
    return past;
}

/* Ask for the inputs of the block at element `at`, which may be beyond the last. */
INLINE void prefetch_inputs(const struct run *r, int64_t at)
{
    const struct ew_code *code = r->code;
    for (uint32_t k = 0; k < code->nin; k++) {
        const int64_t size = dt_size(code->in_type[k]);
        for (int64_t i = 0; code->in_vector[k] && i < BLOCK * size; i += 64)
            prefetch(r->j->in[k], at * size + i);
    }
}

/* Item: EW_TILE elements. scratch: the slots, then the steps. */
void KERNEL(ew)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    const struct ew_code *code = j->a->ew;
    const int64_t last = end * EW_TILE < code->count ? end * EW_TILE : code->count;
    struct run r = {.code = code,
                    .j = j,
                    .slots = (float *)scratch,
                    .steps = (struct ew_step *)(scratch + EW_TILE * sizeof(float) * code->nslot)};
    const int32_t past = prepare(&r);
    int64_t at = begin * EW_TILE;
    find_all(&r, 1);
    for (; at + BLOCK <= last; at += BLOCK) {
        prefetch_inputs(&r, at + AHEAD * BLOCK);
        load_inputs(&r, at, BLOCK);
        run_steps(&r, at * 4);
        store_outputs(&r, at, BLOCK);
    }
    if (at < last) {
        find_all(&r, 0);
        load_inputs(&r, at, last - at);
        run_steps(&r, at * 4);
        store_outputs(&r, at, last - at);
    }
    if (past)
        v_fence();
}
