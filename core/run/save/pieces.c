/* run/save/pieces.c: see pieces.h. */
#include "run/save/pieces.h"

#include "base/mem.h"
#include "host/call.h"
#include "run/exec/arena.h"
#include "run/save/copy.h"
#include "run/state/replica.h"
#include "run/state/residual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void run_save_describe(const plan_piece *p, const plan_extent *x, ckpt_piece *out)
{
    *out = (ckpt_piece){.name = p->name, .dtype = p->shape.dtype, .rank = p->shape.rank};
    for (uint32_t i = 0; i < p->shape.rank; i++)
        out->shape[i] = p->shape.axes[i].size;
    memcpy(out->start, x->start, sizeof out->start);
    memcpy(out->size, x->size, sizeof out->size);
    out->first = x->first;
    out->count = x->count;
}

void run_save_describe_scalar(const plan_scalar_slot *x, char name[RUN_SAVE_SCALAR_NAME],
                              ckpt_piece *out)
{
    snprintf(name, RUN_SAVE_SCALAR_NAME, RUN_SAVE_SCALAR "%s", x->name);
    *out = (ckpt_piece){.name = name, .dtype = WEFT_F32, .rank = 1, .shape = {1}, .count = 1};
}

static uint64_t bytes_of(const run_save_piece *x)
{
    return x->what.count * weft_dtype_size(x->what.dtype);
}

/* Add the part of a piece that this rank writes, if there is one. */
static void add_piece(run_executor *e, const plan_piece *p, run_save_pieces *s)
{
    plan_extent own;
    plan_extent_of(e->plan, p, e->rank, PLAN_EXTENT_OWNED, &own);
    if (!own.count || !plan_writes(e->plan, p, e->rank))
        return;
    run_save_piece *x = &s->at[s->n++];
    *x = (run_save_piece){.offset = own.offset};
    run_save_describe(p, &own, &x->what);
    x->what.name =
        run_replica_name(p, plan_replica(e->plan, p, e->rank), pool_alloc(&s->pool, REPLICA_NAME));
}

void run_save_collect(run_executor *e, run_save_pieces *s)
{
    const plan *p = e->plan;
    const uint32_t max = p->save.entries.n + p->scalars.n + RUN_RESIDUAL_PIECES;
    *s = (run_save_pieces){0};
    s->at = pool_array(&s->pool, max, sizeof *s->at);
    s->out = pool_array(&s->pool, max, sizeof *s->out);
    for (uint32_t i = 0; i < p->save.entries.n; i++)
        add_piece(e, &p->pieces.at[p->save.entries.at[i].what], s);
    for (uint32_t i = 0; i < p->scalars.n && e->rank == 0; i++) {
        if (!p->scalars.at[i].saved)
            continue;
        run_save_piece *x = &s->at[s->n++];
        *x = (run_save_piece){.offset = p->scalars.at[i].offset};
        run_save_describe_scalar(&p->scalars.at[i], pool_alloc(&s->pool, RUN_SAVE_SCALAR_NAME),
                                 &x->what);
    }
    s->n += run_residual_collect(e, &s->at[s->n], &s->pool);
    for (uint32_t i = 0; i < s->n; i++) {
        s->at[i].at = s->bytes;
        s->bytes += plan_saved_capacity(bytes_of(&s->at[i]));
        s->out[i] = s->at[i].what;
    }
}

void run_save_free(run_save_pieces *s)
{
    pool_free(&s->pool);
    *s = (run_save_pieces){0};
}

weft_status run_save_view(run_executor *e, run_save_pieces *s, pool *copies)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < s->n; i++) {
        const run_save_piece *x = &s->at[i];
        s->out[i].data = x->host;
        if (!x->host)
            st = run_exec_view(e, x->offset, bytes_of(x), copies, &s->out[i].data);
    }
    return st;
}

weft_status run_save_copy(run_executor *e, run_save_pieces *s, char *copy, uint32_t threads)
{
    const bool reads = e->table->caps & WEFT_DEV_HOST_MEMORY;
    run_copy_part *parts = mem_alloc(s->n * sizeof *parts);
    uint32_t n = 0;
    weft_status st = reads ? run_exec_sync(e) : WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < s->n; i++) {
        const run_save_piece *x = &s->at[i];
        s->out[i].data = copy + x->at;
        if (x->host || reads)
            parts[n++] =
                (run_copy_part){copy + x->at, x->host ? x->host : e->base + x->offset, bytes_of(x)};
        else
            st = PLUGIN_CALL(e->table, copy, e->device, e->stream, copy + x->at,
                             e->base + x->offset, bytes_of(x), 0);
    }
    if (st == WEFT_OK)
        run_copy_parts(parts, n, threads);
    if (st == WEFT_OK && !reads)
        st = run_exec_sync(e);
    free(parts);
    return st;
}
