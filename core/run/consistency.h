/* run/consistency.h: ranks that were told different things do not start. */
#ifndef RUN_CONSISTENCY_H
#define RUN_CONSISTENCY_H

#include "job/job.h"
#include "run/train.h"

/* Hold this rank's job against rank 0's: whether it resumes, the settings, the data, the plan. What
 * differs is named with both values, and by whom. What is a machine's own may differ: the sections
 * of device, log and transports, and where files stand. A NULL job agrees. [setup] [collective] */
weft_status agree_on_job(const prepared_job *mine, job *j, const job_identity *who,
                         train_resume resume);

#endif
