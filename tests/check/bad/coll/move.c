/* bad/coll/move.c: operations and groups. See coll.h. */
#define _GNU_SOURCE
#include "coll.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

static int reduces(uint32_t kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

static int in_parts(uint32_t kind)
{
    return kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER ||
           (kind >= WEFT_GATHER && kind <= WEFT_ALL_TO_ALL);
}

weft_status coll_supports(void *given, uint32_t kind, uint32_t redop, uint32_t dtype)
{
    const module *m = given;
    if (kind < WEFT_ALL_REDUCE || kind > WEFT_BARRIER)
        return coll_fail(m, WEFT_UNSUPPORTED, "it has no such collective");
    if (!weft_dtype_size(dtype) || (reduces(kind) && (redop < WEFT_SUM || redop > WEFT_MIN)))
        return coll_fail(m, WEFT_UNSUPPORTED, "it has no such type or operator");
    return WEFT_OK;
}

/* --- one operation --- */

static uint64_t whole(const op *o)
{
    return o->call.count * weft_dtype_size(o->call.dtype);
}

static uint64_t part(const weft_comm *c, const op *o)
{
    return whole(o) / c->ranks;
}

/* Bytes that this rank gives; 0: nothing. */
static uint64_t gives(const weft_comm *c, const op *o)
{
    const int root = c->rank == o->call.root;
    switch (o->call.kind) {
    case WEFT_ALL_GATHER:
    case WEFT_GATHER: return part(c, o);
    case WEFT_BROADCAST:
    case WEFT_SCATTER: return root ? whole(o) : 0;
    case WEFT_BARRIER: return 0;
    default: return whole(o);
    }
}

static void reduce(const weft_comm *c, const op *o, uint64_t at, uint64_t bytes)
{
    const char *from[RANKS];
    uint32_t redop = o->call.redop;
    for (uint32_t r = 0; r < c->ranks; r++)
        from[r] = c->shared->area[BAD == OWN_FIRST ? (c->rank + r) % c->ranks : r] + at;
    if (BAD == MAX_IS_SUM && redop == WEFT_MAX && o->call.dtype == WEFT_F64)
        redop = WEFT_SUM;
    parts_reduce(o->call.dtype, redop, from, c->ranks, o->call.out,
                 bytes / weft_dtype_size(o->call.dtype));
}

/* All have entered: this rank takes what is its own. */
static void take(const weft_comm *c, const op *o)
{
    const common *s = c->shared;
    const uint64_t n = part(c, o);
    const int root = c->rank == o->call.root;
    char *out = o->call.out;
    switch (o->call.kind) {
    case WEFT_ALL_REDUCE: reduce(c, o, 0, whole(o)); return;
    case WEFT_REDUCE_SCATTER: reduce(c, o, c->rank * n, n); return;
    case WEFT_REDUCE:
        if (root)
            reduce(c, o, 0, whole(o));
        return;
    case WEFT_BROADCAST: memcpy(out, s->area[o->call.root], whole(o)); return;
    case WEFT_SCATTER: memcpy(out, s->area[o->call.root] + c->rank * n, n); return;
    case WEFT_BARRIER: return;
    default: break;
    }
    if (o->call.kind == WEFT_GATHER && !root)
        return;
    for (uint32_t r = 0; r < c->ranks; r++)
        memcpy(out + r * n, s->area[r] + (o->call.kind == WEFT_ALL_TO_ALL ? c->rank * n : 0), n);
}

/* Whether all have come so far; *gone: one never will. */
static int all_are(const weft_comm *c, const _Atomic uint64_t *at, uint64_t to, int *gone)
{
    for (uint32_t r = 0; r < c->ranks; r++)
        if (atomic_load(&at[r]) < to) {
            *gone = atomic_load(&c->shared->out[r]) ||
                    (kill(atomic_load(&c->shared->process[r]), 0) && errno == ESRCH);
            return 0;
        }
    return 1;
}

static void enter(weft_comm *c, op *o)
{
    if (BAD == CLEARS_FIRST && o->call.kind == WEFT_ALL_GATHER)
        memset(o->call.out, 0, whole(o));
    if (gives(c, o))
        memcpy(c->shared->area[c->rank], o->call.in, gives(c, o));
    o->entered = 1;
    atomic_store(&c->shared->entered[c->rank], c->done + 1);
}

/* Returns whether the operation is done. */
static int advance(weft_comm *c, op *o, int *gone)
{
    if (!o->entered && !all_are(c, c->shared->left, c->done, gone))
        return 0;
    if (!o->entered)
        enter(c, o);
    if (!all_are(c, c->shared->entered, c->done + 1, gone))
        return 0;
    if (!o->lost)
        take(c, o);
    atomic_store(&c->shared->left[c->rank], c->done + 1);
    return 1;
}

weft_status coll_test(weft_comm *c, uint32_t flags, uint64_t *done)
{
    int gone = 0;
    if (flags)
        return weft_refuse_unknown(c->m->host);
    while (!c->broken && c->done < c->posted && !atomic_load(&c->shared->aborted) &&
           advance(c, &c->queue[c->done % QUEUE], &gone))
        c->done++, c->waits = 0;
    if (BAD == TEST_WAITS && c->done < c->posted && c->waits++ > 30)
        nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
    if (gone || c->broken || atomic_load(&c->shared->aborted)) {
        c->broken = 1;
        return coll_fail(c->m, WEFT_PEER, "a rank has gone, or the communicator was aborted");
    }
    *done = c->done < c->posted ? c->queue[c->done % QUEUE].group - 1 : c->started;
    return WEFT_OK;
}

/* --- groups --- */

weft_status coll_begin(void *given, uint32_t flags)
{
    module *m = given;
    if (flags)
        return weft_refuse_unknown(m->host);
    if (m->failed && BAD == GROUP_STAYS_OPEN)
        return coll_fail(m, WEFT_USAGE, "begin() inside a group");
    m->failed = 0;
    m->calls = 0;
    m->group = NULL;
    return WEFT_OK;
}

weft_status coll_end(void *given, uint32_t flags)
{
    module *m = given;
    weft_comm *c = m->group;
    if (flags)
        return weft_refuse_unknown(m->host);
    m->group = NULL;
    if (!c)
        return WEFT_OK;
    c->started++;
    if (m->calls <= 10)
        return WEFT_OK;
    c->queue[(c->posted - 1) % QUEUE].lost = BAD == BUSY_LOSES;
    return WEFT_BUSY; /* ready() says when the group is launched: at once */
}

weft_status coll_call(weft_comm *c, const weft_coll_call *a)
{
    module *m = c->m;
    weft_status st = weft_check_args(m->host, a, sizeof *a, 0);
    if (st != WEFT_OK)
        return st;
    st = coll_supports(m, a->kind, a->redop, a->dtype);
    if (st == WEFT_OK && a->count * weft_dtype_size(a->dtype) > AREA)
        st = coll_fail(m, WEFT_UNSUPPORTED, "it moves 1 MiB at most");
    if (st == WEFT_OK && ((in_parts(a->kind) && a->count % c->ranks) || a->root >= c->ranks))
        st = coll_fail(m, WEFT_USAGE, "the count has no equal parts, or there is no such rank");
    if (st == WEFT_OK && c->posted - c->done == QUEUE)
        st = coll_fail(m, WEFT_NO_MEMORY, "more than 256 operations are in flight");
    if (st == WEFT_OK && m->group && m->group != c)
        st = coll_fail(m, WEFT_UNSUPPORTED, "a group has one communicator");
    if (st != WEFT_OK) {
        m->failed = 1;
        return st;
    }
    m->group = c;
    m->calls++;
    c->queue[c->posted++ % QUEUE] = (op){.call = *a, .group = c->started + 1};
    return WEFT_OK;
}
