/* Values that plugins add to a step: from many threads at once nothing is lost, and a step without
 * one has none. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <test.h>
#include <weft/host.h>

#include "run/view/meter.h"

#include <cmocka.h> /* last: it has a macro called fail */

#define THREADS 8
#define ADDS 20000

typedef struct adder {
    const weft_host_metrics *t;
    uint32_t sum, max, thread;
} adder;

static void *adds(void *arg)
{
    const adder *a = arg;
    for (uint32_t i = 0; i < ADDS; i++) {
        a->t->add(a->t->ctx, a->sum, 1);
        a->t->add(a->t->ctx, a->max, (double)(i * THREADS + a->thread));
    }
    return NULL;
}

/* The values are collected while threads add: each is in exactly one step. */
TEST(nothing_is_lost)
{
    run_meter *m = run_meter_create();
    const weft_host_metrics *t = run_meter_table(m);
    weft_metric got[METER_MAX];
    pthread_t threads[THREADS];
    adder a[THREADS];
    double sum = 0, max = 0;
    uint32_t s, x;
    assert_int_equal(t->declare(t->ctx, "t.sum", "", WEFT_METRICS_SUM, 0, &s), WEFT_OK);
    assert_int_equal(t->declare(t->ctx, "t.max", "", WEFT_METRICS_MAX, 0, &x), WEFT_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        a[i] = (adder){t, s, x, i};
        assert_int_equal(pthread_create(&threads[i], NULL, adds, &a[i]), 0);
    }
    for (uint32_t step = 0; step < 1000 + THREADS; step++) {
        if (step >= 1000)
            pthread_join(threads[step - 1000], NULL);
        const uint32_t n = run_meter_collect(m, NULL, 0, got);
        for (uint32_t i = 0; i < n; i++)
            if (!strcmp(got[i].name, "t.sum"))
                sum += got[i].value;
            else
                max = fmax(max, got[i].value);
    }
    assert_true(sum == (double)THREADS * ADDS);
    assert_true(max == (double)(THREADS * ADDS - 1));
    assert_int_equal(run_meter_collect(m, NULL, 0, got), 0);
    run_meter_free(m);
}

TEST(values_of_a_step)
{
    run_meter *m = run_meter_create();
    const weft_host_metrics *t = run_meter_table(m);
    weft_metric got[METER_MAX];
    const weft_metric taken = {"t.taken", "", 0, WEFT_METRIC_GAUGE, 0};
    uint32_t last, max, name, none;
    uint64_t odd = UINT64_C(0x7ff8a5c3e1d20b47); /* meter.c has it for: no value */
    double v;
    memcpy(&v, &odd, sizeof v);
    assert_int_equal(t->declare(t->ctx, "t.last", "s", WEFT_METRICS_LAST, 0, &last), WEFT_OK);
    assert_int_equal(t->declare(t->ctx, "t.max", "", WEFT_METRICS_MAX, 0, &max), WEFT_OK);
    assert_int_equal(t->declare(t->ctx, "t.taken", "", WEFT_METRICS_LAST, 0, &name), WEFT_OK);
    assert_int_equal(t->declare(t->ctx, "t.none", "", WEFT_METRICS_SUM, 0, &none), WEFT_OK);
    t->add(t->ctx, last, 1);
    t->add(t->ctx, last, v);
    t->add(t->ctx, max, -3);
    t->add(t->ctx, max, -5);
    t->add(t->ctx, name, 1);
    assert_int_equal(run_meter_collect(m, &taken, 1, got), 2);
    assert_string_equal(got[0].name, "t.last");
    assert_string_equal(got[0].unit, "s");
    assert_true(isnan(got[0].value));
    assert_true(got[1].value == -3);
    assert_int_equal(got[1].kind, WEFT_METRIC_GAUGE);
    t->add(t->ctx, max, NAN);
    t->add(t->ctx, max, 4);
    assert_int_equal(run_meter_collect(m, NULL, 0, got), 1);
    assert_true(isnan(got[0].value));
    run_meter_free(m);
}

TEST(the_most_names)
{
    run_meter *m = run_meter_create();
    const weft_host_metrics *t = run_meter_table(m);
    weft_metric got[METER_MAX];
    uint32_t number;
    char name[64];
    for (uint32_t i = 0; i < METER_MAX; i++) {
        snprintf(name, sizeof name, "t.%u", i);
        assert_int_equal(t->declare(t->ctx, name, NULL, WEFT_METRICS_LAST, 0, &number), WEFT_OK);
        assert_int_equal(number, i + 1);
        t->add(t->ctx, number, i);
    }
    assert_int_equal(t->declare(t->ctx, "t.more", "", WEFT_METRICS_LAST, 0, &number), WEFT_USAGE);
    assert_int_equal(t->declare(t->ctx, "t.0", "", WEFT_METRICS_LAST, 0, &number), WEFT_OK);
    assert_int_equal(run_meter_collect(m, NULL, 0, got), METER_MAX);
    assert_true(got[METER_MAX - 1].value == METER_MAX - 1);
    run_meter_free(m);
}
