/* base/standard.h: the standard streams of a program that answers on them. */
#ifndef BASE_STANDARD_H
#define BASE_STANDARD_H

/* Open /dev/null on each of the descriptors 0 to 2 that is closed: a file that was opened as one of
 * them would get what the program prints. [setup] */
void standard_fill(void);

/* The status of a command that answers on standard output. Truncated output is a failure, which is
 * logged, except after EPIPE. [setup] */
int standard_answered(int status);

#endif
