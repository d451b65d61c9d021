/* job/server.h: rank 0: the calls of job.c to the thread that admits and serves the other ranks.
 *
 * All are made under the lock of the job, but for job_server_start() and job_server_free(). */
#ifndef JOB_SERVER_H
#define JOB_SERVER_H

#include "job/state.h"

/* Listen and start the thread; a job of one rank has the store alone. [setup] */
weft_status job_server_start(job *j);

/* After the thread has ended. */
void job_server_free(job *j);

/* A request of rank 0 itself; `wait_ms` is for a get or an exchange. */
void job_server_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                    uint64_t wait_ms);

/* Answer every pending request now; for a job of one rank. */
void job_server_give_up(job *j);

/* `rank` leaves, in good order or with a status and a reason. */
void job_server_bye(job *j, uint32_t rank, weft_status st, const char *text);

/* "rank 2, rank 3": those that have not joined. */
void job_server_missing(job *j, char *out, uint32_t bytes);

/* Does every rank know why the job cannot begin? */
bool job_server_all_told(const job *j);

#endif
