/* job_mpirun_test.c: which values of Open MPI's variable are a secret of the job. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include <test.h>

#include "job/wire/key.h"

TEST(random_bits_are_taken)
{
    static const char *const bad[] = {
        "",
        "6e7e323fdd22bb81",
        "6e7e323fdd22bb81:4ff7af15bbf82b98",
        "6e7e323fdd22bb81-4ff7af15bbf82b9g",
        "6e7e323fdd22bb81-4ff7af15bbf82b981",
        "0000000001c60001-0000000001c60001", /* of a job's number */
        "0000000001c60001-0000000000000001",
    };
    uint8_t out[MPIRUN_SECRET];
    unsetenv("OMPI_MCA_orte_precondition_transports");
    assert_false(job_key_of_mpirun(out));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("OMPI_MCA_orte_precondition_transports", bad[i], 1);
        assert_false(job_key_of_mpirun(out));
    }
    setenv("OMPI_MCA_orte_precondition_transports", "6e7e323fdd22bb81-4ff7af15bbf82b98", 1);
    assert_true(job_key_of_mpirun(out));
    assert_memory_equal(out, "\x6e\x7e\x32\x3f\xdd\x22\xbb\x81\x4f\xf7\xaf\x15\xbb\xf8\x2b\x98",
                        sizeof out);
}
