/* cli/bench.c: weft bench comm. */
#include "cli/bench_comm.h"
#include "cli/cli.h"

#include <string.h>

static int run(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "comm") != 0)
        return cli_usage(&cmd_bench, "what is measured is collectives: weft bench comm");
    return bench_comm_main(argc - 1, argv + 1);
}

const command cmd_bench = {
    "bench", "comm [-n RANKS] [JOB.ini] [bench.key=value ...]",
    "Measure collectives: size, count, type, op, time, algbw, busbw, #wrong.\n\n"
    "  bench.op       all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather,\n"
    "                 scatter, all_to_all: one, or several separated by commas\n"
    "  bench.min, bench.max, bench.factor   sizes in bytes (8, 64M, 8)\n"
    "  bench.type     fp32, bf16, fp16, int32 or int64\n"
    "  bench.inplace  on or off\n"
    "  comm.plugin    the transport (auto), comm.algorithm the algorithm (auto)",
    run};
