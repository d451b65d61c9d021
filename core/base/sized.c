/* base/sized.c: see sized.h. */
#include "base/sized.h"

#include "base/err.h"

#include <string.h>

/* struct_size and the word behind it: every struct has them. */
#define LEAST (2 * sizeof(uint32_t))

weft_status sized_check_flags(const char *call, uint32_t flags, uint32_t known)
{
    if (!(flags & ~known))
        return WEFT_OK;
    return err_fail_in(WEFT_UNSUPPORTED, ERR_CALL, call,
                       "the flags 0x%x are not known to this version of weft", flags & ~known);
}

weft_status sized_take(const char *call, const void *args, void *to, size_t size, uint32_t known)
{
    if (!args)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call, "args is NULL");
    const uint32_t have = *(const uint32_t *)args;
    if (have < LEAST || have > SIZED_MAX)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call,
                           "struct_size of the arguments is %u; set it to sizeof of the struct",
                           have);
    if (!weft_tail_is_zero(args, size))
        return err_fail_in(WEFT_UNSUPPORTED, ERR_CALL, call,
                           "the arguments use fields behind the %zu bytes that this version of "
                           "weft knows; a newer weft is needed",
                           size);
    weft_take(to, size, args);
    return sized_check_flags(call, ((const uint32_t *)to)[1], known);
}

weft_status sized_check_out(const char *call, const void *out)
{
    const uint32_t capacity = *(const uint32_t *)out;
    if (capacity >= LEAST)
        return WEFT_OK;
    return err_fail_in(
        WEFT_USAGE, ERR_CALL, call,
        "struct_size of the struct to fill is %u; zero the struct and set it to sizeof of "
        "the struct before the call",
        capacity);
}

weft_status sized_give(const char *call, void *out, const void *value)
{
    const uint32_t capacity = *(const uint32_t *)out, have = *(const uint32_t *)value;
    const uint32_t n = capacity < have ? capacity : have;
    if (capacity < LEAST)
        return sized_check_out(call, out);
    memcpy((char *)out + sizeof n, (const char *)value + sizeof n, n - sizeof n);
    memcpy(out, &n, sizeof n);
    return WEFT_OK;
}
