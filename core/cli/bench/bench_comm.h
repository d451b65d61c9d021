/* cli/bench/bench_comm.h: weft bench comm [-n RANKS] [JOB.ini] [section.key=value ...] */
#ifndef CLI_BENCH_COMM_H
#define CLI_BENCH_COMM_H

#include <stdio.h>

/* argv[0] is the command's own name. Returns the exit status. */
int cli_bench_comm_main(int argc, char **argv);

void cli_bench_comm_print_keys(FILE *to, int markdown); /* the keys of [bench] */

#endif
