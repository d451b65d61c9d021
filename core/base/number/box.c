/* base/number/box.c: see box.h. */
#include "base/number/box.h"

uint64_t box_elements(const box *b)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < b->rank; i++)
        n *= (uint64_t)b->size[i];
    return n;
}

void box_common(const box *a, const box *b, box_rows *out)
{
    uint64_t size_a = 1, size_b = 1;
    bool joined = true; /* the axes after this one are whole in both */
    *out = (box_rows){.n = 1, .length = 1};
    for (uint32_t i = a->rank; i-- > 0;) {
        int64_t low = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
        int64_t end_a = a->start[i] + a->size[i], end_b = b->start[i] + b->size[i];
        int64_t size = (end_a < end_b ? end_a : end_b) - low;
        if (size <= 0) {
            *out = (box_rows){0};
            return;
        }
        out->first[0] += (uint64_t)(low - a->start[i]) * size_a;
        out->first[1] += (uint64_t)(low - b->start[i]) * size_b;
        if (joined) {
            out->length *= (uint64_t)size;
            joined = size == a->size[i] && size == b->size[i];
        } else {
            out->n *= (uint64_t)size;
            out->axes = out->axes ? out->axes : i + 1;
            out->size[i] = (uint64_t)size;
            out->stride[0][i] = size_a;
            out->stride[1][i] = size_b;
        }
        size_a *= (uint64_t)a->size[i];
        size_b *= (uint64_t)b->size[i];
    }
}

void box_row(const box_rows *r, uint64_t i, uint64_t at[2])
{
    at[0] = r->first[0];
    at[1] = r->first[1];
    for (uint32_t a = r->axes; a-- > 0; i /= r->size[a]) {
        at[0] += i % r->size[a] * r->stride[0][a];
        at[1] += i % r->size[a] * r->stride[1][a];
    }
}

uint64_t box_row_from(const box_rows *r, uint32_t side, uint64_t at)
{
    uint64_t low = 0, high = r->n;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2, begin[2];
        box_row(r, mid, begin);
        if (begin[side] + r->length > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}
