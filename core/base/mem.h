/* base/mem.h: memory for set-up and planning.
 *
 * No function returns NULL: planning takes megabytes, and without them the program ends with a
 * message and status 1. Never called inside a step. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdio.h>

#include "base/pool.h"

/* malloc and realloc that end the program with a message instead of returning NULL. */
void *mem_alloc(uint64_t bytes); /* zeroed */
void *mem_grow(void *p, uint64_t bytes);

/* At most `bytes` in all pools together, and in one growing array. Beyond that `over`, which does
 * not return, is called with what they would have. UINT64_MAX: no limit, as at first. [setup] */
void mem_limit(uint64_t bytes, void (*over)(uint64_t bytes));

/* `bytes` more (or fewer) in pools; a growing array of `bytes` in all. For pool.c and VEC. */
void mem_count(int64_t bytes);
void mem_check(uint64_t bytes);

/* mem_size(bytes).text: "35.7 MiB", "64 KiB". Not negative. */
typedef struct mem_size_text {
    char text[24];
} mem_size_text;
mem_size_text mem_size(double bytes);

/* A growing array: VEC(int) v = {0}; *vec_push(&v) = 3; free(v.at). Elements move as it grows. */
#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t n, cap;                                                                           \
    }
#define vec_push(v)                                                                                \
    ((v)->n == (v)->cap                                                                            \
         ? ((v)->at = mem_more((v)->at, &(v)->cap, sizeof *(v)->at), &(v)->at[(v)->n++])           \
         : &(v)->at[(v)->n++])
void *mem_more(void *at, uint32_t *cap, uint64_t size); /* doubles *cap; new part zeroed */

/* Text that is written to `to`; mem_text_end() closes it, and the caller frees what it returns. */
typedef struct mem_text {
    FILE *to;
    char *at;
    size_t bytes;
} mem_text;
void mem_text_begin(mem_text *t);
char *mem_text_end(mem_text *t);

#endif
