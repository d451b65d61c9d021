/* check/hook.h: replaces functions that a shared object imports, and finds its instructions.
 *
 * The object's slots for the symbol get another address, so its own calls go to the check's
 * function; calls of other objects stay. What the object calls through a pointer that it took
 * earlier is not seen. Objects are found by an address in them, or by the name of their file. */
#ifndef CHECK_HOOK_H
#define CHECK_HOOK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct check_hooks {
    const char *name;   /* "malloc"; NULL ends the list */
    void (*with)(void); /* of the type of the function that it replaces */
} check_hooks;

/* Replace all that the object imports of the list. Returns how many slots were written. */
uint32_t check_hook_object(const void *inside, const check_hooks *list);
uint32_t check_hook_library(const char *name, const check_hooks *list); /* "libstdc++.so" */

/* Whether the object imports the symbol. */
bool check_hook_imports(const void *inside, const char *symbol);

/* The instructions of the object; false: there is no such object. */
typedef struct check_text {
    uintptr_t from, to;
} check_text;
bool check_hook_text(const void *inside, check_text *out);

#endif
