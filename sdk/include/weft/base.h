/* weft/base.h: the words that every other header uses.
 *
 * Include order does not matter; every header of the SDK compiles alone, as C11 and later and as
 * C++11 and later, and pulls in nothing but <stddef.h> and <stdint.h>. Three headers are helpers
 * for authors, compiled into the plugin, and no part of the ABI: expr.h (formulas), match.h (the
 * operands of an op) and handshake.h (who is at the other end of a socket). The last two also take
 * <stdio.h> and <string.h>, for sentences.
 *
 * Thread and phase tags. Each function pointer in the SDK ends its comment with one or more tags:
 *
 *   [any]         reentrant, from any thread, in any phase
 *   [plan]        while planning: no device, no driver, no other rank; must be a pure function
 *   [setup]       before the first step; may block, allocate, open files and sockets
 *   [compute]     inside a step, on the thread that walks the lists; must not allocate or open
 *   [progress]    inside a step, on the thread that moves bytes; must not block, allocate or open
 *   [collective]  every rank of the group makes the same call in the same order
 *
 * [compute] and [progress] name roles, not OS threads: the host promises only that one object is
 * never entered by two threads at once. A comment covers the members below it up to the next one
 * that has tags, and so do its tags.
 *
 * Ownership, where a comment does not say otherwise. What is handed into a call is borrowed until
 * the call returns: keep a copy, not the pointer. What a call hands out stays with whoever made it
 * and lives as long as the object that was asked. What a call makes (**out) the caller gives back
 * once, by the function for it, or it goes with the object that it was made from.
 *
 * Failure, likewise. A call that fails has changed nothing that its caller can see, and left no
 * object behind; WEFT_BUSY comes only from calls whose comment names it. What returns no status
 * cannot fail. A plugin does not end the process, and writes to neither stdout nor stderr.
 *
 * Sizes and counts are 64 bits wide and in bytes unless a name or comment says elements. No enum,
 * bit-field, bool, long or libc object crosses the line between host and plugin, except the status
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

/* Ignoring a status draws a warning, through function tables too. gcc knows this for types from
 * C23 and C++17 on, clang always; the project's own checks compile both ways. */
#if (defined(__cplusplus) && __cplusplus >= 201703L) ||                                            \
    (defined(__STDC_VERSION__) && __STDC_VERSION__ > 201710L)
#define WEFT_CHECKED [[nodiscard]]
#elif defined(__clang__)
#define WEFT_CHECKED __attribute__((warn_unused_result))
#else
#define WEFT_CHECKED
#endif

WEFT_EXTERN_C_BEGIN

/* What went wrong, by who must act. Append only, never renumbered. Whoever first detects a failure
 * records the fact with weft_host.fail(); those above only pass the status on. Results are written
 * to out-parameters on WEFT_OK alone. */
typedef enum WEFT_CHECKED weft_status {
    WEFT_OK = 0,
    WEFT_BUSY = 1,        /* not finished yet: call again; never recorded as a failure */
    WEFT_UNSUPPORTED = 2, /* a lawful request that this plugin cannot serve */
    WEFT_USAGE = 3,       /* the request is wrong: the user or the caller must change it */
    WEFT_NO_MEMORY = 4,   /* no memory, or over a limit that was declared before */
    WEFT_IO = 5,          /* the system below failed: disk, network, driver */
    WEFT_PEER = 6,        /* another rank is gone, frozen or disagrees */
    WEFT_DATA = 7,        /* bytes from outside (file, socket) are not what they claim to be */
    WEFT_ABSENT = 8,      /* the machine lacks the device, driver or NIC: exit status 77 */
    WEFT_INTERNAL = 9     /* an invariant of ours broke */
} weft_status;

/* Element types. An int of any width carries them; the values never change. 16-bit floats are
 * arithmetic types: sums of them are formed in fp32 and rounded once at the end. */
#define WEFT_F32 1u  /* IEEE binary32 */
#define WEFT_BF16 2u /* upper half of binary32, rounded to nearest even */
#define WEFT_F16 3u  /* IEEE binary16 */
#define WEFT_I32 4u
#define WEFT_I64 5u
#define WEFT_F64 6u /* referees in tests only; no shipped plan uses it */
#define WEFT_U8 7u  /* plain bytes */

/* Bytes of one element; 0 for a value that is no element type. [any] */
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

/* Limits that let tables be plain arrays. A tensor has at most WEFT_MAX_AXES axes, an op at most
 * WEFT_MAX_OPERANDS inputs and as many outputs, a mesh at most WEFT_MAX_MESH axes; names are at
 * most WEFT_MAX_NAME bytes with their zero. Whatever exceeds one is refused in words. */
#define WEFT_MAX_AXES 6
#define WEFT_MAX_OPERANDS 12
#define WEFT_MAX_MESH 6
#define WEFT_MAX_NAME 64

/* The layout law. The first member of a table is its size when the plugin was compiled; the host
 * copies that many bytes into a zeroed table of its own, so that a NULL member means absent.
 * WEFT_FREEZE pins a layout: exact size, and no padding at the end for a later member to hide in.
 * While the ABI is 0.x the host asks for an exact match of major and minor, and these sizes may
 * still change with the minor; from 1.0 on tables only grow at their end. */
#define WEFT_END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#define WEFT_FREEZE(type, last, bytes)                                                             \
    WEFT_STATIC_ASSERT(sizeof(type) == (bytes) && WEFT_END_OF(type, last) == (bytes),              \
                       "the layout of " #type " is law: change the ABI minor with it")

WEFT_STATIC_ASSERT(sizeof(weft_status) == 4, "a status is four bytes on both sides");
WEFT_STATIC_ASSERT(sizeof(void *) == 8, "weft is for 64-bit machines");

WEFT_EXTERN_C_END

#endif
