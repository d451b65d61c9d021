/* weft/base.h: status codes, element types and limits that every other header uses.
 *
 * Include order does not matter; every header of the SDK compiles alone, as C11 and later and as
 * C++11 and later, and includes only <stddef.h> and <stdint.h>. Three headers are helpers for
 * authors, compiled into the plugin and not part of the ABI: expr.h (formulas), match.h (matching
 * the operands of an op) and handshake.h (transport handshake over a socket). The last two also
 * include <stdio.h> and <string.h>, for messages.
 *
 * Thread and phase tags. Each function pointer in the SDK ends its comment with one or more tags:
 *
 *   [any]         reentrant, from any thread, in any phase
 *   [plan]        while planning: no device, no driver, no other rank; must be a pure function
 *   [setup]       before the first step; may block, allocate, open files and sockets
 *   [compute]     inside a step, on the thread that walks the lists; must not allocate or open
 *   [progress]    inside a step, on the progress thread; must not block, allocate or open
 *   [collective]  every rank of the group makes the same call in the same order
 *
 * [compute] and [progress] name roles, not OS threads: the host promises only that two threads
 * never enter one object at once. A comment and its tags apply to the members below it, up to the
 * next comment that has tags.
 *
 * Ownership, unless a comment says otherwise. Arguments are borrowed until the call returns: copy
 * the data, do not keep the pointer. The plugin owns what its call returns; it lives as long as the
 * object that was asked. The caller releases what a call creates (**out) once, by the function for
 * it, or it is released with the object that created it.
 *
 * Failure, unless a comment says otherwise. A failed call has no effect that its caller can see and
 * leaves no object behind; only calls whose comment names WEFT_BUSY return it. A function without a
 * status cannot fail. A plugin does not end the process, and writes to neither stdout nor stderr.
 *
 * Sizes and counts are 64 bits wide and in bytes unless a name or comment says elements. No enum,
 * bit-field, bool, long or libc object crosses the ABI between host and plugin, except the status
 * below, whose width is asserted.
 */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEFT_STATIC_ASSERT(cond, text) static_assert(cond, text)
#define WEFT_EXTERN_C_BEGIN extern "C" {
#define WEFT_EXTERN_C_END }
#else
#define WEFT_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#define WEFT_EXTERN_C_BEGIN
#define WEFT_EXTERN_C_END
#endif

/* Ignoring a status gives a compiler warning, through function tables too. gcc supports this for
 * types from C23 and C++17 on, clang always; the project's own checks compile both ways. */
#if (defined(__cplusplus) && __cplusplus >= 201703L) ||                                            \
    (defined(__STDC_VERSION__) && __STDC_VERSION__ > 201710L)
#define WEFT_CHECKED [[nodiscard]]
#elif defined(__clang__)
#define WEFT_CHECKED __attribute__((warn_unused_result))
#else
#define WEFT_CHECKED
#endif

WEFT_EXTERN_C_BEGIN

/* Status codes, sorted by who must act. Append only, never renumbered. The code that first detects
 * a failure records it with weft_host.fail(); its callers only pass the status on. Out-parameters
 * are written on WEFT_OK alone. */
typedef enum WEFT_CHECKED weft_status {
    WEFT_OK = 0,
    WEFT_BUSY = 1,        /* not finished yet: call again; never recorded as a failure */
    WEFT_UNSUPPORTED = 2, /* a valid request that this plugin cannot serve */
    WEFT_USAGE = 3,       /* the request is wrong: the user or the caller must change it */
    WEFT_NO_MEMORY = 4,   /* out of memory, or over a declared limit */
    WEFT_IO = 5,          /* the system below failed: disk, network, driver */
    WEFT_PEER = 6,        /* another rank exited, hangs or disagrees */
    WEFT_DATA = 7,        /* bytes from outside (file, socket) are corrupt or malformed */
    WEFT_ABSENT = 8,      /* the machine lacks the device, driver or NIC: exit status 77 */
    WEFT_INTERNAL = 9     /* an internal invariant is violated: a bug */
} weft_status;

/* Element types. Any integer type may carry them; the values never change. 16-bit floats are
 * arithmetic types: their sums accumulate in fp32 and are rounded once at the end. */
#define WEFT_F32 1u  /* IEEE binary32 */
#define WEFT_BF16 2u /* upper half of binary32, rounded to nearest even */
#define WEFT_F16 3u  /* IEEE binary16 */
#define WEFT_I32 4u
#define WEFT_I64 5u
#define WEFT_F64 6u /* reference results in tests only; no shipped plan uses it */
#define WEFT_U8 7u  /* plain bytes */

/* Bytes of one element; 0 for an unknown element type. [any] */
static inline uint64_t weft_dtype_size(uint32_t dtype)
{
    switch (dtype) {
    case WEFT_F32:
    case WEFT_I32: return 4;
    case WEFT_BF16:
    case WEFT_F16: return 2;
    case WEFT_I64:
    case WEFT_F64: return 8;
    case WEFT_U8: return 1;
    default: return 0;
    }
}

/* Limits, so that tables are plain arrays. A tensor has at most WEFT_MAX_AXES axes, an op at most
 * WEFT_MAX_OPERANDS inputs and as many outputs, a mesh at most WEFT_MAX_MESH axes; names are at
 * most WEFT_MAX_NAME bytes with the terminating zero. Exceeding a limit is an error with a
 * message. */
#define WEFT_MAX_AXES 6
#define WEFT_MAX_OPERANDS 12
#define WEFT_MAX_MESH 6
#define WEFT_MAX_NAME 64

/* ABI layout rule. The first member of a table is its size when the plugin was compiled; the host
 * copies that many bytes into a zeroed table of its own, so a NULL member means absent. WEFT_FREEZE
 * asserts a layout: exact size, and no tail padding that a later member could use. While the ABI is
 * 0.x the host requires an exact match of major and minor, and these sizes may still change with
 * the minor; from 1.0 on tables only grow at their end. */
#define WEFT_END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#define WEFT_FREEZE(type, last, bytes)                                                             \
    WEFT_STATIC_ASSERT(sizeof(type) == (bytes) && WEFT_END_OF(type, last) == (bytes),              \
                       "the layout of " #type " is law: change the ABI minor with it")

WEFT_STATIC_ASSERT(sizeof(weft_status) == 4, "a status is four bytes on both sides");
WEFT_STATIC_ASSERT(sizeof(void *) == 8, "weft is for 64-bit machines");

WEFT_EXTERN_C_END

#endif
