/* check/exercise/record.c: reads the record of the last failure. */
#include "base/err.h"
#include "check/exercise/exercise.h"

#include <stdio.h>
#include <string.h>

const char *check_exercise_why(const check_exercise *d)
{
    return d->host->why[0] ? d->host->why : err_text();
}

bool check_exercise_absent(check_exercise *d, weft_status st, int32_t score)
{
    d->score = score;
    if (st != WEFT_OK || score > 0)
        return false;
    snprintf(d->absent, sizeof d->absent, "%s",
             d->host->why[0] ? d->host->why : "its probe() gives no reason");
    check_host_clear(d->host);
    return true;
}

bool check_exercise_is_without(const check_exercise *d, const char *member)
{
    return d->without && !strcmp(d->without, member);
}
