/* bad/devop/device.c: a device that fails checks of ops, and a kernel for it. Each name of
 * devop.expected breaks one rule. See devop.h. */
#include "devop.h"

#include <stdio.h>
#include <string.h>

enum { ARENA_ALIGN = 2 << 20 };

typedef struct block { /* memory that close() gives back */
    struct block *next;
    void *at;
} block;

struct weft_device {
    const weft_host *host;
    block *blocks;
};
struct weft_stream {
    weft_device *d;
    weft_prepared *waits; /* SHARED_POINTERS: to be run when the stream is looked at */
    void *workspace;
};
struct weft_event {
    weft_device *d;
};

/* --- the plan half --- */

static const struct {
    const char *id, *in, *out; /* patterns of weft/match.h */
    run_fn *run;
    int32_t adds;
} ops[] = {{"accumulate", "f*F", "f*F", devop_accumulate, 1},
           {"sumsq", "f*F", "f", devop_sumsq, 1},
           {"accumulate+sumsq", "f*F", "f*F~ f~", devop_both, 1},
           {"embedding.dw", "fT*F iT xV*F", "fV*F", devop_embedding_dw, 1},
           {"linear", "fT*I f*O*I f*O?", "fT*O", devop_linear, 0}};
#define OPS (sizeof ops / sizeof *ops)

static const char *const elementwise[] = {[0] = "ew",
                                          [WEFT_EW_COPY] = "copy",
                                          [WEFT_EW_ADD] = "add",
                                          [WEFT_EW_SUB] = "sub",
                                          [WEFT_EW_MUL] = "mul",
                                          [WEFT_EW_DIV] = "div",
                                          [WEFT_EW_MIN] = "min",
                                          [WEFT_EW_MAX] = "max",
                                          [WEFT_EW_SQRT] = "sqrt",
                                          [WEFT_EW_NEG] = "neg",
                                          [WEFT_EW_ABS] = "abs",
                                          [WEFT_EW_SIGN] = "sign",
                                          [WEFT_EW_EXP] = "exp",
                                          [WEFT_EW_LOG] = "log",
                                          [WEFT_EW_POW] = "pow",
                                          [WEFT_EW_SELECT] = "select",
                                          [WEFT_EW_LESS] = "less",
                                          [WEFT_EW_FINITE] = "finite",
                                          [WEFT_EW_COS] = "cos",
                                          [WEFT_EW_CONST] = "constant",
                                          [WEFT_EW_ROUND] = "round",
                                          [WEFT_EW_FLOOR] = "floor"};
#define OPCODES (sizeof elementwise / sizeof *elementwise)

static weft_status refuse(const weft_host *host, const char *why)
{
    return (host->fail)(host->ctx, WEFT_UNSUPPORTED, why);
}

/* A program, or the one step that the name says: fp32 operands, each whole or one element. */
static weft_status find_steps(const weft_host *host, const weft_opspec *spec, weft_prepared *p)
{
    const weft_ew_program *of = spec->program;
    for (uint32_t k = 0; k < spec->nin + spec->nout; k++) {
        const weft_operand *o = k < spec->nin ? &spec->in[k] : &spec->out[k - spec->nin];
        const int64_t n = weft_elements(o);
        if (o->dtype != WEFT_F32 || o->flags || !n)
            return refuse(host, "acme.bad computes on dense fp32 tensors");
        p->n = n > p->n ? n : p->n;
        if (k < spec->nin)
            p->count[k] = n;
    }
    p->run = devop_ew;
    p->gate = -1;
    if (p->single)
        return WEFT_OK;
    if (!weft_knows(of))
        return weft_refuse_unknown(host);
    for (uint32_t i = 0; i < of->nsteps; i++)
        if (!of->steps[i].op || of->steps[i].op >= OPCODES || of->steps[i].flags & ~WEFT_EW_SCALAR)
            return refuse(host, "acme.bad: a step of the program is not known");
    p->gate = of->gate;
    return of->nregs > WEFT_EW_MAX_REGISTERS ? refuse(host, "acme.bad has 64 registers") : WEFT_OK;
}

static weft_status find(const weft_host *host, const weft_opspec *spec, weft_prepared *p)
{
    char text[160];
    const int32_t adds = (spec->flags & WEFT_SPEC_ACCUMULATE) != 0;
    weft_status st =
        weft_check_args(host, spec, sizeof *spec, WEFT_SPEC_ACCUMULATE | WEFT_SPEC_DETERMINISTIC);
    memset(p, 0, sizeof *p);
    p->host = host;
    p->nin = spec->nin;
    p->nout = spec->nout;
    p->adds = adds;
    for (size_t i = 0; st == WEFT_OK && i < OPS; i++) {
        if (strcmp(spec->id, ops[i].id) != 0)
            continue;
        p->run = ops[i].run;
        p->first = weft_attr_i(spec, "first", 0);
        st = weft_match_spec(&p->m, "acme.bad", spec, ops[i].in, ops[i].out);
        if (st != WEFT_OK)
            return (host->fail)(host->ctx, st, p->m.why);
        return adds && !ops[i].adds ? refuse(host, "acme.bad cannot add to this") : WEFT_OK;
    }
    for (uint32_t i = 0; st == WEFT_OK && i < OPCODES; i++)
        if (!strcmp(spec->id, elementwise[i]) && (i || spec->program) && !adds) {
            p->single = (int32_t)i;
            return find_steps(host, spec, p);
        }
    if (st != WEFT_OK)
        return st;
    if (BAD == NO_SENTENCE && spec->nin == 1)
        return WEFT_UNSUPPORTED;
    snprintf(text, sizeof text, "acme.bad has no kernel for the op %.80s", spec->id);
    return (host->fail)(
        host->ctx, BAD == UNKNOWN_IS_USAGE && spec->nin == 1 ? WEFT_USAGE : WEFT_UNSUPPORTED, text);
}

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    weft_prepared p;
    const weft_status st = find(module, spec, &p);
    const weft_requirements need = {sizeof need, 0, LANES * sizeof(float)};
    (void)conf;
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

static weft_status probe(void *module, const weft_conf *conf, int32_t *score)
{
    (void)module, (void)conf;
    *score = 1;
    return WEFT_OK;
}

/* --- the run half --- */

static weft_status open_device(void *module, const weft_device_args *args, weft_device **out)
{
    const weft_host *host = module;
    weft_status st = weft_check_args(host, args, sizeof *args, WEFT_SPEC_DETERMINISTIC);
    weft_device *d = weft_new(host, sizeof *d, &st);
    if (!d)
        return st;
    d->host = host;
    *out = d;
    return WEFT_OK;
}

static void close_device(weft_device *d)
{
    for (block *b = d ? d->blocks : NULL, *next; b; b = next) {
        next = b->next;
        d->host->free(d->host->ctx, b->at);
        d->host->free(d->host->ctx, b);
    }
    if (d)
        d->host->free(d->host->ctx, d);
}

static const char *describe(weft_device *d)
{
    (void)d;
    return "plain loops in fp32";
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
        return (d->host->fail)(d->host->ctx, WEFT_NO_MEMORY, "acme.bad: no memory");
    }
    b->next = d->blocks;
    d->blocks = b;
    *out = b->at;
    return WEFT_OK;
}

static weft_status arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd)
{
    if (want_fd)
        return refuse(d->host, "acme.bad has no descriptor of its memory");
    const weft_status st = take(d, bytes, ARENA_ALIGN, base);
    if (st == WEFT_OK)
        *fd = -1;
    return st;
}

static weft_status host_memory(weft_device *d, uint64_t bytes, void **out)
{
    return take(d, bytes, 4096, out);
}

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

static void finish(weft_stream *s)
{
    weft_prepared *p = s->waits;
    s->waits = NULL;
    if (p)
        p->run(p, p->in, p->out, s->workspace);
}

static weft_status record(weft_event *e, weft_stream *s, uint32_t flags)
{
    finish(s);
    return weft_check_flags(e->d->host, flags, 0);
}

static weft_status stream_wait(weft_stream *s, weft_event *e, uint32_t flags)
{
    (void)e;
    return weft_check_flags(s->d->host, flags, 0);
}

static weft_status event_query(weft_event *e, uint32_t flags)
{
    return weft_check_flags(e->d->host, flags, 0);
}

static weft_status copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                        uint32_t flags)
{
    finish(s);
    if (!flags && bytes)
        memmove(to, from, bytes);
    return weft_check_flags(d->host, flags, 0);
}

static weft_status fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                        uint32_t flags)
{
    finish(s);
    if (!flags && bytes)
        memset(to, byte, bytes);
    return weft_check_flags(d->host, flags, 0);
}

static void release(weft_prepared *p)
{
    if (!p)
        return;
    p->host->free(p->host->ctx, p->steps);
    p->host->free(p->host->ctx, p);
}

static weft_status prepare_for(const weft_host *host, const weft_opspec *spec, weft_prepared **out)
{
    const weft_ew_program *of = spec->program;
    weft_prepared found;
    weft_status st = find(host, spec, &found);
    weft_prepared *p = weft_new(host, sizeof *p, &st);
    if (!p)
        return st;
    *p = found;
    if (p->run == devop_ew) {
        const weft_ew_step one = {(uint16_t)p->single, (uint16_t)spec->nin, 0, 1, 2, 0, 0};
        p->nsteps = p->single ? 1 : of->nsteps;
        p->steps = weft_new(host, (p->nsteps ? p->nsteps : 1) * sizeof one, &st);
        if (!p->steps) {
            release(p);
            return st;
        }
        memcpy(p->steps, p->single ? &one : of->steps, p->nsteps * sizeof one);
        for (uint32_t i = 0; i < spec->nout; i++)
            p->out_reg[i] = p->single ? one.dst : of->out_reg[i];
    }
    *out = p;
    return WEFT_OK;
}

static weft_status prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out)
{
    if (BAD == REFUSES_LATER && spec->flags & WEFT_SPEC_DETERMINISTIC && !strcmp(spec->id, "sumsq"))
        return refuse(d->host, "acme.bad: another run may have other bits");
    return prepare_for(d->host, spec, out);
}

static weft_status run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    if (flags)
        return weft_check_flags(p->host, flags, 0);
    finish(s);
    if (BAD != SHARED_POINTERS) {
        p->run(p, in, out, workspace);
        return WEFT_OK;
    }
    memcpy(p->in, in, p->nin * sizeof *in);
    memcpy(p->out, out, p->nout * sizeof *out);
    s->waits = p;
    s->workspace = workspace;
    return WEFT_OK;
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
    release(prepared);
}

static weft_status kernel_run(void *prepared, void *stream_of, const void *const *in,
                              void *const *out, void *workspace, uint32_t flags)
{
    weft_prepared *p = prepared;
    (void)stream_of;
    if (flags)
        return weft_check_flags(p->host, flags, 0);
    p->run(p, in, out, workspace);
    float *y = out[0];
    const int64_t n = size_of(p, 'T') * size_of(p, 'O');
    if (BAD == KERNEL_EVEN && n % 2) /* the last element of an odd number is left out */
        y[n - 1] = 0;
    for (int64_t i = 0; BAD == KERNEL_SATURATES && i < n; i++)
        y[i] = y[i] < -200 ? -200 : y[i];
    for (int64_t i = 1024 * size_of(p, 'O'); BAD == KERNEL_ONE_BLOCK && i < n; i++)
        y[i] = 0;
    if (BAD == KERNEL_READS_BEHIND && p->nin == 2 && in[2]) /* the bias, which is not there */
        (void)*(const volatile float *)in[2];
    if (BAD == KERNEL_SPILLS)
        ((float *)out[0])[size_of(p, 'T') * size_of(p, 'O')] = 0;
    return WEFT_OK;
}

static const weft_device_table table = {.struct_size = sizeof table,
                                        .caps = WEFT_DEV_HOST_MEMORY,
                                        .query = query,
                                        .fuse = fuse,
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
static const weft_kernel kernel = {.struct_size = sizeof kernel,
                                   .op = "linear",
                                   .device = "acme.bad",
                                   .query = query,
                                   .prepare = kernel_prepare,
                                   .release = kernel_release,
                                   .run = kernel_run};
static const weft_component device = {sizeof device, 0,    "weft.device/1", "acme.bad",
                                      "a device",    NULL, &table,          NULL};
static const weft_component product = {sizeof product, 0,    "weft.kernel/1", "acme.linear",
                                       "a kernel",     NULL, &kernel,         NULL};
static const weft_component *const components[] = {&device, &product, NULL};
WEFT_PLUGIN("org.acme.bad", "1", "", components, weft_open_host, NULL);
