/* base/sealed.h: bytes that a parent process hands to its children in a sealed memory file.
 *
 * The parent makes the file and lets a child inherit the descriptor, whose number stands in an
 * environment variable. The seals mean that nobody can change, shorten or lengthen the file, so a
 * child may read it at any time, and any number of children read the same bytes. */
#ifndef BASE_SEALED_H
#define BASE_SEALED_H

#include <stddef.h>

/* A new sealed memory file that holds `n` bytes; `name` shows in /proc. Returns the descriptor
 * (close-on-exec), owned by the caller, or -1 with errno set. [setup] */
int sealed_make(const char *name, const void *bytes, size_t n);

/* The descriptor whose number the environment variable has, now close-on-exec. -1: the variable is
 * not set. -2: it names no sealed memory file, and nothing was touched. [setup] */
int sealed_inherited(const char *variable);

#endif
