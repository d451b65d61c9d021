/* plan.c: weft plan. Needs no device, no data and no other rank. */
#include "cli/cli.h"

#include "base/err.h"
#include "run/prepare.h"
#include "view/view.h"

#include <stdio.h>
#include <stdlib.h>

enum flag { JSON, LIST, SCHEDULE, PASSES };

static weft_status print(const run_prepared *p, const cli_job *j)
{
    uint64_t rank = 0;
    bool json = j->flag[JSON], lists = j->flag[LIST], schedule = j->flag[SCHEDULE];
    if (j->value[0] && !cli_number(j->value[0], 0, p->spec.ranks - 1, &rank))
        return err_fail(WEFT_USAGE, "--rank %s: the job has ranks 0 to %u", j->value[0],
                        p->spec.ranks - 1);
    if (schedule && (lists || json))
        return err_fail(WEFT_USAGE,
                        "--schedule draws for people: not together with --list or --json");
    if (j->flag[PASSES] && (lists || schedule))
        return err_fail(WEFT_USAGE,
                        "--passes prints the times of planning alone: not together with "
                        "--list or --schedule");
    if (j->flag[PASSES] && json)
        return view_print_passes_json(&p->plans, stdout);
    if (j->flag[PASSES]) {
        view_print_passes(&p->plans, stdout);
        return WEFT_OK;
    }
    if (schedule) {
        view_print_schedule(&p->plans, stdout);
        return WEFT_OK;
    }
    if (lists && json)
        return view_print_list_json(plan_of(&p->plans, (uint32_t)rank), (uint32_t)rank, stdout);
    if (json)
        return view_print_json(&p->plans, stdout);
    if (lists)
        view_print_list(plan_of(&p->plans, (uint32_t)rank), (uint32_t)rank, stdout);
    else
        view_print(&p->plans, stdout);
    return WEFT_OK;
}

static int plan_for(const cli_job *j)
{
    run_prepared p;
    job_hosts hosts;
    uint64_t machines = 1;
    uint32_t ranks = j->ranks ? j->ranks : 1;
    if (j->value[1] && !cli_number(j->value[1], 1, ranks, &machines))
        return cli_usage(&cli_cmd_plan, "--machines %s: %u ranks can be on 1 to %u", j->value[1],
                         ranks, ranks);
    config *cfg;
    weft_status st = config_load(j->ini, j->overrides, j->noverrides, &cfg);
    if (st != WEFT_OK)
        return cli_fail(st);
    job_even_hosts(ranks, (uint32_t)machines, &hosts);
    st = run_prepare(cfg, ranks, false, &(resolve_meeting){.hosts = &hosts, .plan_only = true}, &p);
    if (st == WEFT_OK)
        st = print(&p, j);
    run_unprepare(&p);
    job_free_hosts(&hosts);
    config_destroy(cfg);
    return cli_fail(st);
}

static int run(int argc, char **argv)
{
    static const char *const flags[] = {"--json", "--list", "--schedule", "--passes", NULL};
    static const char *const valued[] = {"--rank", "--machines", NULL};
    cli_job j;
    int status = 2;
    if (!cli_parse_job(&cli_cmd_plan, argc, argv, flags, valued, &j, &status)) {
        free(j.overrides);
        return status;
    }
    if (!j.ini) {
        status = cli_usage(&cli_cmd_plan, "name the INI file of a job");
    } else {
        status = plan_for(&j);
    }
    free(j.overrides);
    return status;
}

const cli_command cli_cmd_plan = {
    "plan",
    "[-n RANKS] JOB.ini [section.key=value ...] [--json] [--rank R] [--list] "
    "[--schedule] [--passes] [--machines M]",
    "Print what each rank would hold, send and do, without a device and without other ranks.\n\n"
    "  --json     for programs\n"
    "  --list     the lists that rank R (0 unless given) walks, every instruction; an operand is\n"
    "             its address, whether it is saved from forward to backward, and its bytes\n"
    "  --rank R   whose lists\n"
    "  --schedule what the stages do when, as a picture, and the share of time that they idle\n"
    "  --passes   the passes of planning in order, and how long each took\n"
    "  --machines M  ranks are spread evenly over M machines, instead of on one",
    run, NULL};
