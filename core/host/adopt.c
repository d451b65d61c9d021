/* host/adopt.c: the host's own copies of a plugin's structs that begin with their size. */
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/sized.h"
#include "host/object.h"

weft_status host_check_size(const char *owner, const char *what, const void *table, size_t at,
                            size_t least, size_t known)
{
    uint32_t size;
    memcpy(&size, (const char *)table + at, sizeof size);
    if (size < least)
        return err_fail(WEFT_USAGE, "%s: its %s has %u bytes, at least %zu are needed", owner, what,
                        size, least);
    if (size > SIZED_MAX)
        return err_fail(WEFT_USAGE, "%s: its %s claims %u bytes; set struct_size to its sizeof",
                        owner, what, size);
    for (size_t i = known; i < size; i++)
        if (((const char *)table)[i])
            return err_fail(
                WEFT_UNSUPPORTED,
                "%s: its %s has %u bytes and uses byte %zu; this program knows %zu bytes "
                "of it, so the plugin needs a newer weft",
                owner, what, size, i, known);
    return WEFT_OK;
}

weft_status host_adopt_sized(const char *owner, const char *what, const void *from, size_t least,
                             void *own, size_t size)
{
    weft_status st = host_check_size(owner, what, from, 0, least, size);
    if (st == WEFT_OK)
        weft_take(own, size, from);
    return st;
}

weft_status host_adopt(const char *owner, const char *what, const void *from, size_t least,
                       void *own, uint32_t size)
{
    weft_status st = host_adopt_sized(owner, what, from, least, own, size);
    if (st == WEFT_OK)
        memcpy(own, &size, sizeof size);
    return st;
}
