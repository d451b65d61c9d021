/* run/state/residual.c: see residual.h.
 *
 * A residual is used by its rank only, and the order of its elements depends on the algorithm, the
 * ranks and the machines (schedule/alg/compress.c). So it is saved as raw ranges of the arena and
 * of host memory, under a name with the rank and a digest of everything that determines the order.
 * A job that finds this name has the same layout; in any other layout the values are useless. */
#include "run/state/residual.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/number/digest.h"
#include "run/exec/arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "kept."

/* Bytes [first, end), of the arena or of host memory. */
typedef struct run_of_bytes {
    uint64_t first, end;
} run_of_bytes;

typedef struct residual_places {
    run_of_bytes in[2]; /* arena, host memory */
    uint64_t digest;
} residual_places;

bool run_residual_is_name(const char *name)
{
    return !strncmp(name, PREFIX, strlen(PREFIX));
}

static void mix_group(uint64_t *h, const run_executor *e, const plan_collective *c)
{
    sched_request r;
    uint32_t me, *ranks = mem_alloc(e->plan->spec->ranks * sizeof *ranks);
    const uint32_t n = plan_group(e->plan, c->channel, e->rank, ranks, &me);
    plan_request(e->plan, c, me, &r);
    digest_mix(h, ranks, n * sizeof *ranks);
    if (r.layout) {
        digest_mix(h, r.layout->machine, n * sizeof *r.layout->machine);
        if (r.layout->order)
            digest_mix(h, r.layout->order, n * sizeof *r.layout->order);
    }
    free(ranks);
}

static residual_places places_of(const run_executor *e)
{
    residual_places p = {{{UINT64_MAX, 0}, {UINT64_MAX, 0}}, DIGEST_BEGIN};
    for (uint32_t i = 0; i < e->plan->collectives.n; i++) {
        const plan_collective *c = &e->plan->collectives.at[i];
        if (!c->residual_bytes || !e->collectives[i].op)
            continue;
        const uint32_t staged = comm_is_staged(e->collectives[i].op) != 0;
        run_of_bytes *x = &p.in[staged];
        const uint64_t numbers[] = {c->kind, c->count, c->residual_bytes, c->compress,
                                    c->residual_used};
        x->first = c->residual < x->first ? c->residual : x->first;
        x->end =
            c->residual + c->residual_bytes > x->end ? c->residual + c->residual_bytes : x->end;
        digest_mix(&p.digest, numbers, sizeof numbers);
        digest_mix(&p.digest, c->algorithm, strlen(c->algorithm) + 1);
        mix_group(&p.digest, e, c);
    }
    if (p.in[0].end && p.in[1].end) /* with a single range, its position does not matter */
        digest_mix(&p.digest, &p.in[1], sizeof p.in[1]);
    return p;
}

/* Tensor i: the range in the arena, the range in host memory, the scale of both. False: none. */
static bool describe(const run_executor *e, const residual_places *p, uint32_t i, char name[64],
                     ckpt_piece *out)
{
    static const char *const parts[RUN_RESIDUAL_PIECES] = {"values", "more", "counts"};
    const bool any = p->in[0].end || p->in[1].end;
    const uint64_t n = i == 2 ? any : p->in[i].end ? (p->in[i].end - p->in[i].first) / 4 : 0;
    snprintf(name, 64, PREFIX "rank%u.%016" PRIx64 ".%s", e->rank, p->digest,
             parts[i == 1 && !p->in[0].end ? 0 : i]);
    *out = (ckpt_piece){.name = name, .dtype = WEFT_F32, .rank = 1, .shape = {(int64_t)n}};
    out->count = n;
    return n != 0;
}

uint32_t run_residual_collect(run_executor *e, run_save_piece *out, pool *names)
{
    const residual_places p = places_of(e);
    uint32_t n = 0;
    for (uint32_t i = 0; i < RUN_RESIDUAL_PIECES; i++) {
        run_save_piece *x = &out[n];
        *x = (run_save_piece){0};
        if (!describe(e, &p, i, pool_alloc(names, 64), &x->what))
            continue;
        n++;
        if (i == 0)
            x->offset = p.in[0].first;
        else
            x->host = i == 1 ? (const void *)(e->host + p.in[1].first) : &e->residual_scale;
    }
    return n;
}

static weft_status load_bytes(run_executor *e, const ckpt *c, const ckpt_piece *want, uint32_t i,
                              uint64_t at)
{
    float *v = mem_alloc(want->count * sizeof *v);
    weft_status st = ckpt_read(c, want, v);
    if (st == WEFT_OK && i == 0)
        st = run_exec_write(e, at, v, want->count * sizeof *v);
    else if (st == WEFT_OK)
        memcpy(e->host + at, v, want->count * sizeof *v);
    free(v);
    return st;
}

static weft_status load_counts(run_executor *e, const ckpt *c, const ckpt_piece *want)
{
    weft_status st = ckpt_read(c, want, &e->residual_scale);
    return st != WEFT_OK ? st
                         : run_exec_write(e, plan_scalar(e->plan, "kept"), &e->residual_scale,
                                          sizeof e->residual_scale);
}

/* Log that the checkpoint has residuals and this job uses none. */
static void say_dropped(const run_executor *e, const ckpt *c)
{
    const ckpt_piece *all;
    const uint32_t n = ckpt_tensors(c, &all);
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any |= run_residual_is_name(all[i].name);
    if (any && !e->rank)
        log_line(WEFT_LOG_INFO,
                 "%s has error-feedback residuals, which this job does not use (comm.compress or "
                 "comm.feedback differs)",
                 ckpt_dir(c));
}

weft_status run_residual_load(run_executor *e, const ckpt *c)
{
    const residual_places p = places_of(e);
    char name[64];
    ckpt_piece want;
    if (!describe(e, &p, 2, name, &want)) {
        say_dropped(e, c);
        return WEFT_OK;
    }
    if (!ckpt_has(c, name)) {
        if (!e->rank)
            log_line(WEFT_LOG_INFO,
                     "%s has no error-feedback residuals for this layout: they start at zero",
                     ckpt_dir(c));
        return WEFT_OK;
    }
    weft_status st = load_counts(e, c, &want);
    for (uint32_t i = 0; st == WEFT_OK && i < 2; i++)
        if (describe(e, &p, i, name, &want))
            st = load_bytes(e, c, &want, i, p.in[i].first);
    return st;
}
