/* job/kv.c: see kv.h. */
#define _GNU_SOURCE
#include "job/kv.h"

#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/host.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "job/state.h"
#include "job/store/gather.h"

#define KEY_MAX 63u

/* The answer of the store in this process. */
typedef struct local_answer {
    weft_status st;
    void *bytes;
    uint64_t n;
} local_answer;

typedef struct plugin_kv {
    weft_host_kv table;
    job_kv *of;
    struct plugin_kv *next;
    void *gathered; /* a tree of the keys that this rank has gathered */
    char id[WEFT_MAX_NAME];
} plugin_kv;

struct job_kv {
    job *job;
    job_store *own; /* of a job of one rank */
    local_answer answer;
    pthread_mutex_t lock; /* of `own`, `answer`, `plugins` and their trees */
    plugin_kv *plugins;
    uint32_t kind;
    _Atomic bool ended;
};

/* --- the store, of the job or of this process --- */

static void keep_answer(void *ctx, uint32_t rank, weft_status st, const void *bytes, uint64_t n)
{
    local_answer *a = ctx;
    (void)rank;
    *a = (local_answer){st, mem_alloc(n + 1), n};
    if (n)
        memcpy(a->bytes, bytes, n);
}

/* The bytes are the caller's on WEFT_OK. */
static weft_status take_answer(job_kv *kv, void **bytes, uint64_t *n)
{
    local_answer *a = &kv->answer;
    weft_status st = a->st;
    if (st != WEFT_OK && st != WEFT_BUSY)
        st = err_fail(st, "%.*s", (int)a->n, (const char *)a->bytes);
    if (st == WEFT_OK && bytes) {
        *bytes = a->bytes;
        *n = a->n;
    } else {
        free(a->bytes);
    }
    *a = (local_answer){0};
    return st;
}

static weft_status add(job_kv *kv, const char *key, const void *data, uint64_t bytes)
{
    if (kv->job)
        return job_add(kv->job, key, data, bytes);
    pthread_mutex_lock(&kv->lock);
    job_store_add(kv->own, 0, key, data, bytes);
    const weft_status st = take_answer(kv, NULL, NULL);
    pthread_mutex_unlock(&kv->lock);
    return st;
}

static weft_status find(job_kv *kv, const char *key, void **value, uint64_t *bytes)
{
    if (kv->job)
        return job_find(kv->job, key, value, bytes);
    pthread_mutex_lock(&kv->lock);
    job_store_find(kv->own, 0, key);
    const weft_status st = take_answer(kv, value, bytes);
    pthread_mutex_unlock(&kv->lock);
    return st;
}

/* --- checks --- */

static weft_status check_phase(const job_kv *kv, const char *call)
{
    if (kv->kind == JOB_KV_PLANNING)
        return err_fail(WEFT_UNSUPPORTED,
                        "kv.%s(): there are no ranks to exchange with while planning", call);
    if (atomic_load(&kv->ended))
        return err_fail(WEFT_UNSUPPORTED, "kv.%s(): the job has ended", call);
    return WEFT_OK;
}

/* The key in the job's store: that of the plugin. */
static weft_status full_key(const plugin_kv *p, const char *call, const char *key,
                            char out[WIRE_KEY_MAX + 1])
{
    const size_t n = key ? strnlen(key, KEY_MAX + 1) : 0;
    if (!n || n > KEY_MAX)
        return err_fail(WEFT_USAGE, "kv.%s(): the key %s; a key has 1 to %u bytes", call,
                        !key ? "is NULL"
                        : n  ? "is too long"
                             : "is empty",
                        KEY_MAX);
    for (size_t i = 0; i < n; i++)
        if (key[i] < 32 || key[i] > 126)
            return err_fail(WEFT_USAGE,
                            "kv.%s(): byte %zu of the key is 0x%02x; a key is printable ASCII text",
                            call, i, (unsigned char)key[i]);
    snprintf(out, WIRE_KEY_MAX + 1, "kv/%s/%s", p->id, key);
    return WEFT_OK;
}

static weft_status check_value(const char *call, const char *key, const void *data, uint64_t bytes)
{
    if (bytes > GATHER_VALUE_MAX)
        return err_fail(WEFT_USAGE, "kv.%s(): the value of '%s' has %llu bytes; the most is %u",
                        call, key, (unsigned long long)bytes, GATHER_VALUE_MAX);
    if (bytes && !data)
        return err_fail(WEFT_USAGE, "kv.%s(): the value of '%s' is NULL", call, key);
    return WEFT_OK;
}

/* --- the table --- */

static weft_status table_put(void *ctx, const char *key, const void *data, uint64_t bytes)
{
    plugin_kv *p = ctx;
    char full[WIRE_KEY_MAX + 1];
    weft_status st = check_phase(p->of, "put");
    if (st == WEFT_OK)
        st = full_key(p, "put", key, full);
    if (st == WEFT_OK)
        st = check_value("put", key, data, bytes);
    return st == WEFT_OK ? add(p->of, full, data, bytes) : st;
}

static weft_status table_get(void *ctx, const char *key, void *out, uint64_t *bytes)
{
    plugin_kv *p = ctx;
    char full[WIRE_KEY_MAX + 1];
    void *value = NULL;
    uint64_t n = 0;
    weft_status st = check_phase(p->of, "get");
    if (st == WEFT_OK)
        st = full_key(p, "get", key, full);
    if (st == WEFT_OK && (!bytes || (*bytes && !out)))
        st = err_fail(WEFT_USAGE, "kv.get(): %s is NULL", bytes ? "out" : "bytes");
    if (st == WEFT_OK)
        st = find(p->of, full, &value, &n);
    if (st == WEFT_OK && n > *bytes)
        st = err_fail(WEFT_USAGE, "kv.get(): the value of '%s' has %llu bytes; the room is %llu",
                      key, (unsigned long long)n, (unsigned long long)*bytes);
    if (st == WEFT_OK) {
        if (n)
            memcpy(out, value, n);
        *bytes = n;
    }
    free(value);
    return st;
}

static weft_status check_members(const plugin_kv *p, const weft_kv_gather *a)
{
    bool inside = false;
    if (!a->members && (!a->n || a->n == p->table.ranks))
        return WEFT_OK;
    if (!a->members || !a->n || a->n > p->table.ranks)
        return err_fail(WEFT_USAGE, "kv.all_gather(): '%s' has %u members; the job has %u ranks",
                        a->key, a->n, p->table.ranks);
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->members[i] >= p->table.ranks || (i && a->members[i] <= a->members[i - 1]))
            return err_fail(WEFT_USAGE,
                            "kv.all_gather(): member %u of '%s' is rank %u; members are ranks of "
                            "the job in ascending order",
                            i, a->key, a->members[i]);
        inside = inside || a->members[i] == p->table.rank;
    }
    return inside ? WEFT_OK
                  : err_fail(WEFT_USAGE, "kv.all_gather(): this rank (%u) is no member of '%s'",
                             p->table.rank, a->key);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* A rank gathers a key once: a second time would meet the first one of a slower rank. */
static weft_status note_gathered(plugin_kv *p, const char *key)
{
    char *own = strdup(key);
    pthread_mutex_lock(&p->of->lock);
    char **found = own ? tsearch(own, &p->gathered, by_text) : NULL;
    const bool again = found && *found != own;
    pthread_mutex_unlock(&p->of->lock);
    if (!found || again)
        free(own);
    if (!found)
        return err_fail(WEFT_NO_MEMORY, "kv.all_gather(): no memory for the key '%s'", key);
    return again ? err_fail(WEFT_USAGE,
                            "kv.all_gather(): this rank has gathered '%s' already; a key names one "
                            "exchange",
                            key)
                 : WEFT_OK;
}

static weft_status gather(const plugin_kv *p, const char *full, const weft_kv_gather *a)
{
    if (!p->of->job) {
        if (a->bytes)
            memmove(a->out, a->in, a->bytes);
        return WEFT_OK;
    }
    /* `in` may be a part of `out`, and a large value is sent in fragments */
    void *own = mem_alloc(a->bytes + 1);
    if (a->bytes)
        memcpy(own, a->in, a->bytes);
    const weft_status st = job_gather(p->of->job, full, a->members, a->n, own, a->bytes, a->out);
    free(own);
    return st;
}

static weft_status table_all_gather(void *ctx, const weft_kv_gather *args)
{
    plugin_kv *p = ctx;
    weft_kv_gather a = {0};
    char full[WIRE_KEY_MAX + 1];
    weft_status st = check_phase(p->of, "all_gather");
    if (st == WEFT_OK)
        st = sized_take("kv.all_gather", args, &a, sizeof a, 0);
    if (st == WEFT_OK)
        st = full_key(p, "all_gather", a.key, full);
    if (st == WEFT_OK && a.reserved)
        st = err_fail(WEFT_UNSUPPORTED, "kv.all_gather(): `reserved` is %u; set it to 0",
                      a.reserved);
    if (st == WEFT_OK)
        st = check_members(p, &a);
    if (st == WEFT_OK)
        st = check_value("all_gather", a.key, a.in, a.bytes);
    if (st == WEFT_OK && a.bytes && !a.out)
        st = err_fail(WEFT_USAGE, "kv.all_gather(): `out` of '%s' is NULL", a.key);
    if (st == WEFT_OK)
        st = note_gathered(p, a.key);
    return st == WEFT_OK ? gather(p, full, &a) : st;
}

/* --- creation --- */

job_kv *job_kv_create(job *j, uint32_t kind)
{
    job_kv *kv = mem_alloc(sizeof *kv);
    kv->job = j && j->who.ranks > 1 ? j : NULL;
    kv->kind = kind;
    pthread_mutex_init(&kv->lock, NULL);
    if (!kv->job && kind != JOB_KV_PLANNING)
        kv->own = job_store_open(1, keep_answer, &kv->answer);
    return kv;
}

const void *job_kv_table(void *of, const char *plugin)
{
    job_kv *kv = of;
    pthread_mutex_lock(&kv->lock);
    plugin_kv *p = kv->plugins;
    while (p && strcmp(p->id, plugin) != 0)
        p = p->next;
    if (!p) {
        p = mem_alloc(sizeof *p);
        p->of = kv;
        snprintf(p->id, sizeof p->id, "%s", plugin);
        p->table = (weft_host_kv){
            sizeof p->table,
            0,
            p,
            kv->job ? kv->job->who.rank : 0,
            kv->job   ? kv->job->who.ranks
            : kv->own ? 1
                      : 0,
            table_put,
            table_get,
            table_all_gather,
        };
        p->next = kv->plugins;
        kv->plugins = p;
    }
    pthread_mutex_unlock(&kv->lock);
    return &p->table;
}

void job_kv_end(job_kv *kv)
{
    if (kv)
        atomic_store(&kv->ended, true);
}

void job_kv_free(job_kv *kv)
{
    if (!kv)
        return;
    for (plugin_kv *p = kv->plugins, *next; p; p = next) {
        next = p->next;
        tdestroy(p->gathered, free);
        free(p);
    }
    job_store_close(kv->own);
    pthread_mutex_destroy(&kv->lock);
    free(kv);
}
