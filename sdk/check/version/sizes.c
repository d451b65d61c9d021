/* check/version/sizes.c: shorter and longer tables and structs. */
#include "base/err.h"
#include "check/version/version.h"

#include <string.h>

static check_host h;

/* A life with a host table of its own size before a page without access. */
void check_version_host(check_run *r)
{
    check_exercise d = {.run = r, .host = &h};
    check_host_begin(&h, "the host");
    h.own.struct_size = WEFT_END_OF(weft_host, iface);
    h.table = check_guard(&h.own, WEFT_END_OF(weft_host, iface));
    h.guards = true;
    check_exercise_life(&d);
}

static void live_with(check_run *r, check_lend_mode mode)
{
    check_exercise d = {.run = r, .host = &h, .lend = {.mode = mode}};
    check_host_begin(&h, "the host");
    check_exercise_life(&d);
}

void check_version_tables(check_run *r)
{
    live_with(r, CHECK_LEND_CUT_TABLES);
}

void check_version_args(check_run *r)
{
    live_with(r, CHECK_LEND_CUT_ARGS);
}

void check_version_out(check_run *r)
{
    live_with(r, CHECK_LEND_CUT_OUT);
    live_with(r, CHECK_LEND_GROWN);
}

/* A life with a host of a later minor: the tables that it lends have more functions, and structs
 * are longer, with zeros at the end. A plugin of a later minor may know which functions belong
 * there, and they are not these: it gets zeros. */
void check_version_later(check_run *r)
{
    struct {
        weft_host own;
        weft_status (*later[8])(void);
    } grown;
    const bool offers = check_manifest(r)->abi_minor <= WEFT_ABI_MINOR;
    check_exercise d = {.run = r, .host = &h, .lend = {.mode = CHECK_LEND_GROWN, .offers = offers}};
    check_host_begin(&h, "the host");
    memset(&grown, 0, sizeof grown);
    grown.own = h.own;
    grown.own.struct_size = sizeof grown;
    grown.own.abi_minor = WEFT_ABI_MINOR + 5;
    for (size_t i = 0; offers && i < sizeof grown.later / sizeof *grown.later; i++)
        grown.later[i] = check_lend_later;
    h.table = &grown.own;
    h.later = offers ? check_lend_later : NULL;
    check_exercise_life(&d);
}

/* --- structs that ask for something new --- */

uint32_t check_version_lent(check_run *r, const char *out[2 * CHECK_LEND_TYPES], uint32_t *types)
{
    check_exercise d = {.run = r, .host = &h};
    check_host_begin(&h, "the host");
    check_exercise_life(&d);
    *types = d.lend.ntypes;
    memcpy(out, d.lend.types, d.lend.ntypes * sizeof *out);
    memcpy(out + *types, d.lend.values, d.lend.nvalues * sizeof *out);
    check_host_end(&h);
    return d.lend.ntypes + d.lend.nvalues;
}

void check_version_refuses(check_run *r, check_lend_mode mode, const char *name, const char *what)
{
    const weft_manifest *m = check_manifest(r);
    check_exercise d = {.run = r, .host = &h, .lend = {.mode = mode, .type = name}};
    check_host_begin(&h, "the host");
    err_clear();
    weft_status st = check_open(m, &h, &d.module);
    if (st == WEFT_OK)
        st = check_exercise_all(&d);
    check_close(m, d.module);
    if (!d.lend.altered || (st == WEFT_OK && d.lend.answer == WEFT_UNSUPPORTED))
        return;
    if (d.lend.answer == WEFT_OK)
        check_fail("%s %s, and the call of '%s' returned WEFT_OK; what a plugin does not know is "
                   "WEFT_UNSUPPORTED (weft/base.h, the unknown)",
                   name, what, d.of);
    if (d.lend.answer != WEFT_UNSUPPORTED)
        check_fail("%s %s, and %s() of '%s' returned %s; what a plugin does not know is "
                   "WEFT_UNSUPPORTED (weft/base.h, the unknown)",
                   name, what, d.where, d.of, check_status(d.lend.answer));
    if (!*check_exercise_why(&d))
        check_fail("%s %s, and %s() of '%s' returned WEFT_UNSUPPORTED without a sentence", name,
                   what, d.where, d.of);
    check_host_end(&h);
}

void check_version_asks(check_run *r)
{
    const char *names[2 * CHECK_LEND_TYPES];
    uint32_t types;
    check_version_lent(r, names, &types);
    for (uint32_t i = 0; i < types; i++)
        check_version_refuses(r, CHECK_LEND_ASKS, names[i], "has a new part that is not zero");
}
