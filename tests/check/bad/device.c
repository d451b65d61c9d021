/* bad/device.c: the device of the template with a descriptor of its arena, the op linear and a
 * fused op, and a kernel of linear for it. Each name of device.expected plants one fault: in a
 * member of the table, which calls the template's, or in an op that the template has prepared. */
#define _GNU_SOURCE
#include "faults.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft/match.h>

const weft_manifest *good_entry(void);
#define expf(x) (BAD == COARSE_EXP ? powf(1 + (x) / 1024, 1024) : expf(x))
#define weft_plugin_entry good_entry
#include "loops/kernels.c"
#include "loops/loops.c"
#undef expf
#undef weft_plugin_entry

enum { ROOM = 64 }; /* of the workspace, in bytes */

/* --- two more ops --- */

static void linear(const weft_prepared *p, const void *const *in, void *const *out)
{
    const int64_t inner = p->table, columns = p->columns;
    const float *x = in[0], *w = in[1], *b = p->nin > 2 || BAD == READS_BEHIND ? in[2] : NULL;
    for (int64_t t = 0; t < p->rows; t++)
        for (int64_t o = 0; o < columns; o++) {
            double sum = b ? (double)b[o] : 0;
            for (int64_t i = 0; i < inner; i++)
                sum += (double)x[t * inner + i] * (double)w[o * inner + i];
            ((float *)out[0])[t * columns + o] = (float)sum;
        }
}

static void both(const weft_prepared *p, const void *const *in, void *const *out)
{
    if (out[0] || BAD == WRITES_ABSENT)
        accumulate(p, in, out);
    if (out[1])
        sumsq(p, in, out + 1);
}

static const kernel own[] = {/* with patterns of weft/match.h */
                             {"linear", linear, "fT*I f*O*I f*O?", "fT*O", 0},
                             {"accumulate+sumsq", both, "f*F", "f*F~ f~", 1}};

/* *k: of the table above; NULL: it is the template's. */
static weft_status check_spec(const weft_host *host, const weft_opspec *spec, const kernel **k,
                              weft_match *m)
{
    weft_status st =
        weft_check_args(host, spec, sizeof *spec, WEFT_SPEC_ACCUMULATE | WEFT_SPEC_DETERMINISTIC);
    *k = NULL;
    for (size_t i = 0; st == WEFT_OK && i < sizeof own / sizeof *own; i++)
        if (!strcmp(spec->id, own[i].id))
            *k = &own[i];
    if (st != WEFT_OK)
        return st;
    if (!*k)
        return kernels_check(host, spec);
    st = weft_match_spec(m, "acme.bad", spec, (*k)->in, (*k)->out);
    if (st != WEFT_OK)
        return (host->fail)(host->ctx, st, m->why);
    return spec->flags & WEFT_SPEC_ACCUMULATE && !(*k)->adds
               ? refuse(host, spec->id, "it cannot add into the results")
               : WEFT_OK;
}

static weft_status bad_query(void *module, const weft_conf *conf, const weft_opspec *spec,
                             weft_requirements *out)
{
    const weft_requirements need = {sizeof need, 0, ROOM};
    const weft_host *host = module;
    const int unknown = !strcmp(spec->id, "acme.check.unknown");
    const kernel *k;
    weft_match m;
    (void)conf;
    if (BAD == NEEDS_DRIVER && !strcmp(spec->id, "linear"))
        return (host->fail)(host->ctx, WEFT_ABSENT, "libacme.so cannot be loaded");
    if (BAD == NO_SENTENCE && unknown)
        return WEFT_UNSUPPORTED;
    if (BAD == UNKNOWN_IS_USAGE && unknown)
        return (host->fail)(host->ctx, WEFT_USAGE, "acme.bad has no such op");
    const weft_status st = check_spec(host, spec, &k, &m);
    if (st == WEFT_OK)
        weft_give(out, &need);
    return st;
}

static const char *fuse(void *module, const weft_conf *conf, const char *const *ids,
                        const uint32_t *joins, uint32_t n)
{
    (void)module, (void)conf;
    if (n != 2 || joins[1] != WEFT_FUSE_SHARED_INPUT)
        return NULL;
    if (!strcmp(ids[0], "accumulate") && !strcmp(ids[1], "sumsq"))
        return "accumulate+sumsq";
    if (BAD == NAME_ALONE && !strcmp(ids[0], "sumsq") && !strcmp(ids[1], "accumulate"))
        return "sumsq+accumulate";
    return NULL;
}

/* --- prepared ops --- */

/* Steps on scalars alone go before all others, whose registers they may use. */
static void scalars_first(weft_prepared *p)
{
    for (uint32_t i = 0, first = 0; i < p->nsteps; i++) {
        const weft_ew_step s = p->steps[i];
        if (!(s.flags & WEFT_EW_SCALAR))
            continue;
        memmove(&p->steps[first + 1], &p->steps[first], (i - first) * sizeof s);
        p->steps[first++] = s;
    }
}

static void plant(weft_prepared *p)
{
    if (BAD == OVERWRITES && p->run == sumsq)
        p->adds = 0;
    if (p->run != ew)
        return;
    if (BAD == SKIPS_TAIL)
        p->n = p->n / 8 * 8;
    if (BAD == FEW_STEPS && p->nsteps > 200)
        p->nsteps = 200;
    if (BAD == SCALARS_ONCE)
        scalars_first(p);
    for (uint32_t i = 0; BAD == FEW_REGISTERS && i < p->nsteps; i++) {
        weft_ew_step *s = &p->steps[i];
        s->dst %= 63, s->a %= 63, s->b %= 63, s->c %= 63;
    }
}

static weft_status prepare_for(const weft_host *host, const weft_opspec *spec, weft_prepared **out)
{
    const kernel *k;
    weft_match m;
    weft_status st = check_spec(host, spec, &k, &m);
    if (st == WEFT_OK && !k) {
        st = kernels_prepare(host, spec, out);
        if (st == WEFT_OK)
            plant(*out);
        return st;
    }
    weft_prepared *p = weft_new(host, sizeof *p, &st);
    if (!p)
        return st;
    p->host = host;
    p->run = k->run;
    p->adds = (spec->flags & WEFT_SPEC_ACCUMULATE) != 0;
    p->nin = spec->nin;
    p->nout = spec->nout;
    p->n = p->count[0] = weft_elements(&spec->in[0]);
    p->rows = m.size['T' - 'A'];
    p->table = m.size['I' - 'A'];
    p->columns = m.size['O' - 'A'];
    *out = p;
    return WEFT_OK;
}

static weft_status bad_prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out)
{
    if (BAD == REFUSES_LATER && spec->flags & WEFT_SPEC_DETERMINISTIC && !strcmp(spec->id, "sumsq"))
        return refuse(d->host, spec->id, "another run may have other bits");
    return prepare_for(d->host, spec, out);
}

/* Of an elementwise op of one step that overwrites its output; else 0. */
static uint32_t code_of(const weft_prepared *p)
{
    return p->run == ew && p->nsteps == 1 && !p->adds ? p->steps[0].op : 0;
}

static void before(const weft_prepared *p, const void *const *in, void *const *out)
{
    const int shut = p->run == ew && p->gate >= 0 && *(const float *)in[p->gate] == 0;
    for (uint32_t k = 0; BAD == SHUT_CLEARS && shut && k < p->nout; k++)
        memset(out[k], 0, (size_t)p->n * sizeof(float));
    if (BAD == READS_SHAPE && p->run == embedding_dw)
        (void)*(const volatile float *)in[2];
}

static void after(const weft_prepared *p, const void *const *in, void *const *out, void *workspace)
{
    static unsigned runs;
    float *to = out[0];
    const uint32_t code = code_of(p);
    const float *from = in[0];
    if (BAD == TURNS_ROUND && p->run == sumsq && runs++ % 2)
        *to = nextafterf(*to, INFINITY);
    if (BAD == BEYOND_WORKSPACE && p->run == sumsq)
        ((char *)workspace)[ROOM] = 1;
    for (int64_t i = 0; BAD == INFINITE_IS_FINITE && code == WEFT_EW_FINITE && i < p->n; i++)
        to[i] = to[i] != 0 || isinf(from[p->count[0] == 1 ? 0 : i]);
    for (int64_t i = p->n - 8; BAD == TAIL_TWICE && code == WEFT_EW_NEG && i > 0 && i < p->n; i++)
        to[i] = -from[i]; /* as the last vector */
    if (BAD == BEHIND_OUTPUT && code == WEFT_EW_COPY)
        to[p->n] = 0;
    if (BAD == CLEANS_INPUT && code == WEFT_EW_ABS)
        memcpy((void *)(uintptr_t)from, to, (size_t)p->n * sizeof *to);
}

static void compute(const weft_prepared *p, const void *const *in, void *const *out,
                    void *workspace)
{
    before(p, in, out);
    p->run(p, in, out);
    after(p, in, out, workspace);
}

/* --- streams --- */

typedef struct state { /* of a device */
    weft_stream *filled;
    void *fill_to; /* by a fill that is delayed; NULL: none is */
    int32_t byte;
    uint64_t bytes;
    const weft_prepared *p; /* of a run that is delayed; NULL: none is */
    weft_stream *ran;
    const void *in[WEFT_MAX_OPERANDS];
    void *out[WEFT_MAX_OPERANDS], *workspace;
    uint32_t records, unseen; /* unseen: since the last event_query() */
    const weft_event *seen;   /* in the last event_query(), and not recorded since */
    char *map;                /* of an arena with a descriptor; NULL: there is none */
    uint64_t mapped;
    int fd;
} state;

/* It lies in the first block that the device took. */
static state *state_of(const weft_device *d)
{
    const block *b = d->blocks;
    while (b->next)
        b = b->next;
    return b->at;
}

static void end_fill(state *t)
{
    if (t->fill_to)
        memset(t->fill_to, t->byte, t->bytes);
    t->fill_to = NULL;
}

static void end_run(state *t)
{
    if (t->p)
        compute(t->p, t->in, t->out, t->workspace);
    t->p = NULL;
}

/* Work on stream `s` begins. */
static void begin(const weft_stream *s)
{
    state *t = state_of(s->d);
    if (BAD == RACE && t->filled == s)
        end_fill(t);
    if (BAD == SHARED_POINTERS)
        end_run(t);
}

static weft_status bad_copy(weft_device *d, weft_stream *s, void *to, const void *from,
                            uint64_t bytes, uint32_t flags)
{
    begin(s);
    return copy(d, s, to, from, BAD == CUTS && bytes > 65536 ? bytes & ~(uint64_t)1 : bytes, flags);
}

static weft_status bad_fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                            uint32_t flags)
{
    begin(s);
    if (flags || (BAD != STALE && BAD != RACE))
        return fill(d, s, to, byte, bytes, flags);
    state *t = state_of(d);
    end_fill(t);
    t->filled = s;
    t->fill_to = to;
    t->byte = byte;
    t->bytes = bytes;
    return WEFT_OK;
}

/* With SHARED_POINTERS an op has its operands when the stream is looked at. */
static weft_status bad_run(weft_prepared *p, weft_stream *s, const void *const *in,
                           void *const *out, void *workspace, uint32_t flags)
{
    if (flags)
        return weft_check_flags(p->host, flags, 0);
    state *t = state_of(s->d);
    if (t->p != p || t->ran == s)
        begin(s);
    if (BAD != SHARED_POINTERS) {
        compute(p, in, out, workspace);
        return WEFT_OK;
    }
    t->p = p;
    t->ran = s;
    memcpy(t->in, in, p->nin * sizeof *in);
    memcpy(t->out, out, p->nout * sizeof *out);
    t->workspace = workspace;
    return WEFT_OK;
}

/* --- events --- */

static weft_status bad_record(weft_event *e, weft_stream *s, uint32_t flags)
{
    state *t = state_of(s->d);
    t->records++;
    t->unseen++;
    if (t->seen == e)
        t->seen = NULL;
    if (BAD == STALE)
        end_fill(t);
    if (BAD == SHARED_POINTERS)
        end_run(t);
    return record(e, s, flags);
}

static weft_status bad_event_query(weft_event *e, uint32_t flags)
{
    state *t = state_of(e->d);
    const weft_status st = event_query(e, flags);
    if (st != WEFT_OK)
        return st;
    if (BAD == NEVER_REACHED && !t->records)
        return WEFT_BUSY;
    end_fill(t);
    t->unseen = 0;
    const int again = t->seen == e;
    t->seen = e;
    return BAD == GOES_BACK && again ? WEFT_BUSY : WEFT_OK;
}

/* --- the device --- */

static weft_status bad_probe(void *module, const weft_conf *conf, int32_t *score)
{
    const weft_status st = probe(module, conf, score);
    if (BAD == SILENT_ZERO)
        *score = 0;
    return st;
}

static weft_status bad_open(void *module, const weft_device_args *args, weft_device **out)
{
    weft_device *d = NULL;
    void *at = NULL;
    weft_status st = open_device(module, args, &d);
    if (st == WEFT_OK)
        st = take(d, sizeof(state), 0, &at);
    if (st == WEFT_OK)
        *out = d;
    else
        close_device(d);
    return st;
}

/* The pages of a file that another process can map; close() ends them. */
static weft_status export_arena(weft_device *d, uint64_t bytes, void **base, int32_t *fd)
{
    state *t = state_of(d);
    const int prot = PROT_READ | PROT_WRITE, share = BAD == OTHER_MEMORY ? MAP_PRIVATE : MAP_SHARED;
    const uint64_t room = bytes + ARENA_ALIGN;
    char *map = mmap(NULL, room, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return (d->host->fail)(d->host->ctx, WEFT_NO_MEMORY, "acme.bad: no memory for an arena");
    t->map = map;
    t->mapped = room;
    t->fd = memfd_create("acme-arena", MFD_CLOEXEC);
    char *at = map + (ARENA_ALIGN - (uintptr_t)map % ARENA_ALIGN) % ARENA_ALIGN;
    if (t->fd < 0 || ftruncate(t->fd, (off_t)bytes) ||
        mmap(at, bytes, prot, share | MAP_FIXED, t->fd, 0) == MAP_FAILED)
        return (d->host->fail)(d->host->ctx, WEFT_NO_MEMORY, "acme.bad: no file for an arena");
    *base = at;
    *fd = t->fd;
    return WEFT_OK;
}

static weft_status bad_arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base,
                             int32_t *fd)
{
    if (want_fd == WEFT_FD_MAP)
        return export_arena(d, bytes, base, fd);
    const weft_status st = arena(d, bytes, want_fd, base, fd);
    if (st == WEFT_NO_MEMORY && BAD == HUGE_CRASHES && bytes >> 50)
        abort();
    if (st == WEFT_OK && BAD == DIRTY)
        ((char *)*base)[bytes / 2] = 1;
    if (st == WEFT_OK && BAD == STRAY_DESCRIPTOR)
        *fd = 0;
    return st;
}

static void bad_close(weft_device *d)
{
    if (!d)
        return;
    state *t = state_of(d);
    while (BAD == CLOSE_WAITS && t->unseen > 8)
        usleep(1000);
    if (t->map) {
        munmap(t->map, t->mapped);
        if (t->fd >= 0)
            close(t->fd);
    }
    close_device(d);
}

/* --- the kernel --- */

static weft_status kernel_prepare(void *module, const weft_conf *conf, const weft_opspec *spec,
                                  void *stream_of, void **out)
{
    weft_prepared *p = NULL;
    const weft_status st = prepare_for(module, spec, &p);
    (void)conf, (void)stream_of;
    if (st == WEFT_OK) {
        p->nin = BAD == KERNEL_DIFFERS ? 2 : p->nin; /* the bias is left out */
        *out = p;
    }
    return st;
}

static void kernel_release(void *prepared)
{
    kernels_release(prepared);
}

static weft_status kernel_run(void *prepared, void *stream_of, const void *const *in,
                              void *const *out, void *workspace, uint32_t flags)
{
    const weft_prepared *p = prepared;
    float *y = out[0];
    const int64_t n = p->rows * p->columns;
    (void)stream_of, (void)workspace;
    if (flags)
        return weft_check_flags(p->host, flags, 0);
    p->run(p, in, out);
    if (BAD == KERNEL_EVEN && n % 2) /* the last element of an odd number is left out */
        y[n - 1] = 0;
    for (int64_t i = 0; BAD == KERNEL_SATURATES && i < n; i++)
        y[i] = y[i] < -200 ? -200 : y[i];
    for (int64_t i = 1024 * p->columns; BAD == KERNEL_ONE_BLOCK && i < n; i++)
        y[i] = 0;
    if (BAD == KERNEL_READS_BEHIND && p->nin == 2 && in[2]) /* the bias, which is not there */
        (void)*(const volatile float *)in[2];
    if (BAD == KERNEL_SPILLS)
        y[n] = 0;
    return WEFT_OK;
}

static const weft_device_table bad = {.struct_size = sizeof bad,
                                      .caps = WEFT_DEV_HOST_MEMORY | WEFT_DEV_EXPORT_FD,
                                      .query = bad_query,
                                      .fuse = fuse,
                                      .probe = bad_probe,
                                      .open = bad_open,
                                      .close = bad_close,
                                      .describe = describe,
                                      .arena = bad_arena,
                                      .host_memory = host_memory,
                                      .stream = stream,
                                      .event = event,
                                      .record = bad_record,
                                      .stream_wait = stream_wait,
                                      .event_query = bad_event_query,
                                      .copy = bad_copy,
                                      .fill = bad_fill,
                                      .prepare = bad_prepare,
                                      .release = kernels_release,
                                      .run = bad_run};
static const weft_kernel bad_kernel = {.struct_size = sizeof bad_kernel,
                                       .op = "linear",
                                       .device = "acme.bad",
                                       .query = bad_query,
                                       .prepare = kernel_prepare,
                                       .release = kernel_release,
                                       .run = kernel_run};
static const weft_component bad_device = {
    sizeof bad_device, 0, "weft.device/1", "acme.bad", "plain loops in fp32", NULL, &bad, NULL};
static const weft_component bad_linear = {sizeof bad_linear, 0,    "weft.kernel/1", "acme.linear",
                                          "a kernel",        NULL, &bad_kernel,     NULL};
static const weft_component *const bad_components[] = {&bad_device, &bad_linear, NULL};
WEFT_PLUGIN("org.acme.bad", "1", "", bad_components, weft_open_host, NULL);
