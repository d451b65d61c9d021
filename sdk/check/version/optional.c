/* check/version/optional.c: what a host may leave out. */
#include "base/err.h"
#include "check/version/version.h"

static check_host h;

void check_version_optional(check_run *r)
{
    static const char *const members[] = {"features", "fuse", "native_stream"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        check_exercise d = {.run = r, .host = &h, .without = members[i]};
        check_host_begin(&h, "a host that does not call an optional member");
        check_exercise_life(&d);
        check_host_end(&h);
    }
}

void check_version_bare(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    check_exercise d = {.run = r, .host = &h, .where = "open", .of = m->id};
    check_host_begin(&h, "a host without further tables");
    h.bare = true;
    err_clear();
    weft_status st = check_open(m, &h, &d.module);
    if (st == WEFT_OK)
        st = check_exercise_all(&d);
    if (st != WEFT_OK && !*check_exercise_why(&d))
        check_fail("iface() of the host returns NULL, and %s() of '%s' returned %s without a "
                   "sentence",
                   d.where, d.of, check_status(st));
    check_close(m, d.module);
}
