/* bench/bench_comm.h: weft bench comm [-n RANKS] [JOB.ini] [section.key=value ...] */
#ifndef BENCH_BENCH_COMM_H
#define BENCH_BENCH_COMM_H

#include <stdio.h>

/* argv[0] is the command's own name. Returns the exit status. */
int bench_comm_main(int argc, char **argv);

void bench_comm_print_keys(FILE *to, int markdown); /* the keys of [bench] */

#endif
