/* Dates against the C library's, over eight thousand years and around every change of a year. */
#include "base/time/date.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <test.h>

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

TEST(test_every_day)
{
    for (uint64_t day = 0; day < 365242u * 8; day++) /* to 9969 */
        assert_date(day * 86400000u + day * 7919 % 86400000u);
}

TEST(test_around_midnight)
{
    for (uint64_t day = 1; day < 365242u; day++) {
        assert_date(day * 86400000u - 1);
        assert_date(day * 86400000u);
    }
}

TEST(test_now)
{
    char before[32], now[32], after[32];
    date_text((uint64_t)time(NULL) * 1000, before);
    date_now(now);
    date_text((uint64_t)time(NULL) * 1000 + 1000, after);
    assert_true(strcmp(before, now) <= 0 && strcmp(now, after) <= 0);
}
