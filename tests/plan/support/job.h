/* A job as a plan, from the text of its INI; the device and the transport are on paper. */
#ifndef JOB_H
#define JOB_H

#include "plan/plan.h"
#include "resolve/resolve.h"

typedef struct planned {
    config *cfg;
    host *host;
    spec spec;
    plan_set plans;
    plan *plan; /* of the first stage */
    bool built;
    job_sites sites;
} planned;

/* `text` follows a head that names the paper plugins. Free with planned_free(), also after a
 * failure. */
weft_status planned_make(const char *text, uint32_t ranks, int want, planned *out);
/* The same for ranks on several machines, as many on each. */
weft_status planned_on(const char *text, uint32_t ranks, uint32_t machines, planned *out);
/* ... and for machines of these sizes, one after the other. */
weft_status planned_at(const char *text, const uint32_t *size, uint32_t machines, planned *out);
/* The same with these in the place of the job's first strategy and its update rule; NULL: its own.
 */
weft_status planned_with(const char *text, uint32_t ranks, const component *strategy,
                         const component *rule, planned *out);
void planned_free(planned *j);

/* A GPT-2 of sizes that divide badly; lines of the caller go behind it. */
#define TINY                                                                                       \
    "[model]\nlayers = 2\nheads = 3\nembed = 15\nffn = 37\ncontext = 12\nvocab = 23\n"             \
    "[train]\nsequence = 7\nclip = 1\n"

#endif
