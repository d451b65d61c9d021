/* job/roles.h: what job.c and leave.c ask of the threads of a job, and of each other.
 *
 * All calls are made with the job lock held, except those that start and free. */
#ifndef JOB_ROLES_H
#define JOB_ROLES_H

#include "job/state.h"

/* --- server.c, members.c: rank 0's thread, which admits and serves the other ranks --- */

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

/* --- client.c: the connection of another rank to rank 0 --- */

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

/* --- leave.c: besides job_leave(); without the lock --- */

/* End the job's thread and close the connections of the store; state that sessions and other
 * threads use stays. */
void job_part(job *j);

/* This process is a rank of `j`, which has been joined, until job_forget(): if a call of a plugin
 * does not return, the watchdog ends the rank as a failure of `j`. */
void job_remember(job *j);
void job_forget(job *j);

#endif
