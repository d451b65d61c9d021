/* bad/coll.c: the collectives of the template, in communicators that can be split, with groups that
 * end() calls busy. Each name of coll.expected plants one fault, in a member of the table, which
 * calls the template's, or in a sum. */
#define _GNU_SOURCE
#include "faults.h"

#include <stdlib.h>
#include <time.h>

#include "hostcoll/parts.h"

static void reduce(const weft_comm *c, uint32_t dtype, uint32_t redop, const char *const *from,
                   uint32_t n, char *out, uint64_t count);
const weft_manifest *good_entry(void);
#define parts_reduce(...) reduce(c, __VA_ARGS__)
#define weft_plugin_entry good_entry
#include "hostcoll/hostcoll.c"
#include "hostcoll/rounds.c"
#undef parts_reduce
#undef weft_plugin_entry

static uint32_t calls;  /* of this group */
static int call_failed; /* in a group */
static int health_called;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
}

static void reduce(const weft_comm *c, uint32_t dtype, uint32_t redop, const char *const *from,
                   uint32_t n, char *out, uint64_t count)
{
    const char *turned[RANKS];
    for (uint32_t r = 0; r < n; r++)
        turned[r] = from[BAD == OWN_FIRST ? (c->me + r) % n : r];
    if (BAD == MAX_IS_SUM && redop == WEFT_MAX && dtype == WEFT_F64)
        redop = WEFT_SUM;
    parts_reduce(dtype, redop, turned, n, out, count);
}

/* --- communicators --- */

static weft_status bad_id(void *m, const weft_conf *conf, void *out, uint64_t *bytes)
{
    static unsigned char first[ID];
    const weft_status st = make_id(m, conf, out, bytes);
    if (st == WEFT_OK && BAD == SAME_IDS && !first[0])
        memcpy(first, out, ID);
    if (st == WEFT_OK && BAD == SAME_IDS)
        memcpy(out, first, ID);
    return st;
}

/* A part has the id of its parent and its colour. */
static weft_status bad_open(void *m, const weft_coll_args *a, weft_comm **out)
{
    unsigned char id[ID];
    if (!a->parent || weft_check_args(((module *)m)->host, a, sizeof *a, 0) != WEFT_OK)
        return open_comm(m, a, out);
    const uint32_t color = BAD == SPLIT_MIXES ? a->color ^ (a->rank & 1) : a->color;
    memcpy(id, a->parent->id, ID);
    id[0] ^= (unsigned char)(color + 1);
    const weft_coll_args part = {.struct_size = sizeof part,
                                 .rank = a->rank,
                                 .ranks = a->ranks,
                                 .members = a->members,
                                 .conf = a->conf,
                                 .stream = a->stream,
                                 .id = id,
                                 .id_bytes = ID};
    return open_comm(m, &part, out);
}

static weft_status bad_ready(weft_comm *c)
{
    const weft_status st = ready(c);
    return BAD == READY_ALONE && st == WEFT_BUSY ? WEFT_OK : st;
}

/* All ranks must have come here. */
static void await_all(const weft_comm *c)
{
    const weft_host_kv *kv = kv_of(c->host);
    char key[64], byte = 0;
    key_of(c, RANKS + c->me, key);
    (void)!kv->put(kv->ctx, key, &byte, 1);
    for (uint32_t r = 0; r < c->n; r++) {
        key_of(c, RANKS + r, key);
        for (uint64_t n = 1; kv->get(kv->ctx, key, &byte, &n) == WEFT_BUSY; n = 1)
            nap();
    }
}

static void bad_close(weft_comm *c)
{
    if (c && BAD == CLOSE_WAITS && c->aborted && !health_called)
        await_all(c);
    close_comm(c);
}

static weft_status register_memory(weft_comm *c, void *base, uint64_t bytes, uint32_t flags)
{
    (void)base, (void)bytes;
    if (flags)
        return weft_refuse_unknown(c->host);
    c->failed = BAD == REGISTER_BREAKS;
    return parts_fail(c->host, WEFT_UNSUPPORTED, "it registers no memory");
}

static weft_status bad_health(weft_comm *c)
{
    health_called = 1;
    return BAD == HEALTHY_FOREVER ? WEFT_OK : health(c);
}

static void bad_abort(weft_comm *c)
{
    if (BAD == ABORT_TWICE && c->aborted)
        abort();
    abort_comm(c);
}

/* --- operations and groups --- */

static weft_status bad_begin(void *m, uint32_t flags)
{
    if (BAD == GROUP_STAYS_OPEN && call_failed)
        return parts_fail(((module *)m)->host, WEFT_USAGE, "begin() inside a group");
    calls = 0;
    return parts_begin(m, flags);
}

static weft_status bad_call(weft_comm *c, const weft_coll_call *a)
{
    if (BAD == CLEARS_FIRST && a->kind == WEFT_ALL_GATHER)
        memset(a->out, 0, a->count * weft_dtype_size(a->dtype));
    const weft_status st = parts_call(c, a);
    calls += st == WEFT_OK;
    call_failed |= st != WEFT_OK;
    return st;
}

/* ready() says when a large group is launched: at once. */
static weft_status bad_end(void *m, uint32_t flags)
{
    weft_comm *c = ((module *)m)->group;
    const weft_status st = parts_end(m, flags);
    if (st != WEFT_OK || calls <= 10)
        return st;
    if (BAD == BUSY_LOSES)
        c->queue[(c->posted - 1) % QUEUE].done = 1;
    return WEFT_BUSY;
}

static weft_status bad_test(weft_comm *c, uint32_t flags, uint64_t *done)
{
    static uint32_t idle; /* calls in a row that finished nothing */
    const uint64_t before = c->finished;
    const weft_status st = parts_test(c, flags, done);
    idle = c->finished == before && c->finished < c->posted ? idle + 1 : 0;
    if (BAD == TEST_WAITS && idle > 30)
        nap();
    return st;
}

/* --- the plugin --- */

static const weft_coll_table bad = {
    .struct_size = sizeof bad,
    .caps = WEFT_COLL_HOST,
    .probe = probe,
    .id = bad_id,
    .open = bad_open,
    .ready = bad_ready,
    .close = bad_close,
    .register_memory = register_memory,
    .begin = bad_begin,
    .end = bad_end,
    .call = bad_call,
    .health = bad_health,
    .abort = bad_abort,
    .test = bad_test,
    .supports = parts_supports,
};
static const weft_component bad_coll = {sizeof bad_coll,
                                        0,
                                        "weft.coll/1",
                                        "acme.bad",
                                        "collectives over Unix sockets",
                                        NULL,
                                        &bad,
                                        NULL};
static const weft_component *const bad_components[] = {&bad_coll, NULL};
WEFT_PLUGIN("org.acme.bad", "1", "", bad_components, open_module, close_module);
