/* doctor/checks/path.h: the network path between this rank and rank 0. */
#ifndef DOCTOR_CHECKS_PATH_H
#define DOCTOR_CHECKS_PATH_H

#include "job/job.h"

#include <jansson.h>

/* Measure, and add the check "path" to the report: the interface towards rank 0 with its MTU, the
 * round-trip time, the clock skew, and the path MTU. [setup] [collective] */
weft_status doctor_measure_path(job *j, const job_identity *who, json_t *report);

#endif
