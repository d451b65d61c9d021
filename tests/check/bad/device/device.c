/* bad/device/device.c: a device in host memory that computes on the calling thread, and its ways of
 * failing checks of memory, streams and events. It has one op, "ew" with sums and products in fp32.
 *
 * Built with -DBAD=GOOD it passes all checks; each name of device.expected breaks one rule. Two of
 * them delay a fill: it is kept in the device, and done when a later call ends the delay. */
#define _GNU_SOURCE
#include "faults.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft/device.h>

enum { ALIGN = 2 << 20, UNSEEN = 8 };

typedef struct block { /* memory that close() gives back */
    struct block *next;
    void *at;
} block;

struct weft_device {
    const weft_host *host;
    block *blocks;
    char *map; /* of the arena, with room to align it; NULL: no arena yet */
    uint64_t mapped;
    int fd;
    uint32_t unseen; /* records since the last event_query() */
    weft_stream *late;
    void *late_to; /* the fill that is delayed; NULL: none */
    int32_t late_byte;
    uint64_t late_bytes;
};
struct weft_stream {
    weft_device *d;
};
struct weft_event {
    weft_device *d;
    weft_stream *s;   /* of the latest record */
    uint32_t queries; /* since then */
};

struct weft_prepared {
    const weft_host *host;
    weft_ew_step *steps;
    uint32_t nin, nout, nsteps;
    int32_t gate;
    int adds;
    int64_t n, count[WEFT_MAX_OPERANDS];
    uint16_t out_reg[WEFT_MAX_OPERANDS];
};

static weft_status fail(const weft_host *host, weft_status code, const char *why)
{
    return host->fail(host->ctx, code, why);
}

/* --- the plan half --- */

static int64_t count_of(const weft_operand *o)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < o->rank; i++)
        n *= o->size[i];
    return n;
}

static int is_plain(const weft_operand *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (o[i].flags || o[i].dtype != WEFT_F32)
            return 0;
    return 1;
}

static weft_status look(const weft_host *host, const weft_opspec *spec)
{
    const weft_status st =
        weft_check_args(host, spec, sizeof *spec, WEFT_SPEC_ACCUMULATE | WEFT_SPEC_DETERMINISTIC);
    const weft_ew_program *p = st == WEFT_OK ? spec->program : NULL;
    if (st != WEFT_OK)
        return st;
    if (strcmp(spec->id, "ew") != 0 || !p)
        return fail(host, WEFT_UNSUPPORTED, "acme.bad computes programs, of the op \"ew\", alone");
    if (!weft_knows(p))
        return weft_refuse_unknown(host);
    if (!is_plain(spec->in, spec->nin) || !is_plain(spec->out, spec->nout) ||
        spec->nin > WEFT_MAX_OPERANDS || p->nregs > WEFT_EW_MAX_REGISTERS)
        return fail(host, WEFT_UNSUPPORTED, "acme.bad computes on at most 32 tensors of fp32");
    for (uint32_t i = 0; i < p->nsteps; i++) {
        const uint32_t op = p->steps[i].op;
        if ((op != WEFT_EW_ADD && op != WEFT_EW_SUB && op != WEFT_EW_MUL) ||
            p->steps[i].flags & ~WEFT_EW_SCALAR)
            return fail(host, WEFT_UNSUPPORTED, "acme.bad adds, subtracts and multiplies alone");
    }
    return WEFT_OK;
}

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    const weft_requirements need = {sizeof need, 0, 0};
    (void)conf;
    if (BAD == NEEDS_DRIVER && !strcmp(spec->id, "linear"))
        return fail(module, WEFT_ABSENT, "libacme.so cannot be loaded");
    const weft_status st = look(module, spec);
    if (st == WEFT_OK)
        weft_give(out, &need);
    return st;
}

static weft_status probe(void *module, const weft_conf *conf, int32_t *score)
{
    (void)module, (void)conf;
    *score = BAD != SILENT_ZERO;
    return WEFT_OK;
}

/* --- memory --- */

static weft_status open_device(void *module, const weft_device_args *args, weft_device **out)
{
    const weft_host *host = module;
    weft_status st = weft_check_args(host, args, sizeof *args, WEFT_SPEC_DETERMINISTIC);
    weft_device *d = weft_new(host, sizeof *d, &st);
    if (!d)
        return st;
    d->host = host;
    d->fd = -1;
    *out = d;
    return WEFT_OK;
}

static void close_device(weft_device *d)
{
    if (!d)
        return;
    while (BAD == CLOSE_WAITS && d->unseen > UNSEEN)
        usleep(1000);
    for (block *b = d->blocks, *next; b; b = next) {
        next = b->next;
        d->host->free(d->host->ctx, b->at);
        d->host->free(d->host->ctx, b);
    }
    if (d->map)
        munmap(d->map, d->mapped);
    if (d->fd >= 0)
        close(d->fd);
    d->host->free(d->host->ctx, d);
}

static const char *describe(weft_device *d)
{
    (void)d;
    return "sums in fp32";
}

static weft_status take(weft_device *d, uint64_t bytes, uint64_t align, void **out)
{
    weft_status st = WEFT_OK;
    block *b = weft_new(d->host, sizeof *b, &st);
    if (!b)
        return st;
    b->at = d->host->alloc(d->host->ctx, bytes ? bytes : 1, align);
    if (!b->at) {
        d->host->free(d->host->ctx, b);
        return fail(d->host, WEFT_NO_MEMORY, "acme.bad: no host memory");
    }
    b->next = d->blocks;
    d->blocks = b;
    memset(b->at, 0, bytes);
    *out = b->at;
    return WEFT_OK;
}

static weft_status no_arena(const weft_device *d)
{
    if (BAD == HUGE_CRASHES)
        abort();
    return fail(d->host, WEFT_NO_MEMORY, "acme.bad: no memory for an arena of that size");
}

/* Private pages, or those of a file that another process can map. */
static weft_status arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd)
{
    const int share = BAD == OTHER_MEMORY ? MAP_PRIVATE : MAP_SHARED;
    if (want_fd && want_fd != WEFT_FD_MAP)
        return fail(d->host, WEFT_UNSUPPORTED, "acme.bad has descriptors WEFT_FD_MAP alone");
    const uint64_t room = bytes + ALIGN;
    char *map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return no_arena(d);
    char *at = map + (ALIGN - (uintptr_t)map % ALIGN) % ALIGN;
    d->map = map;
    d->mapped = room;
    if (want_fd) {
        d->fd = memfd_create("acme-arena", MFD_CLOEXEC);
        if (d->fd < 0 || ftruncate(d->fd, (off_t)bytes) ||
            mmap(at, bytes, PROT_READ | PROT_WRITE, share | MAP_FIXED, d->fd, 0) == MAP_FAILED)
            return no_arena(d);
    }
    if (BAD == DIRTY)
        at[bytes / 2] = 1;
    *base = at;
    *fd = BAD == STRAY_DESCRIPTOR && !want_fd ? 0 : d->fd;
    return WEFT_OK;
}

static weft_status host_memory(weft_device *d, uint64_t bytes, void **out)
{
    return take(d, bytes, 4096, out);
}

/* --- streams and events --- */

static weft_status stream(weft_device *d, int32_t priority, weft_stream **out)
{
    void *at = NULL;
    const weft_status st = take(d, sizeof(weft_stream), 0, &at);
    (void)priority;
    if (st == WEFT_OK) {
        *out = at;
        (*out)->d = d;
    }
    return st;
}

static weft_status event(weft_device *d, weft_event **out)
{
    void *at = NULL;
    const weft_status st = take(d, sizeof(weft_event), 0, &at);
    if (st == WEFT_OK) {
        *out = at;
        (*out)->d = d;
    }
    return st;
}

static void end_delay(weft_device *d)
{
    if (d->late_to)
        memset(d->late_to, d->late_byte, d->late_bytes);
    d->late_to = NULL;
}

/* Work on stream `s` begins. */
static void begin(const weft_stream *s)
{
    if (BAD == RACE && s->d->late == s)
        end_delay(s->d);
}

static weft_status record(weft_event *e, weft_stream *s, uint32_t flags)
{
    const weft_status st = weft_check_flags(e->d->host, flags, 0);
    if (st != WEFT_OK)
        return st;
    e->s = s;
    e->queries = 0;
    e->d->unseen++;
    if (BAD == STALE)
        end_delay(e->d);
    return WEFT_OK;
}

static weft_status stream_wait(weft_stream *s, weft_event *e, uint32_t flags)
{
    (void)e;
    return weft_check_flags(s->d->host, flags, 0);
}

static weft_status event_query(weft_event *e, uint32_t flags)
{
    const weft_status st = weft_check_flags(e->d->host, flags, 0);
    if (st != WEFT_OK)
        return st;
    if (!e->s)
        return BAD == NEVER_REACHED ? WEFT_BUSY : WEFT_OK;
    begin(e->s);
    e->d->unseen = 0;
    return BAD == GOES_BACK && e->queries++ ? WEFT_BUSY : WEFT_OK;
}

static weft_status copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                        uint32_t flags)
{
    const uint64_t n = BAD == CUTS && bytes > 65536 ? bytes & ~(uint64_t)1 : bytes;
    if (!flags) {
        begin(s);
        if (n)
            memcpy(to, from, n);
    }
    return weft_check_flags(d->host, flags, 0);
}

static weft_status fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                        uint32_t flags)
{
    const weft_status st = weft_check_flags(d->host, flags, 0);
    if (st != WEFT_OK)
        return st;
    end_delay(d);
    d->late = s;
    d->late_to = to;
    d->late_byte = byte;
    d->late_bytes = bytes;
    if (BAD != STALE && BAD != RACE)
        end_delay(d);
    return WEFT_OK;
}

/* --- ops --- */

static void release(weft_prepared *p)
{
    if (!p)
        return;
    p->host->free(p->host->ctx, p->steps);
    p->host->free(p->host->ctx, p);
}

static weft_status prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out)
{
    weft_status st = look(d->host, spec);
    weft_prepared *p = weft_new(d->host, sizeof *p, &st);
    if (!p)
        return st;
    const weft_ew_program *program = spec->program;
    p->host = d->host;
    p->steps = weft_new(d->host, (program->nsteps + 1) * sizeof *p->steps, &st);
    if (!p->steps) {
        release(p);
        return st;
    }
    memcpy(p->steps, program->steps, program->nsteps * sizeof *p->steps);
    p->adds = (spec->flags & WEFT_SPEC_ACCUMULATE) != 0;
    p->gate = program->gate;
    p->nin = spec->nin;
    p->nout = spec->nout;
    p->nsteps = program->nsteps;
    p->n = count_of(&spec->out[0]);
    for (uint32_t i = 0; i < p->nin; i++)
        p->count[i] = count_of(&spec->in[i]);
    for (uint32_t i = 0; i < p->nout; i++)
        p->out_reg[i] = program->out_reg[i];
    *out = p;
    return WEFT_OK;
}

static float step_of(const weft_ew_step *s, const float *r)
{
    if (s->op == WEFT_EW_ADD)
        return r[s->a] + r[s->b];
    return s->op == WEFT_EW_SUB ? r[s->a] - r[s->b] : r[s->a] * r[s->b];
}

static void compute(const weft_prepared *p, const void *const *in, void *const *out)
{
    float r[WEFT_EW_MAX_REGISTERS];
    if (p->gate >= 0 && *(const float *)in[p->gate] == 0)
        return;
    for (int64_t i = 0; i < p->n; i++) {
        for (uint32_t k = 0; k < p->nin; k++)
            r[k] = ((const float *)in[k])[p->count[k] == 1 ? 0 : i];
        for (uint32_t k = 0; k < p->nsteps; k++)
            r[p->steps[k].dst] = step_of(&p->steps[k], r);
        for (uint32_t k = 0; k < p->nout; k++) {
            float *to = (float *)out[k] + i;
            *to = p->adds ? *to + r[p->out_reg[k]] : r[p->out_reg[k]];
        }
    }
}

static weft_status run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    (void)workspace;
    if (!flags) {
        begin(s);
        compute(p, in, out);
    }
    return weft_check_flags(p->host, flags, 0);
}

static const weft_device_table table = {.struct_size = sizeof table,
                                        .caps = WEFT_DEV_HOST_MEMORY | WEFT_DEV_EXPORT_FD,
                                        .query = query,
                                        .probe = probe,
                                        .open = open_device,
                                        .close = close_device,
                                        .describe = describe,
                                        .arena = arena,
                                        .host_memory = host_memory,
                                        .stream = stream,
                                        .event = event,
                                        .record = record,
                                        .stream_wait = stream_wait,
                                        .event_query = event_query,
                                        .copy = copy,
                                        .fill = fill,
                                        .prepare = prepare,
                                        .release = release,
                                        .run = run};
static const weft_component device = {sizeof device,  0,    "weft.device/1", "acme.bad",
                                      "sums in fp32", NULL, &table,          NULL};
static const weft_component *const components[] = {&device, NULL};
WEFT_PLUGIN("org.acme.bad", "1", "", components, weft_open_host, NULL);
