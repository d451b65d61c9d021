/* job/client.h: a rank other than 0: the calls of job.c to the thread that talks to rank 0.
 *
 * job_client_ask() and job_client_bye() are called under the lock of the job. */
#ifndef JOB_CLIENT_H
#define JOB_CLIENT_H

#include "job/state.h"

/* Find rank 0, join the job and start the thread. WEFT_PEER: rank 0 was not reached in time, or the
 * job has failed. [setup] */
weft_status job_client_start(job *j);

/* After the thread has ended. */
void job_client_free(job *j);

/* Send a request; `wait_ms` is for a get or an exchange. */
void job_client_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                    uint64_t wait_ms);

/* Tell rank 0 that this rank leaves, in good order or with a status and a reason. */
void job_client_bye(job *j, weft_status st, const char *text);

#endif
