/* run/state/weights.c: see weights.h.
 *
 * Values pass through host memory in chunks of the longer extent of a tensor (local.h), and each is
 * written to the extents that contain it. */
#include "run/state/weights.h"

#include "base/err.h"
#include "base/lengthy.h"
#include "base/log.h"
#include "run/exec/arena.h"
#include "run/state/local.h"
#include "run/state/replica.h"
#include "run/state/residual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- checkpoints --- */

#define SCALAR "scalar."
#define SCALAR_NAME (WEFT_MAX_NAME + 8)

static void describe(const piece *p, const extent *x, ckpt_piece *out)
{
    *out = (ckpt_piece){.name = p->name, .dtype = p->shape.dtype, .rank = p->shape.rank};
    for (uint32_t i = 0; i < p->shape.rank; i++)
        out->shape[i] = p->shape.axes[i].size;
    memcpy(out->start, x->start, sizeof out->start);
    memcpy(out->size, x->size, sizeof out->size);
    out->first = x->first;
    out->count = x->count;
}

static void describe_scalar(const scalar_slot *x, char name[SCALAR_NAME], ckpt_piece *out)
{
    snprintf(name, SCALAR_NAME, SCALAR "%s", x->name);
    *out = (ckpt_piece){.name = name, .dtype = WEFT_F32, .rank = 1, .shape = {1}, .count = 1};
}

static weft_status load_piece(executor *e, const ckpt *c, const piece *p, float *v,
                              uint16_t *scratch, lengthy *progress)
{
    ckpt_piece want;
    local l = run_local_find(e, p);
    char name[REPLICA_NAME];
    describe(p, l.held.count ? &l.held : &l.copied, &want);
    want.name = run_replica_name(p, plan_replica(e->plan, p, e->rank), name);
    want.name = ckpt_has(c, want.name) ? want.name : p->name;
    for (uint64_t first = l.first; first < l.end; first += LOCAL_CHUNK) {
        want.first = first;
        want.count = l.end - first < LOCAL_CHUNK ? l.end - first : LOCAL_CHUNK;
        weft_status st = ckpt_read(c, &want, v);
        if (st == WEFT_OK)
            st = run_local_put(e, &l, first, v, want.count, scratch);
        if (st != WEFT_OK)
            return st;
        lengthy_add(progress, want.count * sizeof *v);
    }
    return WEFT_OK;
}

static void begin_progress(const executor *e, lengthy *progress)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < e->plan->pieces.n; i++) {
        const local l = run_local_find(e, &e->plan->pieces.at[i]);
        elements += l.end - l.first;
    }
    lengthy_begin(progress, "the checkpoint is loaded", elements * sizeof(float));
}

static bool wanted(const plan_set *plans, const char *name)
{
    name = run_replica_base_name(name);
    if (run_residual_is_name(name) || !strncmp(name, SCALAR, strlen(SCALAR)))
        return true;
    for (uint32_t k = 0; k < plans->n; k++)
        for (uint32_t i = 0; i < plans->at[k].pieces.n; i++)
            if (!strcmp(plans->at[k].pieces.at[i].name, name))
                return true;
    return false;
}

/* Warns about a scalar that this job does not use: the loss was scaled, or a plugin's list of
 * another layout used it. */
static void tell_left_out(const plan_set *plans, const ckpt *c, const char *name)
{
    const size_t prefix = strlen(SCALAR);
    bool known = strncmp(name, SCALAR, prefix) || log_rank() > 0;
    known |= !strcmp(name, SCALAR "scale") || !strcmp(name, SCALAR "scale.good");
    for (uint32_t i = 0; !known && i < plans->at[0].scalars.n; i++)
        known = plans->at[0].scalars.at[i].saved &&
                !strcmp(plans->at[0].scalars.at[i].name, name + prefix);
    if (!known)
        log_line(WEFT_LOG_WARN, "%s has the scalar %s, which this job does not use: it is ignored",
                 ckpt_dir(c), name + prefix);
}

/* A training job uses every tensor of a checkpoint; a surplus one belongs to another model or
 * update rule. */
static weft_status nothing_over(const plan_set *plans, const ckpt *c)
{
    const ckpt_piece *has;
    uint32_t n = plans->spec->want == SPEC_TRAIN ? ckpt_tensors(c, &has) : 0;
    for (uint32_t i = 0; i < n; i++)
        tell_left_out(plans, c, has[i].name);
    for (uint32_t i = 0; i < n; i++)
        if (!wanted(plans, has[i].name))
            return err_fail(
                WEFT_USAGE,
                "checkpoint %s has tensor %s, which this job does not have: [model] and "
                "the plugin of [optim] must be those that were saved",
                ckpt_dir(c), has[i].name);
    return WEFT_OK;
}

static weft_status load_scalar(executor *e, const ckpt *c, const scalar_slot *x)
{
    ckpt_piece want;
    char name[SCALAR_NAME];
    float value;
    describe_scalar(x, name, &want);
    if (x->saved != SCALAR_SAVED && !ckpt_has(c, name)) {
        if (x->saved == SCALAR_OF_PLUGIN && !e->rank)
            log_line(WEFT_LOG_WARN, "%s does not have the scalar %s: it starts at %g", ckpt_dir(c),
                     x->name, x->value);
        return WEFT_OK;
    }
    weft_status st = ckpt_read(c, &want, &value);
    return st != WEFT_OK ? st : run_exec_write(e, x->offset, &value, sizeof value);
}

weft_status run_weights_load(executor *e, const plan_set *plans, const ckpt *c)
{
    float *v = mem_alloc(LOCAL_CHUNK * sizeof *v);
    uint16_t *scratch = mem_alloc(LOCAL_CHUNK * sizeof *scratch);
    lengthy progress;
    weft_status st = nothing_over(plans, c);
    begin_progress(e, &progress);
    if (st == WEFT_OK && plans->spec->want == SPEC_TRAIN)
        run_replica_warn(e, c);
    for (uint32_t i = 0; st == WEFT_OK && i < e->plan->pieces.n; i++)
        st = load_piece(e, c, &e->plan->pieces.at[i], v, scratch, &progress);
    for (uint32_t i = 0; st == WEFT_OK && i < e->plan->scalars.n && plans->spec->want == SPEC_TRAIN;
         i++)
        if (e->plan->scalars.at[i].saved)
            st = load_scalar(e, c, &e->plan->scalars.at[i]);
    if (st == WEFT_OK && plans->spec->want == SPEC_TRAIN)
        st = run_residual_load(e, c);
    free(v);
    free(scratch);
    return st;
}

/* Collect the pieces that this rank writes; `data` points into the arena where the host can read
 * it. */
static weft_status collect(executor *e, ckpt_piece *out, uint32_t *n, char (*names)[SCALAR_NAME],
                           float *values, pool *copies)
{
    *n = 0;
    for (uint32_t i = 0; i < e->plan->save.entries.n; i++) {
        const piece *p = &e->plan->pieces.at[e->plan->save.entries.at[i].what];
        extent own;
        plan_extent(e->plan, p, e->rank, PLAN_EXTENT_OWNED, &own);
        if (!own.count || !plan_writes(e->plan, p, e->rank))
            continue;
        ckpt_piece *x = &out[(*n)++];
        describe(p, &own, x);
        x->name = run_replica_name(p, plan_replica(e->plan, p, e->rank),
                                   pool_alloc(copies, REPLICA_NAME));
        weft_status st =
            run_exec_view(e, own.offset, x->count * weft_dtype_size(x->dtype), copies, &x->data);
        if (st != WEFT_OK)
            return st;
    }
    for (uint32_t i = 0; i < e->plan->scalars.n && e->rank == 0; i++) {
        double value;
        if (!e->plan->scalars.at[i].saved)
            continue;
        weft_status st = run_exec_scalar(e, e->plan->scalars.at[i].name, &value);
        if (st != WEFT_OK)
            return st;
        values[i] = (float)value;
        describe_scalar(&e->plan->scalars.at[i], names[i], &out[*n]);
        out[(*n)++].data = &values[i];
    }
    return WEFT_OK;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const ckpt_piece *)x)->name, ((const ckpt_piece *)y)->name);
}

typedef struct save_news { /* what ranks exchange after a phase of the save */
    uint32_t status;
    ckpt_shard_sum sum;
} save_news;

/* Exchange the status of a phase. A failure of another rank is WEFT_PEER here. *no_exchange: the
 * exchange itself failed, so no further one is possible. */
static weft_status agree(executor *e, const char *what, weft_status mine, const ckpt_shard_sum *sum,
                         save_news *all, bool *no_exchange)
{
    save_news news = {.status = mine};
    if (sum)
        news.sum = *sum;
    if (!e->job) {
        all[0] = news;
        return mine;
    }
    char why[2048]; /* of `mine`; the exchange may overwrite the error record */
    snprintf(why, sizeof why, "%s", err_text());
    const double timeout = config_real(e->cfg, "checkpoint.timeout");
    weft_status st = job_exchange_for(e->job, what, &news, sizeof news, timeout, all);
    *no_exchange = st != WEFT_OK;
    if (mine != WEFT_OK)
        return err_fail(mine, "%s", why);
    if (st != WEFT_OK && job_failure(e->job) == WEFT_OK) /* no rank died, so this is the timeout */
        err_context("checkpoint.timeout = %.0f s", timeout);
    for (uint32_t r = 0; st == WEFT_OK && r < e->plan->spec->ranks; r++)
        if (all[r].status)
            st = err_fail(WEFT_PEER, "rank %u could not save the checkpoint", r);
    return st;
}

static weft_status write_own(executor *e, const char *temp, ckpt_shard_sum *sum)
{
    const uint32_t scalars = e->plan->scalars.n;
    ckpt_piece *pieces =
        mem_alloc((e->plan->save.entries.n + scalars + RUN_RESIDUAL_PIECES) * sizeof *pieces);
    pool copies = {0};
    char(*names)[SCALAR_NAME] = pool_array(&copies, scalars, sizeof *names);
    char residual_names[RUN_RESIDUAL_PIECES][64];
    float *values = pool_array(&copies, scalars, sizeof *values);
    uint32_t n;
    weft_status st = collect(e, pieces, &n, names, values, &copies);
    if (st == WEFT_OK)
        st = run_residual_collect(e, pieces, &n, residual_names, &copies);
    qsort(pieces, n, sizeof *pieces, by_name);
    if (st == WEFT_OK)
        st = ckpt_write_shard(temp, e->rank, e->plan->spec->ranks, pieces, n, sum);
    pool_free(&copies);
    free(pieces);
    return st;
}

static weft_status commit_all(executor *e, const char *temp, const char *final, uint64_t step,
                              const save_news *all, uint32_t keep)
{
    uint32_t ranks = e->plan->spec->ranks;
    ckpt_shard_sum *sums = mem_alloc(ranks * sizeof *sums);
    for (uint32_t r = 0; r < ranks; r++)
        sums[r] = all[r].sum;
    char *text = config_dump(e->cfg);
    weft_status st = ckpt_commit(temp, final, step, text, sums, ranks, keep);
    free(text);
    free(sums);
    return st;
}

weft_status run_weights_save(executor *e, const char *out_dir, uint64_t step, uint32_t keep)
{
    save_news *all = mem_alloc(e->plan->spec->ranks * sizeof *all);
    char temp[4096] = "", final[4096] = "", tag[64];
    ckpt_shard_sum sum = {0};
    bool no_exchange = false;
    weft_status st = e->rank ? WEFT_OK : ckpt_begin(out_dir, step, temp, final);
    const bool mine = !e->rank && st == WEFT_OK; /* whether the temporary folder is this rank's */
    snprintf(tag, sizeof tag, "save.%llu.begin", (unsigned long long)step);
    st = agree(e, tag, st, NULL, all, &no_exchange);
    const bool begun = st == WEFT_OK;
    if (begun) {
        st = e->rank ? ckpt_paths(out_dir, step, temp, final) : WEFT_OK;
        st = st != WEFT_OK ? st : write_own(e, temp, &sum);
        snprintf(tag, sizeof tag, "save.%llu.shards", (unsigned long long)step);
        st = agree(e, tag, st, &sum, all, &no_exchange);
    }
    if (mine && st == WEFT_OK)
        st = commit_all(e, temp, final, step, all, keep);
    else if (mine)
        ckpt_abandon(temp);
    snprintf(tag, sizeof tag, "save.%llu.end", (unsigned long long)step);
    if (begun && !no_exchange)
        st = agree(e, tag, st, NULL, all, &no_exchange);
    free(all);
    return st;
}
