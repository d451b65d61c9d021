/* run/exec/peak.c: see peak.h. It times a product of two matrices.
 *
 * The matrices grow until a product takes long enough to be timed, or the arena is full. The values
 * are random, because a chip that computes on zeros draws less power and is faster than in
 * training. Each rank chooses its size alone; then all ranks are timed at the same moment, because
 * cores that share power, caches or memory are slower when all are busy, as in a step. The peak of
 * the job is the mean over its ranks, as is the number of operations of a step. */
#include "run/exec/peak.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "host/call.h"
#include "run/exec/arena.h"

#include <stdio.h>
#include <stdlib.h>

#define LONG_ENOUGH_NS 10000000u
#define BUDGET_NS 100000000u
#define TOLD_SECONDS 60.0
#define RANDOM_BYTES 65536u

typedef struct product {
    int64_t rows, width; /* [rows, width] times [width, width] */
    uint64_t once;       /* approximate nanoseconds of one product; 0: unknown */
    weft_prepared *kernel;
    uint64_t in[2], out; /* offsets */
    char *workspace, *taken;
} product;

static double work_of(const product *x)
{
    return 2.0 * (double)x->rows * (double)x->width * (double)x->width;
}

/* Random values with an absolute value from 0.5 to 1, so all exponents are equal. */
static weft_status fill_random(run_executor *e, uint64_t to, uint64_t bytes)
{
    const uint32_t type = e->plan->spec->compute;
    const uint32_t keep = type == WEFT_F32    ? 0x807fffff
                          : type == WEFT_BF16 ? 0x807f807f
                                              : 0x83ff83ff;
    const uint32_t set = type == WEFT_F32    ? 0x3f000000
                         : type == WEFT_BF16 ? 0x3f003f00
                                             : 0x38003800;
    static uint32_t numbers[RANDOM_BYTES / 4];
    uint32_t x = 2463534242u;
    for (uint32_t i = 0; i < RANDOM_BYTES / 4; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        numbers[i] = (x & keep) | set;
    }
    weft_status st = WEFT_OK;
    for (uint64_t at = 0; st == WEFT_OK && at < bytes; at += RANDOM_BYTES)
        st = run_exec_write(e, to + at, numbers,
                            bytes - at < RANDOM_BYTES ? bytes - at : RANDOM_BYTES);
    return st;
}

/* Assign the operands offsets in the arena; false: it is too small. */
static bool place(const run_executor *e, product *x, uint64_t workspace)
{
    const uint64_t size = weft_dtype_size(e->plan->spec->compute);
    const uint64_t tall = (uint64_t)(x->rows * x->width) * size;
    const uint64_t square = (uint64_t)(x->width * x->width) * size;
    const bool own = e->table->caps & WEFT_DEV_HOST_MEMORY;
    x->in[0] = 0;
    x->in[1] = tall;
    x->out = tall + square;
    uint64_t end = (2 * tall + square + 63) & ~(uint64_t)63;
    if (own)
        x->taken = malloc(workspace + 64);
    x->workspace = own ? x->taken + (64 - (uintptr_t)x->taken % 64) : e->base + end;
    return end + (own ? 0 : workspace) <= e->plan->bytes.peak && (!own || x->taken);
}

static weft_status prepare(run_executor *e, product *x, bool *fits)
{
    const uint32_t type = e->plan->spec->compute;
    weft_operand in[2] = {{type, 2, 0, 0, {x->rows, x->width}},
                          {type, 2, 0, 0, {x->width, x->width}}};
    weft_operand out = {type, 2, 0, 0, {x->rows, x->width}};
    weft_opspec op = {
        .struct_size = sizeof op, .id = "linear", .nin = 2, .nout = 1, .in = in, .out = &out};
    weft_requirements need = {.struct_size = sizeof need};
    const spec_plugin *device = &e->plan->spec->device;
    weft_status st = PLUGIN_ASK(e->table, query, device->c->module, device->conf, &op, &need);
    *fits = st == WEFT_OK && place(e, x, need.workspace);
    if (st == WEFT_OK && *fits)
        st = PLUGIN_CALL(e->table, prepare, e->device, &op, &x->kernel);
    if (st == WEFT_OK && *fits)
        st = fill_random(e, 0, x->out);
    return st;
}

static void release(run_executor *e, product *x)
{
    if (x->kernel)
        PLUGIN_DO(e->table, release, x->kernel);
    free(x->taken);
    x->kernel = NULL;
    x->taken = NULL;
}

/* Nanoseconds of `times` products in a row. */
static weft_status run(run_executor *e, const product *x, uint64_t times, uint64_t *ns)
{
    const void *in[2] = {e->base + x->in[0], e->base + x->in[1]};
    void *out[1] = {e->base + x->out};
    const uint64_t began = clock_ns();
    weft_status st = WEFT_OK;
    for (uint64_t i = 0; st == WEFT_OK && i < times; i++)
        st = PLUGIN_CALL(e->table, run, x->kernel, e->stream, in, out, x->workspace, 0);
    if (st == WEFT_OK)
        st = run_exec_sync(e);
    *ns = clock_ns() - began;
    return st;
}

static weft_status time_best(run_executor *e, const product *x, double *flops)
{
    const uint64_t times = 1 + LONG_ENOUGH_NS / (x->once + 1), start = clock_ns();
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && (i < 2 || clock_ns() - start < BUDGET_NS); i++) {
        uint64_t ns;
        st = run(e, x, times, &ns);
        const double rate = work_of(x) * (double)times / ((double)ns * 1e-9);
        *flops = rate > *flops ? rate : *flops;
    }
    return st;
}

/* Tries one size and stores it in `best` if it is the fastest so far; *longer: try a larger one. */
static weft_status try_size(run_executor *e, int64_t rows, int64_t width, product *best,
                            bool *longer)
{
    product x = {.rows = rows, .width = width};
    bool fits;
    weft_status st = prepare(e, &x, &fits);
    for (int i = 0; st == WEFT_OK && fits && i < 4; i++) { /* the first is slower */
        uint64_t ns;
        st = run(e, &x, 1, &ns);
        x.once = i < 2 || ns < x.once ? ns : x.once;
    }
    release(e, &x);
    *longer = fits && x.once < LONG_ENOUGH_NS;
    if (st == WEFT_OK && fits &&
        (!best->once || work_of(&x) / (double)x.once > work_of(best) / (double)best->once))
        *best = (product){.rows = rows, .width = width, .once = x.once};
    return st;
}

static weft_status choose_size(run_executor *e, product *best)
{
    int64_t width = 1024;
    bool longer = true;
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && longer && width <= 8192) {
        st = try_size(e, width > 1024 ? width : 512, width, best, &longer);
        width *= 2;
    }
    while (st == WEFT_OK && !best->once && width > 32) { /* arena too small for the first */
        width /= 2;
        st = try_size(e, 64, width, best, &longer);
    }
    return st;
}

static weft_status measure(run_executor *e, product *x, double *flops)
{
    bool fits = false;
    weft_status st = x->once ? prepare(e, x, &fits) : WEFT_OK;
    uint64_t ns;
    if (st == WEFT_OK && fits)
        st = run(e, x, 1, &ns);
    if (st == WEFT_OK && e->job) /* all ranks are busy from here on */
        st = job_exchange(e->job, "peak", NULL, 0, NULL);
    if (st == WEFT_OK && fits)
        st = time_best(e, x, flops);
    release(e, x);
    return st;
}

static weft_status take_mean(run_executor *e, double *flops)
{
    const uint32_t ranks = e->plan->spec->ranks;
    if (!e->job)
        return WEFT_OK;
    double sum = 0, *all = mem_alloc(ranks * sizeof *all);
    weft_status st = job_exchange_for(e->job, "peak.mean", flops, sizeof *flops, TOLD_SECONDS, all);
    for (uint32_t r = 0; r < ranks; r++)
        sum += all[r];
    free(all);
    *flops = sum / ranks;
    return st;
}

weft_status run_measure_peak(run_executor *e, double *flops)
{
    product best = {0};
    *flops = 0;
    weft_status st = choose_size(e, &best);
    if (st == WEFT_OK)
        st = measure(e, &best, flops);
    log_line(WEFT_LOG_DEBUG, "the peak of this rank is %.4g GFLOP/s", *flops * 1e-9);
    if (st == WEFT_OK)
        st = take_mean(e, flops);
    if (st == WEFT_OK)
        st = run_exec_zero(e, 0, e->plan->bytes.peak);
    return st != WEFT_OK ? st : run_exec_set_scalars(e);
}
