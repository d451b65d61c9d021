/* base/mem.c: see mem.h. */
#include "base/mem.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/number/check.h"

static _Noreturn void out_of_memory(uint64_t bytes)
{
    log_line(WEFT_LOG_ERROR, "no memory left for %llu bytes of set-up data",
             (unsigned long long)bytes);
    _exit(1); /* handlers of exit() may need memory, or report the plugin that called us */
}

static _Atomic uint64_t limit = UINT64_MAX, in_pools;
static void (*_Atomic on_over)(uint64_t bytes);

void mem_limit(uint64_t bytes, void (*over)(uint64_t bytes))
{
    atomic_store(&on_over, over);
    atomic_store(&limit, bytes);
}

void mem_check(uint64_t bytes)
{
    if (bytes > atomic_load_explicit(&limit, memory_order_relaxed))
        (atomic_load(&on_over))(bytes);
}

void mem_count(int64_t bytes)
{
    mem_check(atomic_fetch_add_explicit(&in_pools, (uint64_t)bytes, memory_order_relaxed) +
              (uint64_t)bytes);
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
    mem_check(bytes);
    at = mem_grow(at, bytes);
    memset((char *)at + *cap * size, 0, bytes - *cap * size);
    *cap = (uint32_t)more;
    return at;
}

void mem_text_begin(mem_text *t)
{
    *t = (mem_text){0};
    t->to = open_memstream(&t->at, &t->bytes);
    if (!t->to)
        out_of_memory(0);
}

char *mem_text_end(mem_text *t)
{
    if (fclose(t->to))
        out_of_memory(t->bytes);
    return t->at;
}

mem_size_text mem_size(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    mem_size_text to;
    uint32_t u = 0;
    for (; bytes >= 1024 && u < 5; u++)
        bytes /= 1024;
    snprintf(to.text, sizeof to.text, bytes == trunc(bytes) ? "%.0f %s" : "%.1f %s", bytes,
             units[u]);
    return to;
}
