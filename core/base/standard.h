/* base/standard.h: the standard streams of a program that answers on them. */
#ifndef BASE_STANDARD_H
#define BASE_STANDARD_H

/* Take descriptors 0 to 2 where they are closed, and lead them nowhere: a file that was opened as
 * one of them would get what the program prints. [setup] */
void standard_fill(void);

/* The status of a command whose answer is on standard output: an answer that is not all there is a
 * failure, which is logged, unless its reader has closed the pipe. [setup] */
int standard_answered(int status);

#endif
