/* check/version/version.c: old and new hosts: the table of the group, and its checks. */
#include "check/drive/drive.h"

#include <string.h>

static check_host h;

/* A life with a host table of its own size before a page without access. */
static void cut_host(check_run *r)
{
    check_drive d = {.run = r, .host = &h};
    check_host_begin(&h, "the host");
    h.own.struct_size = WEFT_END_OF(weft_host, iface);
    h.table = check_guard(&h.own, WEFT_END_OF(weft_host, iface));
    check_drive_life(&d);
}

/* A life with a host of a later minor, whose table is longer; the tail is 0. */
static void grown_host(check_run *r)
{
    struct {
        weft_host own;
        void *later[8];
    } grown;
    check_drive d = {.run = r, .host = &h};
    check_host_begin(&h, "the host");
    memset(&grown, 0, sizeof grown);
    grown.own = h.own;
    grown.own.struct_size = sizeof grown;
    grown.own.abi_minor = WEFT_ABI_MINOR + 5;
    h.table = &grown.own;
    check_drive_life(&d);
}

static const check checks[] = {
    {29, NULL, 20, "The plugin works with the host table of ABI 0.9, and reads nothing behind it",
     "a crash at the page behind the table", cut_host},
    {32, NULL, 20, "The plugin works with a host of a later minor", "a refusal of a longer table",
     grown_host},
    {0},
};
const check_group check_group_version = {"version", "Versions", checks};
