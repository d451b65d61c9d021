/* job/client.h: connection of ranks other than 0 to rank 0: what job.c asks of the client thread.
 *
 * job_client_ask() and job_client_bye() are called with the job lock held. */
#ifndef JOB_CLIENT_H
#define JOB_CLIENT_H

#include "job/state.h"

/* Connect to rank 0, join the job and start the thread. WEFT_PEER: rank 0 was not reached in time,
 * or the job has failed. [setup] */
weft_status job_client_start(job *j);

/* Call after the thread has ended. */
void job_client_free(job *j);

/* Send a request; `wait_ms` is the timeout of a get or an exchange. */
void job_client_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                    uint64_t wait_ms);

/* Tell rank 0 that this rank leaves, with WEFT_OK or with a failure status and its reason. */
void job_client_bye(job *j, weft_status st, const char *text);

#endif
