/* bench/bench.c: weft bench: a sweep of one job's combinations, or collectives alone. */
#include "bench/bench_comm.h"
#include "bench/sweep/bench_sweep.h"
#include "bench/sweep/sweep.h"
#include "cli/cli.h"

#include <string.h>

static int run(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "comm"))
        return bench_comm_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "compare"))
        return bench_sweep_compare_main(&cli_cmd_bench, argc - 1, argv + 1);
    return bench_sweep_main(&cli_cmd_bench, argc, argv);
}

const cli_command cli_cmd_bench = {
    "bench",
    "SWEEP.ini [-n RANKS] [section.key=value ...] [--plan [--json]] [--afresh] | compare A B "
    "[--json] | comm [-n RANKS] [JOB.ini] [bench.key=value ...]",
    "Run a job in many combinations of keys and print a table, or measure collectives.\n\n"
    "SWEEP.ini is a job with a section [sweep], where each section.key has a list of values. What\n"
    "cannot be combined is a row that says why; the rest runs, and so does the same job on one\n"
    "rank, with which losses are compared (within 1e-4 of each in fp32, 1e-2 in bf16 and fp16).\n"
    "Combinations that are one job run once. The table has the fastest first; those that cannot "
    "be\n"
    "told apart share a place. Besides it, OUT/sweep.csv and OUT/sweep.json are written. A sweep\n"
    "that is interrupted (status 75) goes on when the same command is given again; for a finished\n"
    "one that command prints the table. Keys of [sweep]:\n"
    "  section.key      a list of values, with commas, or with | between values that have commas;\n"
    "                   also on the command line, as sweep.section.key=a,b, without [sweep]\n"
    "  section          bundles: {strategy = tp, tp = 2} | {strategy = dp, dp = 2, ranks = 2};\n"
    "                   a key without a dot is of that section\n"
    "  ranks            numbers of ranks (left out: what the sizes of the mesh axes multiply to)\n"
    "  repeats, warmup, steps   runs of each (3); steps not measured (2); steps measured (8)\n"
    "  only, skip       section.key=value & section.key!=value | ...\n"
    "  baseline         the combination that ratios are to, in the same form (the first)\n"
    "  deadline         seconds that a run may last (600)\n"
    "  reference        on or off: compare losses with one rank (on)\n"
    "  out              folder (runs/sweep)\n"
    "  --plan           plan every combination and run none: FLOPs, bubble, memory, bytes\n"
    "  --json           with --plan: for programs\n"
    "  --afresh         run all again, also what OUT already has\n\n"
    "compare prints the ratio of every combination of B to that of A, two folders or files\n"
    "sweep.json, with its bounds at 95 %, and in what the two sweeps differ.\n\n"
    "comm prints one table an operation: size, count, type, op, time, algbw, busbw, #wrong; and\n"
    "for each combination, when bench.ranks, bench.type, comm.plugin or comm.algorithm are lists.\n"
    "  bench.op       all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather,\n"
    "                 scatter, all_to_all: one, or several separated by commas\n"
    "  bench.min, bench.max, bench.factor   sizes in bytes (8, 64M, 8)\n"
    "  bench.type     fp32, bf16, fp16, int32 or int64\n"
    "  bench.inplace  on or off\n"
    "  bench.ranks    numbers of ranks to start, for several instead of -n\n"
    "  bench.out      folder for comm.csv and comm.json\n"
    "  comm.plugin    the transport (auto), comm.algorithm the algorithm (auto)",
    run, NULL};
