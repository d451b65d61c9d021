/* check/device/order.c: what a stream orders, what an event orders between streams, and what the
 * host sees of events. */
#include "base/time/pressure.h"
#include "check/device/device.h"

#include <string.h>

#define ROUNDS 20u
#define BLOCK ((uint64_t)2 << 20)

static void must_be(check_dev *w, const char *at, uint64_t bytes, int byte, const char *what)
{
    for (uint64_t i = 0; i < bytes; i++)
        if ((unsigned char)at[i] != byte)
            check_fail("%s: byte %llu of '%s' is %d instead of %d", what, (unsigned long long)i,
                       w->c->name, (unsigned char)at[i], byte);
}

/* --- one stream --- */

/* Fills and copies that overwrite each other's results, without a wait between them. */
static void chain(check_dev *w, uint32_t round)
{
    char *a = w->base, *b = w->base + BLOCK;
    const int one = (int)(2 * round + 1), two = (int)(2 * round + 2);
    check_dev_fill(w, 0, a, one, BLOCK);
    check_dev_copy(w, 0, b, a, BLOCK);
    check_dev_fill(w, 0, a, two, BLOCK);
    check_dev_copy(w, 0, w->staging, b, BLOCK);
    check_dev_copy(w, 0, b, a, BLOCK);
    check_dev_copy(w, 0, w->staging + BLOCK, b, BLOCK);
    check_dev_wait(w, 0);
    must_be(w, w->staging, BLOCK, one, "a fill, a copy and another fill in one stream");
    must_be(w, w->staging + BLOCK, BLOCK, two, "a copy behind a fill in one stream");
}

/* x = 1; x = x + x by way of another place, ten times, in one stream. */
static void double_often(check_dev *w)
{
    const int64_t n = 4096;
    const uint64_t bytes = (uint64_t)n * sizeof(float);
    float *values = (float *)w->staging;
    char *x = w->base, *y = w->base + BLOCK;
    check_dev_sum sum;
    weft_prepared *p = NULL;
    weft_requirements need = {.struct_size = sizeof need};
    const weft_opspec *spec = check_dev_add(&sum, n);
    weft_status st = CHECK_DEV(w, query, w->module, w->conf, spec, &need);
    if (st == WEFT_UNSUPPORTED || need.workspace > BLOCK)
        return;
    check_dev_ok(w, st, "query");
    check_dev_ok(w, CHECK_DEV(w, prepare, w->d, spec, &p), "prepare");
    for (int64_t i = 0; i < n; i++)
        values[i] = 1;
    check_dev_copy(w, 0, x, values, bytes);
    for (uint32_t i = 0; i < 10; i++) {
        const void *in[2] = {x, x};
        void *out[1] = {y};
        check_dev_ok(w, CHECK_DEV(w, run, p, w->s[0], in, out, w->base + CHECK_DEV_HALF, 0), "run");
        check_dev_copy(w, 0, x, y, bytes);
        check_dev_fill(w, 0, y, 0, bytes);
    }
    check_dev_copy(w, 0, w->staging + BLOCK, x, bytes);
    check_dev_wait(w, 0);
    PLUGIN_DO(w->t, release, p);
    values = (float *)(w->staging + BLOCK);
    for (int64_t i = 0; i < n; i++)
        if (values[i] != 1024)
            check_fail("1 doubled ten times by runs, copies and fills in one stream of '%s' is %g",
                       w->c->name, (double)values[i]);
}

static void one_stream(check_dev *w)
{
    for (uint32_t i = 0; i < ROUNDS; i++)
        chain(w, i);
    double_often(w);
}

void check_device_order(check_run *r)
{
    check_dev_each_up(r, one_stream);
}

/* --- two streams --- */

/* Stream 0 fills; stream 1 waits for it by event 0 and copies; stream 0 waits for that by event 1
 * and fills again. The host waits at the end only. */
static void two_streams(check_dev *w)
{
    char *a = w->base;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const int byte = (int)i + 1;
        check_dev_fill(w, 0, a, byte, BLOCK);
        check_dev_record(w, 0);
        check_dev_ok(w, CHECK_DEV(w, stream_wait, w->s[1], w->e[0], 0), "stream_wait");
        check_dev_copy(w, 1, w->staging, a, BLOCK);
        check_dev_record(w, 1);
        check_dev_ok(w, CHECK_DEV(w, stream_wait, w->s[0], w->e[1], 0), "stream_wait");
        check_dev_fill(w, 0, a, 255, BLOCK);
        check_dev_reach(w, 1);
        must_be(w, w->staging, BLOCK, byte,
                "a copy in a stream that waits for a fill in another stream");
    }
    check_dev_wait(w, 0);
}

void check_device_streams(check_run *r)
{
    check_dev_each_up(r, two_streams);
}

/* --- events --- */

static void latest_counts(check_dev *w)
{
    for (uint32_t i = 0; i < 2; i++) {
        const weft_status st = CHECK_DEV(w, event_query, w->e[i], 0);
        if (st != WEFT_OK)
            check_fail("event_query() of '%s' returned %s for an event that was never recorded; "
                       "it counts as reached",
                       w->c->name, check_status(st));
    }
    check_dev_ok(w, CHECK_DEV(w, stream_wait, w->s[0], w->e[1], 0), "stream_wait");
    for (uint32_t i = 0; i < ROUNDS; i++) { /* the first record is reached long before the second */
        memset(w->staging, 0, BLOCK);
        check_dev_fill(w, 0, w->base, (int)i + 1, 64);
        check_dev_wait(w, 0);
        for (uint32_t k = 0; k < 8; k++)
            check_dev_fill(w, 0, w->base, (int)(i + k), BLOCK);
        check_dev_copy(w, 0, w->staging, w->base, BLOCK);
        check_dev_wait(w, 0);
        must_be(w, w->staging, BLOCK, (int)i + 7, "an event that was recorded twice is reached");
    }
}

void check_device_events(check_run *r)
{
    check_dev_each_up(r, latest_counts);
}

/* A reached event stays so, while its stream gets more work. */
static void stay_reached(check_dev *w)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        check_dev_wait(w, 0);
        check_dev_fill(w, 0, w->base, (int)i, BLOCK);
        for (uint32_t k = 0; k < 50; k++) {
            const weft_status st = CHECK_DEV(w, event_query, w->e[0], 0);
            if (st != WEFT_OK)
                check_fail("event_query() of '%s' returned WEFT_OK and then %s, without a record "
                           "between",
                           w->c->name, check_status(st));
        }
    }
    check_dev_wait(w, 0);
}

void check_device_back(check_run *r)
{
    check_dev_each_up(r, stay_reached);
}

/* --- the end --- */

static void close_busy(check_dev *w)
{
    for (uint32_t i = 0; i < ROUNDS; i++)
        for (uint32_t k = 0; k < 2; k++) {
            char *at = w->base + k * CHECK_DEV_HALF;
            check_dev_fill(w, k, at, (int)i, CHECK_DEV_HALF);
            check_dev_copy(w, k, w->staging + k * CHECK_DEV_HALF, at, CHECK_DEV_HALF);
            check_dev_record(w, k);
        }
    const uint64_t since = pressure_ms();
    check_dev_close(w);
    const uint64_t took = pressure_ms() - since;
    if (took > 4000)
        check_fail("close() of '%s' with work in flight took %llu ms", w->c->name,
                   (unsigned long long)took);
}

void check_device_close(check_run *r)
{
    check_dev_each_up(r, close_busy);
}
