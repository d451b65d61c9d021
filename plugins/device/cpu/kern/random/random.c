/* kern/random/random.c: random numbers and dropout.
 *
 * A run of neighbours (struct cpu_numbers) is drawn in blocks: first the words of the groups of 64
 * that it touches, then what is made of them. At both ends of a block words of a group may be left
 * over, which costs up to 1/8 of the draws in a long run, and more in runs of few elements.
 *
 *   uniform   the upper 24 bits of the word, over 2^24
 *   normal    Box and Muller, from words 0 and 1 of a counter, and 2 and 3: a radius
 *             sqrt(-2 ln u) with u = (word + 1/2) / 2^32, and an angle of word / 2^32 turns. The
 *             largest is 6.7
 *   dropout   drops where the word is below p 2^32
 *
 * This file is compiled without contraction of products and sums, so that results have the same
 * bits with every instruction set. */
#include "kern/impl.h"
#include "kern/random/philox.h"
#include <stdbool.h>

enum { CHUNK = 1024, WORDS = CHUNK + 2 * PHILOX_GROUP };

/* --- numbers from words --- */

INLINE vf to_uniform(vu w)
{
    return v_from_int((vi)(w >> 8)) * v_set1(0x1p-24f);
}

/* log(x) of normal x, as v_log() (vmath.h), without fused products. */
INLINE vf plain_log(vf x)
{
    vi e = (((vi)x >> 23) & 0xff) - 126;
    vf m = (vf)(((vi)x & 0x007fffff) | 0x3f000000);
    vi low = m < v_set1(0.707106781f);
    e += low;
    m = m + (vf)((vi)m & low) - v_set1(1.0f);
    const vf z = m * m, ef = v_from_int(e);
    vf p = v_set1(7.0376836292e-2f) * m + v_set1(-1.1514610310e-1f);
    p = p * m + v_set1(1.1676998740e-1f);
    p = p * m + v_set1(-1.2420140846e-1f);
    p = p * m + v_set1(1.4249322787e-1f);
    p = p * m + v_set1(-1.6668057665e-1f);
    p = p * m + v_set1(2.0000714765e-1f);
    p = p * m + v_set1(-2.4999993993e-1f);
    p = p * m + v_set1(3.3333331174e-1f);
    p = p * m * z + ef * v_set1(-2.12194440e-4f) - v_set1(0.5f) * z;
    return m + p + ef * v_set1(0.693359375f);
}

/* sqrt(-2 ln u). u rounds to 1 for the largest words: its logarithm may then be above 0 by
 * rounding, and the radius is 0. */
INLINE vf radius_of(vu w)
{
    const vf u = (v_from_int((vi)(w >> 16)) * v_set1(65536.0f) +
                  (v_from_int((vi)(w & 0xffff)) + v_set1(0.5f))) *
                 v_set1(0x1p-32f);
    return v_sqrt(v_max(v_set1(-2.0f) * plain_log(u), v_set1(0.0f)));
}

/* Cosine and sine of `w` / 2^32 turns. The nearest quarter turn is taken off exactly; on the rest,
 * up to an eighth, polynomials in the square have an error of 1e-7. */
INLINE void turn_of(vu w, vf *cosine, vf *sine)
{
    const vu quarter = (w + 0x20000000u) >> 30;
    const vf a =
        v_from_int((vi)(w - (quarter << 30))) * v_set1(1.46291807927e-9f); /* 2 pi / 2^32 */
    const vf z = a * a;
    vf s = v_set1(-1.9515295891e-4f) * z + v_set1(8.3321608736e-3f);
    s = (s * z + v_set1(-1.6666654611e-1f)) * z * a + a;
    vf c = v_set1(2.443315711809948e-5f) * z + v_set1(-1.388731625493765e-3f);
    c = (c * z + v_set1(4.166664568298827e-2f)) * z * z - v_set1(0.5f) * z + v_set1(1.0f);
    const vi swap = (quarter & 1) != 0;
    const vu negative_cosine = (quarter + 1) >> 1 & 1, negative_sine = quarter >> 1 & 1;
    *cosine = (vf)((vu)v_select(swap, s, c) ^ negative_cosine << 31);
    *sine = (vf)((vu)v_select(swap, c, s) ^ negative_sine << 31);
}

/* --- draws --- */

INLINE void group_to_normal(uint32_t *words)
{
    for (int half = 0; half < PHILOX_GROUP; half += 32)
        for (int i = half; i < half + 16; i += VL) {
            vu one, two;
            vf cosine, sine;
            memcpy(&one, words + i, sizeof one);
            memcpy(&two, words + i + 16, sizeof two);
            const vf radius = radius_of(one);
            turn_of(two, &cosine, &sine);
            v_store((float *)(void *)words + i, radius * cosine);
            v_store((float *)(void *)words + i + 16, radius * sine);
        }
}

/* The words of elements [number, number + n), n <= CHUNK; returns where the first is. */
static const uint32_t *draw(const struct cpu_numbers *x, uint64_t number, int64_t n, bool normal,
                            uint32_t *words)
{
    const uint64_t first = number / PHILOX_GROUP;
    const uint64_t last = (number + (uint64_t)n - 1) / PHILOX_GROUP;
    for (uint64_t g = first; g <= last; g++) {
        uint32_t *to = words + (g - first) * PHILOX_GROUP;
        philox_group(g, x->stream, x->seed, to);
        if (normal)
            group_to_normal(to);
    }
    return words + number % PHILOX_GROUP;
}

/* An item: elements [from, from + n) of run `run`, which has the number `number`. */
struct piece {
    int64_t run, from, n;
    uint64_t number;
};

INLINE struct piece piece_of(const struct cpu_numbers *x, int64_t item, uint64_t base)
{
    struct piece p = {.run = item / x->blocks, .from = item % x->blocks * DRAW_BLOCK};
    int64_t rest = p.run;
    const int64_t left = x->length - p.from;
    p.n = left < DRAW_BLOCK ? left : DRAW_BLOCK;
    p.number = base + (uint64_t)p.from;
    for (uint32_t k = x->outer; k-- > 0; rest /= x->size[k])
        p.number += (uint64_t)(rest % x->size[k]) * x->step[k];
    return p;
}

/* The number of the first element, at this time. */
INLINE uint64_t base_of(const struct cpu_numbers *x, const void *time)
{
    int64_t at;
    float step;
    memcpy(&step, time, sizeof step);
    if (x->by_step)
        at = (int64_t)step;
    else
        memcpy(&at, time, sizeof at);
    return x->first + (uint64_t)at * x->unit;
}

/* in: time []; out: y. Item: a block of a run. */
void KERNEL(random)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    const struct cpu_numbers *x = &j->a->numbers;
    const uint64_t base = base_of(x, j->in[0]);
    const bool normal = j->a->fused != 0;
    uint32_t words[WORDS];
    (void)scratch;
    for (int64_t item = begin; item < end; item++) {
        const struct piece p = piece_of(x, item, base);
        float *y = (float *)j->out[0] + p.run * x->length + p.from;
        for (int64_t at = 0; at < p.n; at += CHUNK) {
            const int64_t n = p.n - at < CHUNK ? p.n - at : CHUNK;
            const uint32_t *w = draw(x, p.number + (uint64_t)at, n, normal, words);
            if (normal)
                memcpy(y + at, w, (size_t)n * sizeof *y);
            for (int64_t i = 0; i < n && !normal; i += VL) {
                vu word;
                memcpy(&word, w + i, sizeof word);
                v_put_n(y + at, i, n - i, WEFT_F32, to_uniform(word));
            }
        }
    }
}

/* Elements [0, n) of y = r + m (x + b) / (1 - p); b and r may be NULL. */
INLINE void drop(const uint32_t *w, const char *x, const char *b, const char *r, char *y, int64_t n,
                 uint32_t least, float scale, const uint32_t dt)
{
    for (int64_t i = 0; i < n; i += VL) {
        vu word;
        memcpy(&word, w + i, sizeof word);
        vf v = v_get_n(x, i, n - i, dt);
        if (b)
            v = v + v_get_n(b, i, n - i, dt);
        v = v_select((vi)(word >= vu_set1(least)), v * v_set1(scale), v_set1(0));
        if (r)
            v = v_get_n(r, i, n - i, dt) + v;
        v_put_n(y, i, n - i, dt, v);
    }
}

INLINE void dropout_items(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const struct cpu_args *a = j->a;
    const struct cpu_numbers *x = &a->numbers;
    const uint64_t base = base_of(x, j->in[1]);
    const int64_t size = dt_size(dt);
    const uint32_t least = (uint32_t)(a->eps * 0x1p32);
    const float scale = (float)(1 / (1 - a->eps));
    uint32_t words[WORDS];
    for (int64_t item = begin; item < end; item++) {
        const struct piece p = piece_of(x, item, base);
        for (int64_t at = 0; at < p.n; at += CHUNK) {
            const int64_t n = p.n - at < CHUNK ? p.n - at : CHUNK;
            const int64_t i = p.run * x->length + p.from + at;
            const uint32_t *w = draw(x, p.number + (uint64_t)at, n, false, words);
            const char *b = a->nin > 2 ? (const char *)j->in[2] + i % a->cols * size : NULL;
            const char *r = a->nin > 3 ? (const char *)j->in[3] + i * size : NULL;
            drop(w, (const char *)j->in[0] + i * size, b, r, (char *)j->out[0] + i * size, n, least,
                 scale, dt);
        }
    }
}

/* in: x, time [], b [F] or not, r or not; out: y. With b a run is within a row. Item: a block of a
 * run. */
void KERNEL(dropout)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) dropout_items(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}
