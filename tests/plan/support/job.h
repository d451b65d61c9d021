/* Plans a job from the text of its INI, with the device and the transport of paper.c. */
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
    job_hosts hosts;
} planned;

/* `text` follows a header that names the plugins of paper.c. Free with planned_free(), also after a
 * failure. */
weft_status planned_make(const char *text, uint32_t ranks, int want, planned *out);
/* The same for ranks on several machines, equally many on each. */
weft_status planned_on(const char *text, uint32_t ranks, uint32_t machines, planned *out);
/* ... and for machines of these sizes, in this order. */
weft_status planned_at(const char *text, const uint32_t *size, uint32_t machines, planned *out);
/* The same with another first strategy and update rule; NULL: the job's own. */
weft_status planned_with(const char *text, uint32_t ranks, const host_component *strategy,
                         const host_component *rule, planned *out);
/* The same for a job with these data instead of tokens and targets. */
weft_status planned_of(const char *text, uint32_t ranks, const weft_data_info *data, planned *out);
void planned_free(planned *j);

/* The job is a wrong request, and the error says `why`. */
void planned_refused(const char *text, uint32_t ranks, const char *why);

/* What a rank sends in a step by collectives of one kind; ... without compression. */
uint64_t planned_sent(const plan *p, uint32_t kind);
uint64_t planned_plain(const plan *p, uint32_t kind);

/* A GPT-2 of sizes that divide badly; the caller appends lines. */
#define TINY                                                                                       \
    "[model]\nlayers = 2\nheads = 3\nembed = 15\nffn = 37\ncontext = 12\nvocab = 23\n"             \
    "[train]\nsequence = 7\nclip = 1\n"

#endif
