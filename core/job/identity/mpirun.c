/* job/identity/mpirun.c: see mpirun.h. */
#include "job/identity/mpirun.h"

#include <stdlib.h>
#include <string.h>

#include "base/number/digest.h"
#include "job/identity/slurm.h"

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

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool job_mpirun_secret(uint8_t out[JOB_MPIRUN_SECRET])
{
    const char *text = getenv("OMPI_MCA_orte_precondition_transports");
    if (!text || strlen(text) != 2 * HALF + 1 || text[HALF] != '-')
        return false;
    for (uint32_t i = 0; i < JOB_MPIRUN_SECRET; i++) {
        const char *at = text + 2 * i + (2 * i >= HALF);
        const int high = digit(at[0]), low = digit(at[1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}
