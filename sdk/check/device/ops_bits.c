/* check/device/ops_bits.c: 84, 87: the same bits each time, and on each stream. */
#include "check/device/ops.h"

#include <stdlib.h>

#define RUNS 100

/* --- 84 --- */

void check_call_same(check_dev *b, check_call *c)
{
    check_image first = {0}, again = {0};
    const uint32_t before = c->flags;
    uint32_t output;
    uint64_t element;
    c->flags |= WEFT_SPEC_DETERMINISTIC;
    if (check_bench_accepts(b, c, NULL)) {
        check_image_begin(b, c, &first);
        check_image_begin(b, c, &again);
        void *p = check_bench_prepare(b, c);
        check_bench_put(b, &first, 0);
        for (uint32_t i = 0; i < RUNS; i++) {
            check_bench_run(b, p, c, &first, 0, i % 2);
            check_bench_wait(b);
            check_bench_get(b, i ? &again : &first, 0);
            if (i && check_image_differ(c, &first, &again, &output, &element))
                check_fail("'%s' computes %s with WEFT_SPEC_DETERMINISTIC, and in run %u element "
                           "%llu of output %u has other bits than in the first",
                           b->who, c->what, i + 1, (unsigned long long)element, output);
        }
        check_bench_release(b, p);
        check_image_end(&first);
        check_image_end(&again);
    }
    c->flags = before;
}

static void same(check_dev *b)
{
    check_ops_all(b, check_call_same);
}

void check_ops_deterministic(check_run *r)
{
    check_bench_each(r, false, same);
}

/* --- 87 --- */

/* The same call with other values: floats are halved, so ids stay what they are. */
static void fill_other(const check_call *c, check_image *m)
{
    for (uint32_t k = 0; k < c->nin; k++)
        for (int64_t i = 0; c->in[k].dtype == WEFT_F32 && i < check_operand_count(&c->in[k]); i++)
            check_operand_put(c->in[k].dtype, m->was + m->in[k], i, c->x[k][i] / 2);
}

static void wait_and_get(check_dev *b, check_image *m, uint32_t half)
{
    check_bench_wait(b);
    check_bench_get(b, m, half);
}

void check_call_streams(check_dev *b, check_call *c)
{
    check_image alone[2], both[2];
    const uint32_t before = c->flags;
    uint32_t output;
    uint64_t element;
    c->flags |= WEFT_SPEC_DETERMINISTIC;
    if (!check_bench_accepts(b, c, NULL)) {
        c->flags = before;
        return;
    }
    void *p = check_bench_prepare(b, c);
    for (uint32_t i = 0; i < 2; i++) { /* one after the other */
        check_image_begin(b, c, &alone[i]);
        check_image_begin(b, c, &both[i]);
        if (i) {
            fill_other(c, &alone[i]);
            fill_other(c, &both[i]);
        }
        check_bench_put(b, &alone[i], i);
        check_bench_run(b, p, c, &alone[i], i, i);
        wait_and_get(b, &alone[i], i);
        check_bench_put(b, &both[i], i);
    }
    for (uint32_t i = 0; i < 2; i++) /* at once */
        check_bench_run(b, p, c, &both[i], i, i);
    for (uint32_t i = 0; i < 2; i++) {
        wait_and_get(b, &both[i], i);
        if (check_image_differ(c, &alone[i], &both[i], &output, &element))
            check_fail("'%s' computes %s with one prepared op on two streams at once, and element "
                       "%llu of output %u differs on stream %u from what it is alone",
                       b->who, c->what, (unsigned long long)element, output, i + 1);
        check_image_end(&alone[i]);
        check_image_end(&both[i]);
    }
    check_bench_release(b, p);
    c->flags = before;
}

static void streams(check_dev *b)
{
    check_ops_all(b, check_call_streams);
}

void check_ops_streams(check_run *r)
{
    check_bench_each(r, false, streams);
}
