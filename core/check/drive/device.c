/* check/drive/device.c: the plan half of a device, and the run half where there is one. */
#include "check/drive/drive.h"

#include <string.h>
#include <weft/coll.h>
#include <weft/device.h>

#define ARENA ((uint64_t)4 << 20)
#define ELEMENTS 1000

#define CALL(d, t, member, ...) ((d)->where = #member, PLUGIN_GET(t, member, __VA_ARGS__))
#define LENT(d, ...) check_lend_end(&(d)->lend, CALL(d, __VA_ARGS__))

/* out = a + b, as the core writes it. */
static const weft_ew_step steps[] = {{WEFT_EW_ADD, 2, 0, 1, 0, 0, 0}};
static const uint16_t outs[] = {2};

typedef struct job { /* what a device computes */
    weft_ew_program program;
    weft_operand in[2], out[1];
    weft_opspec spec;
    weft_requirements need;
    uint64_t spare[8]; /* behind `need`: a plugin may write too much */
} job;

static void make_job(job *j)
{
    const weft_operand line = {.dtype = WEFT_F32, .rank = 1, .size = {ELEMENTS}};
    memset(j, 0, sizeof *j);
    j->program = (weft_ew_program){sizeof j->program, 1, 3, -1, steps, outs};
    j->in[0] = j->in[1] = j->out[0] = line;
    j->spec = (weft_opspec){.struct_size = sizeof j->spec,
                            .id = "ew",
                            .nin = 2,
                            .nout = 1,
                            .in = j->in,
                            .out = j->out,
                            .program = &j->program};
    j->need.struct_size = sizeof j->need;
}

/* The op as it is lent for one call; `kept` is memory for it. */
static const weft_opspec *lend_spec(check_drive *d, const job *j, job *kept)
{
    check_lend *l = &d->lend;
    static weft_ew_step step[sizeof steps / sizeof *steps];
    memcpy(step, steps, sizeof steps);
    weft_operand in[2] = {j->in[0], j->in[1]};
    step->op = (uint16_t)check_lend_value(l, "the opcode of a step of \"ew\"", step->op, 60000);
    in[1].dtype = check_lend_value(l, "the type of an operand", in[1].dtype, 250);
    in[1].flags = check_lend_value(l, "the flags of an operand", 0, CHECK_LEND_FLAG);
    const bool odd_id = check_lend_value(l, "the id of an op", 0, 1);
    *kept = (job){.program = j->program, .in = {in[0], in[1]}, .out = {j->out[0]}, .spec = j->spec};
    kept->program.steps = check_lend_bytes(l, step, sizeof steps);
    kept->program.out_reg = check_lend_bytes(l, outs, sizeof outs);
    kept->spec.id = check_lend_text(l, odd_id ? "acme.check.no_such_op" : j->spec.id);
    kept->spec.in = check_lend_bytes(l, kept->in, sizeof kept->in);
    kept->spec.out = check_lend_bytes(l, kept->out, sizeof kept->out);
    kept->spec.program = check_lend_table(l, &kept->program);
    return CHECK_LEND(l, weft_opspec, &kept->spec);
}

static weft_status ask_query(check_drive *d, const weft_device_table *t, const weft_conf *conf,
                             job *j)
{
    job kept;
    weft_requirements *need = check_lend_out(&d->lend, &j->need);
    const weft_status st = LENT(d, t, query, d->module, conf, lend_spec(d, j, &kept), need);
    check_lend_filled(&d->lend, &j->need, need, "weft_requirements");
    return st;
}

static weft_status run_job(check_drive *d, const weft_device_table *t, weft_device *dev, job *j,
                           weft_stream *s, char *base)
{
    weft_prepared *p = NULL;
    const void *in[2] = {base, base + 65536};
    void *out[1] = {base + 131072};
    job kept;
    weft_status st = LENT(d, t, prepare, dev, lend_spec(d, j, &kept), &p);
    if (st == WEFT_OK)
        st = LENT(d, t, run, p, s, in, out, base + 262144, CHECK_FLAGS(d, run));
    if (st == WEFT_OK || p)
        PLUGIN_DO(t, release, p);
    return st;
}

static weft_status run_half(check_drive *d, const weft_device_table *t, const weft_conf *conf,
                            job *j, bool computes)
{
    const weft_device_args args = {sizeof args, 0, 0, 1, conf};
    const weft_device_args *lent = CHECK_LEND(&d->lend, weft_device_args, &args);
    weft_device *dev = NULL;
    weft_stream *s = NULL;
    weft_event *e = NULL;
    void *base = NULL, *staging = NULL;
    int32_t fd = -1;
    weft_status st = LENT(d, t, open, d->module, lent, &dev);
    if (st == WEFT_OK && !CALL(d, t, describe, dev))
        check_fail("describe() of '%s' returned NULL", d->of);
    if (st == WEFT_OK)
        st = CALL(d, t, arena, dev, ARENA, 0, &base, &fd);
    if (st == WEFT_OK)
        st = CALL(d, t, host_memory, dev, 4096, &staging);
    if (st == WEFT_OK)
        st = CALL(d, t, stream, dev, 0, &s);
    if (st == WEFT_OK && t->native_stream && !check_drive_is_without(d, "native_stream"))
        (void)CALL(d, t, native_stream, s);
    if (st == WEFT_OK)
        st = CALL(d, t, event, dev, &e);
    if (st == WEFT_OK)
        st = LENT(d, t, fill, dev, s, base, 0, ARENA, CHECK_FLAGS(d, fill));
    if (st == WEFT_OK && computes && j->need.workspace <= ARENA - 262144)
        st = run_job(d, t, dev, j, s, base);
    if (st == WEFT_OK)
        st = LENT(d, t, copy, dev, s, staging, base, 4096, CHECK_FLAGS(d, copy));
    if (st == WEFT_OK)
        st = LENT(d, t, record, e, s, CHECK_FLAGS(d, record));
    if (st == WEFT_OK)
        do
            st = LENT(d, t, event_query, e, CHECK_FLAGS(d, event_query));
        while (st == WEFT_BUSY);
    const char *where = d->where;
    PLUGIN_DO(t, close, dev);
    d->where = where;
    return st;
}

weft_status check_drive_device(check_drive *d, const component *c)
{
    const weft_device_table *t = c->table;
    const weft_conf *conf = check_conf(d->host, c);
    static const char *const chain[] = {"linear", "gelu"};
    static const uint32_t joins[] = {0, WEFT_FUSE_CHAINED};
    job j;
    int32_t score = 0;
    make_job(&j);
    weft_status st = ask_query(d, t, conf, &j);
    const bool computes = st == WEFT_OK;
    if (st != WEFT_OK && st != WEFT_UNSUPPORTED)
        return st;
    check_host_clear(d->host);
    if (t->fuse && !check_drive_is_without(d, "fuse"))
        CALL(d, t, fuse, d->module, conf, chain, joins, 2);
    st = CALL(d, t, probe, d->module, conf, &score);
    if (check_drive_absent(d, st, score))
        return WEFT_OK;
    return st == WEFT_OK ? run_half(d, t, conf, &j, computes) : st;
}

weft_status check_drive_coll(check_drive *d, const component *c)
{
    const weft_coll_table *t = c->table;
    int32_t score = 0;
    const weft_status st =
        CALL(d, t, probe, d->module, check_conf(d->host, c), WEFT_DEV_HOST_MEMORY, &score);
    return check_drive_absent(d, st, score) ? WEFT_OK : st;
}
