/* base/sealed.h: bytes that a parent process passes to its children in a sealed memory file.
 *
 * The parent creates the file, and a child inherits the descriptor, whose number is in an
 * environment variable. The seals prevent any change of the file, so children may read it at any
 * time, and all read the same bytes. Memory that both write may not shrink. */
#ifndef BASE_SEALED_H
#define BASE_SEALED_H

#include <stddef.h>
#include <stdint.h>

/* A new sealed memory file that holds `n` bytes; `name` shows in /proc. Returns the descriptor
 * (close-on-exec), owned by the caller, or -1 with errno set. [setup] */
int sealed_make(const char *name, const void *bytes, size_t n);

/* The number of a descriptor that is in the environment variable. -1: the variable is not set. -2:
 * it has no such number. [any] */
int sealed_number(const char *variable);

/* The descriptor whose number is in the environment variable, now close-on-exec. -1: the variable
 * is not set. -2: the descriptor is not a sealed memory file, and is left as it is. [setup] */
int sealed_inherited(const char *variable);

/* Map the memory whose descriptor is in the environment variable, which is then closed: `least` to
 * `most` bytes that cannot shrink. NULL: it is not there, or other than that. [setup] */
void *sealed_map(const char *variable, uint64_t least, uint64_t most, uint64_t *bytes);

#endif
