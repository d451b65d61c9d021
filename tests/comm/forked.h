/* tests/comm/forked.h: ranks that are processes, in a real job, over a real transport.
 *
 * forked_run() forks the ranks; each joins the job, opens the plugin, maps a memory file as its
 * arena and runs the body. What a rank ends with comes back through a pipe. */
#ifndef TESTS_COMM_FORKED_H
#define TESTS_COMM_FORKED_H

#include <sys/types.h>

#include "comm/comm.h"

#define FORKED_MAX 8

typedef struct forked {
    uint32_t me, n;
    job *job;
    comm_world *world;
    uint32_t link;
    uint64_t caps; /* of the link */
    comm_arena arena;
    uint64_t used;
    const void *argument;
} forked;

typedef struct forked_end {
    int wait_status;
    weft_status st; /* what the body returned */
    char text[1024];
} forked_end;

/* section.key=value of all ranks, before the first forked_run(). */
extern const char *const *forked_settings;
extern uint32_t forked_nsettings;

typedef weft_status (*forked_body)(forked *f);

/* False: the plugin is not built here. `argument` reaches the bodies. */
int forked_run(const char *plugin, uint32_t n, uint64_t arena, forked_body body,
               const void *argument, forked_end *end);

/* Memory of the arena, on a line of its own; NULL when it is used up. */
void *forked_take(forked *f, uint64_t bytes);

#endif
