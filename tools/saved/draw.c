/* saved/draw.c: see draw.h. */
#include "saved/draw.h"

#include "base/number/rng.h"

#include <math.h>
#include <string.h>

enum { LANES = 8, STEPS = 64 }; /* in lanes, compilers use vectors; additions of one lane */

/* --- a heap: the largest number first --- */

static void sink(float *heap, uint64_t n, uint64_t at)
{
    for (uint64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] > heap[child])
            child++;
        if (heap[at] >= heap[child])
            return;
        const float x = heap[at];
        heap[at] = heap[child];
        heap[child] = x;
    }
}

static void make(float *heap, uint64_t n)
{
    for (uint64_t i = n / 2; i-- > 0;)
        sink(heap, n, i);
}

static float pop(float *heap, uint64_t *n)
{
    const float x = heap[0];
    heap[0] = heap[--*n];
    sink(heap, *n, 0);
    return x;
}

/* --- what is kept --- */

static double weight(const saved_draw *d, float logit, float max)
{
    return exp((double)(logit - max) / d->temperature);
}

/* The smallest logit among the `top` largest. */
static float least_of_top(const saved_draw *d, const float *logits, uint64_t n, float *heap)
{
    float least = -INFINITY;
    if (!d->top || d->top >= n)
        return least;
    memcpy(heap, logits, n * sizeof *heap);
    make(heap, n);
    for (uint64_t i = 0; i < d->top; i++)
        least = pop(heap, &n);
    return least;
}

/* Raises `least` to the smallest of the largest logits that have the mass. */
static float least_of_mass(const saved_draw *d, const float *logits, uint64_t n, float *heap,
                           float least, float max)
{
    uint64_t kept = 0;
    double all = 0, sum = 0;
    if (d->mass >= 1)
        return least;
    for (uint64_t i = 0; i < n; i++)
        if (logits[i] >= least) {
            heap[kept++] = logits[i];
            all += weight(d, logits[i], max);
        }
    make(heap, kept);
    float last = max;
    while (kept && sum < d->mass * all) {
        last = pop(heap, &kept);
        sum += weight(d, last, max);
    }
    return last;
}

/* The index of the largest; of equal ones the first. */
static uint64_t likeliest(const float *logits, uint64_t n)
{
    float lane[LANES], max = -INFINITY;
    uint64_t i = 0;
    for (uint64_t k = 0; k < LANES; k++)
        lane[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (uint64_t k = 0; k < LANES; k++)
            lane[k] = logits[i + k] > lane[k] ? logits[i + k] : lane[k];
    for (; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint64_t k = 0; k < LANES; k++)
        max = lane[k] > max ? lane[k] : max;
    for (i = 0; i < n; i++)
        if (logits[i] == max)
            return i;
    return 0;
}

int32_t saved_draw_token(const saved_draw *d, const float *logits, uint64_t n, uint64_t number,
                         double *capacity)
{
    const uint64_t best = likeliest(logits, n);
    if (d->temperature <= 0)
        return (int32_t)best;
    const float max = logits[best];
    float least = least_of_top(d, logits, n, (float *)capacity);
    least = least_of_mass(d, logits, n, (float *)capacity, least, max);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        capacity[i] = logits[i] >= least ? weight(d, logits[i], max) : 0;
        sum += capacity[i];
    }
    double mark = rng_uniform(rng_key(d->seed, "sample"), number) * sum;
    for (uint64_t i = 0; i < n; i++) {
        mark -= capacity[i];
        if (mark < 0)
            return (int32_t)i;
    }
    return (int32_t)best;
}

/* exp(x) for x <= 0, with a relative error below 2e-7; 1e-38 for x below -87. */
static inline float exp_low(float x)
{
    const float round_off = 12583039.0f; /* 1.5 * 2^23 + 127: the exponent is in the low bits */
    x = x < -87.0f ? -87.0f : x;
    const float t = x * 1.44269504f + round_off, whole = t - round_off;
    const float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    uint32_t bits;
    float power, p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    memcpy(&bits, &t, 4);
    bits <<= 23;
    memcpy(&power, &bits, 4);
    return (p * r * r + r + 1.0f) * power;
}

/* Sum of exp(logits - max). */
static double sum_of(const float *logits, uint64_t n, float max)
{
    double all = 0;
    uint64_t i = 0;
    while (i + LANES <= n) {
        const uint64_t end = i + LANES * STEPS < n ? i + LANES * STEPS : n;
        float lane[LANES] = {0}, sum = 0;
        for (; i + LANES <= end; i += LANES)
            for (uint64_t k = 0; k < LANES; k++)
                lane[k] += exp_low(logits[i + k] - max);
        for (uint64_t k = 0; k < LANES; k++)
            sum += lane[k];
        all += (double)sum;
    }
    for (; i < n; i++)
        all += (double)exp_low(logits[i] - max);
    return all;
}

double saved_draw_log_probability(const float *logits, uint64_t n, int32_t token)
{
    const float max = logits[likeliest(logits, n)];
    return (double)logits[token] - (double)max - log(sum_of(logits, n, max));
}
