/* check/version/unknown.c: flags, values and statuses that a later version may define. */
#include "base/err.h"
#include "check/version/version.h"

#include <stdio.h>

#define LIMIT 200u /* lives in which a call of the core's tables returns an unknown status */

static check_host h;

void check_version_unknown(check_run *r)
{
    const char *names[2 * CHECK_LEND_TYPES];
    uint32_t types;
    const uint32_t n = check_version_lent(r, names, &types);
    for (uint32_t i = 0; i < n; i++)
        check_version_refuses(r, CHECK_LEND_FLAGS, names[i],
                              i < types ? "has an unknown flag" : "was unknown");
}

/* One life; `at` is the call that returns the unknown status, 0: none. Returns all calls. */
static uint64_t live(check_run *r, uint64_t at)
{
    const weft_manifest *m = check_manifest(r);
    check_exercise d = {.run = r, .host = &h, .lend = {.mode = CHECK_LEND_STATUS, .at = at}};
    check_host_begin(&h, "the host");
    err_clear();
    weft_status st = check_open(m, &h, &d.module);
    if (st == WEFT_OK)
        st = check_exercise_all(&d);
    check_close(m, d.module);
    if (!at && st != WEFT_OK)
        check_fail("a lawful call failed: %s() of '%s' returned %s: %s", d.where, d.of,
                   check_status(st), check_exercise_why(&d));
    char emit[100] = "";
    if (d.lend.inside)
        snprintf(emit, sizeof emit, "the weft_emit for %s() in ", d.lend.inside);
    if (d.lend.altered && d.lend.answer != CHECK_LEND_ODD)
        check_fail("%s() of the core returned the status %u, which is not known, and %s%s() of "
                   "'%s' returned %s; a status that is not known is passed on unchanged",
                   d.lend.below, CHECK_LEND_ODD, emit, d.where, d.of, check_status(d.lend.answer));
    check_host_end(&h);
    return d.lend.calls;
}

void check_version_status(check_run *r)
{
    const uint64_t calls = live(r, 0), step = calls / LIMIT + 1;
    for (uint64_t at = 1; at <= calls; at += step)
        live(r, at);
}
