/* cli/train.c: weft train. As launcher it validates the job once, then starts the ranks. */
#include "cli/cli.h"

#include "base/err.h"
#include "base/mem.h"
#include "doctor/doctor.h"
#include "job/launch/launch.h"
#include "job/stop.h"
#include "run/train.h"

#include <stdlib.h>
#include <string.h>

static const char *const flags[] = {"--resume", "--resume=auto", "--resume=force",
                                    "--doctor", "--json",        NULL};
enum { RESUME, AUTO, FORCE, DOCTOR, JSON };

static run_resume_mode resume_of(const cli_job *j)
{
    return j->flag[RESUME]  ? TRAIN_RESUME
           : j->flag[AUTO]  ? TRAIN_AUTO
           : j->flag[FORCE] ? TRAIN_FORCE
                            : TRAIN_AFRESH;
}

/* The arguments of a rank: the same command without -n. */
static char **rank_arguments(const cli_job *j)
{
    char **argv = mem_alloc((j->noverrides + 8) * sizeof *argv);
    uint32_t n = 0;
    argv[n++] = "weft";
    argv[n++] = "train";
    argv[n++] = (char *)j->ini;
    for (uint32_t i = 0; i < j->noverrides; i++)
        argv[n++] = (char *)j->overrides[i];
    for (uint32_t i = 0; flags[i]; i++)
        if (j->flag[i])
            argv[n++] = (char *)flags[i];
    return argv;
}

static weft_status check_job(const cli_job *j)
{
    run_prepared p;
    config *cfg;
    weft_status st = config_load(j->ini, j->overrides, j->noverrides, &cfg);
    if (st != WEFT_OK)
        return st;
    st = run_prepare(cfg, j->ranks, true, NULL, &p);
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

static int launch(const cli_job *j)
{
    job_stop_catch(false);
    job_stop_at_once(true);
    weft_status st = j->flag[DOCTOR] ? WEFT_OK : check_job(j); /* to the doctor it is a finding */
    job_stop_at_once(false);
    if (st != WEFT_OK)
        return cli_fail(st);
    char **argv = rank_arguments(j);
    int status = job_launch_ranks(j->ranks, argv, !j->flag[DOCTOR]);
    free(argv);
    return status;
}

static int run(int argc, char **argv)
{
    cli_job j;
    int status = 2;
    if (!cli_parse_job(&cli_cmd_train, argc, argv, flags, NULL, &j, &status)) {
        free(j.overrides);
        return status;
    }
    if (!j.ini)
        status = cli_usage(&cli_cmd_train, "name the INI file of a job");
    else if (j.flag[JSON] && !j.flag[DOCTOR])
        status = cli_usage(&cli_cmd_train, "--json is of --doctor");
    else if (j.flag[RESUME] + j.flag[AUTO] + j.flag[FORCE] > 1)
        status = cli_usage(&cli_cmd_train,
                           "one of --resume, --resume=auto and --resume=force at a time");
    else if (resume_of(&j) != TRAIN_AFRESH && j.flag[DOCTOR])
        status = cli_usage(&cli_cmd_train, "--doctor trains nothing that could be resumed");
    else if (j.ranks > 1)
        status = launch(&j);
    else
        status = run_rank(&j);
    free(j.overrides);
    return status;
}

const command cli_cmd_train = {
    "train",
    "[-n RANKS] JOB.ini [section.key=value ...] [--resume[=auto|force]] [--doctor [--json]]",
    "Train a model as the job file says.\n\n"
    "  -n RANKS   start so many ranks on this machine; without it, and started by mpirun, srun\n"
    "             or with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set, it joins as one rank\n"
    "  --resume   continue from the newest checkpoint under run.out; a job that would compute\n"
    "             something else than the one that saved it is refused (column resume of\n"
    "             weft config)\n"
    "  --resume=auto   the same if there is a checkpoint; if there is none, begin in run.out as\n"
    "             it is: one line for the first start and for every later one\n"
    "  --resume=force  go on whatever job saved it, and log each difference\n"
    "  --doctor   train nothing: what weft doctor says, of every rank's machine, and what differs\n"
    "             between them; --json for programs\n\n"
    "SIGTERM or SIGUSR1, to any rank or to the launcher: all ranks finish the same step, save a\n"
    "checkpoint (if checkpoint.every is not 0), and end with status 75. A second SIGTERM ends the\n"
    "job at once. SIGINT ends it after the step, without a checkpoint.\n\n"
    "Exit status: 0 done, 1 the run failed, 2 the request was wrong, 75 stopped on request and\n"
    "nothing is lost (start it again with --resume=auto), 77 not possible here.",
    run};
