/* check/device/ops_image.c: the memory of a run: operands and workspace, with red zones around
 * each. Every operand begins at 64 bytes and not at 128, so a kernel that needs more than it was
 * promised is seen. */
#include "base/mem.h"
#include "check/device/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RED_BYTE 0xa5u
#define POISON 0xffu /* a NaN in each float type */

/* What an output holds before a run that accumulates. */
static double held(int64_t i)
{
    return (double)(i % 7) - 3;
}

/* The offset of the next `bytes`, behind a red zone. */
static uint64_t take(uint64_t *used, uint64_t bytes)
{
    const uint64_t at = (*used + CHECK_RED + 127) / 128 * 128 + 64;
    *used = at + bytes;
    return at;
}

bool check_image_lay(const check_call *c, uint64_t workspace, check_image *m)
{
    uint64_t used = 0;
    memset(m, 0, sizeof *m);
    m->capacity = workspace;
    for (uint32_t k = 0; k < c->nin; k++)
        m->in[k] = take(&used, check_operand_bytes(&c->in[k]));
    for (uint32_t k = 0; k < c->nout; k++) {
        m->out[k] = take(&used, check_operand_bytes(&c->out[k]));
        m->absent_out[k] = !c->out[k].dtype;
    }
    if (workspace > CHECK_HALF)
        return false;
    m->workspace = take(&used, workspace);
    m->bytes = (used + CHECK_RED + 127) / 128 * 128;
    return m->bytes <= CHECK_HALF;
}

void check_image_fill(const check_call *c, check_image *m)
{
    m->was = mem_alloc(m->bytes);
    m->is = mem_alloc(m->bytes);
    memset(m->was, RED_BYTE, m->bytes);
    memset(m->was + m->workspace, POISON, m->capacity);
    for (uint32_t k = 0; k < c->nin; k++)
        for (int64_t i = 0, n = check_operand_count(&c->in[k]); i < n; i++)
            check_operand_put(c->in[k].dtype, m->was + m->in[k], i, c->x[k][i]);
    for (uint32_t k = 0; k < c->nout; k++) {
        memset(m->was + m->out[k], POISON, check_operand_bytes(&c->out[k]));
        for (int64_t i = 0, n = check_operand_count(&c->out[k]);
             c->flags & WEFT_SPEC_ACCUMULATE && i < n; i++)
            check_operand_put(c->out[k].dtype, m->was + m->out[k], i, held(i));
    }
}

void check_image_end(check_image *m)
{
    free(m->was);
    free(m->is);
    m->was = m->is = NULL;
}

bool check_image_differ(const check_call *c, const check_image *a, const check_image *b,
                        uint32_t *output, uint64_t *element)
{
    for (uint32_t k = 0; k < c->nout; k++) {
        const uint64_t size = weft_dtype_size(c->out[k].dtype);
        for (int64_t i = 0, n = check_operand_count(&c->out[k]); i < n; i++)
            if (!a->absent_out[k] && !b->absent_out[k] &&
                memcmp(a->is + a->out[k] + (uint64_t)i * size,
                       b->is + b->out[k] + (uint64_t)i * size, size) != 0) {
                *output = k;
                *element = (uint64_t)i;
                return true;
            }
    }
    return false;
}

void check_image_right(check_dev *b, const check_call *c, const check_image *m)
{
    for (uint32_t k = 0; k < c->nout; k++) {
        const bool adds = c->flags & WEFT_SPEC_ACCUMULATE;
        const double unit = check_operand_unit(c->out[k].dtype);
        for (int64_t i = 0, n = check_operand_count(&c->out[k]); i < n; i++) {
            const double before = adds ? held(i) : 0, want = before + c->y[k][i];
            const double got = check_operand_get(c->out[k].dtype, m->is + m->out[k], i);
            const double slack = (c->slack[k] ? c->slack[k][i] : 0) +
                                 unit * (fabs(want) + fabs(before)) +
                                 (c->out[k].dtype == WEFT_F16 ? 6e-8 : 3e-45);
            if (got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= slack)
                continue;
            check_fail("'%s' computes %s, and element %llu of output %u is %.9g instead of %.9g%s",
                       b->who, c->what, (unsigned long long)i, k, got, want,
                       adds ? ", the sum of what it held and the result" : "");
        }
    }
}
