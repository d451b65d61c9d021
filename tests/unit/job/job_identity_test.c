/* Who we are, for every launcher's dialect; and what contradicts is refused in words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "base/err.h"
#include "job/control/control.h"
#include "job/job.h"

#include <cmocka.h> /* last: it has a macro called fail */

static const char *const names[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_JOB_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_HET_SIZE",
    "PMIX_NAMESPACE",
    "PMI_JOBID",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RESTART_COUNT",
    "JOB_COMPLETION_INDEX",
    CONTROL_FD_ENV,
};

/* "NAME=value NAME=value": the whole environment of interest. */
static weft_status identify(const char *settings, job_identity *out)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    char copy[1024];
    strncpy(copy, settings, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    for (char *save = NULL, *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
        char *value = strchr(s, '=');
        *value++ = 0;
        setenv(s, value, 1);
    }
    err_clear();
    return job_identify(out);
}

static void accepts(const char *settings, uint32_t rank, uint32_t ranks, uint32_t local,
                    uint32_t locals)
{
    job_identity id;
    weft_status st = identify(settings, &id);
    if (st != WEFT_OK)
        fail_msg("'%s' was refused: %s", settings, err_text());
    assert_true(id.launched);
    assert_int_equal(id.rank, rank);
    assert_int_equal(id.ranks, ranks);
    assert_int_equal(id.local_rank, local);
    assert_int_equal(id.local_ranks, locals);
}

static void refuses(const char *settings, const char *word)
{
    job_identity id = {.rank = 77};
    weft_status st = identify(settings, &id);
    if (st != WEFT_USAGE || !strstr(err_text(), word))
        fail_msg("'%s': status %d, '%s' lacks '%s'", settings, st, err_text(), word);
    assert_int_equal(id.rank, 77); /* nothing is written on failure */
}

TEST(nothing_set)
{
    job_identity id;
    assert_int_equal(identify("", &id), WEFT_OK);
    assert_false(id.launched);
    assert_int_equal(id.rank, 0);
    assert_int_equal(id.ranks, 1);
    assert_int_equal(id.local_ranks, 1);
    assert_string_equal(id.addr, "127.0.0.1");
}

TEST(dialects)
{
    accepts("RANK=2 WORLD_SIZE=4 MASTER_PORT=5000", 2, 4, 2, 4);
    accepts("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=n1 MASTER_PORT=5000",
            5, 8, 1, 4);
    accepts("RANK=0 WORLD_SIZE=1", 0, 1, 0, 1);
    accepts("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
            "OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_PORT=1",
            1, 2, 1, 2);
    accepts("PMI_RANK=3 PMI_SIZE=4 MASTER_PORT=65535", 3, 4, 3, 4);
    accepts("SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 MASTER_ADDR=n1 MASTER_PORT=9", 3, 4, 1,
            2);
    job_identity id;
    assert_int_equal(identify("RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.1.2.3 MASTER_PORT=29500", &id),
                     0);
    assert_string_equal(id.addr, "10.1.2.3");
    assert_int_equal(id.port, 29500);
}

TEST(precedence)
{
    /* A launcher of ours inside an mpirun of one. */
    accepts("RANK=1 WORLD_SIZE=4 MASTER_PORT=9 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", 1, 4,
            1, 4);
    accepts("RANK=1 WORLD_SIZE=4 MASTER_PORT=9 OMPI_COMM_WORLD_RANK=0 "
            "OMPI_COMM_WORLD_SIZE=2 " CONTROL_FD_ENV "=9",
            1, 4, 1, 4);
    /* torchrun on each of two nodes of a Slurm step; mpirun whose daemons srun started. */
    accepts("RANK=5 WORLD_SIZE=8 MASTER_ADDR=n1 LOCAL_RANK=1 MASTER_PORT=9 SLURM_PROCID=1 "
            "SLURM_NTASKS=2",
            5, 8, 1, 2);
    accepts("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 MASTER_PORT=9 SLURM_PROCID=1 "
            "SLURM_NTASKS=2",
            3, 4, 3, 4);
    /* The step's own count wins; a batch script without a step is no rank. */
    accepts("SLURM_JOB_ID=7 SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2 MASTER_PORT=9", 1,
            2, 1, 2);
    job_identity id;
    assert_int_equal(identify("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=8", &id), WEFT_OK);
    assert_false(id.launched);
    assert_int_equal(identify("SLURM_NTASKS=8", &id), WEFT_OK);
    assert_false(id.launched);
}

static uint64_t launch_of(const char *settings)
{
    job_identity id;
    assert_int_equal(identify(settings, &id), WEFT_OK);
    return id.launch;
}

#define STEP "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 MASTER_PORT=9 "

/* Runs of one launcher are told apart where it has a name for them, and by nothing else. */
TEST(names_of_runs)
{
    const uint64_t step = launch_of(STEP "SLURM_JOB_ID=7 SLURM_STEP_ID=0");
    assert_int_not_equal(step, 0);
    assert_true(step == launch_of(STEP "SLURM_JOB_ID=7 SLURM_STEP_ID=0"));
    assert_true(step != launch_of(STEP "SLURM_JOB_ID=7 SLURM_STEP_ID=1"));
    assert_true(step != launch_of(STEP "SLURM_JOB_ID=70 SLURM_STEP_ID=0"));
    assert_true(step != launch_of(STEP "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_RESTART_COUNT=1"));
    assert_int_equal(launch_of(STEP "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_HET_SIZE=2"), 0);
    assert_int_equal(launch_of("RANK=1 WORLD_SIZE=2 MASTER_PORT=9"), 0);
    /* Another dialect's name does not count: Slurm's numbers differ where each node has a step. */
    assert_int_equal(launch_of("RANK=1 WORLD_SIZE=2 MASTER_PORT=9 SLURM_JOB_ID=7 SLURM_STEP_ID=3"),
                     0);
    assert_int_not_equal(launch_of("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 MASTER_PORT=9 "
                                   "PMIX_NAMESPACE=mpirun-3@1"),
                         0);
}

#define POD "JOB_COMPLETION_INDEX=3 MASTER_ADDR=train-0.train MASTER_PORT=29500 "

TEST(pods)
{
    job_identity id;
    accepts(POD "WORLD_SIZE=4", 3, 4, 0, 1);
    accepts(POD "WORLD_SIZE=8 RANK=7", 7, 8, 0, 1); /* an operator's RANK has precedence */
    refuses(POD, "`completions`");
    refuses(POD "WORLD_SIZE=3", "JOB_COMPLETION_INDEX=3, and WORLD_SIZE=3 allows ranks 0 to 2");
    refuses(POD "WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4",
            "JOB_COMPLETION_INDEX and WORLD_SIZE say rank 3 of 4");
    refuses("JOB_COMPLETION_INDEX=x WORLD_SIZE=4 MASTER_PORT=9", "JOB_COMPLETION_INDEX");
    assert_int_equal(identify("JOB_COMPLETION_INDEX=3", &id), WEFT_OK); /* a sweep */
    assert_false(id.launched);
    assert_int_equal(id.ranks, 1);
}

TEST(places)
{
    static const struct {
        const char *addr, *name;
        uint16_t port;
    } rows[] = {{"[::1]:29500", "::1", 29500},
                {"[fd00::7]", "fd00::7", 9},
                {"::1", "::1", 9},
                {"fe80::1%eth0", "fe80::1%eth0", 9},
                {"n1:5000", "n1", 5000},
                {"train-0.train.ns", "train-0.train.ns", 9},
                {"10.0.0.1:80", "10.0.0.1", 80},
                {"10.0.0.1", "10.0.0.1", 9}};
    char text[200];
    job_identity id;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "RANK=1 WORLD_SIZE=2 %s MASTER_ADDR=%s",
                 rows[i].port == 9 ? "MASTER_PORT=9" : "", rows[i].addr);
        assert_int_equal(identify(text, &id), WEFT_OK);
        assert_string_equal(id.addr, rows[i].name);
        assert_int_equal(id.port, rows[i].port);
    }
    accepts("RANK=1 WORLD_SIZE=2 MASTER_ADDR=[::1]:9 MASTER_PORT=9", 1, 2, 1, 2);
    refuses("RANK=1 WORLD_SIZE=2 MASTER_ADDR=[::1]:9 MASTER_PORT=8", "remove one of them");
    static const char *const bad[] = {
        "[::1", "[::1]x", "[::1]:", "[::1]:0", "n1:", "n1:x", "[]", "n1:99999", ":80", "[]:80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "RANK=1 WORLD_SIZE=2 MASTER_PORT=9 MASTER_ADDR=%s", bad[i]);
        refuses(text, "is not NAME, NAME:PORT");
    }
}

#define TORCH "RANK=1 WORLD_SIZE=2 MASTER_ADDR=n1 "
#define STORE TORCH "TORCHELASTIC_USE_AGENT_STORE=True "

static uint16_t port_of(const char *settings)
{
    job_identity id;
    assert_int_equal(identify(settings, &id), WEFT_OK);
    return id.port;
}

/* torchrun's store listens at MASTER_PORT: rank 0 listens at a port that follows from it. */
TEST(torchrun)
{
    const uint16_t port = port_of(STORE "MASTER_PORT=41205 TORCHELASTIC_RUN_ID=a");
    assert_in_range(port, 20000, 32768);
    assert_int_equal(port, port_of(STORE "MASTER_PORT=41205 TORCHELASTIC_RUN_ID=a "
                                         "TORCHELASTIC_RESTART_COUNT=1"));
    assert_int_not_equal(port, port_of(STORE "MASTER_PORT=41205 TORCHELASTIC_RUN_ID=b"));
    assert_int_not_equal(port, port_of(STORE "MASTER_PORT=41206 TORCHELASTIC_RUN_ID=a"));
    char text[200];
    for (unsigned at = 20000; at < 32768; at++) { /* one of them meets itself */
        snprintf(text, sizeof text, STORE "TORCHELASTIC_RUN_ID=none MASTER_PORT=%u", at);
        assert_int_not_equal(port_of(text), at);
    }
    assert_int_equal(port_of(TORCH "MASTER_PORT=9 TORCHELASTIC_USE_AGENT_STORE=False"), 9);
    assert_int_equal(port_of(STORE "MASTER_PORT=9 " CONTROL_FD_ENV "=9"), 9);
    refuses(STORE "MASTER_PORT=0", "MASTER_PORT is 0");
}

TEST(contradictions)
{
    refuses("RANK=1", "WORLD_SIZE");
    refuses("WORLD_SIZE=2", "RANK");
    refuses("RANK=2 WORLD_SIZE=2 MASTER_PORT=9", "0 to 1");
    refuses("RANK=0 WORLD_SIZE=0", "at least one");
    refuses("RANK=1 WORLD_SIZE=4 LOCAL_RANK=2 MASTER_PORT=9", "LOCAL_RANK");
    refuses("RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=3 MASTER_PORT=9", "LOCAL_WORLD_SIZE");
    refuses("RANK=3 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2 MASTER_PORT=9",
            "LOCAL_WORLD_SIZE");
    refuses("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE");
    refuses("RANK=0 WORLD_SIZE=4 MASTER_PORT=9 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4",
            "mpirun");
    refuses("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 PMI_RANK=2 PMI_SIZE=4", "PMI");
}

TEST(garbage)
{
    static const char *const bad[] = {"x", "-1", "1x", "0x1", "", "+1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128] = "WORLD_SIZE=2 MASTER_PORT=9 RANK=";
        strncat(text, bad[i], 40);
        refuses(text, "RANK");
    }
    refuses("RANK=0 WORLD_SIZE=70000 MASTER_PORT=9", "WORLD_SIZE");
    refuses("RANK=0 WORLD_SIZE=2 MASTER_PORT=65536", "MASTER_PORT");
    refuses("RANK=0 WORLD_SIZE=2 MASTER_PORT=0", "MASTER_PORT");
    refuses("RANK=0 WORLD_SIZE=2", "MASTER_PORT");
    refuses("RANK=0 WORLD_SIZE=2 MASTER_PORT=9 MASTER_ADDR=", "MASTER_ADDR");
    refuses("RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_PORT=9", "MASTER_ADDR");
    char text[400] = "RANK=0 WORLD_SIZE=2 MASTER_PORT=9 MASTER_ADDR=";
    size_t n = strlen(text);
    memset(text + n, 'a', 256);
    text[n + 256] = 0;
    refuses(text, "256 bytes");
}
