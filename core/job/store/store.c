/* job/store/store.c: see store.h. */
#define _GNU_SOURCE
#include "job/store/store.h"

#include <search.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/wire/wire.h"

typedef struct item {
    char *key;
    uint8_t *value;
    uint64_t bytes;
} item;

typedef struct waiter {
    bool waits;
    char key[WIRE_KEY_MAX + 1];
    uint64_t due;
} waiter;

struct job_store {
    uint32_t ranks;
    job_store_reply reply;
    void *ctx;
    void *items;           /* a tree of item, by key */
    uint64_t bytes, added; /* of all items; of those that were added */
    waiter *waiters;       /* by rank */
};

static int by_key(const void *a, const void *b)
{
    return strcmp(((const item *)a)->key, ((const item *)b)->key);
}

static void free_item(void *node)
{
    item *i = node;
    free(i->key);
    free(i->value);
    free(i);
}

job_store *job_store_open(uint32_t ranks, job_store_reply reply, void *ctx)
{
    job_store *s = mem_alloc(sizeof *s);
    s->ranks = ranks;
    s->reply = reply;
    s->ctx = ctx;
    s->waiters = mem_alloc((uint64_t)ranks * sizeof *s->waiters);
    return s;
}

void job_store_close(job_store *s)
{
    if (!s)
        return;
    tdestroy(s->items, free_item);
    free(s->waiters);
    free(s);
}

static __attribute__((format(printf, 4, 5))) void refuse(job_store *s, uint32_t rank,
                                                         weft_status st, const char *fmt, ...)
{
    char text[WIRE_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    s->reply(s->ctx, rank, st, text, strlen(text));
}

/* --- put and get --- */

static item *find(job_store *s, const char *key)
{
    item probe = {.key = (char *)(uintptr_t)key};
    item **found = tfind(&probe, &s->items, by_key);
    return found ? *found : NULL;
}

static item *find_or_add(job_store *s, const char *key)
{
    item *i = find(s, key);
    if (i)
        return i;
    i = mem_alloc(sizeof *i);
    i->key = mem_alloc(strlen(key) + 1);
    memcpy(i->key, key, strlen(key));
    if (tsearch(i, &s->items, by_key))
        return i;
    free_item(i);
    return NULL;
}

/* What a value takes of the limits beside its bytes. */
static uint64_t cost_of(const char *key)
{
    return strlen(key) + sizeof(item) + 1;
}

static bool store_value(job_store *s, uint32_t rank, const char *key, const void *value,
                        uint64_t bytes)
{
    const item *old = find(s, key);
    uint64_t less = old ? old->bytes : 0, more = bytes + (old ? 0 : cost_of(key));
    if (s->bytes - less > STORE_BYTES_MAX - more) {
        refuse(s, rank, WEFT_NO_MEMORY,
               "the job's store is full: '%s' with %llu bytes would take it "
               "over %llu MiB",
               key, (unsigned long long)bytes, (unsigned long long)(STORE_BYTES_MAX >> 20));
        return false;
    }
    item *i = find_or_add(s, key);
    if (!i) {
        refuse(s, rank, WEFT_NO_MEMORY, "rank 0 has no memory left for the key '%s'", key);
        return false;
    }
    s->bytes = s->bytes - less + more;
    free(i->value);
    i->value = mem_alloc(bytes);
    i->bytes = bytes;
    if (bytes)
        memcpy(i->value, value, bytes);
    s->reply(s->ctx, rank, WEFT_OK, NULL, 0);
    for (uint32_t r = 0; r < s->ranks; r++)
        if (s->waiters[r].waits && !strcmp(s->waiters[r].key, key)) {
            s->waiters[r].waits = false;
            s->reply(s->ctx, r, WEFT_OK, i->value, i->bytes);
        }
    return true;
}

void job_store_put(job_store *s, uint32_t rank, const char *key, const void *value, uint64_t bytes)
{
    (void)store_value(s, rank, key, value, bytes);
}

void job_store_add(job_store *s, uint32_t rank, const char *key, const void *value, uint64_t bytes)
{
    const uint64_t more = bytes + cost_of(key);
    if (find(s, key))
        refuse(s, rank, WEFT_USAGE, "'%s' is set already, and a key is set once", key);
    else if (s->added > STORE_ADDED_MAX - more)
        refuse(s, rank, WEFT_NO_MEMORY,
               "'%s' with %llu bytes does not fit: plugins may put %llu MiB into the job's store",
               key, (unsigned long long)bytes, (unsigned long long)(STORE_ADDED_MAX >> 20));
    else if (store_value(s, rank, key, value, bytes))
        s->added += more;
}

void job_store_find(job_store *s, uint32_t rank, const char *key)
{
    const item *i = find(s, key);
    s->reply(s->ctx, rank, i ? WEFT_OK : WEFT_BUSY, i ? i->value : NULL, i ? i->bytes : 0);
}

void job_store_get(job_store *s, uint32_t rank, const char *key, uint64_t due)
{
    const item *i = find(s, key);
    if (i) {
        s->reply(s->ctx, rank, WEFT_OK, i->value, i->bytes);
        return;
    }
    waiter *w = &s->waiters[rank];
    w->waits = true;
    w->due = due;
    snprintf(w->key, sizeof w->key, "%s", key);
}

void job_store_tick(job_store *s, uint64_t now)
{
    for (uint32_t r = 0; r < s->ranks; r++) {
        waiter *w = &s->waiters[r];
        if (w->waits && now >= w->due) {
            w->waits = false;
            refuse(s, r, WEFT_PEER, "no rank has put '%s' into the job's store in time", w->key);
        }
    }
}
