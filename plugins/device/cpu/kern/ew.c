/* kern/ew.c: elementwise programs, run a tile at a time.
 *
 * A tile of EW_TILE elements passes through all instructions before the next begins, so that what
 * lies between inputs and outputs stays in L1, and memory sees each operand once. While a tile is
 * computed, the next one's inputs are on their way. Instructions have been made ready by the host
 * side (../ew.c): scalars are vectors with a step of 0, fp32 inputs are read where they lie.
 * Outputs are written when a tile's inputs have all been read, so one may lie over the other. */
#include "impl.h"
#include "vmath.h"
#include <math.h>

struct operand {
    const float *p;
    int64_t step; /* VL, or 0 for a scalar */
};

struct tile {
    const struct ew_code *code;
    const void *const *in;
    float *slots; /* [nslot][EW_TILE] */
    int64_t at, n;
    int32_t direct; /* fp32 inputs are read in place: not in the last, short tile */
};

INLINE struct operand find(const struct tile *t, struct ew_ref r)
{
    switch (r.kind) {
    case EW_SCALAR: return (struct operand){t->code->scalar + (int64_t)r.at * EW_MAX_LANES, 0};
    case EW_SLOT: return (struct operand){t->slots + (int64_t)r.at * EW_TILE, VL};
    case EW_INPUT:
        if (t->direct)
            return (struct operand){(const float *)t->in[r.at] + t->at, VL};
        return (struct operand){t->slots + (int64_t)t->code->in_slot[r.at] * EW_TILE, VL};
    default: return (struct operand){t->code->scalar, 0};
    }
}

#define EACH(expression)                                                                           \
    do {                                                                                           \
        for (int64_t i = 0; i < n; i += VL, pa += sa, pb += sb, pc += sc)                          \
            v_store(d + i, expression);                                                            \
    } while (0)
#define A v_load(pa)
#define B v_load(pb)
#define C v_load(pc)
#define BIT(mask) (vf)((vi)v_set1(1.0f) & (mask))

/* pow and cos have no vector form here: no rule of the project uses them on tensors, only on
 * scalars. */
static void by_lanes(uint16_t op, float *d, int64_t n, struct operand a, struct operand b)
{
    for (int64_t i = 0; i < n; i++) {
        const float x = a.p[a.step ? i : 0], y = b.p[b.step ? i : 0];
        d[i] = op == WEFT_EW_POW ? powf(x, y) : cosf(x);
    }
}

INLINE vf sign_of(vf a)
{
    vf one = BIT(a != v_set1(0.0f));
    vf signed_one = (vf)((vi)one | ((vi)a & (vi)v_set1(-0.0f)));
    return v_select(a != a, a, signed_one);
}

/* IEEE minimum and maximum would lose a NaN in one operand; these keep it. */
INLINE vf keep_nan(vf r, vf a)
{
    return v_select(a != a, a, r);
}

INLINE void unary(uint16_t op, float *d, int64_t n, const float *pa, int64_t sa)
{
    const vi magnitude = (vi)(vu_set1(0x7fffffffu));
    const float *pb = pa, *pc = pa;
    const int64_t sb = 0, sc = 0;
    switch (op) {
    case WEFT_EW_COPY: EACH(A); break;
    case WEFT_EW_SQRT: EACH(v_sqrt(A)); break;
    case WEFT_EW_NEG: EACH(-A); break;
    case WEFT_EW_ABS: EACH((vf)((vi)A & magnitude)); break;
    case WEFT_EW_SIGN: EACH(sign_of(A)); break;
    case WEFT_EW_EXP: EACH(v_exp(A)); break;
    case WEFT_EW_LOG: EACH(v_log(A)); break;
    default: EACH(BIT(((vi)A & magnitude) < (vi)vu_set1(0x7f800000u))); break;
    }
    (void)pb;
    (void)pc;
}

static void execute(const struct tile *t, const struct ew_instr *s)
{
    float *d = t->slots + (int64_t)s->dst * EW_TILE;
    const struct operand a = find(t, s->a), b = find(t, s->b), c = find(t, s->c);
    const float *pa = a.p, *pb = b.p, *pc = c.p;
    const int64_t sa = a.step, sb = b.step, sc = c.step, n = t->n;
    switch (s->op) {
    case WEFT_EW_ADD: EACH(A + B); break;
    case WEFT_EW_SUB: EACH(A - B); break;
    case WEFT_EW_MUL: EACH(A * B); break;
    case WEFT_EW_DIV: EACH(A / B); break;
    case WEFT_EW_MIN: EACH(keep_nan(v_min(A, B), A)); break;
    case WEFT_EW_MAX: EACH(keep_nan(v_max(A, B), A)); break;
    case WEFT_EW_LESS: EACH(BIT(A < B)); break;
    case WEFT_EW_SELECT: EACH(v_select(C != v_set1(0.0f), A, B)); break;
    case EW_MULADD: EACH(v_fma(A, B, C)); break;
    case EW_NMULADD: EACH(v_fma(-A, B, C)); break;
    case WEFT_EW_POW:
    case WEFT_EW_COS: by_lanes(s->op, d, n, a, b); break;
    default: unary(s->op, d, n, pa, sa); break;
    }
}

/* Inputs that cannot be read in place: 16-bit ones, and all of a short tile. */
INLINE void load_inputs(const struct tile *t)
{
    const struct ew_code *code = t->code;
    for (uint32_t k = 0; k < code->nin; k++) {
        const uint32_t dt = code->in_type[k];
        if (!code->in_vector[k] || (t->direct && dt == WEFT_F32))
            continue;
        float *to = t->slots + (int64_t)code->in_slot[k] * EW_TILE;
        for (int64_t i = 0; i < t->n; i += VL)
            v_store(to + i, v_get_n(t->in[k], t->at + i, t->n - i, dt));
    }
}

INLINE void put_run(void *to, int64_t at, int64_t n, struct operand s, const uint32_t dt)
{
    for (int64_t i = 0; i < n; i += VL, s.p += s.step)
        v_put_n(to, at + i, n - i, dt, v_load(s.p));
}

INLINE void store_outputs(const struct tile *t, void *const *out)
{
    const struct ew_code *code = t->code;
    for (uint32_t k = 0; k < code->nout; k++) {
        if (code->out[k].kind == EW_NONE)
            continue;
        const struct operand s = find(t, code->out[k]);
        if (code->out_type[k] == WEFT_F32)
            put_run(out[k], t->at, t->n, s, WEFT_F32);
        else if (code->out_type[k] == WEFT_BF16)
            put_run(out[k], t->at, t->n, s, WEFT_BF16);
        else
            put_run(out[k], t->at, t->n, s, WEFT_F16);
    }
}

/* What the next tile will need: asked for a few lines at a time, between the instructions of this
 * one, because the core holds up what comes in a burst. */
struct stream {
    const char *base;
    int64_t tile; /* bytes of a tile */
};

struct ahead {
    struct stream stream[2 * WEFT_MAX_OPERANDS];
    uint32_t streams, at;
    int64_t line, each; /* next line of stream `at`; lines between two instructions */
};

INLINE void add_stream(struct ahead *h, const void *base, uint32_t dt)
{
    for (uint32_t k = 0; k < h->streams; k++)
        if (h->stream[k].base == base)
            return;
    h->stream[h->streams++] = (struct stream){base, EW_TILE * dt_size(dt)};
    h->each += EW_TILE * dt_size(dt) / 64;
}

INLINE void plan_ahead(struct ahead *h, const struct ew_code *code, const struct cpu_job *j)
{
    h->streams = 0;
    h->each = 0;
    for (uint32_t k = 0; k < code->nin; k++)
        if (code->in_vector[k])
            add_stream(h, j->in[k], code->in_type[k]);
    for (uint32_t k = 0; k < code->nout; k++)
        if (code->out[k].kind != EW_NONE)
            add_stream(h, j->out[k], code->out_type[k]);
    h->each = h->each / (code->ninstr + 1) + 1;
}

/* The next few lines of tile `item`. */
INLINE void fetch_some(struct ahead *h, int64_t item)
{
    for (int64_t n = 0; n < h->each && h->at < h->streams; n++) {
        const struct stream *s = &h->stream[h->at];
        __builtin_prefetch(s->base + item * s->tile + h->line);
        h->line += 64;
        if (h->line == s->tile) {
            h->line = 0;
            h->at++;
        }
    }
}

INLINE void run_tile(const struct cpu_job *j, const struct tile *t, struct ahead *h, int64_t next)
{
    h->at = 0;
    h->line = 0;
    load_inputs(t);
    for (uint32_t i = 0; i < t->code->ninstr; i++) {
        fetch_some(h, next);
        execute(t, &t->code->instr[i]);
    }
    fetch_some(h, next);
    store_outputs(t, j->out);
}

/* Item: EW_TILE elements. scratch: the tiles. */
void KERNEL(ew)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    const struct ew_code *code = j->a->ew;
    struct ahead ahead;
    plan_ahead(&ahead, code, j);
    for (int64_t item = begin; item < end; item++) {
        const int64_t at = item * EW_TILE, left = code->count - at;
        const struct tile t = {.code = code,
                               .in = j->in,
                               .slots = (float *)scratch,
                               .at = at,
                               .n = left < EW_TILE ? left : EW_TILE,
                               .direct = left >= EW_TILE};
        run_tile(j, &t, &ahead, item + 1);
    }
}
