/* tests/schedule/coded.c: see coded.h. The 16-bit types are those of base/number/half.h, which has
 * a test of its own. */
#include "coded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/half.h"

#define BLOCK 256

float coded_value(uint32_t dtype, const void *at, uint64_t i)
{
    uint16_t h;
    float f;
    if (dtype == WEFT_F32) {
        memcpy(&f, (const char *)at + 4 * i, 4);
        return f;
    }
    memcpy(&h, (const char *)at + 2 * i, 2);
    return dtype == WEFT_F16 ? f16_value(h) : bf16_value(h);
}

void coded_put(uint32_t dtype, void *at, uint64_t i, float value)
{
    uint16_t h = dtype == WEFT_F16 ? f16_from(value) : bf16_from(value);
    if (dtype == WEFT_F32)
        memcpy((char *)at + 4 * i, &value, 4);
    else
        memcpy((char *)at + 2 * i, &h, 2);
}

static void block_int8(const float *x, uint64_t n, float *said)
{
    double top = 0;
    int odd = 0;
    for (uint64_t i = 0; i < n; i++) {
        odd |= !isfinite(x[i]);
        top = fmax(top, fabs((double)x[i]));
    }
    float scale = (float)(top / 127), inverse = (float)(127 / top);
    for (uint64_t i = 0; i < n; i++) {
        double q = nearbyint((double)(float)((double)x[i] * (double)inverse)) + 0; /* no -0 */
        said[i] = (float)(q * (double)scale);
        if (top < 0x1p-110)
            said[i] = 0;
        if (odd)
            said[i] = x[i] == 0 ? 0 : NAN;
    }
}

void coded_block(uint32_t form, const float *x, uint64_t n, float *said, float *lost)
{
    for (uint64_t i = 0; i < n && form != SCHED_TO_INT8; i++) {
        uint32_t dtype = form == SCHED_TO_FP16 ? WEFT_F16 : WEFT_BF16;
        char h[2];
        coded_put(dtype, h, 0, x[i]);
        said[i] = coded_value(dtype, h, 0);
    }
    if (form == SCHED_TO_INT8)
        block_int8(x, n, said);
    for (uint64_t i = 0; i < n; i++) {
        lost[i] = (float)((double)x[i] - (double)said[i]);
        lost[i] = isfinite(lost[i]) ? lost[i] : 0;
    }
}

/* First element of part i: equal parts, or, where the parts are free and long, whole lines. */
static uint64_t part_from(const sched_request *r, uint32_t i)
{
    uint64_t size = weft_dtype_size(r->dtype), grain = 1;
    if (r->kind == WEFT_ALL_REDUCE && r->count * size / r->ranks >= 4096)
        grain = 64 / size;
    uint64_t lines = r->count / grain, rest = lines % r->ranks;
    if (i == r->ranks)
        return r->count;
    return (lines / r->ranks * i + (i < rest ? i : rest)) * grain;
}

/* One block of part `owner`, from element `at` on; kept of rank i lies at kept[i] + place[i]. */
static void sum_block(const sched_request *r, void *const *in, void *out, float *const *kept,
                      float times, uint32_t owner, uint64_t at, uint64_t n)
{
    float sum[BLOCK], x[BLOCK], said[BLOCK], lost[BLOCK];
    uint64_t own = r->count / r->ranks;
    int last = r->kind == WEFT_ALL_REDUCE;
    for (uint32_t i = 0; i < r->ranks; i++) {
        uint64_t place = last || at < i * own ? at : at - own; /* its own part is left out */
        for (uint64_t k = 0; k < n; k++) {
            x[k] = coded_value(r->dtype, in[i], at + k);
            if (i != owner && kept)
                x[k] += kept[i][place + k] * times;
        }
        coded_block(r->compress, x, n, said, lost);
        for (uint64_t k = 0; k < n; k++) {
            float v = i == owner ? x[k] : said[k];
            sum[k] = i ? sum[k] + v : v;
            if (i != owner && kept)
                kept[i][place + k] = lost[k];
        }
    }
    for (uint64_t k = 0; last && kept && k < n; k++)
        sum[k] += kept[owner][at + k] * times;
    coded_block(r->compress, sum, n, said, lost);
    for (uint64_t k = 0; k < n; k++) {
        coded_put(r->dtype, out, at + k, last ? said[k] : sum[k]);
        if (last && kept)
            kept[owner][at + k] = lost[k];
    }
}

void coded_sum(const sched_request *r, void *const *in, void *out, float *const *kept, float times)
{
    uint64_t chunk = (r->chunk + 63) / 64 * 64 / weft_dtype_size(r->dtype);
    for (uint32_t owner = 0; owner < r->ranks; owner++) {
        uint64_t from = part_from(r, owner), end = part_from(r, owner + 1), at = from;
        while (at < end) {
            uint64_t n = end - at < BLOCK ? end - at : BLOCK;
            uint64_t left = chunk ? chunk - (at - from) % chunk : n; /* blocks begin with a chunk */
            n = n < left ? n : left;
            sum_block(r, in, out, kept, times, owner, at, n);
            at += n;
        }
    }
}
