/* run/exec/recording.c: records the calls between collectives once and replays them (CUDA graphs).
 *
 * A device that can record work (WEFT_DEV_CAPTURE) takes each run of calls as one piece: launching
 * it takes a microsecond less per kernel, on the host and on the device. The addresses in a
 * recording are those of the calls, which the plan has fixed; what changes from step to step
 * (learning rate, loss scale, tokens) is in the arena. Runs end where a collective is started or
 * awaited, at the end of the passes, and after LIMIT instructions, which limits the size of a
 * recording. A traced step is executed call by call. */
#include "run/exec/recording.h"

#include "base/err.h"
#include "host/call.h"
#include "run/exec/kernels.h"

#include <stdlib.h>

#define LEAST 4u /* fewer instructions are not recorded */
#define LIMIT 4096u

typedef struct graph_run {
    const plan_list *l;
    uint32_t first, end; /* entries */
    weft_capture *work;
} graph_run;

struct recordings {
    VEC(graph_run) runs;
    uint32_t nlists;
    struct {
        const plan_list *l;
        uint32_t *run; /* [entry] 1 + the run that begins there; 0: none */
    } lists[];
};

/* The run of calls that begins at entry i: returns its end, and its instructions. */
static uint32_t run_end(const plan *p, const plan_list *l, uint32_t i, uint64_t *instrs)
{
    uint32_t end = i;
    *instrs = 0;
    while (end < l->entries.n && l->entries.at[end].kind == ENTRY_CALL &&
           l->entries.at[end].interval == l->entries.at[i].interval &&
           (end == i || end != l->tail)) {
        const uint32_t n = p->segments.at[l->entries.at[end].what].n;
        if (end > i && *instrs + n > LIMIT)
            break;
        *instrs += n;
        end++;
    }
    return end;
}

static weft_status record(run_executor *e, graph_run *r, bool *can)
{
    weft_status st = PLUGIN_CALL(e->table, capture_begin, e->stream, 0);
    *can = st != WEFT_UNSUPPORTED;
    if (!*can) {
        err_clear();
        return WEFT_OK;
    }
    weft_status x = WEFT_OK;
    for (uint32_t i = r->first; st == WEFT_OK && x == WEFT_OK && i < r->end; i++)
        x = run_kernels_call(e, &r->l->entries.at[i]);
    if (st == WEFT_OK) /* also after a failure, so that the stream is usable again */
        st = PLUGIN_CALL(e->table, capture_end, e->stream, &r->work);
    st = x != WEFT_OK ? x : st;
    if (st != WEFT_OK)
        err_context("recording the list %s, starting at %s", r->l->name,
                    r->l->entries.at[r->first].name);
    return st;
}

static weft_status record_list(run_executor *e, const plan_list *l, bool *can)
{
    struct recordings *g = e->graphs;
    weft_status st = WEFT_OK;
    uint32_t *run = mem_alloc(l->entries.n * sizeof *run + 1);
    g->lists[g->nlists].l = l;
    g->lists[g->nlists++].run = run;
    for (uint32_t i = 0; st == WEFT_OK && *can && i < l->entries.n;) {
        uint64_t instrs;
        graph_run r = {l, i, run_end(e->plan, l, i, &instrs), NULL};
        if (instrs >= LEAST)
            st = record(e, &r, can);
        if (r.work) {
            *vec_push(&g->runs) = r;
            run[i] = g->runs.n;
        }
        i = r.end > i ? r.end : i + 1;
    }
    return st;
}

weft_status run_recordings_make(run_executor *e)
{
    const plan *p = e->plan;
    bool can = (e->table->caps & WEFT_DEV_CAPTURE) && e->table->capture_begin;
    if (!can)
        return WEFT_OK;
    e->graphs = mem_alloc(sizeof *e->graphs + (2 + p->extra.n) * sizeof e->graphs->lists[0]);
    weft_status st = record_list(e, &p->step, &can);
    if (st == WEFT_OK)
        st = record_list(e, &p->eval, &can);
    for (uint32_t i = 0; st == WEFT_OK && i < p->extra.n; i++)
        st = record_list(e, &p->extra.at[i].l, &can);
    return st;
}

uint32_t run_recording_end(const run_executor *e, const plan_list *l, uint32_t i,
                           weft_capture **work)
{
    const struct recordings *g = e->graphs;
    for (uint32_t k = 0; g && k < g->nlists; k++)
        if (g->lists[k].l == l && g->lists[k].run[i]) {
            const graph_run *r = &g->runs.at[g->lists[k].run[i] - 1];
            *work = r->work;
            return r->end;
        }
    return i;
}

void run_recordings_free(run_executor *e)
{
    for (uint32_t k = 0; e->graphs && k < e->graphs->nlists; k++)
        free(e->graphs->lists[k].run);
    if (e->graphs)
        free(e->graphs->runs.at);
    free(e->graphs);
    e->graphs = NULL;
}
