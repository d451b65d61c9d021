/* Are lists of nodes read as Slurm writes them, and is everything else refused? */

#include <test.h>

#include "base/err.h"
#include "job/identity/slurm.h"
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

#include "environment.h"

TEST(test_first_node)
{
    static const char *const rows[][2] = {
        {"n1", "n1"},
        {"n[1-4]", "n1"},
        {"n[01-03,7],m2", "n01"},
        {"node-7.cluster,a", "node-7.cluster"},
        {"rack[2-3]n[004,9]", "rack2n004"},
        {"n[12]", "n12"},
        {"a[0-1]-ib", "a0-ib"},
    };
    static const char *const wrong[] = {"",    ",n1",  "n[",      "n[]",      "n[a]",
                                        "n[1", "n 1",  "n[1-2]]", "n;rm -rf", "n[1[2]]",
                                        "n\n", "$(x)", "n[-1]"};
    char out[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(job_slurm_first_node(rows[i][0], out, sizeof out));
        assert_string_equal(out, rows[i][1]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(job_slurm_first_node(wrong[i], out, sizeof out));
    char exact[4];
    assert_true(job_slurm_first_node("abc", exact, sizeof exact));
    assert_false(job_slurm_first_node("abcd", exact, sizeof exact));
    assert_false(job_slurm_first_node("ab[12]", exact, sizeof exact));
}

TEST(test_ports)
{
    for (uint32_t id = 0; id < 100000; id += 7) {
        assert_in_range(job_slurm_port(id, id % 5), 20000, 32767);
        assert_int_not_equal(job_slurm_port(id, 0), job_slurm_port(id, 1));
        assert_int_not_equal(job_slurm_port(id, 0), job_slurm_port(id + 1, 0));
    }
    assert_in_range(job_slurm_port(UINT32_MAX, UINT32_MAX), 20000, 32767);
}

#define STEP                                                                                       \
    "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=5 SLURM_PROCID=4 SLURM_LOCALID=0 "        \
    "SLURM_NODEID=2 SLURM_STEP_NUM_NODES=3 SLURM_STEP_TASKS_PER_NODE=2(x2),1 SLURM_GTIDS=4 "       \
    "SLURMD_NODENAME=n5 SLURM_STEP_NODELIST=n[3-5] "

TEST(test_node_address)
{
    static const char list[] = "n11:10.0.0.11:h11,n1:[fd00::1]:h1,n2:n2:n2,n3:(null):h3,n4:";
    static const struct {
        const char *node, *address; /* NULL: none */
    } rows[] = {{"n11", "10.0.0.11"}, {"n1", "fd00::1"}, {"n2", NULL}, {"n3", NULL},
                {"n4", NULL},         {"n5", NULL},      {"n", NULL},  {"h1", NULL}};
    char out[16];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(job_slurm_alias(list, rows[i].node, out, sizeof out), !!rows[i].address);
        if (rows[i].address)
            assert_string_equal(out, rows[i].address);
    }
    assert_false(job_slurm_alias(NULL, "n1", out, sizeof out));
    assert_false(job_slurm_alias("n1:0123456789abcdef:h", "n1", out, sizeof out));
    assert_true(job_slurm_shown("NodeName=n1 NodeAddr=10.0.0.1 X=y\n", "n1", out, sizeof out));
    assert_string_equal(out, "10.0.0.1");
    assert_false(job_slurm_shown("NodeName=n1 NodeAddr=n1\n", "n1", out, sizeof out));
    assert_false(job_slurm_shown("", "n1", out, sizeof out));
    assert_false(job_slurm_shown("NodeName=n1 NodeAddr=", "n1", out, sizeof out));
}

TEST(test_identity)
{
    job_identity me;
    set_environment(STEP);
    assert_int_equal(job_identify(&me), WEFT_OK);
    assert_int_equal(me.rank, 4);
    assert_int_equal(me.ranks, 5);
    assert_int_equal(me.local_ranks, 1);
    assert_string_equal(me.addr, "n3");
    assert_int_equal(me.port, job_slurm_port(7, 1));
    assert_true(me.slurm && me.node);
    set_environment(STEP "MASTER_ADDR=10.0.0.1 MASTER_PORT=99"); /* the user's words count */
    assert_int_equal(job_identify(&me), WEFT_OK);
    assert_string_equal(me.addr, "10.0.0.1");
    assert_false(me.node);
    assert_int_equal(me.port, 99);
    set_environment(STEP "SLURM_STEP_RESV_PORTS=12000-12004");
    assert_int_equal(job_identify(&me), WEFT_OK);
    assert_int_equal(me.port, 12000);
    set_environment(STEP "PMI_RANK=4 PMI_SIZE=5 PMI_JOBID=7.1"); /* srun --mpi=pmi2 */
    assert_int_equal(job_identify(&me), WEFT_OK);
    assert_true(me.slurm);
    assert_true(me.local_rank_said);
    set_environment(STEP "SLURM_STEP_NODELIST=;");
    assert_int_equal(job_identify(&me), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "MASTER_ADDR"));
}

/* As Slurm 22.05 sets the variables of a heterogeneous job whose components have n4 and n1. */
#define HET                                                                                        \
    "SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_HET_SIZE=2 SLURM_STEP_NODELIST=n[1,4] "                  \
    "SLURM_JOB_NODELIST=n[1,4] "                                                                   \
    "SLURM_JOB_NODELIST_HET_GROUP_0=n4 SLURM_JOB_NODELIST_HET_GROUP_1=n1 SLURM_STEP_NUM_NODES=2 "  \
    "SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=1,3 SLURM_DISTRIBUTION=cyclic "
#define TWO                                                                                        \
    "SLURM_JOB_ID=3 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2 "            \
    "SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=1,2 SLURM_DISTRIBUTION=arbitrary "
#define ON_N2 "SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_GTIDS=0,1 SLURMD_NODENAME=n2 "
#define ON_N1 "SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_GTIDS=2 SLURMD_NODENAME=n1 "

/* Ranks are not in the order of the nodes' names. */
TEST(test_order)
{
    static const struct {
        const char *settings, *addr; /* NULL: refused */
        uint32_t rank, local, local_ranks;
    } rows[] = {
        {HET "SLURM_PROCID=2 SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_GTIDS=0,1,2 SLURMD_NODENAME=n4",
         "n4", 2, 2, 3},
        {HET "SLURM_PROCID=3 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_GTIDS=3 SLURMD_NODENAME=n1", "n4",
         3, 0, 1},
        {HET "SLURM_JOB_NODELIST_HET_GROUP_1=n[5-6] SLURM_JOB_NODELIST=n[5-6] " /* it alone */
             "SLURM_STEP_NODELIST=n[5-6] SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_GTIDS=2,3 "
             "SLURMD_NODENAME=n6",
         "n5", 2, 0, 2},
        {TWO ON_N2, NULL, 0, 0, 0},
        {TWO ON_N1, NULL, 0, 0, 0},
        {TWO ON_N1 "MASTER_ADDR=n2", "n2", 2, 0, 1},
        {TWO "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_GTIDS=0 SLURMD_NODENAME=n1", "n1", 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_identity me;
        set_environment(rows[i].settings);
        const weft_status st = job_identify(&me);
        assert_int_equal(st, rows[i].addr ? WEFT_OK : WEFT_USAGE);
        if (!rows[i].addr) {
            assert_non_null(strstr(err_text(), "is n1, and rank 0 is not there"));
            assert_non_null(strstr(err_text(), "set MASTER_ADDR"));
            continue;
        }
        assert_string_equal(me.addr, rows[i].addr);
        assert_int_equal(me.rank, rows[i].rank);
        assert_int_equal(me.local_rank, rows[i].local);
        assert_int_equal(me.local_ranks, rows[i].local_ranks);
    }
}
