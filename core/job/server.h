/* job/server.h: rank 0: what job.c asks of the thread that admits and serves the other ranks.
 *
 * All calls are made with the job lock held, except job_server_start() and job_server_free(). */
#ifndef JOB_SERVER_H
#define JOB_SERVER_H

#include "job/state.h"

/* Listen and start the thread; a job of one rank has only the store. [setup] */
weft_status job_server_start(job *j);

/* Call after the thread has ended. */
void job_server_free(job *j);

/* A request of rank 0 itself; `wait_ms` is the timeout of a get or an exchange. */
void job_server_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                    uint64_t wait_ms);

/* Answer every pending request now; for a job of one rank. */
void job_server_give_up(job *j);

/* `rank` leaves, with WEFT_OK or with a failure status and its reason. */
void job_server_bye(job *j, uint32_t rank, weft_status st, const char *text);

/* List the ranks that have not joined: "rank 2, rank 3". */
void job_server_missing(job *j, char *out, uint32_t bytes);

/* Has every rank been told why the job cannot begin? */
bool job_server_all_notified(const job *j);

#endif
