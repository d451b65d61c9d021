/* run/state/start.c: see start.h. */
#include "run/state/start.h"

#include "base/err.h"
#include "base/log.h"
#include "job/job.h"
#include "run/state/local.h"
#include "run/state/weights.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where values come from: one of the two. */
typedef struct origin {
    const run_foreign_files *files;
    run_foreign *file;
    ckpt *c;
} origin;

static weft_status read_from(void *from, const plan_piece *p, ckpt_piece *want, float *out)
{
    const origin *o = from;
    (void)p;
    return o->file ? o->files->read(o->file, want, out) : ckpt_read(o->c, want, out);
}

static bool is_foreign(const origin *o, const char *dir)
{
    return o->files && o->files->is_folder(dir);
}

static void close_origin(origin *o)
{
    if (o->file)
        o->files->close(o->file);
    ckpt_close(o->c);
}

static bool is_parameter(const plan_piece *p)
{
    return !strcmp(p->name, p->param);
}

weft_status run_start_agree(const ckpt_team *t, const char *tag, const char *what, weft_status mine,
                            uint64_t digest)
{
    err_record why;
    uint64_t own[2] = {mine, digest}, *all = mem_alloc(t->ranks * sizeof own);
    err_keep(&why);
    weft_status st = job_exchange_for(t->job, tag, own, sizeof own, t->timeout, all);
    for (uint32_t r = 0; st == WEFT_OK && mine == WEFT_OK && r < t->ranks; r++) {
        if (all[2 * r])
            st = err_fail(WEFT_PEER, "rank %u could not read %s", r, what);
        else if (all[2 * r + 1] != all[1])
            st = err_fail(WEFT_USAGE,
                          "rank %u sees other files in %s than rank 0: checkpoint.init must be the "
                          "same folder for all ranks, or a copy of it",
                          r, what);
    }
    free(all);
    return mine != WEFT_OK ? err_again(mine, &why) : st;
}

static weft_status load(run_executor *e, const run_prepared *j, const ckpt_team *team)
{
    const char *dir = j->set.init;
    origin o = {.files = j->files};
    const run_source weights = {"the weights are loaded", is_parameter, read_from, &o};
    weft_status st;
    if (is_foreign(&o, dir)) {
        st = o.files->open(dir, j->cfg, &j->plans, &o.file);
        st = run_start_agree(team, "init.files", dir, st, o.file ? o.files->digest(o.file) : 0);
    } else {
        st = ckpt_open_shared(dir, team, &o.c);
        if (st != WEFT_OK)
            err_context("checkpoint.init");
    }
    if (st == WEFT_OK)
        st = run_start_agree(team, "init.loaded", dir, run_local_load(e, &weights), 0);
    close_origin(&o);
    return st;
}

weft_status run_start_check(const run_prepared *j)
{
    const char *dir = j->set.init;
    char manifest[PATH_MAX];
    origin o = {.files = j->files};
    weft_status st = WEFT_OK;
    const int n = snprintf(manifest, sizeof manifest, "%s/manifest.json", dir);
    if (*dir && is_foreign(&o, dir))
        st = o.files->open(dir, j->cfg, &j->plans, &o.file);
    else if (*dir && (n >= (int)sizeof manifest || access(manifest, R_OK)) &&
             (st = ckpt_open(dir, &o.c)) != WEFT_OK) /* it verifies all bytes: only for its words */
        err_context("checkpoint.init");
    close_origin(&o);
    return st;
}

weft_status run_start(run_executor *e, const run_prepared *j, const ckpt_team *team)
{
    const char *init = j->set.init;
    weft_status st = run_weights_init(e, j->set.seed);
    if (st == WEFT_OK && *init)
        st = load(e, j, team);
    if (st == WEFT_OK)
        st = run_weights_copy(e);
    if (st == WEFT_OK && *init && !team->rank)
        log_line(WEFT_LOG_INFO, "the weights are those of %s", init);
    return st;
}
