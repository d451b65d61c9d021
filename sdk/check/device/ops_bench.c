/* check/device/ops_bench.c: a device, or a kernel for it, on which calls are run. See ops.h. */
#include "check/device/ops.h"

#include <string.h>

#define TIMEOUT_MS 9000u /* for one run */

void check_bench_clear(check_dev *b)
{
    check_host_clear(b->host);
    if (b->other)
        check_host_clear(b->other);
}

/* --- the plan half --- */

weft_status check_bench_query(check_dev *b, const check_call *c, weft_requirements *need)
{
    const weft_opspec spec = check_call_spec(c);
    weft_requirements own = {.struct_size = sizeof own};
    check_bench_clear(b);
    const weft_status st =
        b->k ? PLUGIN_GET(b->k, query, b->kmodule, b->kernel->no_options, &spec, &own)
             : CHECK_DEV(b, query, b->module, b->conf, &spec, &own);
    if (need)
        *need = own;
    return st;
}

bool check_bench_accepts(check_dev *b, const check_call *c, weft_requirements *need)
{
    weft_requirements own;
    check_image m;
    const bool yes = check_bench_query(b, c, &own) == WEFT_OK;
    check_bench_clear(b);
    if (need)
        *need = own;
    return yes && check_image_lay(c, own.workspace, &m);
}

/* --- runs --- */

static void *native(check_dev *b, weft_stream *s)
{
    return WEFT_HAS(b->t, native_stream) ? CHECK_DEV(b, native_stream, s) : NULL;
}

weft_status check_bench_try(check_dev *b, const check_call *c, void **out)
{
    const weft_opspec spec = check_call_spec(c);
    weft_prepared *p = NULL;
    *out = NULL;
    if (b->k)
        return PLUGIN_GET(b->k, prepare, b->kmodule, b->kernel->no_options, &spec,
                          native(b, b->s[0]), out);
    const weft_status st = CHECK_DEV(b, prepare, b->d, &spec, &p);
    *out = p;
    return st;
}

void *check_bench_prepare(check_dev *b, const check_call *c)
{
    void *p;
    const weft_status st = check_bench_try(b, c, &p);
    if (st != WEFT_OK)
        check_fail("query() of '%s' accepts %s, and prepare() returns %s: %s", b->who, c->what,
                   check_status(st), check_bench_why(b));
    return p;
}

void check_bench_release(check_dev *b, void *prepared)
{
    if (b->k)
        PLUGIN_DO(b->k, release, prepared);
    else
        PLUGIN_DO(b->t, release, prepared);
}

void check_image_begin(check_dev *b, const check_call *c, check_image *m)
{
    weft_requirements need;
    if (!check_bench_accepts(b, c, &need))
        check_fail("query() of '%s' accepts %s at first and refuses it later", b->who, c->what);
    (void)check_image_lay(c, need.workspace, m);
    check_image_fill(c, m);
}

static void wait_idle(check_dev *b, uint32_t i)
{
    check_dev_limit(b, TIMEOUT_MS);
    check_dev_wait(b, i);
}

void check_bench_wait(check_dev *b)
{
    wait_idle(b, 0);
    wait_idle(b, 1);
}

void check_bench_put(check_dev *b, const check_image *m, uint32_t half)
{
    memcpy(b->staging, m->was, m->bytes);
    check_dev_copy(b, 0, b->base + half * CHECK_HALF, b->staging, m->bytes);
    wait_idle(b, 0);
}

void check_bench_get(check_dev *b, check_image *m, uint32_t half)
{
    check_dev_copy(b, 0, b->staging, b->base + half * CHECK_HALF, m->bytes);
    wait_idle(b, 0);
    memcpy(m->is, b->staging, m->bytes);
}

void check_bench_run(check_dev *b, void *prepared, const check_call *c, const check_image *m,
                     uint32_t half, uint32_t stream)
{
    const void *in[WEFT_MAX_OPERANDS];
    void *out[WEFT_MAX_OPERANDS];
    char *base = b->base + half * CHECK_HALF, *capacity = base + m->workspace;
    for (uint32_t k = 0; k < WEFT_MAX_OPERANDS; k++) {
        in[k] = k >= c->nin ? CHECK_NOWHERE : m->absent_in[k] ? NULL : base + m->in[k];
        out[k] = k >= c->nout ? CHECK_NOWHERE : m->absent_out[k] ? NULL : base + m->out[k];
    }
    const weft_status st =
        b->k ? PLUGIN_GET(b->k, run, prepared, native(b, b->s[stream]), in, out, capacity, 0)
             : CHECK_DEV(b, run, prepared, b->s[stream], in, out, capacity, 0);
    if (st != WEFT_OK)
        check_fail("run() of '%s' for %s returned %s: %s", b->who, c->what, check_status(st),
                   check_bench_why(b));
}

void check_bench_compute(check_dev *b, const check_call *c, check_image *m)
{
    if (!m->was)
        check_image_begin(b, c, m);
    void *p = check_bench_prepare(b, c);
    check_bench_put(b, m, 0);
    check_bench_run(b, p, c, m, 0, 0);
    check_bench_wait(b);
    check_bench_get(b, m, 0);
    check_bench_release(b, p);
}
