/* bad/devop/loops.c: the loops of a device that fails checks of ops. See devop.h. */
#include "devop.h"

#include <math.h>
#include <string.h>

static void put(float *to, float value, int32_t adds)
{
    *to = adds ? *to + value : value;
}

void devop_accumulate(weft_prepared *p, const void *const *in, void *const *out, float *workspace)
{
    (void)workspace;
    for (int64_t i = 0; i < size_of(p, 'F'); i++)
        put((float *)out[0] + i, ((const float *)in[0])[i], p->adds);
}

/* Sums of each 16th element, in the workspace; then their sum. */
void devop_sumsq(weft_prepared *p, const void *const *in, void *const *out, float *workspace)
{
    const float *x = in[0];
    const int64_t n = size_of(p, 'F'), back = BAD == TURNS_ROUND && p->runs++ % 2;
    const int64_t lanes = BAD == BEYOND_WORKSPACE ? LANES + 1 : LANES;
    float sum = 0;
    for (int64_t k = 0; k < lanes; k++) {
        workspace[k] = 0;
        for (int64_t i = k; i < n; i += lanes)
            workspace[k] += x[back ? n - 1 - i : i] * x[back ? n - 1 - i : i];
        sum += workspace[k];
    }
    put(out[0], sum, BAD == OVERWRITES ? 0 : p->adds);
}

void devop_both(weft_prepared *p, const void *const *in, void *const *out, float *workspace)
{
    if (out[0] || BAD == WRITES_ABSENT)
        devop_accumulate(p, in, out, workspace);
    if (out[1])
        devop_sumsq(p, in, out + 1, workspace);
}

void devop_embedding_dw(weft_prepared *p, const void *const *in, void *const *out, float *ws)
{
    const int64_t table = size_of(p, 'V'), columns = size_of(p, 'F');
    const int32_t *ids = in[1];
    float *dw = out[0];
    (void)ws;
    if (!p->adds)
        memset(dw, 0, (size_t)(table * columns) * sizeof *dw);
    if (BAD == READS_SHAPE)
        (void)*(const volatile float *)in[2];
    for (int64_t t = 0; t < size_of(p, 'T'); t++) {
        const int64_t row = ids[t] - p->first;
        for (int64_t c = 0; c < columns && row >= 0 && row < table; c++)
            dw[row * columns + c] += ((const float *)in[0])[t * columns + c];
    }
}

void devop_linear(weft_prepared *p, const void *const *in, void *const *out, float *workspace)
{
    const int64_t inner = size_of(p, 'I'), columns = size_of(p, 'O');
    const float *x = in[0], *w = in[1], *b = p->nin > 2 || BAD == READS_BEHIND ? in[2] : NULL;
    (void)workspace;
    for (int64_t t = 0; t < size_of(p, 'T'); t++)
        for (int64_t o = 0; o < columns; o++) {
            double sum = b ? (double)b[o] : 0;
            for (int64_t i = 0; i < inner; i++)
                sum += (double)x[t * inner + i] * (double)w[o * inner + i];
            ((float *)out[0])[t * columns + o] = (float)sum;
        }
}

static float step_of(const weft_ew_step *s, const float *r, uint32_t most)
{
    const float a = r[s->a % most], b = r[s->b % most], c = r[s->c % most];
    switch (s->op) {
    case WEFT_EW_ADD: return a + b;
    case WEFT_EW_SUB: return a - b;
    case WEFT_EW_MUL: return a * b;
    case WEFT_EW_DIV: return a / b;
    case WEFT_EW_MIN: return a < b ? a : b;
    case WEFT_EW_MAX: return a > b ? a : b;
    case WEFT_EW_SQRT: return sqrtf(a);
    case WEFT_EW_NEG: return -a;
    case WEFT_EW_ABS: return fabsf(a);
    case WEFT_EW_SIGN: return (float)((a > 0) - (a < 0));
    case WEFT_EW_EXP: return BAD == COARSE_EXP ? powf(1 + a / 1024, 1024) : expf(a);
    case WEFT_EW_LOG: return logf(a);
    case WEFT_EW_POW: return powf(a, b);
    case WEFT_EW_SELECT: return c != 0 ? a : b;
    case WEFT_EW_LESS: return a < b;
    case WEFT_EW_FINITE: return BAD == INFINITE_IS_FINITE ? !isnan(a) : isfinite(a);
    case WEFT_EW_COS: return cosf(a);
    case WEFT_EW_CONST: return s->imm;
    case WEFT_EW_ROUND: return rintf(a);
    case WEFT_EW_FLOOR: return floorf(a);
    default: return a; /* copy: query() has refused what is not known */
    }
}

void devop_ew(weft_prepared *p, const void *const *in, void *const *out, float *workspace)
{
    const uint32_t most = BAD == FEW_REGISTERS ? 63 : WEFT_EW_MAX_REGISTERS;
    const int64_t n = BAD == SKIPS_TAIL ? p->n / 8 * 8 : p->n;
    const int shut = p->gate >= 0 && *(const float *)in[p->gate] == 0;
    float r[WEFT_EW_MAX_REGISTERS] = {0};
    (void)workspace;
    if (shut && BAD == SHUT_CLEARS)
        for (uint32_t k = 0; k < p->nout; k++)
            memset(out[k], 0, (size_t)p->n * sizeof(float));
    for (int64_t i = 0; i < n && !shut; i++) {
        for (uint32_t k = 0; k < p->nin; k++)
            r[k] = ((const float *)in[k])[p->count[k] == 1 ? 0 : i];
        for (uint32_t k = 0; k < p->nsteps && !(k == 200 && BAD == FEW_STEPS); k++)
            if (!i || BAD != SCALARS_ONCE || !(p->steps[k].flags & WEFT_EW_SCALAR))
                r[p->steps[k].dst % most] = step_of(&p->steps[k], r, most);
        for (uint32_t k = 0; k < p->nout; k++)
            ((float *)out[k])[i] = r[p->out_reg[k] % most];
    }
    for (int64_t i = n - 8; BAD == TAIL_TWICE && p->single == WEFT_EW_NEG && n > 8 && i < n; i++)
        ((float *)out[0])[i] = -((const float *)in[0])[i]; /* as the last vector */
    if (BAD == BEHIND_OUTPUT && p->single == WEFT_EW_COPY)
        ((float *)out[0])[n] = 0;
    if (BAD == CLEANS_INPUT && p->single == WEFT_EW_ABS)
        memcpy((void *)(uintptr_t)in[0], out[0], (size_t)n * sizeof(float));
}
