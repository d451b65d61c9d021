/* bench/bench_lists.h: weft bench comm over lists of ranks, transports, algorithms and types;
 * and the files that keep what it measured. */
#ifndef BENCH_BENCH_LISTS_H
#define BENCH_BENCH_LISTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/base.h>

#include "config/config.h"

#define BENCH_LISTED 3 /* overrides of one combination, besides the number of ranks */

typedef struct bench_run {
    const config *cfg;
    uint32_t ranks; /* 0: not given */
    /* Measure one combination: `more` are BENCH_LISTED + 2 further overrides. The exit status. */
    int (*one)(void *ctx, uint32_t ranks, const char *const *more);
    void *ctx;
} bench_run;

/* If a key has a list, measure every combination, continuing after a failed one, and put the exit
 * status (0 when any was measured) in *status. False: there is no list. */
bool bench_lists(const bench_run *r, int *status);

/* OUT/comm.csv to write to, with its head line; OUT/comm.json from it. */
weft_status bench_open_csv(const char *out, bool append, FILE **f);
weft_status bench_write_json(const char *out);

#endif
