/* run/consistency.h: the startup consistency check: all ranks must have the same job. */
#ifndef RUN_CONSISTENCY_H
#define RUN_CONSISTENCY_H

#include "job/job.h"
#include "run/train.h"

/* Compares the job of this rank with that of rank 0: the resume mode, the settings, the data, the
 * SHA-256 of the plugin files, and the plan. The error names the difference, both values and the
 * rank. Settings of a machine may differ: the sections of device, log and transports, and paths.
 * A NULL `j` (one rank) is consistent. Before that a job that begins anew checks checkpoint.init,
 * since its old run is moved away after this. [setup] [collective] */
weft_status run_check_consistency(const run_prepared *mine, job *j, const job_identity *who,
                                  run_resume_mode resume);

#endif
