/* ckpt/tensor.c: names, types and shapes of tensors, checked. See internal.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number/check.h"
#include "ckpt/internal.h"

static const struct {
    uint32_t dtype;
    const char *name; /* as the shard format writes it */
} dtypes[] = {
    {WEFT_F32, "F32"}, {WEFT_BF16, "BF16"}, {WEFT_F16, "F16"}, {WEFT_I32, "I32"},
    {WEFT_I64, "I64"}, {WEFT_F64, "F64"},   {WEFT_U8, "U8"},
};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

const char *ckpt_dtype_name(uint32_t dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

uint32_t ckpt_dtype_from(const char *name)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (!strcmp(dtypes[i].name, name))
            return dtypes[i].dtype;
    return 0;
}

/* Names appear in messages, so terminal control bytes are rejected with other non-printables; '@'
 * marks a part of a tensor, and two underscores begin the format's own keys. */
bool ckpt_name_ok(const char *name)
{
    size_t n = strnlen(name, CKPT_NAME_MAX);
    if (n == 0 || n >= CKPT_NAME_MAX || !strncmp(name, "__", 2))
        return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] < 0x21 || name[i] > 0x7e || strchr("@\"\\", name[i]))
            return false;
    return true;
}

void ckpt_shape_text(uint32_t rank, const int64_t *shape, char out[CKPT_SHAPE_TEXT])
{
    size_t at = (size_t)snprintf(out, CKPT_SHAPE_TEXT, "[");
    for (uint32_t i = 0; i < rank && i < WEFT_MAX_AXES; i++)
        at +=
            (size_t)snprintf(out + at, CKPT_SHAPE_TEXT - at, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(out + at, CKPT_SHAPE_TEXT - at, "]");
}

bool ckpt_shape_same(uint32_t rank_a, const int64_t *a, uint32_t rank_b, const int64_t *b)
{
    return rank_a == rank_b && rank_a <= WEFT_MAX_AXES && !memcmp(a, b, rank_a * sizeof *a);
}

bool ckpt_elements(uint32_t rank, const int64_t *shape, uint32_t dtype, uint64_t *out)
{
    uint64_t n = 1, bytes = weft_dtype_size(dtype);
    if (rank > WEFT_MAX_AXES || !bytes)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] < 1 || !check_mul(n, (uint64_t)shape[i], &n))
            return false;
    if (!check_mul(n, bytes, &bytes) || bytes > INT64_MAX)
        return false;
    *out = n;
    return true;
}

bool ckpt_block_ok(const box *b, const int64_t *shape, uint64_t *out)
{
    bool part = false;
    if (b->rank == 0 || b->rank > WEFT_MAX_AXES)
        return false;
    for (uint32_t i = 0; i < b->rank; i++) {
        if (b->size[i] < 1 || b->start[i] < 0 || b->size[i] > shape[i] ||
            b->start[i] > shape[i] - b->size[i])
            return false;
        part = part || b->size[i] != shape[i];
    }
    *out = box_elements(b); /* no more than the shape, which is valid */
    return part;
}

int ckpt_block_order(const box *a, const box *b)
{
    if (!a || !b)
        return a ? 1 : b ? -1 : 0;
    for (uint32_t i = 0; i < a->rank && i < b->rank; i++) {
        if (a->start[i] != b->start[i])
            return a->start[i] < b->start[i] ? -1 : 1;
        if (a->size[i] != b->size[i])
            return a->size[i] < b->size[i] ? -1 : 1;
    }
    return 0;
}

box ckpt_range_box(const ckpt_range *r)
{
    if (r->block)
        return *r->block;
    box out = {.rank = r->rank};
    memcpy(out.size, r->shape, sizeof out.size);
    return out;
}

bool ckpt_piece_block(const ckpt_piece *p, box *out)
{
    bool given = false, part = false;
    *out = (box){.rank = p->rank <= WEFT_MAX_AXES ? p->rank : 0};
    for (uint32_t i = 0; i < out->rank; i++)
        given = given || p->size[i];
    for (uint32_t i = 0; i < out->rank; i++) {
        out->start[i] = given ? p->start[i] : 0;
        out->size[i] = given ? p->size[i] : p->shape[i];
        part = part || out->start[i] || out->size[i] != p->shape[i];
    }
    return part;
}

void ckpt_block_text(const box *b, char out[CKPT_BLOCK_TEXT])
{
    size_t at = 0;
    *out = 0;
    for (uint32_t i = 0; i < b->rank; i++)
        at += (size_t)snprintf(out + at, CKPT_BLOCK_TEXT - at, "%s%" PRId64 ":%" PRId64,
                               i ? "," : "", b->start[i], b->start[i] + b->size[i]);
}
