/* host/call.c: the owner of a table, and the handling of calls that fail without a message
 * (call.h). */
#include "host/call.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

_Thread_local host_thread_calls host_call_slot;

/* A list that signal handlers walk without a lock. Removed entries stay allocated, because a reader
 * may be at one; there are as many as hosts per process, which are few. */
typedef struct entry {
    struct entry *_Atomic next;
    const void *owner;
    const void *_Atomic key; /* NULL: free */
    const char *name, *path;
} entry;

static entry *_Atomic entries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held by writers */

void host_call_register(const void *owner, const void *key, const char *name, const char *path)
{
    pthread_mutex_lock(&lock);
    entry *e = atomic_load(&entries);
    while (e && atomic_load(&e->key) && (e->key != key || e->owner != owner))
        e = atomic_load(&e->next);
    const bool fresh = !e;
    if (fresh) {
        e = mem_alloc(sizeof *e);
        atomic_store(&e->next, atomic_load(&entries));
    }
    e->owner = owner;
    e->name = name;
    e->path = path;
    atomic_store(&e->key, key);
    if (fresh)
        atomic_store(&entries, e);
    pthread_mutex_unlock(&lock);
}

void host_call_forget(const void *owner)
{
    pthread_mutex_lock(&lock);
    for (entry *e = atomic_load(&entries); e; e = atomic_load(&e->next))
        if (e->owner == owner)
            atomic_store(&e->key, NULL);
    pthread_mutex_unlock(&lock);
}

bool host_call_whose(const void *key, const char **name, const char **path)
{
    for (const entry *e = atomic_load(&entries); key && e; e = atomic_load(&e->next))
        if (atomic_load(&e->key) == key) {
            *name = e->name;
            *path = e->path;
            return true;
        }
    return false;
}

static void describe(const char *name, const char *path, const char *call, char *out, size_t size)
{
    snprintf(out, size, "%s() of the plugin %s (%s)", call, name, path);
}

bool host_call_describe(const void *key, const char *call, char *out, size_t size)
{
    const char *name, *path;
    pthread_mutex_lock(&lock); /* the owner frees the texts after host_call_forget() */
    const bool owned = host_call_whose(key, &name, &path);
    if (owned)
        describe(name, path, call, out, size);
    pthread_mutex_unlock(&lock);
    return owned;
}

const char *host_call_current(const char **name, const char **path)
{
    uint32_t depth = atomic_load_explicit(&host_call_slot.depth, memory_order_relaxed);
    for (depth = depth < CALL_DEPTH ? depth : CALL_DEPTH; depth > 0; depth--) {
        const host_call_frame *f = &host_call_slot.frame[depth - 1];
        if (host_call_whose(atomic_load_explicit(&f->key, memory_order_relaxed), name, path))
            return atomic_load_explicit(&f->call, memory_order_relaxed);
    }
    return NULL;
}

bool host_call_describe_current(char *out, size_t size)
{
    const char *name, *path, *call = host_call_current(&name, &path);
    if (call)
        describe(name, path, call, out, size);
    return call;
}

static const char *status_name(weft_status st)
{
    static const char *const names[] = {
        "WEFT_OK", "WEFT_BUSY", "WEFT_UNSUPPORTED", "WEFT_USAGE",  "WEFT_NO_MEMORY",
        "WEFT_IO", "WEFT_PEER", "WEFT_DATA",        "WEFT_ABSENT", "WEFT_INTERNAL"};
    return (uint32_t)st < sizeof names / sizeof *names ? names[st] : NULL;
}

weft_status host_call_check(const void *key, const char *call, weft_status st, uint32_t mark,
                            uint32_t may)
{
    const char *name, *path, *status = status_name(st);
    const bool own = !host_call_whose(key, &name, &path);
    if ((st == WEFT_BUSY && (may & CALL_MAY_WAIT)) ||
        (st == WEFT_UNSUPPORTED && (may & CALL_MAY_REFUSE)) || own)
        return st;
    if (!status)
        return err_fail_in(WEFT_INTERNAL, ERR_PLUGIN, name,
                           "its %s() returned %d, which is not a status of weft/base.h", call,
                           (int)st);
    if (st == WEFT_BUSY)
        return err_fail_in(WEFT_INTERNAL, ERR_PLUGIN, name,
                           "its %s() returned WEFT_BUSY, and this call may not be repeated", call);
    /* The record may be of an earlier call with the same cause. */
    if (!err_text()[0] || (err_count == mark && strcmp(err_name(ERR_PLUGIN), name) != 0))
        return err_fail_in(st, ERR_PLUGIN, name, "its %s() failed without a reason (status %d, %s)",
                           call, (int)st, status);
    return st;
}
