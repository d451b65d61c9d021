/* base/mem.c: see mem.h. */
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number/check.h"

static _Noreturn void out_of_memory(uint64_t bytes)
{
    fprintf(stderr, "weft error: no memory left for %llu bytes of set-up data\n",
            (unsigned long long)bytes);
    _exit(1); /* handlers of exit() may need memory, or report the plugin that called us */
}

void *mem_alloc(uint64_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

void *mem_grow(void *p, uint64_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        out_of_memory(bytes);
    return q;
}

void *mem_more(void *at, uint32_t *cap, uint64_t size)
{
    uint64_t more = *cap ? (uint64_t)*cap * 2 : 8;
    uint64_t bytes;
    if (more > UINT32_MAX || !check_mul(more, size, &bytes))
        out_of_memory(UINT64_MAX);
    at = mem_grow(at, bytes);
    memset((char *)at + *cap * size, 0, bytes - *cap * size);
    *cap = (uint32_t)more;
    return at;
}
