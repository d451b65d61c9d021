/* train.c: weft train. As launcher it validates the job once, then starts the ranks. */
#include "cli/cli.h"

#include "attempts.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "doctor/doctor.h"
#include "formats/formats.h"
#include "job/control/control.h"
#include "job/stop.h"
#include "launch/hosts/agent.h"
#include "launch/supervise.h"
#include "launch/tasks.h"
#include "report/record.h"
#include "resolve/resolve.h"
#include "run/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const flags[] = {"--resume", "--resume=auto", "--resume=force",
                                    "--doctor", "--json",        NULL};
enum { RESUME, AUTO, FORCE, DOCTOR, JSON };
static const char *const valued[] = {"--restarts", "--restarts-min", "--hosts", "--ssh", NULL};
enum { RESTARTS, RESTARTS_MIN, HOSTS, SSH };
#define RESTARTS_MAX 1000u

static const run_additions additions = {&formats_files, report_record, report_record_end,
                                        report_join_trace};

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

/* Keys for ranks that somebody else starts: this launcher's inherit a key and a socket of its own.
 */
static weft_status check_launched(const config *cfg)
{
    config_line line;
    static const char why[] = "the launcher gives its ranks a key and a socket to meet at";
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++) {
        if (line.stale || !*line.value ||
            (strcmp(line.name, "run.key") && strcmp(line.name, "run.listen")))
            continue;
        if (line.typed)
            return resolve_refuse_line(cfg, &line, why);
        log_line(WEFT_LOG_WARN, "%s: %s has no effect: %s", line.where, line.name, why);
    }
    return WEFT_OK;
}

static weft_status check_job(const cli_job *j, uint32_t ranks)
{
    run_prepared p;
    config *cfg;
    weft_status st = config_load(j->ini, j->overrides, j->noverrides, &cfg);
    if (st != WEFT_OK)
        return st;
    if (j->value[HOSTS]) /* which keys have an effect depends on the machines: ranks look */
        config_share_command_line(cfg);
    st = run_prepare(cfg, ranks, true, NULL, &p);
    if (j->value[HOSTS])
        resolve_warn_former(cfg);
    if (st == WEFT_OK && ranks > 1)
        st = check_launched(cfg);
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
                                 : run_train_rank(cfg, resume_of(j), &additions);
    config_destroy(cfg);
    return status;
}

static char **attempt_arguments(const cli_job *j, uint64_t furthest)
{
    return rank_arguments(j, resume_after(j, furthest));
}

/* `hosts` NULL: the ranks are of this machine. */
static int launch(const cli_job *j, uint32_t max, uint32_t least, launch_host_list *hosts)
{
    job_stop_catch(false);
    job_stop_at_once(true);
    weft_status st =
        j->flag[DOCTOR] ? WEFT_OK : check_job(j, j->ranks); /* to the doctor it is a finding */
    job_stop_at_once(false);
    if (st != WEFT_OK)
        return cli_fail(st);
    if (!j->flag[DOCTOR])
        log_add_time();
    return cli_attempts_run(&(cli_attempts){.job = j,
                                            .stops = !j->flag[DOCTOR],
                                            .ranks = j->ranks,
                                            .max = max,
                                            .least = least,
                                            .hosts = hosts,
                                            .ssh = j->value[SSH] ? j->value[SSH] : "ssh",
                                            .arguments = attempt_arguments,
                                            .check = check_job});
}

/* --hosts FILE: -n ranks, or as many as the hosts have slots. */
static int launch_on_hosts(cli_job *j, uint32_t max, uint32_t least)
{
    launch_host_list hosts;
    weft_status st = launch_host_list_read(j->value[HOSTS], &hosts);
    if (st != WEFT_OK)
        return cli_fail(st);
    const uint32_t slots = launch_host_list_slots(&hosts);
    j->ranks = j->ranks ? j->ranks : slots;
    if (j->ranks > slots)
        st = err_fail(WEFT_USAGE,
                      "-n %u: the %u host%s of %s have %u slot%s; write slots=N behind a host that "
                      "takes more ranks than one",
                      j->ranks, hosts.n, hosts.n == 1 ? "" : "s", j->value[HOSTS], slots,
                      slots == 1 ? "" : "s");
    const int status = st == WEFT_OK ? launch(j, max, least, &hosts) : cli_fail(st);
    launch_host_list_free(&hosts);
    return status;
}

/* --- one rank --- */

static char **supervised_arguments(void *user, uint64_t furthest)
{
    return rank_arguments(user, resume_after(user, furthest));
}

/* A rank of another launcher, or a job of one rank. */
static int run_alone(cli_job *j, uint32_t max, uint32_t least)
{
    job_identity who;
    if (!max || job_control_descriptor() >= 0)
        return run_rank(j);
    weft_status st = job_identify(&who);
    if (st != WEFT_OK)
        return cli_fail(st);
    j->ranks = 1;
    if (!who.launched)
        return launch(j, max, least, NULL);
    return launch_supervise(&who, &(launch_supervise_args){max, supervised_arguments, j});
}

/* The command without what starts ranks, for messages. */
static const char *command_of(const cli_job *j, char out[256])
{
    snprintf(out, 256, "weft train %.200s%s", j->ini, j->noverrides ? " ..." : "");
    return out;
}

/* What --restarts-min may ask for. */
static uint32_t max_ranks(const cli_job *j)
{
    return j->ranks ? j->ranks : 65536;
}

static int run(int argc, char **argv)
{
    char text[256];
    cli_job j;
    int status = 2;
    uint64_t max = 0, least = 0;
    if (argc == 2 && !strcmp(argv[1], "--agent"))
        return launch_agent_run();
    if (!cli_parse_job(&cli_cmd_train, argc, argv, flags, valued, &j, &status)) {
        free(j.overrides);
        return status;
    }
    const char *restarts = j.value[RESTARTS], *min = j.value[RESTARTS_MIN];
    if (restarts && !cli_number(restarts, 1, RESTARTS_MAX, &max))
        status = cli_usage(&cli_cmd_train, "--restarts %s: 1 to %u", restarts, RESTARTS_MAX);
    else if (min && !max)
        status = cli_usage(&cli_cmd_train, "--restarts-min belongs to --restarts");
    else if (min && !j.ranks && !j.value[HOSTS])
        status = cli_usage(&cli_cmd_train, "--restarts-min needs -n or --hosts: only weft's own "
                                           "launcher can leave ranks out");
    else if (min && !cli_number(min, 1, max_ranks(&j), &least))
        status = cli_usage(&cli_cmd_train, "--restarts-min %s: 1 to the %u ranks of -n", min,
                           max_ranks(&j));
    else if (j.value[SSH] && !j.value[HOSTS])
        status = cli_usage(&cli_cmd_train, "--ssh belongs to --hosts");
    else if (max && j.flag[DOCTOR])
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
    else if (launch_check_tasks(j.ranks, j.value[HOSTS], command_of(&j, text)) != WEFT_OK)
        status = cli_fail(WEFT_USAGE);
    else if (j.value[HOSTS])
        status = launch_on_hosts(&j, (uint32_t)max, (uint32_t)least);
    else if (j.ranks > 1)
        status = launch(&j, (uint32_t)max, (uint32_t)least, NULL);
    else
        status = run_alone(&j, (uint32_t)max, (uint32_t)least);
    free(j.overrides);
    return status;
}

const cli_command cli_cmd_train = {
    "train",
    "[-n RANKS] [--hosts FILE [--ssh COMMAND]] JOB.ini [section.key=value ...] "
    "[--resume[=auto|force]] [--restarts K [--restarts-min M]] "
    "[--doctor [--json]]",
    "Train a model as the job file says.\n\n"
    "  -n RANKS   start so many ranks on this machine; without it, and started by mpirun, srun\n"
    "             or with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set, it joins as one rank\n"
    "  --hosts FILE   start the ranks over ssh on the machines of FILE, which has lines\n"
    "             `NAME [slots=N] [addr=ADDRESS]`; -n is the sum of the slots if it is not\n"
    "             given. The job file, its data and weft have to be at the same paths on all\n"
    "             of them, and run.out in a folder that they share (docs/SSH.md)\n"
    "  --ssh COMMAND   instead of ssh, such as \"ssh -p 2222\"\n"
    "  --agent    what --hosts starts on each host; not for users\n"
    "  --resume   continue from the newest checkpoint under run.out; a job that would compute\n"
    "             something else than the one that saved it is refused (column resume of\n"
    "             weft config)\n"
    "  --resume=auto   the same if there is a checkpoint; if there is none, begin in run.out as\n"
    "             it is: one line for the first start and for every later one\n"
    "  --resume=force  go on with other settings than the saved ones, and log each difference;\n"
    "             not with another model or update rule, which have other tensors\n"
    "  --restarts K   start the ranks again when the job has failed, from the newest checkpoint;\n"
    "             after K restarts in a row that got no further than before, the job ends with "
    "its\n"
    "             history; at once if it fails twice before its first step for the same reason,\n"
    "             such as a full disk. Under srun or mpirun each rank does this for itself\n"
    "  --restarts-min M   with -n or --hosts: when a rank fails twice in a row in the same step,\n"
    "             or the hosts that are left have too few slots, go on with fewer ranks, the\n"
    "             largest number that the job allows, at least M\n"
    "  --doctor   train nothing: what weft doctor says, of every rank's machine, and what differs\n"
    "             between them; --json for programs\n\n"
    "SIGTERM, SIGUSR1, SIGHUP or SIGXCPU, to any rank or to the launcher: all ranks finish the\n"
    "same step, save a checkpoint (if checkpoint.every is not 0), and end with status 75. More of\n"
    "them change nothing, nor does SIGHUP under nohup. SIGINT ends the job after the step, "
    "without\n"
    "a checkpoint; after any of these signals it ends the job at once.\n\n"
    "Exit status: 0 done, 1 the run failed, 2 the request was wrong, 75 stopped on request and\n"
    "nothing is lost (start it again with --resume=auto), 77 not possible here.",
    run, NULL};
