/* launch/tasks.c: see tasks.h. */
#include "launch/tasks.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "job/control/control.h"

/* The value of a variable as a number; 0: there is none. */
static unsigned long number(const char *name)
{
    const char *text = getenv(name);
    return text && *text >= '0' && *text <= '9' ? strtoul(text, NULL, 10) : 0;
}

weft_status launch_check_tasks(uint32_t ranks, bool hosts, const char *command)
{
    static const struct {
        const char *size, *who;
    } launchers[] = {{"SLURM_STEP_NUM_TASKS", "srun"},
                     {"OMPI_COMM_WORLD_SIZE", "mpirun"},
                     {"PMI_SIZE", "mpiexec"}};
    const bool index = getenv("JOB_COMPLETION_INDEX") && !getenv("RANK");
    char asked[16] = "--hosts";
    if (job_control_descriptor() >= 0)
        return WEFT_OK; /* a rank of our own launcher */
    if (!hosts)
        snprintf(asked, sizeof asked, "-n %u", ranks);
    for (size_t i = 0; (hosts || ranks) && i < sizeof launchers / sizeof *launchers; i++) {
        const unsigned long tasks = number(launchers[i].size);
        if (tasks > 1)
            return err_fail(WEFT_USAGE,
                            "%s: %s has started this program %lu times, and each would start a "
                            "job of its own; leave %s out: `%s -n %lu %s`",
                            asked, launchers[i].who, tasks, asked, launchers[i].who, tasks,
                            command);
    }
    if ((hosts || ranks) && (index || getenv("RANK")) && number("WORLD_SIZE") > 1)
        return err_fail(WEFT_USAGE,
                        "%s: %s %lu %ss, and each would start a job of its own; leave %s out: "
                        "`%s`, or unset WORLD_SIZE if each %s trains alone",
                        asked,
                        index ? "an Indexed Job has started this program in"
                              : "RANK and WORLD_SIZE say that this is one of",
                        number("WORLD_SIZE"), index ? "pod" : "rank", asked, command,
                        index ? "pod" : "rank");
    const unsigned long tasks = number("SLURM_NTASKS"), nodes = number("SLURM_JOB_NUM_NODES");
    const bool shell = !number("SLURM_STEP_NUM_TASKS") || number("SLURM_STEP_ID") == 0xfffffffa;
    if (hosts || !number("SLURM_JOB_ID") || getenv("RANK") || getenv("OMPI_COMM_WORLD_RANK") ||
        (getenv("PMI_RANK") && !number("SLURM_STEP_NUM_TASKS")))
        return WEFT_OK;
    if (ranks && nodes > 1)
        return err_fail(WEFT_USAGE,
                        "-n %u starts ranks on this node alone, and the Slurm job has %lu nodes: "
                        "`srun %s`, or `srun -N 1 -n %u %s` if one node is meant",
                        ranks, nodes, command, ranks, command);
    if (!ranks && shell && (tasks > 1 || nodes > 1)) /* 0xfffffffa: the shell of salloc */
        return err_fail(WEFT_USAGE,
                        "the Slurm job has %lu tasks, and this command would train on one rank: "
                        "`srun %s`, or `srun -n 1 %s` if one rank is meant",
                        tasks > nodes ? tasks : nodes, command, command);
    return WEFT_OK;
}
