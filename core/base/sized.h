/* base/sized.h: structs that begin with struct_size, from a plugin or for one (weft/base.h,
 * Growth).
 *
 * The size that the other side states is trusted up to SIZED_MAX, so these functions read no more
 * than that behind its pointer. `call` is how the function is called in a message,
 * "builder.param". */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include <stddef.h>
#include <stdint.h>
#include <weft/base.h>

/* No struct of this ABI is as large: a size above it is garbage. */
#define SIZED_MAX 65536u

/* Copies the argument struct `args` of a plugin into `to`, `size` bytes, whatever size its author
 * knew; the part that it lacks becomes 0. A flags word follows struct_size. WEFT_USAGE: `args` is
 * NULL, or its size is impossible. WEFT_UNSUPPORTED: it asks for what this program does not know, a
 * flag that is not in `known`, or a field behind the end. [any] */
weft_status sized_take(const char *call, const void *args, void *to, size_t size, uint32_t known);

/* WEFT_UNSUPPORTED when `flags` has a bit that is not in `known`. [any] */
weft_status sized_check_flags(const char *call, uint32_t flags, uint32_t known);

/* Whether weft_give() can answer into `out`, a struct of a plugin; not NULL. WEFT_USAGE: its size
 * is not set. [any] */
weft_status sized_check_out(const char *call, const void *out);

/* The same, and weft_give(): for calls that a plugin makes often. [any] */
weft_status sized_give(const char *call, void *out, const void *value);

#endif
