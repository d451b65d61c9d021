/* check/coll/kv.c: weft.host.kv/1 of a check: a table in memory that the ranks share. */
#include "base/time/pressure.h"
#include "check/coll/coll.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define ENTRIES 512u
#define KEY 96u
#define VALUE 4096u
#define GATHER_MS 5000u

typedef struct entry {
    char key[KEY];
    uint64_t bytes;
    unsigned char value[VALUE];
} entry;

struct check_kv {
    pthread_mutex_t lock; /* of all processes */
    uint32_t n;
    entry at[ENTRIES];
};

typedef struct served { /* the context of a rank's table */
    check_kv *store;
    uint32_t rank, ranks;
} served;

check_kv *check_kv_create(void)
{
    pthread_mutexattr_t shared;
    check_kv *s = check_shared(sizeof *s);
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->lock, &shared);
    return s;
}

static entry *find(check_kv *s, const char *key)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!strcmp(s->at[i].key, key))
            return &s->at[i];
    return NULL;
}

static weft_status add(check_kv *s, const char *key, const void *data, uint64_t bytes)
{
    weft_status st = WEFT_OK;
    pthread_mutex_lock(&s->lock);
    if (find(s, key) || s->n == ENTRIES || bytes > VALUE) {
        st = err_fail(WEFT_USAGE,
                      "put() of the key '%s' (%llu bytes): it is set already, or the store of the "
                      "check is full (%u keys of %u bytes)",
                      key, (unsigned long long)bytes, ENTRIES, VALUE);
    } else {
        entry *e = &s->at[s->n++];
        snprintf(e->key, sizeof e->key, "%s", key);
        memcpy(e->value, data, bytes);
        e->bytes = bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static weft_status look(check_kv *s, const char *key, void *out, uint64_t *bytes)
{
    weft_status st = WEFT_BUSY;
    pthread_mutex_lock(&s->lock);
    const entry *e = find(s, key);
    if (e && e->bytes > *bytes) {
        st = err_fail(WEFT_USAGE, "get() of the key '%s' has room for %llu of %llu bytes", key,
                      (unsigned long long)*bytes, (unsigned long long)e->bytes);
    } else if (e) {
        memcpy(out, e->value, e->bytes);
        *bytes = e->bytes;
        st = WEFT_OK;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static weft_status check_key(const char *key)
{
    const size_t n = key ? strlen(key) : 0;
    return n && n < 64 ? WEFT_OK
                       : err_fail(WEFT_USAGE, "a key of weft.host.kv/1 has 1 to 63 bytes");
}

static weft_status put(void *ctx, const char *key, const void *data, uint64_t bytes)
{
    const weft_status st = check_key(key);
    return st == WEFT_OK ? add(((served *)ctx)->store, key, data, bytes) : st;
}

static weft_status get(void *ctx, const char *key, void *out, uint64_t *bytes)
{
    const weft_status st = check_key(key);
    return st == WEFT_OK ? look(((served *)ctx)->store, key, out, bytes) : st;
}

/* Every member puts its part under a key that plugins cannot set. */
static weft_status all_gather(void *ctx, const weft_kv_gather *g)
{
    const served *s = ctx;
    char key[KEY];
    weft_status st = check_key(g->key);
    const uint32_t n = g->members ? g->n : s->ranks;
    const uint64_t until = pressure_ms() + GATHER_MS;
    snprintf(key, sizeof key, "\n%s.%u", g->key, s->rank);
    if (st == WEFT_OK)
        st = add(s->store, key, g->in, g->bytes);
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
        const uint32_t rank = g->members ? g->members[i] : i;
        uint64_t bytes = g->bytes;
        snprintf(key, sizeof key, "\n%s.%u", g->key, rank);
        while ((st = look(s->store, key, (char *)g->out + i * g->bytes, &bytes)) == WEFT_BUSY &&
               pressure_ms() < until)
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        if (st == WEFT_BUSY)
            st = err_fail(WEFT_PEER, "rank %u has not called all_gather() of '%s'", rank, g->key);
    }
    return st;
}

void check_kv_serve(check_kv *store, uint32_t rank, uint32_t ranks, weft_host_kv *out)
{
    static served s; /* one a process */
    s = (served){store, rank, ranks};
    *out = (weft_host_kv){.struct_size = sizeof *out,
                          .ctx = &s,
                          .rank = rank,
                          .ranks = ranks,
                          .put = put,
                          .get = get,
                          .all_gather = all_gather};
}
