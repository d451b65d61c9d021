/* report/record.h: what the program adds to a run (run_additions): OUT/run.json, what a run notes
 * of itself for `weft report`, and OUT/trace.json. */
#ifndef REPORT_RECORD_H
#define REPORT_RECORD_H

#include "run/train.h"
#include "run/view/trace_part.h"

/* Writes OUT/run.json: the job, the environment, mesh and machines, the plan with its schedule and
 * memory, and each time that the run began or was resumed; but nothing if no step is left.
 * page/README.md has the members. Logs one warning if it cannot be written. [setup] */
void report_record(const run_begin *b);

/* Adds to it when and why the run ended. Logs one warning if it cannot be written. [setup] */
void report_record_end(const run_end *e);

/* Writes OUT/trace.json (docs/TRACE.md), and removes the parts. Not `whole`: after up to 0.4 s for
 * parts of other ranks, and nothing where another rank does it. WEFT_IO: the folder does not take
 * it, and the parts stay. [setup] */
weft_status report_join_trace(const run_trace_parts *all);

#endif
