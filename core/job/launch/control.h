/* job/launch/control.h: the line between a rank and the launcher that started it.
 *
 * A pair of local sockets that keep message borders. The launcher tells every rank how another one
 * ended; a rank tells the launcher whom it holds to be the cause of a failure, and what to print.
 * Nothing else crosses it, and neither side ever waits for the other. */
#ifndef JOB_CONTROL_H
#define JOB_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#define CONTROL_FD_ENV "WEFT_CONTROL_FD"
#define CONTROL_TEXT 2032

#define CONTROL_ENDED 1u  /* to ranks: `rank` ended by itself with status `code`             */
#define CONTROL_KILLED 2u /* to ranks: `rank` was killed by signal `code`                    */
#define CONTROL_CAUSE 3u  /* to the launcher: `rank` failed, `text` says how; code: a JOB_CAUSE_ */
#define CONTROL_SAY 4u    /* to the launcher: print `text`, unless another rank said the same */

typedef struct job_control_record {
    uint32_t kind, rank, code, zero;
    char text[CONTROL_TEXT];
} job_control_record;

/* Our end as a rank, close-on-exec; -1 when no launcher of ours started us. [any] */
int job_control_descriptor(void);

/* Send without waiting; a full line loses the record. False when it did not go. */
bool job_control_send(int fd, uint32_t kind, uint32_t rank, uint32_t code, const char *text);

/* 1: a record; 0: none now; -1: the other side is gone. */
int job_control_receive(int fd, job_control_record *out);

/* "was killed by signal 9 (SIGKILL)" or "ended by itself with status 1". */
void job_control_describe_end(const job_control_record *r, char *out, uint32_t bytes);

#endif
