/* tests/double/coll.c: collectives as a library has them, on streams of the device of device.c: a
 * double of what the core asks of NCCL. It does what was asked in the naive way, over shared
 * memory, on the stream's own thread; and it ends the program when the core breaks a rule: a call
 * outside a group, a group within a group, work enqueued on a communicator that is not ready. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <weft/coll.h>

#include "native.h"

#define LIMIT 8u
#define ROOM (1u << 20) /* bytes of a rank, and of a pair */

typedef struct shared {
    atomic_uint joined, arrived, round;
    atomic_uint full[LIMIT][LIMIT]; /* from, to: a message lies there */
    char rank[LIMIT][ROOM];
    char pair[LIMIT][LIMIT][ROOM];
} shared;

struct weft_comm {
    shared *s;
    uint32_t me, n;
    atomic_int aborted, queued; /* operations that a stream has still to pass */
    char name[64];
};

static const weft_host *host;
static int in_group;
static int may_lag; /* the first groups are BUSY for a while, as non-blocking NCCL's are */

static void rule(int kept, const char *what)
{
    if (kept)
        return;
    fprintf(stderr, "the core broke a rule of weft/coll.h: %s\n", what);
    abort();
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 20000}, NULL);
}

/* Everybody, or nobody any more. */
static void meet(weft_comm *c)
{
    uint32_t round = atomic_load(&c->s->round);
    if (atomic_fetch_add(&c->s->arrived, 1) + 1 == c->n) {
        atomic_store(&c->s->arrived, 0);
        atomic_store(&c->s->round, round + 1);
    }
    while (atomic_load(&c->s->round) == round && !atomic_load(&c->aborted))
        nap();
}

/* --- the operations; `size` bytes an element --- */

typedef struct op {
    weft_comm *c;
    uint32_t kind, redop, dtype, root;
    const char *in;
    char *out;
    uint64_t count;
} op;

static float number(const char *at, uint32_t dtype)
{
    uint16_t h;
    uint32_t bits;
    float f;
    if (dtype == WEFT_F32) {
        memcpy(&f, at, 4);
        return f;
    }
    memcpy(&h, at, 2);
    bits = (uint32_t)h << 16;
    memcpy(&f, &bits, 4);
    return f;
}

static void store(char *at, uint32_t dtype, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint16_t h = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(at, dtype == WEFT_F32 ? (void *)&f : (void *)&h, dtype == WEFT_F32 ? 4 : 2);
}

static void combine(const op *o, uint64_t at, uint64_t bytes, char *to)
{
    uint64_t size = weft_dtype_size(o->dtype);
    rule(o->dtype == WEFT_F32 || o->dtype == WEFT_BF16, "a sum of a type that it does not have");
    for (uint64_t i = 0; i < bytes; i += size) {
        float sum = number(o->c->s->rank[0] + at + i, o->dtype);
        for (uint32_t r = 1; r < o->c->n; r++) {
            float v = number(o->c->s->rank[r] + at + i, o->dtype);
            sum = o->redop == WEFT_SUM ? sum + v : (v > sum) == (o->redop == WEFT_MAX) ? v : sum;
        }
        store(to + i, o->dtype, sum);
    }
}

/* One piece of at most `piece` bytes a rank of a collective of all. */
static void piece_of(const op *o, uint64_t at, uint64_t n, uint64_t part)
{
    weft_comm *c = o->c;
    shared *s = c->s;
    switch (o->kind) {
    case WEFT_ALL_GATHER: memcpy(s->rank[c->me], o->in + at, n); break;
    case WEFT_REDUCE_SCATTER:
        for (uint32_t r = 0; r < c->n; r++)
            memcpy(s->rank[c->me] + r * n, o->in + r * part + at, n);
        break;
    default: memcpy(s->rank[c->me], o->in + at, n);
    }
    meet(c);
    switch (o->kind) {
    case WEFT_ALL_GATHER:
        for (uint32_t r = 0; r < c->n; r++)
            memcpy(o->out + r * part + at, s->rank[r], n);
        break;
    case WEFT_REDUCE_SCATTER: combine(o, c->me * n, n, o->out + at); break;
    case WEFT_BROADCAST: memcpy(o->out + at, s->rank[o->root], n); break;
    default: combine(o, 0, n, o->out + at);
    }
    meet(c);
}

static void of_all(const op *o)
{
    uint64_t bytes = o->count * weft_dtype_size(o->dtype), part = bytes / o->c->n;
    int parts = o->kind == WEFT_ALL_GATHER || o->kind == WEFT_REDUCE_SCATTER;
    uint64_t all = parts ? part : bytes, max = parts ? ROOM / o->c->n / 64 * 64 : ROOM;
    char *kept = malloc(all + 1); /* in place the input is overwritten piece by piece */
    op own = *o;
    if (o->kind == WEFT_ALL_GATHER) {
        memcpy(kept, o->in, all);
        own.in = kept;
    }
    for (uint64_t at = 0; at < all; at += max)
        piece_of(&own, at, all - at < max ? all - at : max, part);
    free(kept);
}

static void between_two(const op *o)
{
    weft_comm *c = o->c;
    uint64_t bytes = o->count * weft_dtype_size(o->dtype);
    int sends = o->kind == WEFT_SEND;
    uint32_t from = sends ? c->me : o->root, to = sends ? o->root : c->me;
    for (uint64_t at = 0; at < bytes; at += ROOM) {
        uint64_t n = bytes - at < ROOM ? bytes - at : ROOM;
        while (atomic_load(&c->s->full[from][to]) == (uint32_t)sends && !atomic_load(&c->aborted))
            nap();
        if (sends)
            memcpy(c->s->pair[from][to], o->in + at, n);
        else
            memcpy(o->out + at, c->s->pair[from][to], n);
        atomic_store(&c->s->full[from][to], (uint32_t)sends);
    }
}

static void run_op(void *ctx)
{
    const op *o = ctx;
    if (!atomic_load(&o->c->aborted) && (o->kind == WEFT_SEND || o->kind == WEFT_RECV))
        between_two(o);
    else if (!atomic_load(&o->c->aborted))
        of_all(o);
    atomic_fetch_sub(&o->c->queued, 1);
}

/* --- the interface --- */

static weft_status c_probe(void *module, const weft_conf *conf, uint32_t caps, int32_t *score)
{
    (void)module, (void)conf;
    if (caps & WEFT_DEV_HOST_MEMORY)
        return host->fail(host->ctx, WEFT_UNSUPPORTED, "doublecoll serves the device double only");
    *score = 90;
    return WEFT_OK;
}

static weft_status c_id(void *module, const weft_conf *conf, void *out, uint64_t *bytes)
{
    (void)module, (void)conf;
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return host->fail(host->ctx, WEFT_IO, "no random bytes");
    *bytes =
        1 + (uint64_t)snprintf(out, *bytes, "/weft-double-%016llx", (unsigned long long)random);
    return WEFT_OK;
}

static weft_status c_open(void *module, const weft_coll_args *args, weft_comm **out)
{
    (void)module;
    weft_comm *c = calloc(1, sizeof *c);
    rule(args->ranks <= LIMIT && args->stream, "open() without a stream, or with too many ranks");
    *c = (weft_comm){.me = args->rank, .n = args->ranks};
    memcpy(c->name, args->id, args->id_bytes);
    int fd = shm_open(c->name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(shared)))
        return host->fail(host->ctx, WEFT_IO, "no shared memory");
    c->s = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    atomic_fetch_add(&c->s->joined, 1);
    *out = c;
    return WEFT_OK;
}

static weft_status c_ready(weft_comm *c)
{
    if (atomic_load(&c->s->joined) < c->n)
        return WEFT_BUSY;
    shm_unlink(c->name);
    return may_lag && may_lag++ % 4 ? WEFT_BUSY : WEFT_OK;
}

static void c_close(weft_comm *c)
{
    if (!c)
        return;
    for (int i = 0; i < 20000 && atomic_load(&c->queued); i++)
        nap(); /* it was aborted, and streams go on */
    if (atomic_load(&c->queued))
        return;
    shm_unlink(c->name);
    munmap(c->s, sizeof(shared));
    free(c);
}

static weft_status c_register(weft_comm *c, void *base, uint64_t bytes, uint32_t flags)
{
    (void)c, (void)base, (void)bytes, (void)flags;
    return WEFT_UNSUPPORTED;
}

static weft_status c_begin(void *module, uint32_t flags)
{
    (void)module;
    rule(!flags, "an unknown flag");
    rule(!in_group, "a group within a group");
    in_group = 1;
    return WEFT_OK;
}

static weft_status c_end(void *module, uint32_t flags)
{
    (void)module;
    rule(!flags, "an unknown flag");
    rule(in_group, "an end without a beginning");
    in_group = 0;
    may_lag = 1;
    return WEFT_BUSY;
}

static weft_status c_call(weft_comm *c, const weft_coll_call *call)
{
    double_native *native = call->stream;
    rule(!call->flags && weft_knows(call), "an unknown flag or field");
    rule(in_group, "a call outside a group");
    rule(atomic_load(&c->s->joined) == c->n, "a call before everybody is there");
    op o = {c,
            call->kind,
            call->redop,
            call->dtype,
            call->root,
            double_here(call->in),
            double_here(call->out),
            call->count};
    atomic_fetch_add(&c->queued, 1);
    native->enqueue(native, run_op, &o, sizeof o);
    return WEFT_OK;
}

static weft_status c_health(weft_comm *c)
{
    (void)c;
    return WEFT_OK;
}

static void c_abort(weft_comm *c)
{
    atomic_store(&c->aborted, 1);
}

static const weft_coll_table table = {.struct_size = sizeof table,
                                      .caps = WEFT_COLL_STREAM,
                                      .probe = c_probe,
                                      .id = c_id,
                                      .open = c_open,
                                      .ready = c_ready,
                                      .close = c_close,
                                      .register_memory = c_register,
                                      .begin = c_begin,
                                      .end = c_end,
                                      .call = c_call,
                                      .health = c_health,
                                      .abort = c_abort};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.coll/1",
                                         .name = "doublecoll",
                                         .help = "a library's collectives, the naive way",
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

static weft_status module_open(const weft_host *h, void **module)
{
    host = h;
    *module = (void *)(uintptr_t)h;
    return WEFT_OK;
}

WEFT_PLUGIN("weft.test.doublecoll", "0.1.0", "", components, module_open, NULL);
