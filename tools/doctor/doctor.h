/* doctor/doctor.h: examines this machine for a job: its resources, and settings that are wrong.
 *
 * A report is JSON: the printed text, --json and the messages between ranks are all made from it.
 * Its format is {"weft", "host", "boot", "checks": [{"id", "title", "level", "summary": [text],
 * "facts": {name: number or text}, "findings": [{"level", "what", "why", "type"}]}]}, where "type"
 * is the command to type. Levels are "ok", "unknown" (a check, not a finding:
 * what it needs is not here or cannot be read, so it says nothing about the machine), "note" (may
 * cost speed, or is worth knowing), "warning" (costs speed, or fails at scale) and "problem" (the
 * job cannot run).
 *
 * All files are read below the folder that WEFT_DOCTOR_ROOT names; by default that is the root of
 * this machine. So a copy of another machine's /proc and /sys can be examined, and tests can
 * simulate machines. */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "config/config.h"

#include <jansson.h>
#include <stdio.h>
#include <weft/base.h>

enum doctor_level {
    DOCTOR_OK,
    DOCTOR_UNKNOWN,
    DOCTOR_NOTE,
    DOCTOR_WARNING,
    DOCTOR_PROBLEM,
    DOCTOR_LEVELS
};
extern const char *const doctor_levels[DOCTOR_LEVELS];

/* The job to examine the machine for. */
typedef struct doctor_job {
    const char *ini;   /* its file, for messages */
    const config *cfg; /* loaded, not yet checked; borrowed */
    uint32_t ranks;    /* 0: as many as the sizes of its mesh axes multiply to */
    uint32_t here;     /* of them on this machine; 0: all */
    uint32_t share;    /* ranks here that share the CPUs of this process; 0: all ranks here */
} doctor_job;

/* Run all checks in order. `job` NULL: examine the machine alone. The caller frees *out with
 * json_decref(). WEFT_USAGE: the job file itself is wrong; a correct job that cannot run here is a
 * problem in the report. Libraries and plugins are called in child processes, so that a crash or a
 * hang becomes a finding. Call it while the process has only its main thread and the job's. [setup]
 */
weft_status doctor_examine(const doctor_job *job, json_t **out);

/* Repeat the check "fit" with the values of `here` and `share` in `job`, which ranks know only
 * after they have joined. Replaces the last check of a report that doctor_examine() made. [setup]
 */
void doctor_fit(const doctor_job *job, json_t *report);

/* The worst level in a report. */
enum doctor_level doctor_worst(const json_t *report);

void doctor_print(const json_t *report, FILE *to);

/* As one rank of `weft train --doctor`: examine, join, compare. Rank 0 prints. Returns the exit
 * status: 0; 1 when a problem keeps the job from running; else the status with which joining
 * failed. */
int doctor_rank(const char *ini, const config *cfg, bool json);

/* The id of check `i`, with its title in *title; NULL after the last. */
const char *doctor_check_at(uint32_t i, const char **title);

#endif
