/* job/identity/mpirun.c: see mpirun.h. */
#include "job/identity/mpirun.h"

#include <stdlib.h>
#include <string.h>

#include "base/number/digest.h"
#include "job/identity/slurm.h"
#include "job/wire/key.h"

#define HALF 16u /* hexadecimal digits; "6e7e323fdd22bb81-4ff7af15bbf82b98" */

uint16_t job_mpirun_port(void)
{
    const char *run = getenv("PMIX_NAMESPACE");
    uint64_t h = DIGEST_BEGIN;
    if (!run || !*run)
        return 0;
    digest_mix(&h, run, strlen(run));
    return job_slurm_port((uint32_t)h, (uint32_t)(h >> 32) % 31);
}

bool job_mpirun_secret(uint8_t out[JOB_MPIRUN_SECRET])
{
    const char *text = getenv("OMPI_MCA_orte_precondition_transports");
    return text && strlen(text) == 2 * HALF + 1 && text[HALF] == '-' &&
           strncmp(text, "00000000", 8) && /* a number of the job, which is no secret */
           job_key_hex(text, HALF / 2, out) &&
           job_key_hex(text + HALF + 1, HALF / 2, out + HALF / 2);
}
