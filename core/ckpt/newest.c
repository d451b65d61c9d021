/* ckpt/newest.c: which checkpoint all ranks resume from.
 *
 * Rank 0 proposes the newest; every rank opens it, hashes its share of the shards and sends the
 * result to the others. If all agree, that one is used. If a rank found damage, rank 0 proposes the
 * one before. Any other failure ends the call: an unreadable file may be intact. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "ckpt/internal.h"
#include "data/file.h"
#include "job/job.h"

typedef struct proposal { /* rank 0's */
    uint64_t step;
    uint32_t status, passed; /* how many are newer */
} proposal;

typedef struct decision {
    uint64_t digest; /* of what this rank opened */
    uint32_t status, unused;
} decision;

/* The newest checkpoint after `passed` newer ones. */
static weft_status propose(const char *out_dir, uint32_t passed, uint64_t *step)
{
    int folder;
    ckpt_steps list;
    weft_status st = ckpt_folder_open(-1, out_dir, false, &folder);
    if (st != WEFT_OK)
        return st;
    st = ckpt_list(folder, &list);
    close(folder);
    if (st == WEFT_OK && !list.n)
        st = err_fail(WEFT_USAGE, "there is no checkpoint in %s/checkpoints", out_dir);
    else if (st == WEFT_OK && passed >= list.n)
        st = err_fail(WEFT_USAGE,
                      "none of the %" PRIu32
                      " checkpoints in %s/checkpoints verifies: put back a copy of "
                      "one, or start again without --resume",
                      list.n, out_dir);
    if (st == WEFT_OK)
        *step = list.at[passed];
    free(list.at);
    return st;
}

static void name_of(const char *out_dir, uint64_t step, char dir[CKPT_PATH_MAX])
{
    char name[CKPT_FILE_MAX];
    ckpt_step_name(step, "", "", name);
    snprintf(dir, CKPT_PATH_MAX, "%s/checkpoints/%s", out_dir, name);
}

/* Opens a checkpoint in OUT/checkpoints and checks that its step matches its name. A missing folder
 * is not damage: rank 0 has seen it. */
static weft_status open_step(const char *out_dir, uint64_t step, const ckpt_team *t, ckpt **out)
{
    char dir[CKPT_PATH_MAX];
    name_of(out_dir, step, dir);
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT)
        return err_fail_errno(WEFT_USAGE,
                              "rank %" PRIu32 " does not see checkpoint %s, which rank 0 sees: "
                              "run.out must be the same folder for all ranks",
                              t->rank, dir);
    if (folder < 0)
        return err_fail_errno(data_file_damage(errno), "cannot open checkpoint %s", dir);
    ckpt *c;
    weft_status st = ckpt_open_part(folder, dir, t->rank, t->ranks, &c);
    if (st != WEFT_OK)
        return st;
    if (ckpt_step(c) != step) {
        st = err_fail(WEFT_DATA, "checkpoint %s: its manifest is that of step %" PRIu64, dir,
                      ckpt_step(c));
        ckpt_close(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

/* Exchanges `bytes` bytes of every rank, with a time limit for the work of one rank. `own` is this
 * rank's status: if it failed, that failure is returned, whatever the others report. */
static weft_status receive_all(const ckpt_team *t, uint32_t passed, const char *what,
                               weft_status own, const void *mine, uint64_t bytes, void *all)
{
    char tag[64];
    err_record why;
    snprintf(tag, sizeof tag, "resume.%" PRIu32 ".%s", passed, what);
    err_keep(&why);
    weft_status st = job_exchange_for(t->job, tag, mine, bytes, t->timeout, all);
    if (own != WEFT_OK && (own != WEFT_DATA || st == WEFT_OK))
        return err_again(own, &why);
    if (st != WEFT_OK && job_failure(t->job) == WEFT_OK) /* no rank died: timeout */
        err_context("checkpoint.timeout = %.0f s", t->timeout);
    return st;
}

/* Status of the other ranks: WEFT_OK, WEFT_DATA for damage, or WEFT_PEER: the job cannot continue,
 * and the rank that failed reports why. */
static weft_status choose(const char *dir, const ckpt_team *t, const decision *all)
{
    for (uint32_t r = 0; r < t->ranks; r++)
        if (all[r].status && all[r].status != WEFT_DATA)
            return err_fail(WEFT_PEER, "rank %" PRIu32 " could not read checkpoint %s", r, dir);
    for (uint32_t r = 0; r < t->ranks; r++)
        if (all[r].status)
            return WEFT_DATA;
    for (uint32_t r = 1; r < t->ranks; r++)
        if (all[r].digest != all[0].digest)
            return err_fail(WEFT_USAGE,
                            "rank %" PRIu32 " sees another checkpoint in %s than rank 0: it must "
                            "be the same folder for all ranks",
                            r, dir);
    return WEFT_OK;
}

/* One proposal, opened by all ranks. WEFT_DATA: it is damaged, as logged. */
static weft_status try_step(const char *out_dir, const proposal *p, const ckpt_team *t, ckpt **out)
{
    char dir[CKPT_PATH_MAX];
    decision mine = {0}, *all = mem_alloc(t->ranks * sizeof *all);
    ckpt *c = NULL;
    name_of(out_dir, p->step, dir);
    weft_status st = open_step(out_dir, p->step, t, &c);
    if (st == WEFT_DATA)
        log_line(WEFT_LOG_WARN, "passed over: %s", err_text());
    mine.status = st;
    mine.digest = c ? ckpt_digest(c) : 0;
    st = receive_all(t, p->passed, "verdict", st, &mine, sizeof mine, all);
    if (st == WEFT_OK || st == WEFT_DATA)
        st = choose(dir, t, all);
    free(all);
    if (st != WEFT_OK)
        ckpt_close(c);
    else
        *out = c;
    return st;
}

weft_status ckpt_open_newest(const char *out_dir, const ckpt_team *team, ckpt **out)
{
    proposal mine = {0}, *all = mem_alloc(team->ranks * sizeof *all);
    weft_status st = WEFT_DATA;
    for (uint32_t passed = 0; st == WEFT_DATA; passed++) {
        mine.passed = passed;
        st = team->rank ? WEFT_OK : propose(out_dir, passed, &mine.step);
        mine.status = st;
        st = receive_all(team, passed, "step", st, &mine, sizeof mine, all);
        if (st != WEFT_OK)
            break;
        st = all[0].status ? err_fail(WEFT_PEER, "rank 0 found no checkpoint in %s", out_dir)
                           : try_step(out_dir, &all[0], team, out);
    }
    free(all);
    return st;
}

weft_status ckpt_open_shared(const char *dir, const ckpt_team *t, ckpt **out)
{
    decision mine = {0}, *all = mem_alloc(t->ranks * sizeof *all);
    ckpt *c = NULL;
    const int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    weft_status st = folder < 0
                         ? err_fail_errno(data_file_status(errno), "cannot open checkpoint %s", dir)
                         : ckpt_open_part(folder, dir, t->rank, t->ranks, &c);
    mine.status = st;
    mine.digest = c ? ckpt_digest(c) : 0;
    st = receive_all(t, 0, "shared", st, &mine, sizeof mine, all);
    if (st == WEFT_OK)
        st = choose(dir, t, all);
    if (st == WEFT_DATA && mine.status == WEFT_OK)
        st = err_fail(WEFT_PEER, "another rank found damage in checkpoint %s", dir);
    free(all);
    if (st != WEFT_OK)
        ckpt_close(c);
    else
        *out = c;
    return st;
}

/* --- setting aside --- */

/* Renames to the first unused name. */
static weft_status move_aside(int folder, const char *out_dir, uint64_t step)
{
    char name[CKPT_FILE_MAX], aside[CKPT_FILE_MAX + 16];
    struct stat st;
    ckpt_step_name(step, "", "", name);
    snprintf(aside, sizeof aside, "%s.damaged", name);
    for (uint32_t i = 1; fstatat(folder, aside, &st, AT_SYMLINK_NOFOLLOW) == 0; i++)
        snprintf(aside, sizeof aside, "%s.damaged.%" PRIu32, name, i);
    if (errno != ENOENT || renameat(folder, name, folder, aside) < 0)
        return err_fail_errno(WEFT_IO,
                              "the damaged checkpoint %s/checkpoints/%s cannot be renamed %s",
                              out_dir, name, aside);
    log_line(WEFT_LOG_WARN, "the damaged checkpoint %s/checkpoints/%s is set aside as %s", out_dir,
             name, aside);
    return WEFT_OK;
}

weft_status ckpt_set_aside(int out, const char *out_dir, uint64_t step)
{
    int folder;
    ckpt_steps list;
    weft_status st = ckpt_folder_open(out, out_dir, false, &folder);
    if (st != WEFT_OK)
        return st;
    bool any = false;
    st = ckpt_list(folder, &list);
    for (uint32_t i = 0; st == WEFT_OK && i < list.n && list.at[i] > step; i++) {
        st = move_aside(folder, out_dir, list.at[i]);
        any = true;
    }
    if (st == WEFT_OK && any && data_file_sync_folder(folder) < 0)
        st = err_fail_errno(WEFT_IO, "cannot sync %s/checkpoints", out_dir);
    free(list.at);
    close(folder);
    return st;
}
