/* report/record.h: what a run notes of itself in OUT/run.json, for `weft report`. */
#ifndef REPORT_RECORD_H
#define REPORT_RECORD_H

#include "run/train.h"

/* Writes OUT/run.json: the job, the environment, mesh and machines, the plan with its schedule and
 * memory, and each time that the run began or was resumed; but nothing if no step is left.
 * page/README.md has the members. Logs one warning if it cannot be written. [setup] */
void report_record(const run_begin *b);

/* Adds to it when and why the run ended. Logs one warning if it cannot be written. [setup] */
void report_record_end(const run_end *e);

#endif
