/* weft/base.h: status codes, element types and limits that every other header uses.
 *
 * Include order does not matter; every header of the SDK compiles alone, as C11 and later and as
 * C++11 and later, and includes only <stddef.h> and <stdint.h>. Six headers are helpers for
 * authors, compiled into the plugin and not part of the ABI: expr.h (formulas), random.h (random
 * numbers in them), match.h (operands of an op), shard.h (their placements), handshake.h (of
 * sockets) and tokens.h (token files). The last four also include <stdio.h> and <string.h>, for
 * messages.
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
 * never enter one object at once. Two objects of one module (two links) may be entered by two
 * threads at once, so data that objects of a module share needs a lock; communicators of a coll
 * module on host memory may not (coll.h). A comment and its tags apply to the members below it, up
 * to the next comment that has tags.
 *
 * A plugin may start threads of its own between open() and close(). They block all signals, call
 * no host function but those tagged [any], and have ended when close() returns. After open() the
 * host may fork: the child executes another program or ends, and calls no plugin.
 *
 * What belongs to the process belongs to the host: a plugin leaves the environment, the working
 * folder, the umask, the locale, signal handlers and masks, the floating-point mode and a driver's
 * current context as it found them. There is one exception: a library that has no other setting
 * than an environment variable may be set up so in open(), where the variable is unset. A library
 * that may be initialized once a process only (MPI) is initialized by the first open() that needs
 * it, counted, and finalized never or at exit. No C++ exception and no longjmp() leaves a plugin's
 * function.
 *
 * Ownership, unless a comment says otherwise. Arguments are borrowed until the call returns: copy
 * the data, do not keep the pointer. The host table and a weft_conf live until close() returns. The
 * plugin owns what its call returns; it lives as long as the object that was asked. The manifest
 * and all that it points to is constant and lives as long as the process. The caller releases what
 * a call creates (**out) once, by the function for it, or it is released with the object that
 * created it.
 *
 * Failure, unless a comment says otherwise. A failed call has no effect that its caller can see and
 * leaves no object behind; only calls whose comment names WEFT_BUSY return it. A function without a
 * status cannot fail. A plugin does not end the process, and writes to neither stdout nor stderr.
 *
 * The unknown. In every flags word, capability word, reserved word and field that a later version
 * adds, 0 means "as before". A request that the callee does not know (a flag, an element type, a
 * kind of collective, an op, a non-zero field behind the end of an argument struct) is
 * WEFT_UNSUPPORTED with a message, and never ignored. A phase is no request: in a phase that a
 * strategy's edit() or an op's grad() does not know, it has nothing to do and returns WEFT_OK. A
 * status that the caller does not know is a failure and is passed on unchanged. Flags words whose
 * comment lists no flag are 0.
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
#ifdef __cplusplus
#define WEFT_STATUS_BASE : int32_t /* so that an unknown status is a value like any other */
#else
#define WEFT_STATUS_BASE
#endif
typedef enum WEFT_CHECKED weft_status WEFT_STATUS_BASE{
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

/* Whether it is a type that passes are computed in: fp32, bf16 or fp16. [any] */
static inline int32_t weft_dtype_computes(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* Limits. A tensor has at most WEFT_MAX_AXES axes: the size of weft_shape follows from it, so it is
 * part of WEFT_ABI_TAG and never changes. The others may rise in a later version, so calls that
 * fill an array get its room: an op has at most WEFT_MAX_OPERANDS inputs and as many outputs, a
 * mesh at most WEFT_MAX_MESH axes; names are at most WEFT_MAX_NAME bytes with the terminating zero.
 * Exceeding a limit is an error with a message. */
#define WEFT_MAX_AXES 8
#define WEFT_MAX_OPERANDS 32
#define WEFT_MAX_MESH 8
#define WEFT_MAX_NAME 64

/* --- Growth ---
 *
 * Structs that begin with struct_size, their size in the headers that their author compiled with,
 * grow only at their end. One from an older author is shorter: what it lacks reads as 0. One from a
 * newer author is longer. What that means depends on the sort of the struct (docs/VERSIONS.md has
 * the list), so that any plugin of 0.9 or later works in any host of 0.9 or later:
 *
 *   lent       a table that the host hands to the plugin (weft_host, weft_conf, builder, view,
 *              edits, weft.host.*), weft_opcall, weft_op_self, weft_event. It offers: the reader
 *              takes what it knows, and does not look behind it.
 *   argument   says what a call has to do. Accepted when the unknown part is all zero, otherwise
 *              refused with WEFT_UNSUPPORTED (weft_knows()): it asks for something new.
 *   constant   the plugin's manifest, components, options, tables and descriptions: as arguments,
 *              but the host refuses when it loads the plugin.
 *   answer     a callee writes into a struct of the caller no more than the caller has
 *              (weft_give()).
 *
 * A member that a later version adds is optional for good: test it with WEFT_HAS() before use. What
 * is in the headers of 0.9 needs no test, except members marked OPT. Structs that are passed in
 * arrays have no struct_size and never grow; each has a flags word instead. WEFT_FREEZE asserts a
 * layout: exact size, and no tail padding that a later member could use. */
#define WEFT_END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#define WEFT_FREEZE(type, last, bytes)                                                             \
    WEFT_STATIC_ASSERT(sizeof(type) == (bytes) && WEFT_END_OF(type, last) == (bytes),              \
                       "the layout of " #type " is law: append, and change the ABI minor with it")

/* Whether the struct behind the pointer `p` reaches to the member, and has it set. */
#define WEFT_HAS(p, member)                                                                        \
    ((size_t)((const char *)(&(p)->member + 1) - (const char *)(p)) <= (p)->struct_size &&         \
     (p)->member)

/* 1 when a struct has nothing but zeros behind its first `known` bytes; `sized` begins with its
 * struct_size. [any] */
static inline int32_t weft_tail_is_zero(const void *sized, size_t known)
{
    const unsigned char *bytes = (const unsigned char *)sized;
    const uint32_t size = *(const uint32_t *)sized;
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return 0;
    return 1;
}

/* 1 when the callee knows all that an argument struct asks for; else it returns WEFT_UNSUPPORTED
 * with a message. Flags are tested apart. Never for a table that the host has lent. */
#define weft_knows(args) weft_tail_is_zero((args), sizeof *(args))

/* The host's and the plugin's own copy of a sized struct, `size` bytes with the part that the
 * author of `from` lacks as zeros. [any] */
static inline void weft_take(void *to, size_t size, const void *from)
{
    unsigned char *out = (unsigned char *)to;
    const unsigned char *in = (const unsigned char *)from;
    const uint32_t have = *(const uint32_t *)from;
    for (size_t i = 0; i < size; i++)
        out[i] = i < have ? in[i] : 0;
    *(uint32_t *)to = have < size ? have : (uint32_t)size;
}

/* Answer into a struct of the caller, who has zeroed it and set its struct_size: copies the part
 * that both know; struct_size becomes the number of bytes that were given. [any] */
static inline void weft_give(void *out, const void *value)
{
    unsigned char *to = (unsigned char *)out;
    const unsigned char *from = (const unsigned char *)value;
    const uint32_t room = *(const uint32_t *)out, have = *(const uint32_t *)value;
    const uint32_t n = room < have ? room : have;
    for (uint32_t i = 4; i < n; i++)
        to[i] = from[i];
    *(uint32_t *)out = n;
}

WEFT_STATIC_ASSERT(sizeof(weft_status) == 4, "a status is four bytes on both sides");
WEFT_STATIC_ASSERT(sizeof(void *) == 8, "weft is for 64-bit machines");

WEFT_EXTERN_C_END

#endif
