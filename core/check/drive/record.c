/* check/drive/record.c: reads the record of the last failure. */
#include "base/err.h"
#include "check/drive/drive.h"

const char *check_drive_why(const check_drive *d)
{
    return d->host->why[0] ? d->host->why : err_text();
}

bool check_drive_absent(check_drive *d, weft_status st, int32_t score)
{
    const bool refused = (st == WEFT_UNSUPPORTED || st == WEFT_ABSENT) && d->host->why[0];
    if (!refused && (st != WEFT_OK || score > 0))
        return false;
    d->absent = "probe() says that the component cannot be used here";
    check_host_clear(d->host);
    return true;
}
