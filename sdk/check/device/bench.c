/* check/device/bench.c: a device under check, from its module to its streams. */
#include "base/clock.h"
#include "base/time/pressure.h"
#include "check/device/device.h"

#include <string.h>

#define TIMEOUT_MS 5000u

const char *check_bench_why(const check_dev *b)
{
    return b->host->why[0] ? b->host->why : b->other ? b->other->why : "";
}

void check_dev_ok(check_dev *w, weft_status st, const char *member)
{
    if (st != WEFT_OK)
        check_fail("%s() of '%s' returned %s, and the call is lawful: %s", member, w->c->name,
                   check_status(st),
                   check_bench_why(w)[0] ? check_bench_why(w) : "without a reason");
}

static bool open_with(check_dev *w, uint32_t flags)
{
    check_host *h = w->other ? w->other : w->host;
    int32_t score = 0;
    w->t = w->c->table;
    w->conf = check_conf(h, w->c);
    const weft_device_args args = {sizeof args, flags, 0, 1, w->conf, NULL};
    check_dev_ok(w, CHECK_DEV(w, probe, w->module, w->conf, &score), "probe");
    if (score <= 0) {
        check_absent("'%s' cannot be used on this machine: %s", w->c->name,
                     h->why[0] ? h->why : "its probe() gives no reason");
        return false;
    }
    check_dev_ok(w, CHECK_DEV(w, open, w->module, &args, &w->d), "open");
    return true;
}

bool check_dev_open(check_dev *w)
{
    return open_with(w, 0);
}

void check_dev_up(check_dev *w, uint64_t arena)
{
    int32_t fd = -1;
    void *base = NULL, *staging = NULL;
    check_dev_ok(w, CHECK_DEV(w, arena, w->d, arena, 0, &base, &fd), "arena");
    check_dev_ok(w, CHECK_DEV(w, host_memory, w->d, CHECK_DEV_ARENA, &staging), "host_memory");
    for (uint32_t i = 0; i < 2; i++) {
        check_dev_ok(w, CHECK_DEV(w, stream, w->d, 0, &w->s[i]), "stream");
        check_dev_ok(w, CHECK_DEV(w, event, w->d, &w->e[i]), "event");
    }
    w->base = base;
    w->staging = staging;
}

bool check_bench_up(check_dev *b)
{
    if (!open_with(b, WEFT_SPEC_DETERMINISTIC))
        return false;
    check_dev_up(b, 2 * CHECK_DEV_ARENA);
    return true;
}

void check_dev_close(check_dev *w)
{
    if (w->d)
        PLUGIN_DO(w->t, close, w->d);
    w->d = NULL;
}

typedef enum half { PAPER, OPEN, UP, BENCH } half;

static bool make_ready(check_dev *w, half want)
{
    if (want == BENCH)
        return check_bench_up(w);
    const bool here = want == PAPER || check_dev_open(w);
    if (here && want == UP)
        check_dev_up(w, CHECK_DEV_ARENA);
    return here;
}

static void each(check_run *r, half want, void (*fn)(check_dev *w))
{
    static check_host h;
    const weft_manifest *m = check_manifest(r);
    for (uint32_t i = 0; i < r->n; i++) {
        check_dev w = {.run = r, .c = r->components[i], .host = &h, .who = r->components[i]->name};
        if (!w.c->iface || strcmp(w.c->iface, "weft.device/1") != 0)
            continue;
        w.t = w.c->table;
        check_dev_limit(&w, TIMEOUT_MS);
        check_host_begin(&h, "the host");
        w.conf = check_conf(&h, w.c);
        check_dev_ok(&w, check_open(m, &h, &w.module), "open");
        if (make_ready(&w, want))
            fn(&w);
        check_dev_close(&w);
        check_close(m, w.module);
        check_host_end(&h);
    }
}

void check_dev_each(check_run *r, void (*fn)(check_dev *w))
{
    each(r, PAPER, fn);
}

void check_dev_each_open(check_run *r, void (*fn)(check_dev *w))
{
    each(r, OPEN, fn);
}

void check_dev_each_up(check_run *r, void (*fn)(check_dev *w))
{
    each(r, UP, fn);
}

void check_bench_each(check_run *r, bool paper, void (*fn)(check_dev *b))
{
    each(r, paper ? PAPER : BENCH, fn);
}

void check_dev_copy(check_dev *w, uint32_t i, void *to, const void *from, uint64_t bytes)
{
    check_dev_ok(w, CHECK_DEV(w, copy, w->d, w->s[i], to, from, bytes, 0), "copy");
}

void check_dev_fill(check_dev *w, uint32_t i, void *to, int32_t byte, uint64_t bytes)
{
    check_dev_ok(w, CHECK_DEV(w, fill, w->d, w->s[i], to, byte, bytes, 0), "fill");
}

void check_dev_record(check_dev *w, uint32_t i)
{
    check_dev_ok(w, CHECK_DEV(w, record, w->e[i], w->s[i], 0), "record");
}

void check_dev_reach(check_dev *w, uint32_t i)
{
    weft_status st;
    while ((st = CHECK_DEV(w, event_query, w->e[i], 0)) == WEFT_BUSY)
        if (pressure_ms() > w->until)
            check_fail("an event of '%s' is still WEFT_BUSY after %u ms", w->c->name, w->limit);
    check_dev_ok(w, st, "event_query");
}

void check_dev_wait(check_dev *w, uint32_t i)
{
    check_dev_record(w, i);
    check_dev_reach(w, i);
}

void check_dev_limit(check_dev *w, uint32_t ms)
{
    w->until = pressure_ms() + ms;
    w->limit = ms;
}

const weft_opspec *check_dev_add(check_dev_sum *kept, int64_t n)
{
    static const weft_ew_step steps[] = {{WEFT_EW_ADD, 2, 0, 1, 0, 0, 0}};
    static const uint16_t outs[] = {2};
    const weft_operand line = {.dtype = WEFT_F32, .rank = 1, .size = {n}};
    *kept = (check_dev_sum){.program = {sizeof kept->program, 1, 3, -1, steps, outs},
                            .line = {line, line}};
    kept->spec = (weft_opspec){.struct_size = sizeof kept->spec,
                               .id = "ew",
                               .nin = 2,
                               .nout = 1,
                               .in = kept->line,
                               .out = kept->line,
                               .program = &kept->program};
    return &kept->spec;
}
