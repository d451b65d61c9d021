/* bad/op_kernel.c: kernels of the ops in bad/op.c, in fp32. */
#include "op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/match.h>

typedef struct prepared {
    int64_t tokens, features, first;
    float s;
} prepared;

static weft_status match(const weft_host *host, const weft_opspec *spec, weft_match *m)
{
    const int dx = spec->nin == 4;
    const weft_status st =
        weft_match_spec(m, "cpu", spec, dx ? "fTF fT fTF fF" : "fTF fF", dx ? "fTF fF" : "fTF fT");
    return st == WEFT_OK ? st : (host->fail)(host->ctx, st, m->why);
}

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    weft_match m;
    const weft_requirements need = {.struct_size = sizeof need};
    (void)conf;
    if (BAD == ANY_TYPE)
        return weft_give(out, &need), WEFT_OK;
    const weft_status st = match((const weft_host *)module, spec, &m);
    if (st == WEFT_OK)
        weft_give(out, &need);
    return st;
}

static weft_status prepare(void *module, const weft_conf *conf, const weft_opspec *spec,
                           void *stream, void **out)
{
    weft_match m;
    const weft_host *host = (const weft_host *)module;
    (void)conf, (void)stream;
    const weft_status st = match(host, spec, &m);
    prepared *p = st == WEFT_OK ? malloc(sizeof *p) : NULL;
    if (!p)
        return st == WEFT_OK ? (host->fail)(host->ctx, WEFT_NO_MEMORY, "acme.mix: no memory") : st;
    *p = (prepared){m.size['T' - 'A'], m.size['F' - 'A'], weft_attr_i(spec, "first", 0), 0};
    if (BAD == IGNORES_FIRST)
        p->first = 0;
    p->s = (float)mix_scale(spec->attrs, spec->nattr)->f;
    *out = p;
    return WEFT_OK;
}

static float factor(const prepared *p, int64_t f)
{
    return p->s * (1 + (float)(p->first + f + 1) / 8);
}

static weft_status run(void *of, void *stream, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    const prepared *p = of;
    const float *x = in[0], *w = in[1];
    float *y = out[0], *total = out[1];
    (void)stream, (void)workspace;
    if (flags)
        return WEFT_UNSUPPORTED;
    if (BAD == WRITES_INPUT)
        *(float *)(uintptr_t)w = 1;
    for (int64_t t = 0; t < p->tokens - (BAD == UNWRITTEN); t++) {
        total[t] = 0;
        if (BAD == OVERWRITES) /* and reads x again below */
            for (int64_t f = 0; f < p->features; f++)
                y[t * p->features + f] = 0;
        for (int64_t f = 0; f < p->features; f++) {
            const int64_t i = t * p->features + f;
            const float at = BAD == FLATTENS ? 30 * tanhf(x[i] / 30) : x[i]; /* no dx knows it */
            y[i] = at * w[f] * factor(p, f);
            if (BAD == WRONG_PART)
                y[i] *= (float)p->tokens;
            total[t] += y[i];
        }
    }
    return WEFT_OK;
}

static weft_status run_dx(void *of, void *stream, const void *const *in, void *const *out,
                          void *workspace, uint32_t flags)
{
    const prepared *p = of;
    const float *dy = in[0], *dtotal = in[1], *x = in[2], *w = in[3];
    float *dx = out[0], *dw = out[1];
    (void)stream, (void)workspace;
    if (flags)
        return WEFT_UNSUPPORTED;
    memset(dw, 0, (size_t)p->features * sizeof *dw);
    for (int64_t t = 0; t < p->tokens; t++)
        for (int64_t f = 0; f < p->features; f++) {
            const int64_t i = t * p->features + f;
            float d = (dy[i] + dtotal[t]) * factor(p, f);
            if (BAD == OWN_SCALE) /* right where s is 1, as in the first example */
                d /= p->s;
            if (BAD == WRONG_GRADIENT)
                d *= 1.1f;
            if (BAD == WRONG_PART)
                d *= (float)p->tokens;
            dx[i] = d * w[f];
            dw[f] += d * x[i];
        }
    return WEFT_OK;
}

const weft_kernel mix_cpu = {.struct_size = sizeof mix_cpu,
                             .op = "acme.mix",
                             .device = "cpu",
                             .query = query,
                             .prepare = prepare,
                             .release = free,
                             .run = run};
const weft_kernel mix_dx_cpu = {.struct_size = sizeof mix_dx_cpu,
                                .op = "acme.mix.dx",
                                .device = "cpu",
                                .query = query,
                                .prepare = prepare,
                                .release = free,
                                .run = run_dx};
