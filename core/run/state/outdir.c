/* run/state/outdir.c: see outdir.h. */
#include "run/state/outdir.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/ckpt.h"
#include "comm/comm.h"
#include "data/file.h"
#include "job/control/progress.h"
#include "run/view/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARE_SECONDS 10.0 /* until the others must see what rank 0 has written into OUT */
#define MEET_SECONDS 60.0  /* until all have told whether they do */
#define NAMED 8u           /* ranks that the error names */

static bool has(const char *dir, const char *name)
{
    char path[4096];
    const size_t n = (size_t)snprintf(path, sizeof path, "%s/%s", dir, name);
    return n < sizeof path && access(path, F_OK) == 0;
}

static bool holds_run(const char *out)
{
    return has(out, "metrics.jsonl") || has(out, "checkpoints") || has(out, "flight") ||
           has(out, "sweep.json");
}

static weft_status make_folders(const char *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", out);
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = 0;
        if (mkdir(path, 0777) && errno != EEXIST)
            return err_fail_errno(WEFT_USAGE, "run.out: the folder %s cannot be made", path);
        *p = was;
        if (!was)
            break;
    }
    struct stat st;
    const bool found = stat(path, &st) == 0;
    if (!found && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return err_fail(WEFT_USAGE,
                        "run.out: %s is a link that leads to nothing: make the folder that it "
                        "names, or remove the link",
                        path);
    if (!found || !S_ISDIR(st.st_mode))
        return err_fail(WEFT_USAGE, "run.out: %s exists and is not a folder", path);
    return WEFT_OK;
}

/* `out` without trailing slashes, with which rename() would expect an existing folder. */
static weft_status trim(const char *out, char path[4096])
{
    if (!*out)
        return err_fail(WEFT_USAGE, "run.out is empty: name a folder");
    if ((size_t)snprintf(path, 4096, "%s", out) >= 4096)
        return err_fail(WEFT_USAGE, "run.out is longer than 4095 bytes");
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    return WEFT_OK;
}

/* Where a link leads: the folder itself is used and renamed, and the link stays. */
static weft_status follow_link(char path[4096])
{
    char real[PATH_MAX];
    if (data_file_follow(path, real))
        return err_fail_errno(WEFT_USAGE, "run.out: the link %s cannot be followed", path);
    snprintf(path, 4096, "%s", real);
    return WEFT_OK;
}

#define AWAY 4096u /* bytes of a new name */

/* Rename OUT to the first free name of OUT.1, OUT.2, ..., which is stored in `old`. */
static weft_status move_away(const char *out, char old[AWAY])
{
    const char *slash = strrchr(out, '/'), *last = slash ? slash + 1 : out;
    if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
        return err_fail(
            WEFT_USAGE,
            "run.out = %s contains a run and cannot be renamed under this name: give the "
            "name of the folder itself",
            out);
    for (uint32_t i = 1;; i++) {
        struct stat st;
        if (snprintf(old, AWAY, "%s.%u", out, i) >= (int)AWAY)
            return err_fail(WEFT_USAGE, "run.out is longer than 4095 bytes");
        if (lstat(old, &st) == 0)
            continue;
        if (errno != ENOENT || rename(out, old))
            return err_fail_errno(WEFT_USAGE, "%s contains a run and cannot be renamed to %s", out,
                                  old);
        return WEFT_OK;
    }
}

/* Rename the locked OUT to OUT.N, then create and lock a new OUT. */
static weft_status begin_anew(const char *out, double timeout, run_outlock *lock, char away[AWAY])
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", out);
    weft_status st = follow_link(folder);
    if (st == WEFT_OK)
        st = move_away(folder, away);
    if (st != WEFT_OK)
        return st;
    run_outlock old = *lock;
    *lock = (run_outlock){0};
    st = make_folders(folder);
    if (st == WEFT_OK)
        st = run_outlock_take(out, timeout, lock);
    run_outlock_release(&old, 0);
    return st;
}

/* Under --restarts attempts before this one have written into a folder, which may have been moved
 * since: this one writes into no other. WEFT_USAGE, so that no further attempt follows. */
static weft_status same_folder(const char *out, int folder)
{
    uint64_t device, inode;
    struct stat info;
    if (!job_attempt_folder(&device, &inode))
        return WEFT_OK;
    const bool there = folder < 0 ? !stat(out, &info) : !fstat(folder, &info);
    if (!there && errno != ENOENT && errno != ENOTDIR)
        return err_fail_errno(WEFT_IO, "run.out: %s cannot be looked at", out);
    if (there && info.st_dev == device && info.st_ino == inode)
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "run.out = %s is %s the folder in which the attempts before this one have "
                    "written: it was moved or removed; nothing is written there. Continue with "
                    "--resume=auto where its checkpoints are",
                    out, there ? "not" : "no longer");
}

/* away: the new name of what was there, "" if it stays. */
static weft_status prepare(const char *out, bool anew, double timeout, run_outlock *lock,
                           char away[AWAY])
{
    char path[4096];
    away[0] = 0;
    run_outlock l = {0};
    weft_status st = trim(out, path);
    if (st == WEFT_OK)
        st = same_folder(path, -1);
    if (st == WEFT_OK)
        st = make_folders(path);
    if (st == WEFT_OK)
        st = run_outlock_take(path, timeout, &l);
    if (st == WEFT_OK)
        st = same_folder(path, run_outlock_folder(&l));
    if (st == WEFT_OK && anew && holds_run(path))
        st = begin_anew(path, timeout, &l, away);
    if (st == WEFT_OK)
        st = run_outlock_admit(&l);
    if (st != WEFT_OK)
        run_outlock_release(&l, 0);
    else
        *lock = l;
    return st;
}

weft_status run_outdir_prepare(const char *out, bool anew, double timeout, run_outlock *lock)
{
    char away[AWAY];
    const weft_status st = prepare(out, anew, timeout, lock, away);
    if (st == WEFT_OK && *away)
        log_line(WEFT_LOG_WARN, "%s held a run; it is now %s", out, away);
    return st;
}

/* `out` has no checkpoint. The error also names the newest OUT.N, where an earlier run may be. */
static weft_status nothing_to_resume(const char *out)
{
    char path[4096], old[4096 + 8], newest[4096 + 8] = "";
    weft_status st = trim(out, path);
    if (st == WEFT_OK)
        st = follow_link(path);
    if (st != WEFT_OK)
        return st;
    for (uint32_t i = 1; i < 1000; i++) {
        snprintf(old, sizeof old, "%s.%u", path, i);
        if (access(old, F_OK) != 0)
            break;
        snprintf(newest, sizeof newest, "%s", old);
    }
    return err_fail(
        WEFT_USAGE,
        "%s has no checkpoint to resume from; --resume=auto starts a new run there%s%s%s", out,
        *newest ? " (the earlier run is now in " : "", newest, *newest ? ")" : "");
}

/* A run begins at step 1 where another one was, or where Slurm starts the job again. */
static void tell_beginning(const char *out, bool used, bool goes_on, const char *away)
{
    const char *count = getenv("SLURM_RESTART_COUNT");
    const bool again = count && strtoul(count, NULL, 10);
    if (!used && !again)
        return;
    if (goes_on)
        log_line(WEFT_LOG_WARN, "%s has %s: the run begins at step 1%s", out,
                 used ? "a run without a checkpoint" : "no checkpoint",
                 again ? ", though Slurm has started the job before; set run.out to a folder that "
                         "stays, and checkpoint.every"
                       : "");
    else
        log_line(WEFT_LOG_WARN,
                 "%s%s%s%sthis run begins at step 1%s; --resume=auto goes on from the newest "
                 "checkpoint of run.out, where there is one",
                 *away ? out : "", *away ? " held a run; it is now " : "", away,
                 *away ? ", and " : "",
                 again ? ", though Slurm has started the job before (SLURM_RESTART_COUNT)" : "");
}

/* Calls run_outdir_prepare() accordingly. *resume: OUT has a checkpoint to resume from. With both
 * modes this is checked again under the lock, because the job that held the lock may have saved
 * one. A run without a checkpoint is then overwritten, and this is logged. */
static weft_status begin(const char *out, run_outdir_mode wish, double timeout, run_outlock *lock,
                         bool *resume)
{
    bool there = false;
    char away[AWAY];
    const bool used = wish.goes_on ? has(out, "metrics.jsonl") : holds_run(out);
    weft_status st = wish.goes_on ? ckpt_there(out, &there) : WEFT_OK;
    if (st == WEFT_OK && !there && !wish.begins)
        st = nothing_to_resume(out);
    if (st == WEFT_OK)
        st = prepare(out, !wish.goes_on, timeout, lock, away);
    if (st == WEFT_OK)
        job_progress_folder(run_outlock_folder(lock));
    if (st == WEFT_OK)
        run_trace_remove_left(out);
    if (st == WEFT_OK && wish.goes_on && wish.begins)
        st = ckpt_there(out, &there);
    if (st == WEFT_OK && !there)
        tell_beginning(out, used, wish.goes_on, away);
    *resume = there;
    return st;
}

/* What rank 0 tells the others. */
typedef struct news {
    uint64_t token; /* outlock.h */
    uint64_t resume;
} news;

/* What each rank tells the others: whether OUT is the folder of rank 0 there. */
typedef struct sight {
    uint64_t missing;
    char host[120];
} sight;

/* The error names rank 0's host, and the ranks and hosts that do not see its folder. */
static weft_status not_shared(const char *out, const sight *all, uint32_t ranks)
{
    char who[600] = "";
    uint32_t missing = 0;
    size_t at = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        if (!all[r].missing)
            continue;
        if (++missing <= NAMED)
            at += (size_t)snprintf(who + at, sizeof who - at, "%srank %u on %.50s", at ? ", " : "",
                                   r, all[r].host);
    }
    if (missing > NAMED)
        snprintf(who + at, sizeof who - at, " and %u more", missing - NAMED);
    return err_fail(
        WEFT_USAGE,
        "run.out = %s is not one folder for all ranks: what rank 0 on %.50s wrote there "
        "has not appeared in %.0f s for %s. Set run.out to a folder that all ranks "
        "share, on a network file system where there are several machines",
        out, all[0].host, SHARE_SECONDS, who);
}

/* All ranks learn whether one of them does not see the folder of rank 0. */
static weft_status compare_sights(const char *out, bool missing, job *j, uint32_t ranks)
{
    sight mine, *all = mem_alloc(ranks * sizeof *all);
    bool bad = false;
    memset(&mine, 0, sizeof mine);
    mine.missing = missing;
    gethostname(mine.host, sizeof mine.host - 1);
    weft_status st = job_exchange_for(j, "out.seen", &mine, sizeof mine, MEET_SECONDS, all);
    for (uint32_t r = 0; st == WEFT_OK && r < ranks; r++)
        bad = bad || all[r].missing;
    if (bad)
        st = not_shared(out, all, ranks);
    free(all);
    return st;
}

/* If rank 0 fails, the exchange fails on the others. */
weft_status run_outdir_meet(const char *out, run_outdir_mode wish, double timeout, job *j,
                            const job_identity *who, run_outlock *lock, bool *resume)
{
    weft_status st = WEFT_OK;
    if (!who->rank)
        st = begin(out, wish, timeout, lock, resume);
    news mine = {lock->token, *resume}, *all = mem_alloc(who->ranks * sizeof *all);
    all[0] = mine;
    if (st == WEFT_OK && j) /* no rank writes there before rank 0 is done */
        st = job_exchange(j, "out", &mine, sizeof mine, all);
    mine = all[0];
    free(all);
    *resume = mine.resume != 0;
    if (st != WEFT_OK || !j)
        return st;
    if (who->rank)
        st = run_outlock_join(out, mine.token, SHARE_SECONDS, j, lock);
    if (st == WEFT_OK || st == WEFT_BUSY)
        st = compare_sights(out, st == WEFT_BUSY, j, who->ranks);
    /* A rank 0 that has failed meanwhile has taken its lock file away: its failure is the cause. */
    return st != WEFT_OK && who->rank && comm_cause_known(j, NULL) ? WEFT_PEER : st;
}
