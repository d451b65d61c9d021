/* doctor.c: weft doctor. The checks are in doctor/. */
#include "doctor/doctor.h"

#include "base/err.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

static weft_status write_report(const json_t *report, bool json)
{
    bool bad = false;
    if (json)
        bad = json_dumpf(report, stdout, JSON_INDENT(1)) || putchar('\n') == EOF;
    else
        doctor_print(report, stdout);
    return bad || fflush(stdout) ? err_fail_errno(WEFT_IO, "the report could not be written")
                                 : WEFT_OK;
}

static int examine(const cli_job *j, uint64_t here)
{
    config *cfg = NULL;
    json_t *report;
    weft_status st = j->ini ? config_load(j->ini, j->overrides, j->noverrides, &cfg) : WEFT_OK;
    const doctor_job job = {j->ini, cfg, j->ranks, (uint32_t)here, 0};
    if (st == WEFT_OK)
        st = doctor_examine(j->ini ? &job : NULL, &report);
    config_destroy(cfg);
    if (st != WEFT_OK)
        return cli_fail(st);
    bool prevents = doctor_worst(report) == DOCTOR_PROBLEM;
    st = write_report(report, j->flag[0]);
    json_decref(report);
    if (st == WEFT_OK && prevents)
        st = err_fail(WEFT_IO, "the job cannot run here: see the problems above");
    return cli_fail(st);
}

static int list_checks(void)
{
    const char *id, *title;
    for (uint32_t i = 0; (id = doctor_check_at(i, &title)); i++)
        printf("%-11s %s\n", id, title);
    return 0;
}

static int run(int argc, char **argv)
{
    static const char *const flags[] = {"--json", "--list", NULL};
    static const char *const valued[] = {"--here", NULL};
    cli_job j;
    int status = 2;
    uint64_t here = 0;
    if (!cli_parse_job(&cli_cmd_doctor, argc, argv, flags, valued, &j, &status)) {
        free(j.overrides);
        return status;
    }
    if (j.value[0] && !cli_number(j.value[0], 1, 1048576, &here))
        status = cli_usage(&cli_cmd_doctor, "--here takes a number of ranks from 1 to 1048576");
    else if (here && !j.ranks)
        status = cli_usage(&cli_cmd_doctor, "--here says how many of the -n ranks run here");
    else if (!j.ini && (j.noverrides || j.ranks || here))
        status = cli_usage(&cli_cmd_doctor, "name the INI file of the job");
    else
        status = j.flag[1] ? list_checks() : examine(&j, here);
    free(j.overrides);
    return status;
}

const cli_command cli_cmd_doctor = {
    "doctor", "[JOB.ini [section.key=value ...] [-n RANKS [--here RANKS]]] [--json] [--list]",
    "Report what this machine has and which settings are wrong: what, why, and the command to mend "
    "it.\n\n"
    "With a job it also checks whether the job fits. weft train --doctor does the same on the "
    "machine\n"
    "of every rank and says what differs between them.\n\n"
    "  -n RANKS     of the job; without, as many as the sizes of its mesh axes multiply to\n"
    "  --here RANKS how many of them run on this machine; without, all\n"
    "  --json       for programs\n"
    "  --list       the checks, and nothing else\n\n"
    "A note may cost speed, a warning does or fails at scale, a problem keeps the job from "
    "running.\n"
    "WEFT_DOCTOR_ROOT=DIR examines DIR/proc, DIR/sys and DIR/dev, copied from another machine.\n\n"
    "Exit status: 0 nothing keeps a job from running, 1 something does, 2 the request was wrong.",
    run, NULL};
