/* bench/sweep/bench_sweep.h: weft bench SWEEP.ini. */
#ifndef BENCH_SWEEP_BENCH_SWEEP_H
#define BENCH_SWEEP_BENCH_SWEEP_H

#include "cli/cli.h"

/* argv[0] is "bench". Returns the exit status. */
int bench_sweep_main(const cli_command *c, int argc, char **argv);

#endif
