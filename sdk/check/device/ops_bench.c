/* check/device/ops_bench.c: a device, or a kernel for it, on which calls are run. See ops.h. */
#include "base/clock.h"
#include "base/err.h"
#include "base/time/pressure.h"
#include "check/device/ops.h"

#include <string.h>
#include <time.h>

#define TIMEOUT_MS 9000u /* for one run */

#define CALL(b, member, ...) PLUGIN_GET((b)->t, member, __VA_ARGS__)

const char *check_bench_why(const check_bench *b)
{
    return b->host->why[0] ? b->host->why : b->other ? b->other->why : "";
}

void check_bench_clear(check_bench *b)
{
    check_host_clear(b->host);
    if (b->other)
        check_host_clear(b->other);
}

static void must(check_bench *b, weft_status st, const char *member)
{
    if (st != WEFT_OK)
        check_fail("%s() of '%s' returned %s, and the call is lawful: %s", member, b->c->name,
                   check_status(st), check_bench_why(b));
}

/* --- up and down --- */

bool check_bench_up(check_bench *b)
{
    check_host *h = b->other ? b->other : b->host;
    int32_t score = 0, fd = -1;
    void *base = NULL, *staging = NULL;
    b->t = b->c->table;
    b->conf = check_conf(h, b->c);
    must(b, CALL(b, probe, b->module, b->conf, &score), "probe");
    if (score <= 0) {
        check_absent("'%s' cannot be used on this machine: %s", b->c->name,
                     h->why[0] ? h->why : "its probe() gives no reason");
        return false;
    }
    const weft_device_args args = {sizeof args, WEFT_SPEC_DETERMINISTIC, 0, 1, b->conf, NULL};
    must(b, CALL(b, open, b->module, &args, &b->d), "open");
    must(b, CALL(b, arena, b->d, 2 * CHECK_HALF, 0, &base, &fd), "arena");
    must(b, CALL(b, host_memory, b->d, CHECK_HALF, &staging), "host_memory");
    must(b, CALL(b, stream, b->d, 0, &b->s[0]), "stream");
    must(b, CALL(b, stream, b->d, 0, &b->s[1]), "stream");
    must(b, CALL(b, event, b->d, &b->e), "event");
    b->base = base;
    b->staging = staging;
    return true;
}

void check_bench_down(check_bench *b)
{
    if (b->d)
        PLUGIN_DO(b->t, close, b->d);
    b->d = NULL;
}

void check_bench_each(check_run *r, bool paper, void (*fn)(check_bench *b))
{
    const weft_manifest *m = check_manifest(r);
    for (uint32_t i = 0; i < r->n; i++) {
        static check_host h;
        check_bench b = {.run = r, .host = &h, .c = r->components[i]};
        if (!b.c->iface || strcmp(b.c->iface, "weft.device/1") != 0)
            continue;
        check_host_begin(&h, "the host");
        b.who = b.c->name;
        b.t = b.c->table;
        const weft_status st = check_open(m, &h, &b.module);
        if (st != WEFT_OK)
            check_fail("open() of '%s' returned %s: %s", m->id, check_status(st), h.why);
        b.conf = check_conf(&h, b.c);
        if (paper || check_bench_up(&b))
            fn(&b);
        check_bench_down(&b);
        check_close(m, b.module);
        check_host_end(&h);
    }
}

/* --- the plan half --- */

weft_status check_bench_query(check_bench *b, const check_call *c, weft_requirements *need)
{
    const weft_opspec spec = check_call_spec(c);
    weft_requirements own = {.struct_size = sizeof own};
    check_bench_clear(b);
    const weft_status st =
        b->k ? PLUGIN_GET(b->k, query, b->kmodule, b->kernel->no_options, &spec, &own)
             : CALL(b, query, b->module, b->conf, &spec, &own);
    if (need)
        *need = own;
    return st;
}

bool check_bench_accepts(check_bench *b, const check_call *c, weft_requirements *need)
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

static void *native(check_bench *b, weft_stream *s)
{
    return WEFT_HAS(b->t, native_stream) ? CALL(b, native_stream, s) : NULL;
}

weft_status check_bench_try(check_bench *b, const check_call *c, void **out)
{
    const weft_opspec spec = check_call_spec(c);
    weft_prepared *p = NULL;
    *out = NULL;
    if (b->k)
        return PLUGIN_GET(b->k, prepare, b->kmodule, b->kernel->no_options, &spec,
                          native(b, b->s[0]), out);
    const weft_status st = CALL(b, prepare, b->d, &spec, &p);
    *out = p;
    return st;
}

void *check_bench_prepare(check_bench *b, const check_call *c)
{
    void *p;
    const weft_status st = check_bench_try(b, c, &p);
    if (st != WEFT_OK)
        check_fail("query() of '%s' accepts %s, and prepare() returns %s: %s", b->who, c->what,
                   check_status(st), check_bench_why(b));
    return p;
}

void check_bench_release(check_bench *b, void *prepared)
{
    if (b->k)
        PLUGIN_DO(b->k, release, prepared);
    else
        PLUGIN_DO(b->t, release, prepared);
}

void check_image_begin(check_bench *b, const check_call *c, check_image *m)
{
    weft_requirements need;
    if (!check_bench_accepts(b, c, &need))
        check_fail("query() of '%s' accepts %s at first and refuses it later", b->who, c->what);
    (void)check_image_lay(c, need.workspace, m);
    check_image_fill(c, m);
}

static void wait_idle(check_bench *b, weft_stream *s)
{
    const uint64_t until = pressure_ms() + TIMEOUT_MS;
    weft_status st = CALL(b, record, b->e, s, 0);
    must(b, st, "record");
    while ((st = CALL(b, event_query, b->e, 0)) == WEFT_BUSY)
        if (pressure_ms() > until)
            check_fail("an event of '%s' is still WEFT_BUSY after %u ms", b->c->name, TIMEOUT_MS);
    must(b, st, "event_query");
}

void check_bench_wait(check_bench *b)
{
    wait_idle(b, b->s[0]);
    wait_idle(b, b->s[1]);
}

void check_bench_put(check_bench *b, const check_image *m, uint32_t half)
{
    memcpy(b->staging, m->was, m->bytes);
    must(b, CALL(b, copy, b->d, b->s[0], b->base + half * CHECK_HALF, b->staging, m->bytes, 0),
         "copy");
    wait_idle(b, b->s[0]);
}

void check_bench_get(check_bench *b, check_image *m, uint32_t half)
{
    must(b, CALL(b, copy, b->d, b->s[0], b->staging, b->base + half * CHECK_HALF, m->bytes, 0),
         "copy");
    wait_idle(b, b->s[0]);
    memcpy(m->is, b->staging, m->bytes);
}

void check_bench_run(check_bench *b, void *prepared, const check_call *c, const check_image *m,
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
             : CALL(b, run, prepared, b->s[stream], in, out, capacity, 0);
    if (st != WEFT_OK)
        check_fail("run() of '%s' for %s returned %s: %s", b->who, c->what, check_status(st),
                   check_bench_why(b));
}

void check_bench_compute(check_bench *b, const check_call *c, check_image *m)
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
