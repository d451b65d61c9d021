/* cli/bench/sweep/bench_sweep.h: weft bench SWEEP.ini. */
#ifndef CLI_BENCH_SWEEP_H
#define CLI_BENCH_SWEEP_H

#include "cli/cli.h"

/* argv[0] is "bench". Returns the exit status. */
int cli_sweep_main(const command *c, int argc, char **argv);

#endif
