/* tests/schedule/fuzz_test.c: are collectives right whatever is asked for, and whatever happens
 * first? Requests drawn at random, run by sim.h with slow ranks and ways, a rank that starves,
 * bursts, and sends that finish before their receives begin. */
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "drawn.h"
#include "sim.h"

static uint64_t seed;
static drawn now;
static int running;

static void draw_and_run(void **state)
{
    (void)state;
    uint64_t runs = drawn_runs(1500), first = drawn_seed();
    for (seed = first; seed < first + runs; seed++) {
        uint64_t random = seed * 0x9e3779b97f4a7c15u;
        drawn_request(&now, &random, 0, 0, 6000);
        running = 1;
        sim_run(&(sim_case){.all = now.r,
                            .exact = drawn_exact(&now.r),
                            .seed = random,
                            .pace = drawn_number(&random, PACE_ALL + 1)});
        running = 0;
    }
}

static int say_which(void **state)
{
    (void)state;
    char text[256];
    if (running)
        print_message("failed: %s\nagain with WEFT_COMM_SEED=%llu WEFT_COMM_RUNS=1\n",
                      drawn_text(&now.r, text), (unsigned long long)seed);
    return 0;
}

/* The same seed is the same run; another one differs. */
static void seeds_hold(void **state)
{
    (void)state;
    drawn a, b, c;
    uint64_t x = 7, y = 7, z = 8;
    char one[256], two[256];
    drawn_request(&a, &x, 0, 0, 6000);
    drawn_request(&b, &y, 0, 0, 6000);
    drawn_request(&c, &z, 0, 0, 6000);
    assert_string_equal(drawn_text(&a.r, one), drawn_text(&b.r, two));
    assert_string_not_equal(drawn_text(&a.r, one), drawn_text(&c.r, two));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_hold),
        cmocka_unit_test_teardown(draw_and_run, say_which),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
