/* base/pool.c: see pool.h. */
#include "base/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number/check.h"

struct pool_chunk {
    pool_chunk *next;
    uint64_t used, size;
    _Alignas(16) unsigned char data[];
};

void *pool_alloc(pool *p, uint64_t bytes)
{
    uint64_t need;
    if (!check_align(bytes ? bytes : 1, 16, &need))
        return mem_alloc(UINT64_MAX); /* ends the program */
    pool_chunk *c = p->chunks;
    if (!c || c->size - c->used < need) {
        uint64_t size = need > 65536 ? need : 65536;
        mem_count((int64_t)(sizeof *c + size));
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
    if (!check_mul(n, size, &bytes))
        return mem_alloc(UINT64_MAX);
    return pool_alloc(p, bytes);
}

void *pool_copy(pool *p, const void *from, uint64_t bytes)
{
    void *to = pool_alloc(p, bytes);
    return bytes ? memcpy(to, from, bytes) : to;
}

char *pool_text(pool *p, const char *text)
{
    return pool_copy(p, text, strlen(text) + 1);
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
        mem_count(-(int64_t)(sizeof *c + c->size));
        free(c);
    }
    *p = (pool){0};
}
