/* sim.c: weft sim. Needs no device, no data and no other rank, as weft plan. */
#include "cli/cli.h"

#include "base/err.h"
#include "data/file.h"
#include "run/prepare.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum flag { JSON };
enum value { CLUSTER, TRACE };

/* The timeline must not take the place of what it is made of. */
static weft_status check_trace(const cli_job *j)
{
    const char *const read[] = {j->ini, j->value[CLUSTER]};
    struct stat trace;
    if (!j->value[TRACE] || stat(j->value[TRACE], &trace))
        return WEFT_OK;
    for (uint32_t i = 0; i < 2; i++)
        if (data_file_is(read[i], &trace))
            return err_fail(WEFT_USAGE, "--trace %s is %s, which it would replace", j->value[TRACE],
                            i ? "the cluster file" : "the job file");
    return WEFT_OK;
}

static weft_status simulate(const run_prepared *p, const sim_cluster *c, const cli_job *j)
{
    sim_result r;
    weft_status st = sim_run(&p->plans, c, j->value[TRACE] != NULL, &r);
    if (st == WEFT_OK && j->value[TRACE])
        st = sim_write_trace(&p->plans, &r, j->value[TRACE]);
    if (st == WEFT_OK && j->flag[JSON])
        st = sim_print_json(&p->plans, c, &r, stdout);
    else if (st == WEFT_OK)
        sim_print(&p->plans, c, &r, stdout);
    sim_free(&r);
    return st;
}

static int sim_for(const cli_job *j)
{
    run_prepared p;
    sim_cluster c;
    job_hosts hosts;
    config *cfg;
    uint32_t ranks = j->ranks ? j->ranks : 1;
    weft_status st = check_trace(j);
    if (st == WEFT_OK)
        st = sim_cluster_read(j->value[CLUSTER], &c);
    if (st == WEFT_OK)
        st = config_load(j->ini, j->overrides, j->noverrides, &cfg);
    if (st != WEFT_OK)
        return cli_fail(st);
    uint32_t machines = (uint32_t)((ranks + c.per_machine - 1) / c.per_machine);
    job_even_hosts(ranks, machines, &hosts);
    st = run_prepare(cfg, ranks, false, &(resolve_meeting){.hosts = &hosts, .plan_only = true}, &p);
    if (st == WEFT_OK)
        st = simulate(&p, &c, j);
    run_unprepare(&p);
    job_free_hosts(&hosts);
    config_destroy(cfg);
    return cli_fail(st);
}

static int run(int argc, char **argv)
{
    static const char *const flags[] = {"--json", NULL};
    static const char *const valued[] = {"--cluster", "--trace", NULL};
    cli_job j;
    int status = 2;
    if (!cli_parse_job(&cli_cmd_sim, argc, argv, flags, valued, &j, &status)) {
        free(j.overrides);
        return status;
    }
    if (!j.ini)
        status = cli_usage(&cli_cmd_sim, "name the INI file of a job");
    else if (!j.value[CLUSTER])
        status = cli_usage(&cli_cmd_sim, "name the file of the cluster: --cluster CLUSTER.ini; "
                                         "configs/clusters, in share/weft of an "
                                         "installation, has some");
    else
        status = sim_for(&j);
    free(j.overrides);
    return status;
}

const cli_command cli_cmd_sim = {
    "sim",
    "[-n RANKS] JOB.ini [section.key=value ...] --cluster CLUSTER.ini [--json] [--trace FILE]",
    "Tell how long a step would take on a cluster, without its machines.\n\n"
    "  --cluster FILE  machines, devices and links: see configs/clusters and docs/FORESIGHT.md\n"
    "  --json          for programs\n"
    "  --trace FILE    write the timeline of a step, for ui.perfetto.dev",
    run, NULL};
