/* doctor/doctor.h: what this machine offers a job, and what about it is badly set.
 *
 * A report is JSON from the start: people's text, --json and what ranks send each other are all
 * made of it. It is {"weft", "host", "boot", "checks": [{"id", "title", "level", "summary": [text],
 * "facts": {name: number or text}, "findings": [{"level", "what", "why", "type"}]}]}, where "type"
 * is what to type against it. Levels are "ok", "note" (may cost speed, or is good to know),
 * "warning" (does cost speed, or will fail at scale) and "problem" (the job cannot run).
 *
 * Everything is read below the folder that WEFT_DOCTOR_ROOT names, the machine's own root without
 * it: so a copy of another machine's /proc and /sys can be examined, and tests make up machines. */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include <jansson.h>
#include <stdio.h>
#include <weft/base.h>

enum doctor_level { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_WARNING, DOCTOR_PROBLEM, DOCTOR_LEVELS };
extern const char *const doctor_levels[DOCTOR_LEVELS];

/* The job that is to run here. */
typedef struct doctor_job {
    const char *ini;
    const char *const *overrides;
    uint32_t noverrides;
    uint32_t ranks; /* 0: as many as the sizes of its mesh axes multiply to */
    uint32_t here;  /* of them on this machine; 0: all */
    uint32_t share; /* of those here, that divide the CPUs of this process; 0: all of those */
} doctor_job;

/* Look at everything, a check after the other. `job` NULL: the machine alone. json_decref(*out).
 * WEFT_USAGE says that the job file is wrong in itself; a job that is right and cannot run here is
 * a problem in the report. Libraries and plugins are tried in processes of their own, so that one
 * that crashes or hangs is a finding. Before the first thread, or beside the job's. [setup] */
weft_status doctor_examine(const doctor_job *job, json_t **out);

/* Judge anew whether the job fits, with what `job` says of `here` and `share`: ranks know these
 * only when they have met. Replaces the last check of a report that doctor_examine() made. [setup]
 */
void doctor_fit(const doctor_job *job, json_t *report);

/* The worst level in a report. */
enum doctor_level doctor_worst(const json_t *report);

void doctor_print(const json_t *report, FILE *to);

/* As one rank of `weft train --doctor`: examine, join, compare. Rank 0 prints. Returns the exit
 * status: 0, 1 when something would keep the job from running, or what joining failed with. */
int doctor_rank(const char *ini, const char *const *overrides, uint32_t n, int json);

/* id and title of check `i`; NULL behind the last. */
const char *doctor_check_at(uint32_t i, const char **title);

#endif
