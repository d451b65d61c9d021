/* check/fuzz/devices.c: fills, copies and elementwise ops in a random order, and the same on plain
 * memory of the host.
 *
 * The memory is an array of whole numbers in fp32, which are added exactly. Pieces begin at 64
 * bytes, as operands do. */
#include "base/clock.h"
#include "base/time/pressure.h"
#include "check/device/device.h"
#include "check/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <weft/device.h>

#define CALLS 150u
#define FLOATS 16384u /* of the arena that the sequence uses */
#define LIMIT 2000u   /* of one piece */
#define ARENA ((uint64_t)4 << 20)
#define WORKSPACE_AT ((uint64_t)1 << 20)
#define TIMEOUT_MS 8000u

typedef struct bench {
    check_sequence *s;
    const weft_device_table *t;
    weft_device *d;
    weft_stream *stream;
    weft_event *e;
    char *base;
    float *staging; /* host memory of the device, FLOATS of them */
    float *want;    /* what the arena holds */
    uint64_t until;
} bench;

#define CALL(w, member, ...) ((w)->s->calls++, PLUGIN_GET((w)->t, member, __VA_ARGS__))

static uint32_t place(bench *w)
{
    return check_sequence_below(w->s, (FLOATS - LIMIT) / 16) * 16;
}

static uint32_t length(bench *w)
{
    return 1 + check_sequence_below(w->s, LIMIT - 1);
}

/* All that was put on the stream is done. */
static void settle(bench *w)
{
    weft_status st = CALL(w, record, w->e, w->stream, 0);
    check_sequence_ok(w->s, st, "record");
    while ((st = CALL(w, event_query, w->e, 0)) == WEFT_BUSY)
        if (pressure_ms() > w->until)
            check_sequence_fail(w->s, "an event of '%s' is WEFT_BUSY at the deadline",
                                w->s->c->name);
    check_sequence_ok(w->s, st, "event_query");
}

static void copy(bench *w, void *to, const void *from, uint32_t floats)
{
    check_sequence_ok(w->s, CALL(w, copy, w->d, w->stream, to, from, floats * sizeof(float), 0),
                      "copy");
}

static void put(bench *w)
{
    const uint32_t at = place(w), n = length(w);
    settle(w); /* an earlier copy may still read the staging memory */
    for (uint32_t i = 0; i < n; i++)
        w->want[at + i] = w->staging[i] = (float)check_sequence_below(w->s, 1000);
    copy(w, w->base + at * sizeof(float), w->staging, n);
}

static void fill(bench *w)
{
    const uint32_t at = place(w), n = length(w);
    memset(w->want + at, 0, n * sizeof(float));
    check_sequence_ok(
        w->s, CALL(w, fill, w->d, w->stream, w->base + at * sizeof(float), 0, n * sizeof(float), 0),
        "fill");
}

static void move(bench *w)
{
    const uint32_t from = place(w), to = place(w), n = length(w);
    if (from < to + LIMIT && to < from + LIMIT)
        return; /* pieces that overlap may not be copied */
    memcpy(w->want + to, w->want + from, n * sizeof(float));
    copy(w, w->base + to * sizeof(float), w->base + from * sizeof(float), n);
}

/* out = a + b, prepared for this length. */
static void add(bench *w)
{
    const uint32_t a = place(w), b = place(w), out = place(w), n = length(w);
    check_dev_sum sum;
    const weft_opspec *spec = check_dev_add(&sum, n);
    const void *from[2] = {w->base + a * sizeof(float), w->base + b * sizeof(float)};
    void *to[1] = {w->base + out * sizeof(float)};
    weft_requirements need = {.struct_size = sizeof need};
    weft_prepared *p = NULL;
    if ((out < a + LIMIT && a < out + LIMIT) || (out < b + LIMIT && b < out + LIMIT))
        return; /* no output overwrites an input here */
    const weft_status st = CALL(w, query, w->s->module, w->s->conf, spec, &need);
    if (st == WEFT_UNSUPPORTED || need.workspace > ARENA - WORKSPACE_AT)
        return;
    check_sequence_ok(w->s, st, "query");
    check_sequence_ok(w->s, CALL(w, prepare, w->d, spec, &p), "prepare");
    for (uint32_t i = 0; i < n; i++)
        w->want[out + i] = w->want[a + i] + w->want[b + i];
    check_sequence_ok(w->s, CALL(w, run, p, w->stream, from, to, w->base + WORKSPACE_AT, 0), "run");
    settle(w); /* release() is called when no run is in flight */
    PLUGIN_DO(w->t, release, p);
}

static void compare(bench *w)
{
    settle(w);
    copy(w, w->staging, w->base, FLOATS);
    settle(w);
    for (uint32_t i = 0; i < FLOATS; i++)
        if (w->staging[i] != w->want[i])
            check_sequence_fail(w->s,
                                "after fills, copies and sums element %u of the arena of '%s' "
                                "is %g instead of %g",
                                i, w->s->c->name, (double)w->staging[i], (double)w->want[i]);
}

static void one_call(bench *w)
{
    static void (*const calls[])(bench *) = {put, put, fill, move, move, add, add, settle, compare};
    calls[check_sequence_below(w->s, sizeof calls / sizeof *calls)](w);
}

static bool bring_up(bench *w)
{
    const weft_device_args args = {sizeof args, 0, 0, 1, w->s->conf, NULL};
    int32_t score = 0, fd = -1;
    void *base = NULL, *staging = NULL;
    check_sequence_ok(w->s, CALL(w, probe, w->s->module, w->s->conf, &score), "probe");
    if (score <= 0)
        return false;
    check_sequence_ok(w->s, CALL(w, open, w->s->module, &args, &w->d), "open");
    check_sequence_ok(w->s, CALL(w, arena, w->d, ARENA, 0, &base, &fd), "arena");
    check_sequence_ok(w->s, CALL(w, host_memory, w->d, FLOATS * sizeof(float), &staging),
                      "host_memory");
    check_sequence_ok(w->s, CALL(w, stream, w->d, 0, &w->stream), "stream");
    check_sequence_ok(w->s, CALL(w, event, w->d, &w->e), "event");
    w->base = base;
    w->staging = staging;
    return true;
}

bool check_sequence_devices(check_sequence *s)
{
    bench w = {.s = s, .t = s->c->table, .until = pressure_ms() + TIMEOUT_MS};
    if (!bring_up(&w))
        return false;
    w.want = calloc(FLOATS, sizeof *w.want); /* as the arena is: zero */
    if (!w.want)
        check_fail("no memory for the check");
    for (uint32_t i = 0; i < CALLS; i++)
        one_call(&w);
    compare(&w);
    PLUGIN_DO(w.t, close, w.d);
    free(w.want);
    return true;
}
