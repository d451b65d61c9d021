/* base/mem.c: see mem.h. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

struct pool_chunk {
    pool_chunk *next;
    uint64_t used, size;
    _Alignas(16) unsigned char data[];
};

static _Noreturn void out_of_memory(uint64_t bytes)
{
    fprintf(stderr, "weft error: no memory left for %llu bytes of set-up data\n",
            (unsigned long long)bytes);
    _exit(1); /* what exit() calls may need memory, or blame whoever called us */
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
    if (more > UINT32_MAX || !ck_mul(more, size, &bytes))
        out_of_memory(UINT64_MAX);
    at = mem_grow(at, bytes);
    memset((char *)at + *cap * size, 0, bytes - *cap * size);
    *cap = (uint32_t)more;
    return at;
}

void *pool_alloc(pool *p, uint64_t bytes)
{
    uint64_t need;
    if (!ck_align(bytes ? bytes : 1, 16, &need))
        out_of_memory(bytes);
    pool_chunk *c = p->chunks;
    if (!c || c->size - c->used < need) {
        uint64_t size = need > 65536 ? need : 65536;
        c = mem_alloc(sizeof *c + size);
        c->size = size;
        c->next = p->chunks;
        p->chunks = c;
    }
    void *out = c->data + c->used;
    c->used += need;
    p->bytes += need;
    return out;
}

void *pool_array(pool *p, uint64_t n, uint64_t size)
{
    uint64_t bytes;
    if (!ck_mul(n, size, &bytes))
        out_of_memory(UINT64_MAX);
    return pool_alloc(p, bytes);
}

char *pool_text(pool *p, const char *text)
{
    size_t n = strlen(text) + 1;
    return memcpy(pool_alloc(p, n), text, n);
}

char *pool_printf(pool *p, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *out = pool_alloc(p, (uint64_t)(n < 0 ? 0 : n) + 1);
    if (n >= 0)
        vsnprintf(out, (size_t)n + 1, fmt, again);
    va_end(again);
    return out;
}

void pool_free(pool *p)
{
    for (pool_chunk *c = p->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *p = (pool){0};
}
