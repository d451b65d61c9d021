/* check/exercise/device.c: the plan half of a device, and the run half where there is one. */
#include "check/device/device.h"
#include "check/exercise/exercise.h"

#include <string.h>
#include <weft/coll.h>
#include <weft/device.h>

#define ARENA ((uint64_t)4 << 20)
#define ELEMENTS 1000

#define CALL(d, t, member, ...) ((d)->where = #member, PLUGIN_GET(t, member, __VA_ARGS__))
#define LENT(d, ...) check_lend_end(&(d)->lend, CALL(d, __VA_ARGS__))
#define STEP(d, t, member, ...) CHECK_STEP(#member, LENT(d, t, member, __VA_ARGS__))

typedef struct job { /* what a device computes: out = a + b, as the core writes it */
    weft_ew_step step;
    check_dev_sum sum;
    weft_requirements need;
    uint64_t spare[8]; /* behind `need`: a plugin may write too much */
} job;

/* The op as it is lent for one call; `kept` is memory for it. */
static const weft_opspec *lend_spec(check_exercise *d, const job *j, job *kept)
{
    check_lend *l = &d->lend;
    weft_opspec *spec = &kept->sum.spec;
    weft_operand *in = kept->sum.line;
    kept->sum = j->sum;
    kept->step = *j->sum.program.steps;
    kept->step.op =
        (uint16_t)check_lend_value(l, "the opcode of a step of \"ew\"", kept->step.op, 60000);
    in[1].dtype = check_lend_value(l, "the type of an operand", in[1].dtype, 250);
    in[1].flags = check_lend_value(l, "the flags of an operand", 0, CHECK_LEND_FLAG);
    const bool odd_id = check_lend_value(l, "the id of an op", 0, 1);
    kept->sum.program.steps = check_lend_bytes(l, &kept->step, sizeof kept->step);
    kept->sum.program.out_reg =
        check_lend_bytes(l, j->sum.program.out_reg, sizeof *j->sum.program.out_reg);
    spec->id = check_lend_text(l, odd_id ? "acme.check.no_such_op" : spec->id);
    spec->in = check_lend_bytes(l, in, sizeof kept->sum.line);
    spec->out = check_lend_bytes(l, j->sum.line, sizeof *j->sum.line);
    spec->program = check_lend_table(l, &kept->sum.program);
    return CHECK_LEND(l, weft_opspec, spec);
}

static weft_status ask_query(check_exercise *d, const weft_device_table *t, const weft_conf *conf,
                             job *j)
{
    job kept;
    weft_requirements *need = check_lend_out(&d->lend, &j->need);
    const weft_status st = LENT(d, t, query, d->module, conf, lend_spec(d, j, &kept), need);
    check_lend_filled(&d->lend, &j->need, need, "weft_requirements");
    return st;
}

/* Places in the arena, and in the host memory. */
#define AT_A 0
#define AT_B 65536
#define AT_OUT 131072
#define AT_WORKSPACE 262144
#define STAGING ((uint64_t)3 * ELEMENTS * sizeof(float))

typedef struct half { /* the run half */
    check_exercise *d;
    const weft_device_table *t;
    weft_device *dev;
    weft_stream *s;
    weft_event *e;
    char *base;
    float *staging; /* a, b, a + b */
} half;

static weft_status copy(half *h, void *to, const void *from)
{
    return STEP(h->d, h->t, copy, h->dev, h->s, to, from, ELEMENTS * sizeof(float),
                CHECK_FLAGS(h->d, copy));
}

static weft_status compute(half *h, const job *j)
{
    weft_prepared *p = NULL;
    const void *in[2] = {h->base + AT_A, h->base + AT_B};
    void *out[1] = {h->base + AT_OUT};
    job kept;
    weft_status st = LENT(h->d, h->t, prepare, h->dev, lend_spec(h->d, j, &kept), &p);
    if (st == WEFT_OK)
        st =
            STEP(h->d, h->t, run, p, h->s, in, out, h->base + AT_WORKSPACE, CHECK_FLAGS(h->d, run));
    if (st == WEFT_OK)
        st = copy(h, h->staging + 2 * ELEMENTS, out[0]);
    if (st == WEFT_OK)
        st = STEP(h->d, h->t, record, h->e, h->s, CHECK_FLAGS(h->d, record));
    while (st == WEFT_OK) {
        st = STEP(h->d, h->t, event_query, h->e, CHECK_FLAGS(h->d, event_query));
        if (st == WEFT_OK)
            break;
        st = st == WEFT_BUSY ? WEFT_OK : st;
    }
    if (p) {
        const char *where = h->d->where;
        PLUGIN_DO(h->t, release, p);
        h->d->where = where;
    }
    for (uint32_t i = 0; st == WEFT_OK && i < ELEMENTS; i++)
        if (h->staging[2 * ELEMENTS + i] != h->staging[i] + h->staging[ELEMENTS + i])
            check_fail("'%s' adds %g and %g and gets %g (element %u of %u)", h->d->of,
                       (double)h->staging[i], (double)h->staging[ELEMENTS + i],
                       (double)h->staging[2 * ELEMENTS + i], i, ELEMENTS);
    return st;
}

static weft_status bring_up(half *h, const weft_conf *conf)
{
    check_exercise *d = h->d;
    const weft_device_table *t = h->t;
    const weft_device_args args = {sizeof args, 0, 0, 1, conf, NULL};
    const weft_device_args *lent = CHECK_LEND(&d->lend, weft_device_args, &args);
    int32_t fd = -1;
    void *base = NULL, *staging = NULL;
    weft_status st = LENT(d, t, open, d->module, lent, &h->dev);
    if (st == WEFT_OK && !CALL(d, t, describe, h->dev))
        check_fail("describe() of '%s' returned NULL", d->of);
    if (st == WEFT_OK)
        st = CALL(d, t, arena, h->dev, ARENA, 0, &base, &fd);
    if (st == WEFT_OK)
        st = CALL(d, t, host_memory, h->dev, STAGING, &staging);
    if (st == WEFT_OK)
        st = CALL(d, t, stream, h->dev, 0, &h->s);
    if (st == WEFT_OK && t->native_stream && !check_exercise_is_without(d, "native_stream"))
        (void)CALL(d, t, native_stream, h->s);
    if (st == WEFT_OK)
        st = CALL(d, t, event, h->dev, &h->e);
    h->base = base;
    h->staging = staging;
    return st;
}

static weft_status run_half(check_exercise *d, const weft_device_table *t, const weft_conf *conf,
                            job *j, bool computes)
{
    static _Atomic uint32_t salt;
    half h = {.d = d, .t = t};
    weft_status st = bring_up(&h, conf);
    const float more = (float)(atomic_fetch_add(&salt, 1) % 1000);
    for (uint32_t i = 0; st == WEFT_OK && i < 2 * ELEMENTS; i++)
        h.staging[i] = (float)i + more;
    if (st == WEFT_OK)
        st = STEP(d, t, fill, h.dev, h.s, h.base, 0, ARENA, CHECK_FLAGS(d, fill));
    if (st == WEFT_OK)
        st = copy(&h, h.base + AT_A, h.staging);
    if (st == WEFT_OK)
        st = copy(&h, h.base + AT_B, h.staging + ELEMENTS);
    if (st == WEFT_OK && computes && j->need.workspace <= ARENA - AT_WORKSPACE)
        st = compute(&h, j);
    const char *where = d->where;
    if (h.dev)
        PLUGIN_DO(t, close, h.dev);
    d->where = where;
    return st;
}

weft_status check_exercise_device(check_exercise *d, const host_component *c)
{
    const weft_device_table *t = c->table;
    const weft_conf *conf = check_conf(d->host, c);
    static const char *const chain[] = {"linear", "gelu"};
    static const uint32_t joins[] = {0, WEFT_FUSE_CHAINED};
    job j = {.need = {.struct_size = sizeof j.need}};
    int32_t score = 0;
    (void)check_dev_add(&j.sum, ELEMENTS);
    weft_status st = ask_query(d, t, conf, &j);
    const bool computes = st == WEFT_OK;
    if (st != WEFT_OK && st != WEFT_UNSUPPORTED)
        return st;
    check_host_clear(d->host);
    if (t->fuse && !check_exercise_is_without(d, "fuse"))
        CALL(d, t, fuse, d->module, conf, chain, joins, 2);
    if (d->paper)
        return WEFT_OK;
    st = CALL(d, t, probe, d->module, conf, &score);
    if (check_exercise_absent(d, st, score))
        return WEFT_OK;
    return st == WEFT_OK ? run_half(d, t, conf, &j, computes) : st;
}

weft_status check_exercise_coll(check_exercise *d, const host_component *c)
{
    const weft_coll_table *t = c->table;
    int32_t score = 0;
    const uint32_t memory = t->caps & WEFT_COLL_HOST ? WEFT_DEV_HOST_MEMORY : WEFT_DEV_CUDA_MEMORY;
    if (d->paper)
        return WEFT_OK;
    const weft_status st = CALL(d, t, probe, d->module, check_conf(d->host, c), memory, &score);
    return check_exercise_absent(d, st, score) ? WEFT_OK : st;
}
