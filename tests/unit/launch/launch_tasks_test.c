/* Is a start refused that would train something else than is meant, with the command that would
 * not, and every other one allowed? */

#include <test.h>

#include "base/err.h"
#include "launch/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "environment.h"

static void refuses(const char *settings, uint32_t ranks, bool hosts, const char *says)
{
    set_environment(settings);
    assert_int_equal(launch_check_tasks(ranks, hosts, "weft train j.ini"), WEFT_USAGE);
    if (!strstr(err_text(), says))
        fail_msg("'%s' lacks '%s'", err_text(), says);
}

static void allows(const char *settings, uint32_t ranks, bool hosts)
{
    set_environment(settings);
    assert_int_equal(launch_check_tasks(ranks, hosts, "weft train j.ini"), WEFT_OK);
}

#define STEP "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=5 SLURM_PROCID=4 "
#define BATCH "SLURM_JOB_ID=7 SLURM_NTASKS=4 "
#define ONE_TASK /* of a job of two nodes */                                                       \
    "SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=1 "

TEST(wrong_starts)
{
    allows(STEP, 0, false);
    refuses(STEP, 2, false, "leave -n 2 out: `srun -n 5 weft train j.ini`");
    refuses(STEP, 0, true, "leave --hosts out: `srun -n 5 weft train j.ini`");
    refuses("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0", 2, false, "mpirun -n 4");
    refuses("OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0", 2, true, "leave --hosts out");
    refuses("RANK=1 WORLD_SIZE=4", 2, false,
            "one of 4 ranks, and each would start a job of its own; leave -n 2 out: `weft train "
            "j.ini`, or unset WORLD_SIZE");
    refuses("RANK=1 WORLD_SIZE=4", 0, true, "leave --hosts out: `weft train j.ini`");
    allows("RANK=1 WORLD_SIZE=4", 0, false);
    allows("RANK=0 WORLD_SIZE=1", 4, false);
    refuses(BATCH "SLURM_JOB_NUM_NODES=1", 0, false, "would train on one rank");
    allows(BATCH "SLURM_JOB_NUM_NODES=1", 4, false);
    refuses(BATCH "SLURM_JOB_NUM_NODES=2", 4, false, "`srun weft train j.ini`");
    allows(BATCH "SLURM_JOB_NUM_NODES=2", 0, true);
    allows(BATCH "SLURM_JOB_NUM_NODES=2", 4, true);
    allows("SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1", 0, false);
    refuses("SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2", 0, false, /* sbatch -N 2 */
            "the Slurm job has 2 tasks, and this command would train on one rank: `srun weft train "
            "j.ini`, or `srun -n 1 weft train j.ini`");
    allows(ONE_TASK, 0, false);
    refuses(ONE_TASK, 4, false, "`srun -N 1 -n 4 weft train j.ini` if one node is meant");
    refuses(ONE_TASK "PMI_RANK=0 PMI_SIZE=1", 4, false, "the Slurm job has 2 nodes");
    allows(ONE_TASK "PMI_RANK=0 PMI_SIZE=1", 0, false);
    allows(ONE_TASK, 0, true);
    allows(ONE_TASK "SLURM_JOB_NUM_NODES=1", 4, false);
    refuses(ONE_TASK "SLURM_STEP_ID=4294967290", 0, false, "would train on one rank");
    refuses(ONE_TASK "SLURM_STEP_ID=4294967290", 4, false, "the Slurm job has 2 nodes");
    allows(ONE_TASK "SLURM_STEP_ID=4294967290 SLURM_JOB_NUM_NODES=1", 0, false);
    allows(ONE_TASK "SLURM_STEP_ID=4294967290 SLURM_JOB_NUM_NODES=1", 4, false);
    allows("A=b", 3, false);
    refuses("JOB_COMPLETION_INDEX=3 WORLD_SIZE=4", 2, false,
            "an Indexed Job has started this program in 4 pods");
    allows("JOB_COMPLETION_INDEX=3 WORLD_SIZE=4", 0, false);
}
