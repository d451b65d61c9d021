/* cli/train.c: weft train. As launcher it validates the job once, then starts the ranks. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "doctor/doctor.h"
#include "job/launch/control.h"
#include "job/launch/launch.h"
#include "job/restart/policy.h"
#include "job/restart/supervise.h"
#include "job/stop.h"
#include "run/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const flags[] = {"--resume", "--resume=auto", "--resume=force",
                                    "--doctor", "--json",        NULL};
enum { RESUME, AUTO, FORCE, DOCTOR, JSON };
static const char *const valued[] = {"--restarts", "--restarts-min", NULL};
enum { RESTARTS, RESTARTS_MIN };
#define RESTARTS_MOST 1000u

static run_resume_mode resume_of(const cli_job *j)
{
    return j->flag[RESUME]  ? TRAIN_RESUME
           : j->flag[AUTO]  ? TRAIN_AUTO
           : j->flag[FORCE] ? TRAIN_FORCE
                            : TRAIN_AFRESH;
}

/* How an attempt starts where attempts before it have begun step `furthest`. A run that begins
 * afresh has taken run.out by its first step; until then the checkpoints there are an older run's.
 */
static run_resume_mode resume_after(const cli_job *j, uint64_t furthest)
{
    const run_resume_mode first = resume_of(j);
    return first == TRAIN_AFRESH && furthest ? TRAIN_AUTO : first;
}

/* The arguments of a rank: the same command without -n and what is the launcher's. */
static char **rank_arguments(const cli_job *j, run_resume_mode how)
{
    char **argv = mem_alloc((j->noverrides + 8) * sizeof *argv);
    uint32_t n = 0;
    argv[n++] = "weft";
    argv[n++] = "train";
    argv[n++] = (char *)j->ini;
    for (uint32_t i = 0; i < j->noverrides; i++)
        argv[n++] = (char *)j->overrides[i];
    for (uint32_t i = DOCTOR; flags[i]; i++)
        if (j->flag[i])
            argv[n++] = (char *)flags[i];
    if (how != TRAIN_AFRESH)
        argv[n++] = (char *)flags[how == TRAIN_RESUME ? RESUME : how == TRAIN_AUTO ? AUTO : FORCE];
    return argv;
}

static weft_status check_job(const cli_job *j, uint32_t ranks)
{
    run_prepared p;
    config *cfg;
    weft_status st = config_load(j->ini, j->overrides, j->noverrides, &cfg);
    if (st != WEFT_OK)
        return st;
    st = run_prepare(cfg, ranks, true, NULL, &p);
    run_unprepare(&p);
    config_destroy(cfg);
    return st;
}

static int run_rank(const cli_job *j)
{
    config *cfg;
    weft_status st = config_load(j->ini, j->overrides, j->noverrides, &cfg);
    if (st != WEFT_OK)
        return run_train_refuse(st);
    int status = j->flag[DOCTOR] ? doctor_rank(j->ini, cfg, j->flag[JSON])
                                 : run_train_rank(cfg, resume_of(j));
    config_destroy(cfg);
    return status;
}

/* --- restarts --- */

typedef struct restarting {
    const cli_job *job;
    job_restarts by;
    uint32_t ranks, number; /* of the next attempt */
} restarting;

/* Start one attempt, and note how it ended. */
static int attempt(restarting *r, job_launch_end *end, job_attempt *a)
{
    job_progress *p = NULL;
    const uint64_t began = clock_ms();
    weft_status st = job_progress_open(r->ranks, &p);
    *end = (job_launch_end){0};
    if (st != WEFT_OK)
        return cli_fail(st);
    char **argv = rank_arguments(r->job, resume_after(r->job, r->by.furthest));
    job_launch(
        &(job_launch_args){
            .ranks = r->ranks, .argv = argv, .stops = true, .attempt = r->number, .progress = p},
        end);
    *a = (job_attempt){.number = r->number,
                       .ranks = r->ranks,
                       .step = job_progress_furthest(p),
                       .rank = end->rank,
                       .at = job_progress_of(p, end->rank),
                       .seconds = (double)(clock_ms() - began) * 1e-3};
    memcpy(a->why, end->why, sizeof a->why);
    free(argv);
    job_progress_close(p);
    return end->status;
}

/* The largest number of ranks below the present one that the job allows; 0: none, and the error
 * record says what stands in the way of the largest. */
static uint32_t fewer(const restarting *r)
{
    char why[2048] = "";
    weft_status first = WEFT_OK;
    for (uint32_t n = r->ranks - 1; n >= r->by.least && n; n--) {
        const weft_status st = check_job(r->job, n);
        if (st == WEFT_OK)
            return n;
        if (!*why)
            snprintf(why, sizeof why, "with %u ranks: %s", n, err_text());
        first = first == WEFT_OK ? st : first;
    }
    (void)err_fail(first, "no layout of %u to %u ranks is possible; %s", r->by.least, r->ranks - 1,
                   why);
    return 0;
}

/* What follows a failed attempt. False: the job ends. */
static bool decide(restarting *r, const job_attempt *a)
{
    uint32_t pause = 0, before = r->ranks, n = 0;
    job_restart next = job_restarts_next(&r->by, a, &pause);
    if (next == RESTART_FEWER && (n = fewer(r))) {
        job_restarts_fewer(&r->by);
        log_line(
            WEFT_LOG_WARN,
            "rank %u failed twice in a row in the same step and counts as lost: %u of %u ranks "
            "continue, the largest number that the job allows; spare: %u",
            a->rank, n, before, before - 1 - n);
        r->ranks = n;
    } else if (next == RESTART_FEWER) {
        log_line(WEFT_LOG_WARN, "the job cannot continue with fewer ranks: %s", err_text());
        next = r->by.in_a_row > r->by.most ? RESTART_END : RESTART_SAME;
    }
    if (next == RESTART_END) {
        log_line(WEFT_LOG_ERROR,
                 "the job is not started again: %u attempts in a row got no further than step %llu",
                 r->by.in_a_row, (unsigned long long)r->by.furthest);
        return false;
    }
    r->number++;
    log_line(WEFT_LOG_WARN, "attempt %u begins%s, %s", r->number, pause ? " after a pause" : "",
             r->by.furthest ? "from the newest checkpoint" : "as the first did");
    for (struct timespec t = {.tv_sec = pause}; pause && nanosleep(&t, &t) && errno == EINTR;)
        continue;
    return true;
}

static int launch_restarting(const cli_job *j, uint32_t most, uint32_t least)
{
    restarting r = {.job = j, .ranks = j->ranks, .number = 1};
    r.by.most = most;
    r.by.least = least;
    int status = 1;
    for (bool again = true; again;) {
        job_launch_end end;
        job_attempt a;
        status = attempt(&r, &end, &a);
        job_stop_at_once(true);
        again = end.failed && decide(&r, &a);
        job_stop_at_once(false);
    }
    if (status == 1)
        job_restarts_print(&r.by, stderr);
    job_restarts_free(&r.by);
    return status;
}

static int launch(const cli_job *j, uint32_t most, uint32_t least)
{
    job_stop_catch(false);
    job_stop_at_once(true);
    weft_status st =
        j->flag[DOCTOR] ? WEFT_OK : check_job(j, j->ranks); /* to the doctor it is a finding */
    job_stop_at_once(false);
    if (st != WEFT_OK)
        return cli_fail(st);
    if (most)
        return launch_restarting(j, most, least);
    char **argv = rank_arguments(j, resume_of(j));
    int status = job_launch_ranks(j->ranks, argv, !j->flag[DOCTOR]);
    free(argv);
    return status;
}

/* --- one rank --- */

static char **supervised_arguments(void *user, uint64_t furthest)
{
    return rank_arguments(user, resume_after(user, furthest));
}

/* A rank of another launcher, or a job of one rank. */
static int run_alone(cli_job *j, uint32_t most, uint32_t least)
{
    job_identity who;
    if (!most || job_control_descriptor() >= 0)
        return run_rank(j);
    weft_status st = job_identify(&who);
    if (st != WEFT_OK)
        return cli_fail(st);
    j->ranks = 1;
    if (!who.launched)
        return launch(j, most, least);
    if (least)
        return cli_usage(&cli_cmd_train, "--restarts-min needs -n or --hosts: only weft's own "
                                         "launcher can leave ranks out");
    return job_supervise(&who, &(job_supervise_args){most, supervised_arguments, j});
}

/* The command without what starts ranks, for messages. */
static const char *command_of(const cli_job *j, char out[256])
{
    snprintf(out, 256, "weft train %.200s%s", j->ini, j->noverrides ? " ..." : "");
    return out;
}

static int run(int argc, char **argv)
{
    char text[256];
    cli_job j;
    int status = 2;
    uint64_t most = 0, least = 0;
    if (!cli_parse_job(&cli_cmd_train, argc, argv, flags, valued, &j, &status)) {
        free(j.overrides);
        return status;
    }
    const char *restarts = j.value[RESTARTS], *min = j.value[RESTARTS_MIN];
    if (restarts && !cli_number(restarts, 1, RESTARTS_MOST, &most))
        status = cli_usage(&cli_cmd_train, "--restarts %s: 1 to %u", restarts, RESTARTS_MOST);
    else if (min && !most)
        status = cli_usage(&cli_cmd_train, "--restarts-min belongs to --restarts");
    else if (min && !cli_number(min, 1, j.ranks ? j.ranks : 1, &least))
        status = cli_usage(&cli_cmd_train, "--restarts-min %s: 1 to the %u ranks of -n", min,
                           j.ranks ? j.ranks : 1);
    else if (most && j.flag[DOCTOR])
        status = cli_usage(&cli_cmd_train, "--doctor trains nothing that could be restarted");
    else if (!j.ini)
        status = cli_usage(&cli_cmd_train, "name the INI file of a job");
    else if (j.flag[JSON] && !j.flag[DOCTOR])
        status = cli_usage(&cli_cmd_train, "--json is of --doctor");
    else if (j.flag[RESUME] + j.flag[AUTO] + j.flag[FORCE] > 1)
        status = cli_usage(&cli_cmd_train,
                           "one of --resume, --resume=auto and --resume=force at a time");
    else if (resume_of(&j) != TRAIN_AFRESH && j.flag[DOCTOR])
        status = cli_usage(&cli_cmd_train, "--doctor trains nothing that could be resumed");
    else if (job_check_tasks(j.ranks, command_of(&j, text)) != WEFT_OK)
        status = cli_fail(WEFT_USAGE);
    else if (j.ranks > 1)
        status = launch(&j, (uint32_t)most, (uint32_t)least);
    else
        status = run_alone(&j, (uint32_t)most, (uint32_t)least);
    free(j.overrides);
    return status;
}

const command cli_cmd_train = {
    "train",
    "[-n RANKS] JOB.ini [section.key=value ...] [--resume[=auto|force]] [--restarts K "
    "[--restarts-min M]] "
    "[--doctor [--json]]",
    "Train a model as the job file says.\n\n"
    "  -n RANKS   start so many ranks on this machine; without it, and started by mpirun, srun\n"
    "             or with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set, it joins as one rank\n"
    "  --resume   continue from the newest checkpoint under run.out; a job that would compute\n"
    "             something else than the one that saved it is refused (column resume of\n"
    "             weft config)\n"
    "  --resume=auto   the same if there is a checkpoint; if there is none, begin in run.out as\n"
    "             it is: one line for the first start and for every later one\n"
    "  --resume=force  go on whatever job saved it, and log each difference\n"
    "  --restarts K   start the ranks again when the job has failed, from the newest checkpoint;\n"
    "             after K restarts in a row that got no further than before, the job ends with "
    "its\n"
    "             history. Under srun or mpirun each rank does this for itself\n"
    "  --restarts-min M   with -n: when a rank fails twice in a row in the same step, go on with\n"
    "             fewer ranks, the largest number that the job allows, at least M\n"
    "  --doctor   train nothing: what weft doctor says, of every rank's machine, and what differs\n"
    "             between them; --json for programs\n\n"
    "SIGTERM or SIGUSR1, to any rank or to the launcher: all ranks finish the same step, save a\n"
    "checkpoint (if checkpoint.every is not 0), and end with status 75. A second SIGTERM ends the\n"
    "job at once. SIGINT ends it after the step, without a checkpoint.\n\n"
    "Exit status: 0 done, 1 the run failed, 2 the request was wrong, 75 stopped on request and\n"
    "nothing is lost (start it again with --resume=auto), 77 not possible here.",
    run};
