/* doctor/checks/path.h: what lies between this rank and rank 0. */
#ifndef DOCTOR_CHECKS_PATH_H
#define DOCTOR_CHECKS_PATH_H

#include "doctor/internal.h"
#include "job/job.h"

/* Measure, and add the check "path" to the report: the interface towards rank 0 with its MTU, the
 * time to rank 0 and back, how far the clocks are apart, and whether packets as long as the MTU
 * get through. [setup] [collective] */
weft_status path_measure(job *j, const job_identity *who, json_t *report);

#endif
