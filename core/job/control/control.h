/* job/control/control.h: the control socket between a rank and the launcher that started it.
 *
 * A pair of local sockets that keep message boundaries. The launcher tells every rank how another
 * one ended; a rank tells the launcher its candidate for the root cause, and what to print. It
 * carries nothing else, and neither side ever waits for the other. */
#ifndef JOB_CONTROL_CONTROL_H
#define JOB_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#define CONTROL_FD_ENV "WEFT_CONTROL_FD"
#define CONTROL_TEXT 2032

#define CONTROL_ENDED 1u  /* to ranks: `rank` ended by itself with status `code` */
#define CONTROL_KILLED 2u /* to ranks: `rank` was killed by signal `code` */
#define CONTROL_CAUSE 3u  /* to the launcher: `rank` failed, `text` says how; code: a JOB_CAUSE_ */
#define CONTROL_SAY 4u    /* to the launcher: print `text`, unless another rank said the same */
#define CONTROL_STATUS 5u /* to the launcher: this rank has failed and will exit with `code` */

typedef struct job_control_record {
    uint32_t kind, rank, code, zero;
    char text[CONTROL_TEXT];
} job_control_record;

/* The rank's end, close-on-exec; -1 when our launcher did not start this process. [any] */
int job_control_descriptor(void);

/* Send without waiting; the record is dropped when the socket buffer is full. False: it was not
 * sent. */
bool job_control_send(int fd, uint32_t kind, uint32_t rank, uint32_t code, const char *text);

/* In a rank: have the launcher print `text`. False when our launcher did not start this process:
 * the caller has to print it. [any] */
bool job_control_say(const char *text);

/* 1: a record; 0: none now; -1: the other side is gone. */
int job_control_receive(int fd, job_control_record *out);

/* Copy `text` into `bytes` bytes; what does not fit is cut at a word and ends in "…". */
void job_control_shorten(char *out, uint32_t bytes, const char *text);

/* "was killed by signal 9 (SIGKILL)" or "ended by itself with status 1". */
void job_control_describe_end(const job_control_record *r, char *out, uint32_t bytes);

#endif
