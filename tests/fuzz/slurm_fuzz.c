/* fuzz/slurm_fuzz.c: lists of nodes and tasks, which come from the environment. */
#include "job/identity/slurm.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), out[24];
    uint32_t tasks = 0, before = 0;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t room = 1; room <= sizeof out; room++)
        if (job_slurm_first_node(text, out, room) && strlen(out) >= room)
            abort();
    for (uint32_t node = 0; node < 5; node++)
        if (job_slurm_tasks(text, node, &tasks, &before) && (!tasks || before > 65536))
            abort();
    free(text);
    return 0;
}
