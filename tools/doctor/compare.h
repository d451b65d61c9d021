/* doctor/compare.h: differences between the reports of a job's ranks. */
#ifndef DOCTOR_COMPARE_H
#define DOCTOR_COMPARE_H

#include "base/mem.h"

#include <jansson.h>
#include <stdbool.h>

/* A finding for each fact that differs between the reports of `ranks` ranks, and for each
 * measurement between ranks that is out of bounds: a new JSON array. [setup] */
json_t *doctor_compare_reports(json_t *const *reports, uint32_t ranks);

/* The ranks of which `is` is true, as "rank 3" or "ranks 0-2, 5"; owned by `p`. */
const char *doctor_rank_list(pool *p, const bool *is, uint32_t ranks);

#endif
