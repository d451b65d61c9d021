/* kern/embed.c: embedding lookup (gather of table rows by id) and its gradient (scatter-add).
 *
 * For the backward pass the host side sorts the tokens by id, and by position within an id. A
 * thread takes whole groups of equal ids, sums their rows in fp32 and writes the table's row once:
 * one rounding, a fixed order, and no two threads write the same row. */
#include "impl.h"

/* in: table [V,F], ids i32 [T]; out: y [T,F]. Item: a token. */
void KERNEL(embedding)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const int64_t row = j->a->cols * dt_size(j->a->dt);
    for (int64_t t = begin; t < end; t++) {
        const int64_t id = ((const int32_t *)j->in[1])[t] - j->a->first;
        char *y = (char *)j->out[0] + t * row;
        if (id >= 0 && id < j->a->table)
            memcpy(y, (const char *)j->in[0] + id * row, (size_t)row);
        else
            memset(y, 0, (size_t)row);
    }
}

enum { EMBED_WIDTH = 256 };

/* Sum the rows of tokens keys[0..n), which have the same id. */
INLINE void add_group(const struct cpu_job *j, const uint64_t *keys, int64_t n, const uint32_t dt)
{
    const int64_t c = j->a->cols, base = (int64_t)(keys[0] >> 32) * c;
    const uint32_t gt = j->a->gt[0];
    for (int64_t i0 = 0; i0 < c; i0 += EMBED_WIDTH) {
        const int64_t width = c - i0 < EMBED_WIDTH ? c - i0 : EMBED_WIDTH;
        float sum[EMBED_WIDTH + VL] = {0};
        for (int64_t k = 0; k < n; k++) {
            const int64_t from = (int64_t)(uint32_t)keys[k] * c + i0;
            for (int64_t i = 0; i < width; i += VL)
                v_store(sum + i, v_load(sum + i) + v_get_n(j->in[0], from + i, width - i, dt));
        }
        for (int64_t i = 0; i < width; i += VL) {
            vf s = v_load(sum + i);
            if (j->a->accumulate)
                s += v_get_n(j->out[0], base + i0 + i, width - i, gt);
            v_put_n(j->out[0], base + i0 + i, width - i, gt, s);
        }
    }
}

/* in: dy [T,F]; out: dtable [V,F]. ws: the number of keys, then the sorted keys, row << 32 | token.
 * Item: a key; a group belongs to the thread that owns its first key. */
void KERNEL(embedding_dw)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const int64_t count = *(const int64_t *)j->ws;
    const uint64_t *keys = (const uint64_t *)j->ws + 1;
    end = end < count ? end : count;
    while (begin > 0 && begin < end && keys[begin] >> 32 == keys[begin - 1] >> 32)
        begin++;
    while (begin < end) {
        int64_t n = 1;
        while (begin + n < count && keys[begin + n] >> 32 == keys[begin] >> 32)
            n++;
#define CALL(dt) add_group(j, keys + begin, n, dt)
        BY_TYPE(j->a->dt, CALL);
#undef CALL
        begin += n;
    }
}
