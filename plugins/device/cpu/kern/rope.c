/* kern/rope.c: rotary position embedding (RoPE): rotates pairs of elements, half a head apart, by
 * angles from a table that the host side computes (ops/rope.c). The result may alias x. */
#include "impl.h"

INLINE void turn_head(const char *x, char *y, const float *turn, int64_t half, const uint32_t dt)
{
    for (int64_t i = 0; i < half; i += VL) {
        const int64_t n = half - i;
        vf a = v_get_n(x, i, n, dt), b = v_get_n(x, half + i, n, dt);
        vf c = v_get_n(turn, i, n, WEFT_F32), s = v_get_n(turn, half + i, n, WEFT_F32);
        v_put_n(y, i, n, dt, v_fma(a, c, -(b * s)));
        v_put_n(y, half + i, n, dt, v_fma(b, c, a * s));
    }
}

INLINE void turn_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t d = j->a->dim, last = j->a->sequence - 1;
    const int32_t *places = j->a->nin > 1 ? j->in[1] : NULL;
    for (int64_t t = begin; t < end; t++) {
        const int64_t given = places ? places[t] : t % j->a->sequence;
        const float *turn = j->a->turn + (given < 0 ? 0 : given > last ? last : given) * d;
        for (int64_t h = 0; h < j->a->heads; h++) {
            const int64_t at = (t * j->a->heads + h) * d * dt_size(dt);
            turn_head((const char *)j->in[0] + at, (char *)j->out[0] + at, turn, d / 2, dt);
        }
    }
}

/* in: x [T,H,D], at i32 [T] or none; out: y [T,H,D]. Item: a row. */
void KERNEL(rope)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) turn_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}
