/* run/save/write.c: see write.h. */
#include "run/save/write.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/time/awake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS_FIRST 1
#define LOOK_MS_MAX 50
#define RANKS_A_MS 8  /* so many ranks look once a millisecond together, in a large job */
#define CHECK_MS 5000 /* rank 0 notices a timeout so much earlier than the others */

/* What a rank says in a save. */
typedef struct note {
    uint64_t step;
    uint32_t status;
    uint32_t culprit; /* of a failure: the rank that reports it */
    ckpt_shard_sum sum;
} note;

/* --- through the store --- */

static weft_status tell(run_save_writer *w, const char *key, uint64_t step, weft_status st,
                        uint32_t culprit, const ckpt_shard_sum *sum)
{
    note n;
    memset(&n, 0, sizeof n); /* with its padding */
    n.step = step;
    n.status = st;
    n.culprit = culprit;
    if (sum)
        n.sum = *sum;
    return w->job ? job_put(w->job, key, &n, sizeof n) : WEFT_OK;
}

/* What another rank has said of this step under `key`. WEFT_BUSY: nothing yet. */
static weft_status look(run_save_writer *w, const char *key, uint64_t step, note *out)
{
    void *value = NULL;
    uint64_t bytes = 0;
    weft_status st = job_find(w->job, key, &value, &bytes);
    if (st != WEFT_OK)
        return st;
    const bool fits = bytes == sizeof *out;
    if (fits)
        memcpy(out, value, sizeof *out);
    free(value);
    return fits && out->step == step ? WEFT_OK : WEFT_BUSY;
}

static weft_status go_on(void *ctx)
{
    run_save_writer *w = ctx;
    weft_status st = job_failure(w->job);
    if (st == WEFT_OK && atomic_load_explicit(&w->give_up, memory_order_relaxed))
        st = err_fail(WEFT_IO, "the save is given up, because the run has failed");
    return st;
}

/* Wait until rank `from` has said under `key` how its part of the save went. */
static weft_status receive(run_save_writer *w, const char *key, uint32_t from, uint64_t step,
                           note *out)
{
    const uint64_t until = awake_ms() + (uint64_t)(w->timeout * 1e3) + (w->rank ? CHECK_MS : 0);
    const uint64_t max = LOOK_MS_MAX + (w->rank ? w->ranks / RANKS_A_MS : 0);
    weft_status st;
    for (uint64_t ms = LOOK_MS_FIRST; (st = look(w, key, step, out)) == WEFT_BUSY;
         ms = 2 * ms < max ? 2 * ms : max) {
        if ((st = go_on(w)) != WEFT_OK)
            return st;
        if (awake_ms() > until) {
            st = err_fail(WEFT_PEER, "the save of step %llu still waits for rank %u",
                          (unsigned long long)step, from);
            err_context("checkpoint.timeout = %.0f s", w->timeout);
            return st;
        }
        nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
    }
    return st;
}

static weft_status blame(run_save_writer *w, uint32_t culprit)
{
    w->blameless = true;
    return err_fail(WEFT_PEER, "rank %u could not save the checkpoint", culprit);
}

/* --- OUT --- */

static weft_status check_out(const run_save_writer *w)
{
    return run_outlock_check(w->lock);
}

/* A file that could not be written because OUT or its checkpoints were moved or removed: that is
 * the cause to report. */
static weft_status find_cause(const run_save_writer *w, weft_status st)
{
    err_record why;
    if (st != WEFT_IO && st != WEFT_USAGE)
        return st;
    err_keep(&why);
    return run_outlock_cause(w->lock) == WEFT_OK ? err_again(st, &why) : WEFT_IO;
}

/* Whether the folder that rank 0 has made is in OUT/checkpoints as it is now. */
static bool is_in_out(const run_save_writer *w, const char *temp)
{
    char path[4096 + 16];
    const char *last = strrchr(temp, '/');
    snprintf(path, sizeof path, "checkpoints%s", last ? last : "/no name");
    return last && !faccessat(run_outlock_folder(w->lock), path, F_OK, 0);
}

/* --- rank 0 --- */

/* Collect what all ranks say of their shards; `mine` is the status of this one's. All are waited
 * for, so that none writes into a folder that is being removed. */
static weft_status receive_all(run_save_writer *w, uint64_t step, weft_status mine,
                               ckpt_shard_sum *sums, uint32_t *culprit)
{
    char key[64];
    err_record why;
    err_keep(&why);
    for (uint32_t r = 1; r < w->ranks; r++) {
        note n;
        snprintf(key, sizeof key, "save.shard.%u", r);
        weft_status st = receive(w, key, r, step, &n);
        if (st != WEFT_OK)
            return mine != WEFT_OK ? err_again(mine, &why) : st;
        sums[r] = n.sum;
        if (mine != WEFT_OK || !n.status)
            continue;
        mine = blame(w, *culprit = r);
        err_keep(&why);
    }
    return mine == WEFT_OK ? WEFT_OK : err_again(mine, &why);
}

static weft_status lead(run_save_writer *w, uint64_t step, const ckpt_piece *pieces, uint32_t n)
{
    ckpt_save save;
    err_record why;
    ckpt_shard_sum *sums = mem_alloc(w->ranks * sizeof *sums);
    uint32_t culprit = 0;
    weft_status st = check_out(w);
    if (st == WEFT_OK)
        st = find_cause(w, ckpt_begin(run_outlock_folder(w->lock), w->out, step, &save));
    const bool begun = st == WEFT_OK;
    err_keep(&why);
    weft_status sent = tell(w, "save.begin", step, st, 0, NULL);
    if (begun) {
        const ckpt_halt halt = {go_on, w};
        st = sent != WEFT_OK ? sent
                             : ckpt_write_shard(&save, 0, w->ranks, pieces, n, &halt, &sums[0]);
        st = receive_all(w, step, find_cause(w, st), sums, &culprit);
        if (st == WEFT_OK) /* before what is there is removed */
            st = check_out(w);
        if (st == WEFT_OK)
            st = find_cause(w, ckpt_commit(&save, w->job_text, sums, w->ranks, w->keep));
        else
            ckpt_abandon(&save);
        err_keep(&why);
        sent = tell(w, "save.end", step, st, culprit, NULL);
    }
    free(sums);
    return st != WEFT_OK ? err_again(st, &why) : sent;
}

/* --- the others --- */

static weft_status follow(run_save_writer *w, uint64_t step, const ckpt_piece *pieces, uint32_t n)
{
    char key[64];
    ckpt_save save;
    err_record why;
    const ckpt_halt halt = {go_on, w};
    ckpt_shard_sum sum = {0};
    note said;
    weft_status st = receive(w, "save.begin", 0, step, &said);
    if (st == WEFT_OK && said.status)
        st = blame(w, 0);
    if (st != WEFT_OK)
        return st;
    st = ckpt_join(run_outlock_folder(w->lock), w->out, step, &save);
    if (st == WEFT_OK)
        st = ckpt_write_shard(&save, w->rank, w->ranks, pieces, n, &halt, &sum);
    ckpt_part(&save);
    if (st == WEFT_OK)
        run_outlock_note(w->lock);
    else if (!is_in_out(w, save.temp))
        st = find_cause(w, st);
    err_keep(&why);
    snprintf(key, sizeof key, "save.shard.%u", w->rank);
    weft_status sent = tell(w, key, step, st, w->rank, &sum);
    if (sent == WEFT_OK) /* also after a failure: then the folder is gone when it is reported */
        sent = receive(w, "save.end", 0, step, &said);
    if (st != WEFT_OK)
        return err_again(st, &why);
    return sent != WEFT_OK ? sent : said.status ? blame(w, said.culprit) : WEFT_OK;
}

weft_status run_save_write(run_save_writer *w, uint64_t step, const ckpt_piece *pieces, uint32_t n)
{
    w->blameless = false;
    return w->rank ? follow(w, step, pieces, n) : lead(w, step, pieces, n);
}
