/* cli/bench_comm.h: weft bench comm [-n RANKS] [JOB.ini] [section.key=value ...] */
#ifndef CLI_BENCH_COMM_H
#define CLI_BENCH_COMM_H

/* argv[0] is the command's own name. Returns the exit status. */
int bench_comm_main(int argc, char **argv);

#endif
