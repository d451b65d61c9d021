/* tests/schedule/naive.c: see naive.h. */
#include "naive.h"

#include <math.h>
#include <string.h>

double half_value(uint16_t h)
{
    int expo = h >> 10 & 31, mant = h & 1023;
    double m = expo == 0 ? ldexp(mant, -24) : ldexp(1024 + mant, expo - 25);
    if (expo == 31)
        m = mant ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -m : m;
}

double bf16_value(uint16_t h)
{
    int expo = h >> 7 & 255, mant = h & 127;
    double m = expo == 0 ? ldexp(mant, -133) : ldexp(128 + mant, expo - 134);
    if (expo == 255)
        m = mant ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -m : m;
}

/* Bit patterns of positive floats are in the order of their values. */
static uint16_t nearest(double x, double (*value)(uint16_t), uint16_t inf)
{
    if (isnan(x))
        return inf | 1;
    uint16_t sign = signbit(x) ? 0x8000 : 0, lo = 0, hi = inf;
    double a = fabs(x);
    while (hi - lo > 1) {
        uint16_t mid = (uint16_t)((lo + hi) / 2);
        if (value(mid) <= a)
            lo = mid;
        else
            hi = mid;
    }
    double below = a - value(lo), step = value(lo) - value((uint16_t)(lo - (lo > 0)));
    double above = (hi == inf ? value(lo) + step : value(hi)) - a;
    int up = isinf(a) || above < below || (above == below && (lo & 1));
    return sign | (up ? hi : lo);
}

uint16_t half_nearest(double x)
{
    return nearest(x, half_value, 0x7c00);
}

uint16_t bf16_nearest(double x)
{
    return nearest(x, bf16_value, 0x7f80);
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

void naive_input(const sched_request *r, uint32_t rank, uint64_t i, void *element)
{
    uint64_t bits = mix(i * 0x9e3779b97f4a7c15u + rank * 77 + r->kind);
    float f = (float)((double)(bits >> 40) * 0x1p-23 - 1);
    uint32_t f_bits;
    memcpy(&f_bits, &f, 4);
    uint16_t upper = (uint16_t)(f_bits >> 16), half = (uint16_t)(bits & 0xbfff) & 0xbbff;
    switch (r->dtype) {
    case WEFT_F32: memcpy(element, &f, 4); break;
    case WEFT_BF16: memcpy(element, &upper, 2); break;
    case WEFT_F16: memcpy(element, &half, 2); break;
    default: memcpy(element, &bits, weft_dtype_size(r->dtype));
    }
}

void naive_fill(const sched_request *r, uint32_t rank, void *in)
{
    uint64_t size = weft_dtype_size(r->dtype), n = naive_in_count(r, rank);
    for (uint64_t i = 0; i < n; i++)
        naive_input(r, rank, i, (char *)in + i * size);
}

uint64_t naive_in_count(const sched_request *r, uint32_t rank)
{
    switch (r->kind) {
    case WEFT_ALL_GATHER:
    case WEFT_GATHER: return r->count / r->ranks;
    case WEFT_BROADCAST:
    case WEFT_SCATTER: return rank == r->root ? r->count : 0;
    case WEFT_RECV: return 0;
    default: return r->count;
    }
}

uint64_t naive_out_count(const sched_request *r, uint32_t rank)
{
    switch (r->kind) {
    case WEFT_REDUCE_SCATTER:
    case WEFT_SCATTER: return r->count / r->ranks;
    case WEFT_GATHER:
    case WEFT_REDUCE: return rank == r->root ? r->count : 0;
    case WEFT_SEND: return 0;
    default: return r->count;
    }
}

static double as_double(uint32_t dtype, const void *element)
{
    float f;
    uint16_t h;
    memcpy(&h, element, 2);
    if (dtype == WEFT_F16)
        return half_value(h);
    if (dtype == WEFT_BF16)
        return bf16_value(h);
    memcpy(&f, element, 4);
    return (double)f;
}

static double combine(uint32_t redop, double a, double b)
{
    return redop == WEFT_SUM ? a + b : redop == WEFT_MAX ? fmax(a, b) : fmin(a, b);
}

static void reduced_float(const sched_request *r, uint64_t i, void *element, double *exact,
                          double *weight)
{
    float sum = 0;
    *exact = *weight = 0;
    for (uint32_t rank = 0; rank < r->ranks; rank++) {
        char x[8];
        naive_input(r, rank, i, x);
        double v = as_double(r->dtype, x);
        sum = rank ? (float)combine(r->redop, (double)sum, v) : (float)v;
        *exact = rank ? combine(r->redop, *exact, v) : v;
        *weight += fabs(v);
    }
    uint16_t h = r->dtype == WEFT_F16 ? half_nearest((double)sum) : bf16_nearest((double)sum);
    if (r->dtype == WEFT_F32)
        memcpy(element, &sum, 4);
    else
        memcpy(element, &h, 2);
}

static void reduced_integer(const sched_request *r, uint64_t i, void *element)
{
    int64_t sum = 0;
    for (uint32_t rank = 0; rank < r->ranks; rank++) {
        int64_t x;
        int32_t narrow;
        char bytes[8] = {0};
        naive_input(r, rank, i, bytes);
        memcpy(&x, bytes, 8);
        memcpy(&narrow, bytes, 4);
        x = r->dtype == WEFT_I32 ? narrow : x;
        if (rank == 0)
            sum = x;
        else if (r->redop == WEFT_SUM)
            sum = (int64_t)((uint64_t)sum + (uint64_t)x);
        else if (r->redop == WEFT_MAX)
            sum = x > sum ? x : sum;
        else
            sum = x < sum ? x : sum;
    }
    memcpy(element, &sum, weft_dtype_size(r->dtype));
}

static int is_float(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

void naive_output(const sched_request *r, uint32_t rank, uint64_t i, void *element)
{
    uint64_t part = r->count / r->ranks;
    double exact, weight;
    switch (r->kind) {
    case WEFT_ALL_GATHER:
    case WEFT_GATHER: naive_input(r, (uint32_t)(i / part), i % part, element); return;
    case WEFT_BROADCAST: naive_input(r, r->root, i, element); return;
    case WEFT_SHIFT: naive_input(r, (rank + r->ranks - r->root) % r->ranks, i, element); return;
    case WEFT_SCATTER: naive_input(r, r->root, rank * part + i, element); return;
    case WEFT_ALL_TO_ALL:
        naive_input(r, (uint32_t)(i / part), rank * part + i % part, element);
        return;
    case WEFT_RECV: {
        sched_request sent = *r;
        sent.kind = WEFT_SEND;
        naive_input(&sent, r->root, i, element);
        return;
    }
    default: break;
    }
    if (r->kind == WEFT_REDUCE_SCATTER)
        i += rank * part;
    if (is_float(r->dtype))
        reduced_float(r, i, element, &exact, &weight);
    else
        reduced_integer(r, i, element);
}

int naive_right(const sched_request *r, uint32_t rank, uint64_t i, const void *got, int exact)
{
    char want[8];
    naive_output(r, rank, i, want);
    if (memcmp(want, got, weft_dtype_size(r->dtype)) == 0)
        return 1;
    if (exact || !is_float(r->dtype))
        return 0;
    double sum, weight;
    uint64_t shift = r->kind == WEFT_REDUCE_SCATTER ? rank * (r->count / r->ranks) : 0;
    reduced_float(r, i + shift, want, &sum, &weight);
    double unit = r->dtype == WEFT_F32 ? 0x1p-23 : r->dtype == WEFT_F16 ? 0x1p-10 : 0x1p-7;
    double slack = r->ranks * (unit * weight + (r->dtype == WEFT_F16 ? 0x1p-24 : 0));
    return fabs(as_double(r->dtype, got) - sum) <= slack;
}

uint64_t naive_first_wrong(const sched_request *r, uint32_t rank, const void *out, int exact,
                           uint64_t dense)
{
    uint64_t size = weft_dtype_size(r->dtype), n = naive_out_count(r, rank), step = 1;
    for (uint64_t i = 0; i < n; i += step) {
        if (!naive_right(r, rank, i, (const char *)out + i * size, exact))
            return i;
        step = i >= dense && i + 300 < n ? 211 : 1;
    }
    return UINT64_MAX;
}

int naive_role(const sched_request *all, uint32_t rank, sched_request *mine)
{
    *mine = *all;
    mine->me = rank;
    if (all->kind != WEFT_SEND)
        return 1;
    uint32_t from = (all->root + 1) % all->ranks;
    if (rank == all->root) {
        mine->kind = WEFT_RECV;
        mine->root = from;
    }
    return rank == all->root || rank == from;
}
