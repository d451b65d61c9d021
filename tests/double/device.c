/* tests/double/device.c: a device that is as awkward as a GPU, and computes like the cpu plugin.
 *
 * Its memory has addresses that no processor can follow: whoever touches it without copy() dies.
 * Its streams are threads that lag at random, so that work finishes long after the call that asked
 * for it, and whoever forgets to wait reads what was there before. Kernels are the cpu plugin's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <weft/device.h>

#include "joined.h"
#include "native.h"
#include "stall.h"

enum { ROOM = 4096, LIMIT = 32 }; /* tasks of a stream; operands, streams */

typedef struct task {
    void (*fn)(void *ctx);
    char ctx[640];
} task;
struct weft_event {
    atomic_uint recorded, reached;
};

struct weft_stream {
    double_native native; /* first: native_stream() is the stream itself */
    weft_device *device;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    task *queue; /* [ROOM] */
    uint32_t in, out;
    uint32_t random;
    int stop;
};

struct weft_device {
    void *module;
    weft_device *cpu;
    weft_stream *stream[LIMIT], *inner;
    weft_event *event[1024];
    void *host[64];
    struct {
        void *base;
        uint64_t bytes;
    } peer[64]; /* arenas that were imported */
    uint32_t streams, events, hosts, peers;
    atomic_int failed, closing;
};

struct weft_prepared {
    weft_device *device;
    joined_ready ops;
};

static const weft_device_table *cpu; /* the one process has one */
static const weft_host *host;
static const weft_manifest *inner;

/* --- streams --- */

static void lag(weft_stream *s)
{
    s->random = s->random * 1664525u + 1013904223u;
    if (s->random >> 28 == 0)
        nap((s->random >> 20) % 300);
}

static void *work(void *arg)
{
    weft_stream *s = arg;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (s->in == s->out && !s->stop)
            pthread_cond_wait(&s->moved, &s->lock);
        if (s->in == s->out) {
            pthread_mutex_unlock(&s->lock);
            return NULL;
        }
        task *t = &s->queue[s->out % ROOM];
        pthread_mutex_unlock(&s->lock);
        lag(s);
        t->fn(t->ctx);
        pthread_mutex_lock(&s->lock);
        s->out++;
        pthread_cond_signal(&s->moved);
        pthread_mutex_unlock(&s->lock);
    }
}

static void enqueue(double_native *native, void (*fn)(void *), const void *ctx, uint32_t bytes)
{
    weft_stream *s = (weft_stream *)native;
    pthread_mutex_lock(&s->lock);
    while (s->in - s->out == ROOM)
        pthread_cond_wait(&s->moved, &s->lock);
    task *t = &s->queue[s->in++ % ROOM];
    t->fn = fn;
    memcpy(t->ctx, ctx, bytes);
    pthread_cond_signal(&s->moved);
    pthread_mutex_unlock(&s->lock);
}

static weft_status put(weft_stream *s, void (*fn)(void *), const void *ctx, uint32_t bytes)
{
    if (atomic_load(&s->device->failed))
        return host->fail(host->ctx, WEFT_IO, "double: work that was enqueued has failed");
    enqueue(&s->native, fn, ctx, bytes);
    return WEFT_OK;
}

static weft_status d_stream(weft_device *d, int32_t priority, weft_stream **out)
{
    (void)priority;
    weft_stream *s = calloc(1, sizeof *s);
    *s = (weft_stream){.native = {enqueue}, .device = d, .random = 77 + d->streams};
    s->queue = calloc(ROOM, sizeof *s->queue);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->moved, NULL);
    pthread_create(&s->thread, NULL, work, s);
    d->stream[d->streams++] = s;
    *out = s;
    return WEFT_OK;
}

static void *d_native_stream(weft_stream *s)
{
    return &s->native;
}

/* --- events and flags --- */

typedef struct mark {
    weft_event *e;
    weft_device *d;
    uint32_t value;
} mark;

static void reach(void *ctx)
{
    const mark *m = ctx;
    hang(&m->d->closing);
    atomic_store(&m->e->reached, m->value);
}

static void hold(void *ctx)
{
    const mark *m = ctx;
    while ((int32_t)(atomic_load(&m->e->reached) - m->value) < 0 && !atomic_load(&m->d->closing))
        nap(20);
}

static weft_status d_event(weft_device *d, weft_event **out)
{
    if (d->events == sizeof d->event / sizeof *d->event)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "double: no more events");
    *out = d->event[d->events++] = calloc(1, sizeof **out);
    return WEFT_OK;
}

static weft_status d_record(weft_event *e, weft_stream *s, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(host);
    uint32_t value = atomic_fetch_add(&e->recorded, 1) + 1;
    return put(s, reach, &(mark){e, s->device, value}, sizeof(mark));
}

static weft_status d_stream_wait(weft_stream *s, weft_event *e, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(host);
    return put(s, hold, &(mark){e, s->device, atomic_load(&e->recorded)}, sizeof(mark));
}

static weft_status d_event_query(weft_event *e, uint32_t flags)
{
    return flags                                                   ? weft_refuse_unknown(host)
           : atomic_load(&e->reached) == atomic_load(&e->recorded) ? WEFT_OK
                                                                   : WEFT_BUSY;
}

typedef struct flag {
    uint32_t *at, value;
    weft_device *d;
} flag;

static void flag_hold(void *ctx)
{
    const flag *f = ctx;
    while ((int32_t)(__atomic_load_n(f->at, __ATOMIC_ACQUIRE) - f->value) < 0 &&
           !atomic_load(&f->d->closing))
        nap(20);
}

static void flag_write(void *ctx)
{
    const flag *f = ctx;
    __atomic_store_n(f->at, f->value, __ATOMIC_RELEASE);
}

static weft_status d_flag_wait(weft_stream *s, const uint32_t *at, uint32_t v, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(host);
    return put(s, flag_hold, &(flag){(uint32_t *)(uintptr_t)at, v, s->device}, sizeof(flag));
}

static weft_status d_flag_set(weft_stream *s, uint32_t *at, uint32_t v, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(host);
    return put(s, flag_write, &(flag){at, v, s->device}, sizeof(flag));
}

/* --- memory --- */

typedef struct move {
    void *to;
    const void *from;
    uint64_t bytes;
    int32_t byte;
} move;

static void copy_now(void *ctx)
{
    const move *m = ctx;
    memcpy(double_here(m->to), double_here(m->from), m->bytes);
}

static void fill_now(void *ctx)
{
    const move *m = ctx;
    memset(double_here(m->to), m->byte, m->bytes);
}

static int is_ours(const void *p)
{
    return ((uintptr_t)p & DOUBLE_TAG) != 0;
}

/* As with CUDA: host memory that is not host_memory() is read before the call returns. */
static weft_status d_copy(weft_device *d, weft_stream *s, void *to, const void *from,
                          uint64_t bytes, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(host);
    (void)d;
    if (!is_ours(to) && !is_ours(from))
        return host->fail(host->ctx, WEFT_USAGE, "double: copy() between two host places");
    return put(s, copy_now, &(move){to, from, bytes, 0}, sizeof(move));
}

static weft_status d_fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                          uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(host);
    (void)d;
    return put(s, fill_now, &(move){to, NULL, bytes, byte}, sizeof(move));
}

static weft_status d_arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base,
                           int32_t *fd)
{
    weft_status st = cpu->arena(d->cpu, bytes, want_fd, base, fd);
    *base = (void *)((uintptr_t)*base | DOUBLE_TAG);
    return st;
}

/* DOUBLE_DEVICES: how many of them a machine has, which its ranks share; 0: none that is shared. */
static weft_status d_ipc_domain(void *module, const weft_device_args *args, char *text,
                                uint64_t *bytes)
{
    (void)module;
    const char *n = getenv("DOUBLE_DEVICES");
    const unsigned long devices = strtoul(n ? n : "1", NULL, 10);
    if (!devices)
        return host->fail(host->ctx, WEFT_UNSUPPORTED, "double: its memory is nobody else's");
    *bytes = (uint64_t)snprintf(text, *bytes, "double %lu", args->local_rank % devices);
    return WEFT_OK;
}

static weft_status d_import_peer(weft_device *d, int32_t fd, uint64_t bytes, void **base)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED || d->peers == sizeof d->peer / sizeof *d->peer)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "double: an arena cannot be mapped");
    d->peer[d->peers].base = p;
    d->peer[d->peers++].bytes = bytes;
    *base = (void *)((uintptr_t)p | DOUBLE_TAG);
    return WEFT_OK;
}

static weft_status d_host_memory(weft_device *d, uint64_t bytes, void **out)
{
    *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    memset(*out, 0x5a, bytes);
    d->host[d->hosts++] = *out;
    return WEFT_OK;
}

/* --- ops --- */

typedef struct run {
    weft_prepared *p;
    const void *in[LIMIT];
    void *out[LIMIT], *workspace;
} run;

/* Streams run at once, and one thread at a time may enter the cpu device. */
static void run_now(void *ctx)
{
    static pthread_mutex_t entered = PTHREAD_MUTEX_INITIALIZER;
    const run *r = ctx;
    hang_look();
    pthread_mutex_lock(&entered);
    if (joined_run(cpu, r->p->device->inner, &r->p->ops, r->in, r->out, r->workspace) != WEFT_OK)
        atomic_store(&r->p->device->failed, 1);
    pthread_mutex_unlock(&entered);
}

static void d_release(weft_prepared *p)
{
    if (p)
        joined_release(cpu, &p->ops);
    free(p);
}

static weft_status d_prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out)
{
    weft_prepared *p = calloc(1, sizeof *p);
    p->device = d;
    weft_status st = joined_prepare(cpu, d->cpu, spec, &p->ops);
    if (st != WEFT_OK)
        d_release(p);
    else
        *out = p;
    return st;
}

static weft_status d_run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                         void *workspace, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(host);
    run r = {.p = p, .workspace = double_here(workspace)};
    for (uint32_t i = 0; i < p->ops.nin; i++)
        r.in[i] = double_here(in[i]);
    for (uint32_t i = 0; i < p->ops.nout; i++)
        r.out[i] = out[i] ? double_here(out[i]) : NULL;
    return put(s, run_now, &r, sizeof r);
}

/* --- life --- */

static weft_status d_open(void *module, const weft_device_args *args, weft_device **out)
{
    weft_device *d = calloc(1, sizeof *d);
    d->module = module;
    weft_status st = cpu->open(module, args, &d->cpu);
    if (st == WEFT_OK)
        st = cpu->stream(d->cpu, 0, &d->inner);
    *out = d;
    return st;
}

static void d_close(weft_device *d)
{
    if (!d)
        return;
    atomic_store(&d->closing, 1);
    for (uint32_t i = 0; i < d->streams; i++) {
        weft_stream *s = d->stream[i];
        pthread_mutex_lock(&s->lock);
        s->stop = 1;
        pthread_cond_signal(&s->moved);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
        free(s->queue);
        free(s);
    }
    for (uint32_t i = 0; i < d->events; i++)
        free(d->event[i]);
    for (uint32_t i = 0; i < d->hosts; i++)
        free(d->host[i]);
    for (uint32_t i = 0; i < d->peers; i++)
        munmap(d->peer[i].base, d->peer[i].bytes);
    cpu->close(d->cpu);
    free(d);
}

static const char *d_describe(weft_device *d)
{
    return cpu->describe(d->cpu);
}

static weft_status d_probe(void *module, const weft_conf *conf, int32_t *score)
{
    return cpu->probe(module, conf, score);
}

static weft_status d_query(void *module, const weft_conf *conf, const weft_opspec *spec,
                           weft_requirements *out)
{
    const char *wish = conf->text(conf->ctx, "joins");
    weft_status st = joined_need(cpu, module, conf, spec, wish, out);
    return st == WEFT_ABSENT ? host->fail(host->ctx, WEFT_UNSUPPORTED, "double: it stays apart")
                             : st;
}

static const char *d_fuse(void *module, const weft_conf *conf, const char *const *ids,
                          const uint32_t *joins, uint32_t n)
{
    (void)module, (void)conf;
    return joined_name(ids, joins, n);
}

static const weft_device_table table = {.struct_size = sizeof table,
                                        .caps = WEFT_DEV_FLAGS | WEFT_DEV_EXPORT_FD |
                                                WEFT_DEV_IMPORT_PEER | WEFT_DEV_CUDA_MEMORY,
                                        .query = d_query,
                                        .fuse = d_fuse,
                                        .probe = d_probe,
                                        .open = d_open,
                                        .close = d_close,
                                        .describe = d_describe,
                                        .arena = d_arena,
                                        .host_memory = d_host_memory,
                                        .stream = d_stream,
                                        .event = d_event,
                                        .record = d_record,
                                        .stream_wait = d_stream_wait,
                                        .event_query = d_event_query,
                                        .copy = d_copy,
                                        .fill = d_fill,
                                        .prepare = d_prepare,
                                        .release = d_release,
                                        .run = d_run,
                                        .flag_wait = d_flag_wait,
                                        .flag_set = d_flag_set,
                                        .native_stream = d_native_stream,
                                        .ipc_domain = d_ipc_domain,
                                        .import_peer = d_import_peer};

static const weft_option threads = {
    sizeof threads, WEFT_OPT_AUTO_INT, "threads", "1", "as of the cpu device", NULL, 1, 1024};
static const weft_option pin = {
    sizeof pin, WEFT_OPT_BOOL, "pin", "off", "as of the cpu device", NULL, 0, 0};
static const weft_option isa = {
    sizeof isa, WEFT_OPT_CHOICE, "isa", "auto", "as of the cpu device", "auto|v2|v3|v4|v4bf16", 0,
    0};
static const weft_option joins = {sizeof joins,
                                  WEFT_OPT_CHOICE,
                                  "joins",
                                  "short",
                                  "chains that are joined",
                                  "none|short|long",
                                  0,
                                  0};
static const weft_option *const options[] = {&threads, &pin, &isa, &joins, NULL};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.device/1",
                                         .name = "double",
                                         .help = "a GPU's awkwardness over the cpu's kernels",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

static weft_status module_open(const weft_host *h, void **module)
{
    host = h;
    void *lib = dlopen(DOUBLE_CPU, RTLD_NOW | RTLD_LOCAL);
    const weft_manifest *(*entry)(void) = NULL;
    void *symbol = lib ? dlsym(lib, "weft_plugin_entry") : NULL;
    memcpy(&entry, &symbol, sizeof entry);
    if (!entry)
        return h->fail(h->ctx, WEFT_ABSENT, "double: the cpu plugin is not where it was built");
    inner = entry();
    cpu = inner->components[0]->table;
    return inner->open(h, module);
}

static void module_close(void *module)
{
    if (inner && inner->close)
        inner->close(module);
}

WEFT_PLUGIN("weft.test.double", "0.1.0", "", components, module_open, module_close);
