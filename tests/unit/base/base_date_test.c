/* Dates against the C library's, over eight thousand years and around every change of a year. */
#include "base/time/date.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void assert_date(uint64_t ms)
{
    char got[32], want[64];
    struct tm t;
    const time_t second = (time_t)(ms / 1000);
    gmtime_r(&second, &t);
    size_t n = strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(want + n, sizeof want - n, ".%03uZ", (unsigned)(ms % 1000));
    assert_ptr_equal(date_text(ms, got), got + 24);
    assert_string_equal(got, want);
}

static void test_every_day(void **state)
{
    (void)state;
    for (uint64_t day = 0; day < 365242u * 8; day++) /* to 9969 */
        assert_date(day * 86400000u + day * 7919 % 86400000u);
}

static void test_around_midnight(void **state)
{
    (void)state;
    for (uint64_t day = 1; day < 365242u; day++) {
        assert_date(day * 86400000u - 1);
        assert_date(day * 86400000u);
    }
}

static void test_now(void **state)
{
    (void)state;
    char before[32], now[32], after[32];
    date_text((uint64_t)time(NULL) * 1000, before);
    date_now(now);
    date_text((uint64_t)time(NULL) * 1000 + 1000, after);
    assert_true(strcmp(before, now) <= 0 && strcmp(now, after) <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_day),
        cmocka_unit_test(test_around_midnight),
        cmocka_unit_test(test_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
