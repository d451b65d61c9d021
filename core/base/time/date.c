/* base/time/date.c: see date.h. */
#include "base/time/date.h"

#include <time.h>

#define DAY_MS 86400000u
#define EPOCH_DAY 719468u /* 1970-01-01, in days since 0000-03-01 */
#define ERA_DAYS 146097u  /* 400 years */

/* `digits` decimal digits of `n`, then `after`. */
static char *put(char *to, uint64_t n, int digits, char after)
{
    for (int i = digits; i-- > 0; n /= 10)
        to[i] = (char)('0' + n % 10);
    to[digits] = after;
    return to + digits + 1;
}

/* A year begins in March here, so that its last day is the one that leap years add. */
char *date_text(uint64_t ms, char out[32])
{
    const uint64_t days = ms / DAY_MS + EPOCH_DAY, second = ms % DAY_MS / 1000;
    const uint64_t of_era = days % ERA_DAYS;
    const uint64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const uint64_t day = of_era - (365 * years + years / 4 - years / 100);
    const uint64_t month = (5 * day + 2) / 153; /* 0: March */
    char *at = put(out, 400 * (days / ERA_DAYS) + years + (month >= 10), 4, '-');
    at = put(at, month < 10 ? month + 3 : month - 9, 2, '-');
    at = put(at, day - (153 * month + 2) / 5 + 1, 2, 'T');
    at = put(at, second / 3600, 2, ':');
    at = put(at, second / 60 % 60, 2, ':');
    at = put(at, second % 60, 2, '.');
    at = put(at, ms % 1000, 3, 'Z');
    *at = 0;
    return at;
}

char *date_now(char out[32])
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const uint64_t second = t.tv_sec > 0 ? (uint64_t)t.tv_sec : 0;
    return date_text(second * 1000 + (uint64_t)t.tv_nsec / 1000000, out);
}
