/* device.c: a device, acme.plain: fp32 on the calling thread in plain loops, with the ops that a
 * bigram model and an elementwise rule need: embedding, embedding.dw, softmax_xent, its loss alone,
 * sumsq, accumulate, and the elementwise ops, single and in programs (`ew`). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/device.h>

enum { ARENA_ALIGN = 2 << 20 };

typedef struct block { /* memory that close() gives back */
    struct block *next;
    void *at;
} block;

struct weft_device {
    const weft_host *host;
    block *blocks;
};
struct weft_stream { /* its work is always finished */
    weft_device *d;
};
struct weft_event {
    weft_device *d;
};

typedef void run_fn(const weft_prepared *p, const void *const *in, void *const *out);
struct weft_prepared {
    const weft_host *host;
    run_fn *run;
    int64_t rows, columns, first, valid, table; /* table: rows of the operand that is looked up */
    double weight;
    int32_t adds, gate;
    uint32_t nin, nout, nsteps;
    int64_t count[WEFT_MAX_OPERANDS], n; /* elements of each input; of the outputs */
    weft_ew_step *steps;
    uint16_t out_reg[WEFT_MAX_OPERANDS];
};

static int64_t count_of(const weft_operand *o, uint32_t from)
{
    int64_t n = 1;
    for (uint32_t i = from; i < o->rank; i++)
        n *= o->size[i];
    return n;
}

/* --- kernels --- */

static void put(float *to, float value, int32_t adds)
{
    *to = adds ? *to + value : value;
}

static void embedding(const weft_prepared *p, const void *const *in, void *const *out)
{
    const float *table = in[0];
    const int32_t *ids = in[1];
    float *y = out[0];
    for (int64_t t = 0; t < p->rows; t++) {
        const int64_t row = ids[t] - p->first;
        for (int64_t c = 0; c < p->columns; c++)
            y[t * p->columns + c] = row < 0 || row >= p->table ? 0 : table[row * p->columns + c];
    }
}

static void embedding_dw(const weft_prepared *p, const void *const *in, void *const *out)
{
    const float *dy = in[0];
    const int32_t *ids = in[1];
    float *dw = out[0];
    if (!p->adds)
        memset(dw, 0, (size_t)(p->table * p->columns) * sizeof *dw);
    for (int64_t t = 0; t < p->rows; t++) {
        const int64_t row = ids[t] - p->first;
        for (int64_t c = 0; c < p->columns && row >= 0 && row < p->table; c++)
            dw[row * p->columns + c] += dy[t * p->columns + c];
    }
}

/* The loss of one row; dlogits[v] = factor (softmax[v] - [v = target]) where that is wanted. */
static double xent_row(const weft_prepared *p, const float *logits, int32_t target, double factor,
                       float *dlogits)
{
    double most = -INFINITY, sum = 0;
    for (int64_t v = 0; v < p->valid; v++)
        most = fmax(most, (double)logits[v]);
    for (int64_t v = 0; v < p->valid; v++)
        sum += exp((double)logits[v] - most);
    const double loss = target < 0 ? 0 : log(sum) + most - (double)logits[target];
    for (int64_t v = 0; v < p->columns && dlogits; v++) {
        const double share = v < p->valid ? exp((double)logits[v] - most) / sum : 0;
        dlogits[v] = target < 0 ? 0 : (float)(factor * (share - (v == target)));
    }
    return loss;
}

static void xent(const weft_prepared *p, const void *const *in, void *const *out)
{
    const int32_t *targets = in[1];
    const double factor = p->nout == 2 ? (double)*(const float *)in[2] * p->weight : 0;
    double loss = 0;
    for (int64_t t = 0; t < p->rows; t++) {
        float *row = p->nout == 2 ? (float *)out[0] + t * p->columns : NULL;
        loss += xent_row(p, (const float *)in[0] + t * p->columns, targets[t], factor, row);
    }
    *(float *)out[p->nout - 1] = (float)(p->weight * loss);
}

static void sumsq(const weft_prepared *p, const void *const *in, void *const *out)
{
    const float *x = in[0];
    double sum = 0;
    for (int64_t i = 0; i < p->count[0]; i++)
        sum += (double)x[i] * (double)x[i];
    put(out[0], (float)sum, p->adds);
}

static void accumulate(const weft_prepared *p, const void *const *in, void *const *out)
{
    for (int64_t i = 0; i < p->n; i++)
        put((float *)out[0] + i, ((const float *)in[0])[i], p->adds);
}

static float step_of(const weft_ew_step *s, const float *r)
{
    const float a = r[s->a], b = r[s->b], c = r[s->c];
    switch (s->op) {
    case WEFT_EW_ADD: return a + b;
    case WEFT_EW_SUB: return a - b;
    case WEFT_EW_MUL: return a * b;
    case WEFT_EW_DIV: return a / b;
    case WEFT_EW_MIN: return a < b ? a : b;
    case WEFT_EW_MAX: return a > b ? a : b;
    case WEFT_EW_SQRT: return sqrtf(a);
    case WEFT_EW_NEG: return -a;
    case WEFT_EW_ABS: return fabsf(a);
    case WEFT_EW_SIGN: return (float)((a > 0) - (a < 0));
    case WEFT_EW_EXP: return expf(a);
    case WEFT_EW_LOG: return logf(a);
    case WEFT_EW_POW: return powf(a, b);
    case WEFT_EW_SELECT: return c != 0 ? a : b;
    case WEFT_EW_LESS: return a < b;
    case WEFT_EW_FINITE: return isfinite(a);
    case WEFT_EW_COS: return cosf(a);
    case WEFT_EW_CONST: return s->imm;
    case WEFT_EW_ROUND: return rintf(a);
    case WEFT_EW_FLOOR: return floorf(a);
    default: return a; /* copy: query() has refused what is not known */
    }
}

static void ew(const weft_prepared *p, const void *const *in, void *const *out)
{
    float r[WEFT_EW_MAX_REGISTERS];
    if (p->gate >= 0 && *(const float *)in[p->gate] == 0)
        return;
    for (int64_t i = 0; i < p->n; i++) {
        for (uint32_t k = 0; k < p->nin; k++)
            r[k] = ((const float *)in[k])[p->count[k] == 1 ? 0 : i];
        for (uint32_t k = 0; k < p->nsteps; k++)
            r[p->steps[k].dst] = step_of(&p->steps[k], r);
        for (uint32_t k = 0; k < p->nout; k++)
            put((float *)out[k] + i, r[p->out_reg[k]], p->adds);
    }
}

/* --- what is served: the plan half --- */

static const struct {
    const char *id;
    run_fn *run;
    const char *in, *out; /* a letter an operand: f fp32, i int32 */
    int32_t adds;         /* may accumulate */
} ops[] = {{"embedding", embedding, "fi", "f", 0}, {"embedding.dw", embedding_dw, "fif", "f", 1},
           {"softmax_xent", xent, "fif", "ff", 0}, {"softmax_xent.loss", xent, "fi", "f", 0},
           {"sumsq", sumsq, "f", "f", 1},          {"accumulate", accumulate, "f", "f", 1}};

static const char *const elementwise[] = {
    [WEFT_EW_COPY] = "copy",      [WEFT_EW_ADD] = "add",       [WEFT_EW_SUB] = "sub",
    [WEFT_EW_MUL] = "mul",        [WEFT_EW_DIV] = "div",       [WEFT_EW_MIN] = "min",
    [WEFT_EW_MAX] = "max",        [WEFT_EW_SQRT] = "sqrt",     [WEFT_EW_NEG] = "neg",
    [WEFT_EW_ABS] = "abs",        [WEFT_EW_SIGN] = "sign",     [WEFT_EW_EXP] = "exp",
    [WEFT_EW_LOG] = "log",        [WEFT_EW_POW] = "pow",       [WEFT_EW_SELECT] = "select",
    [WEFT_EW_LESS] = "less",      [WEFT_EW_FINITE] = "finite", [WEFT_EW_COS] = "cos",
    [WEFT_EW_CONST] = "constant", [WEFT_EW_ROUND] = "round",   [WEFT_EW_FLOOR] = "floor"};
#define OPCODES (sizeof elementwise / sizeof *elementwise)

static weft_status refuse(const weft_host *host, const char *why)
{
    return (host->fail)(host->ctx, WEFT_UNSUPPORTED, why);
}

static weft_status no_kernel(const weft_host *host, const char *id)
{
    char text[160];
    snprintf(text, sizeof text,
             "acme.plain has no kernel for the op %s; name a plugin with one in run.use", id);
    return refuse(host, text);
}

static weft_status check_types(const weft_host *host, const weft_operand *o, uint32_t n,
                               const char *types)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t want = types && types[i] == 'i' ? WEFT_I32 : WEFT_F32;
        if (o[i].flags || o[i].dtype != want)
            return refuse(host, "acme.plain computes on dense fp32 tensors and int32 ids");
    }
    return WEFT_OK;
}

/* Of an elementwise op: the program, or the one step that its name says. */
static weft_status check_program(const weft_host *host, const weft_opspec *spec)
{
    const weft_ew_program *p = spec->program;
    if (!weft_knows(p))
        return weft_refuse_unknown(host);
    if (spec->nin > WEFT_MAX_OPERANDS || p->nregs > WEFT_EW_MAX_REGISTERS)
        return refuse(host, "acme.plain has 64 registers and 32 operands an op");
    for (uint32_t i = 0; i < p->nsteps; i++)
        if (!p->steps[i].op || p->steps[i].op >= OPCODES || p->steps[i].flags & ~WEFT_EW_SCALAR)
            return refuse(host, "acme.plain: a step of the program is not known");
    return WEFT_OK;
}

static weft_status find(const weft_host *host, const weft_opspec *spec, size_t *op, uint32_t *code)
{
    weft_status st =
        weft_check_args(host, spec, sizeof *spec, WEFT_SPEC_ACCUMULATE | WEFT_SPEC_DETERMINISTIC);
    *code = 0;
    if (st != WEFT_OK)
        return st;
    for (*op = 0; *op < sizeof ops / sizeof *ops; ++*op) {
        if (strcmp(spec->id, ops[*op].id) != 0)
            continue;
        if (spec->nin != strlen(ops[*op].in) || spec->nout != strlen(ops[*op].out))
            return refuse(host, "acme.plain: the op has another number of operands");
        if (spec->flags & WEFT_SPEC_ACCUMULATE && !ops[*op].adds)
            return refuse(host, "acme.plain cannot add into the results of this op");
        st = check_types(host, spec->in, spec->nin, ops[*op].in);
        return st != WEFT_OK ? st : check_types(host, spec->out, spec->nout, NULL);
    }
    for (uint32_t i = 1; i < OPCODES && !*code; i++)
        *code = strcmp(spec->id, elementwise[i]) ? 0 : i;
    if (!*code && (strcmp(spec->id, "ew") != 0 || !spec->program))
        return no_kernel(host, spec->id);
    st = check_types(host, spec->in, spec->nin, NULL);
    if (st == WEFT_OK)
        st = check_types(host, spec->out, spec->nout, NULL);
    return st != WEFT_OK || *code ? st : check_program(host, spec);
}

static weft_status query(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out)
{
    const weft_requirements need = {sizeof need, 0, 0};
    size_t op;
    uint32_t code;
    const weft_status st = find(module, spec, &op, &code);
    (void)conf;
    if (st == WEFT_OK)
        weft_give(out, &need);
    return st;
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
        return (d->host->fail)(d->host->ctx, WEFT_NO_MEMORY,
                               "acme.plain: no memory; lower "
                               "train.microbatch");
    }
    b->next = d->blocks;
    d->blocks = b;
    *out = b->at;
    return WEFT_OK;
}

static weft_status arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd)
{
    if (want_fd)
        return refuse(d->host, "acme.plain has no descriptor of its memory");
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
    void *at;
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
    void *at;
    const weft_status st = take(d, sizeof(weft_event), 0, &at);
    if (st == WEFT_OK) {
        *out = at;
        (*out)->d = d;
    }
    return st;
}

static weft_status record(weft_event *e, weft_stream *s, uint32_t flags)
{
    (void)s;
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
    (void)s;
    if (!flags && bytes)
        memmove(to, from, bytes);
    return weft_check_flags(d->host, flags, 0);
}

static weft_status fill(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                        uint32_t flags)
{
    (void)s;
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

static weft_status prepare_steps(weft_prepared *p, const weft_opspec *spec, uint32_t code)
{
    const weft_ew_step one = {(uint16_t)code, (uint16_t)spec->nin, 0, 1, 2, 0, 0};
    const weft_ew_program *program = spec->program;
    weft_status st = WEFT_OK;
    p->run = ew;
    p->gate = code ? -1 : program->gate;
    p->nsteps = code ? 1 : program->nsteps;
    p->steps = weft_new(p->host, (p->nsteps ? p->nsteps : 1) * sizeof *p->steps, &st);
    if (st == WEFT_OK)
        memcpy(p->steps, code ? &one : program->steps, p->nsteps * sizeof *p->steps);
    for (uint32_t i = 0; i < spec->nout; i++)
        p->out_reg[i] = code ? one.dst : program->out_reg[i];
    return st;
}

static void read_attrs(weft_prepared *p, const weft_opspec *spec)
{
    p->weight = 1;
    for (uint32_t i = 0; i < spec->nattr; i++) {
        const weft_attr *a = &spec->attrs[i];
        if (!strcmp(a->key, "first"))
            p->first = a->i;
        else if (!strcmp(a->key, "valid"))
            p->valid = a->i;
        else if (!strcmp(a->key, "weight"))
            p->weight = a->f;
    }
}

static weft_status prepare(weft_device *d, const weft_opspec *spec, weft_prepared **out)
{
    size_t op;
    uint32_t code;
    weft_status st = find(d->host, spec, &op, &code);
    weft_prepared *p = weft_new(d->host, sizeof *p, &st);
    if (!p)
        return st;
    p->host = d->host;
    p->adds = (spec->flags & WEFT_SPEC_ACCUMULATE) != 0;
    p->nin = spec->nin;
    p->nout = spec->nout;
    p->n = count_of(&spec->out[0], 0);
    for (uint32_t i = 0; i < spec->nin; i++)
        p->count[i] = count_of(&spec->in[i], 0);
    read_attrs(p, spec);
    if (op == sizeof ops / sizeof *ops) {
        st = prepare_steps(p, spec, code);
    } else { /* rows of ids, and the columns of a row */
        const int32_t looks_up = !strcmp(spec->id, "embedding");
        p->run = ops[op].run;
        p->rows = spec->nin > 1 ? p->count[1] : 0;
        p->columns = count_of(&spec->in[0], 1);
        p->valid = p->valid ? p->valid : p->columns;
        p->table = looks_up ? spec->in[0].size[0] : spec->out[0].size[0];
    }
    if (st != WEFT_OK)
        release(p);
    else
        *out = p;
    return st;
}

static weft_status run(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags)
{
    (void)s, (void)workspace;
    if (!flags)
        p->run(p, in, out);
    return weft_check_flags(p->host, flags, 0);
}

static const weft_device_table table = {.struct_size = sizeof table,
                                        .caps = WEFT_DEV_HOST_MEMORY,
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
static const weft_component plain = {sizeof plain,          0,    "weft.device/1", "acme.plain",
                                     "plain loops in fp32", NULL, &table,          NULL};
static const weft_component *const components[] = {&plain, NULL};
WEFT_PLUGIN("org.acme.plain", "1", "", components, weft_open_host, NULL);
