/* fuzz/slurm_fuzz.c: lists of nodes, which come from the environment. */
#include "job/identity/slurm.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), out[24];
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t room = 1; room <= sizeof out; room++)
        if (job_slurm_first_node(text, out, room) && strlen(out) >= room)
            abort();
    free(text);
    return 0;
}
