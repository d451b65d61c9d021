/* check/drive/device.c: the plan half of a device, and the run half where there is one. */
#include "check/drive/drive.h"

#include <string.h>
#include <weft/coll.h>
#include <weft/device.h>

#define ARENA ((uint64_t)4 << 20)
#define ELEMENTS 1000

#define CALL(d, t, member, ...) ((d)->where = #member, PLUGIN_GET(t, member, __VA_ARGS__))

/* out = a + b, as the core writes it. */
static const weft_ew_step steps[] = {{WEFT_EW_ADD, 2, 0, 1, 0, 0, 0}};
static const uint16_t outs[] = {2};

typedef struct job { /* what a device computes */
    weft_ew_program program;
    weft_operand in[2], out[1];
    weft_opspec spec;
    weft_requirements need;
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

static weft_status run_job(check_drive *d, const weft_device_table *t, weft_device *dev, job *j,
                           weft_stream *s, char *base)
{
    weft_prepared *p = NULL;
    const void *in[2] = {base, base + 65536};
    void *out[1] = {base + 131072};
    weft_status st = CALL(d, t, prepare, dev, &j->spec, &p);
    if (st == WEFT_OK)
        st = CALL(d, t, run, p, s, in, out, base + 262144, 0);
    if (st == WEFT_OK || p)
        PLUGIN_DO(t, release, p);
    return st;
}

static weft_status run_half(check_drive *d, const weft_device_table *t, const weft_conf *conf,
                            job *j, bool computes)
{
    const weft_device_args args = {sizeof args, 0, 0, 1, conf};
    weft_device *dev = NULL;
    weft_stream *s = NULL;
    weft_event *e = NULL;
    void *base = NULL, *staging = NULL;
    int32_t fd = -1;
    weft_status st = CALL(d, t, open, d->module, &args, &dev);
    if (st == WEFT_OK && !CALL(d, t, describe, dev))
        check_fail("describe() of '%s' returned NULL", d->of);
    if (st == WEFT_OK)
        st = CALL(d, t, arena, dev, ARENA, 0, &base, &fd);
    if (st == WEFT_OK)
        st = CALL(d, t, host_memory, dev, 4096, &staging);
    if (st == WEFT_OK)
        st = CALL(d, t, stream, dev, 0, &s);
    if (st == WEFT_OK)
        st = CALL(d, t, event, dev, &e);
    if (st == WEFT_OK)
        st = CALL(d, t, fill, dev, s, base, 0, ARENA, 0);
    if (st == WEFT_OK && computes && j->need.workspace <= ARENA - 262144)
        st = run_job(d, t, dev, j, s, base);
    if (st == WEFT_OK)
        st = CALL(d, t, copy, dev, s, staging, base, 4096, 0);
    if (st == WEFT_OK)
        st = CALL(d, t, record, e, s, 0);
    if (st == WEFT_OK)
        do
            st = CALL(d, t, event_query, e, 0);
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
    weft_status st = CALL(d, t, query, d->module, conf, &j.spec, &j.need);
    const bool computes = st == WEFT_OK;
    if (st != WEFT_OK && st != WEFT_UNSUPPORTED)
        return st;
    check_host_clear(d->host);
    if (t->fuse)
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
