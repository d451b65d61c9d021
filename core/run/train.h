/* run/train.h: a rank from its INI to its last step. */
#ifndef RUN_TRAIN_H
#define RUN_TRAIN_H

#include "data/data.h"
#include "job/job.h"
#include "plan/plan.h"
#include "resolve/resolve.h"

#include <stdbool.h>

/* Everything that can be known without other ranks, a device or a network; the launcher does it
 * too, so that a wrong job is refused once, before anything starts. */
typedef struct prepared_job {
    config *cfg;
    host *host;
    spec spec;
    data_file train, valid; /* valid.count 0: none */
    plan_set plans;
    bool planned;
} prepared_job;

/* Read, check, open the data and plan for `ranks` ranks (0: as many as the sizes of the mesh axes
 * multiply to). `with_data` false leaves the data alone,
 * unless model.vocab asks for it; `meeting` NULL: only planning, for one machine. Free with
 * job_unprepare() also after a failure. [setup] */
weft_status job_prepare(const char *ini, const char *const *overrides, uint32_t n, uint32_t ranks,
                        bool with_data, const resolve_meeting *meeting, prepared_job *out);

/* The transports alone, where there is no job file: a mesh axis of all ranks over comm.plugin, as
 * `overrides` say, and no plan. [setup] */
weft_status job_prepare_links(const char *const *overrides, uint32_t n, uint32_t ranks,
                              const resolve_meeting *meeting, prepared_job *out);
/* The tables that plugins may ask the host for: those of a job that has been joined, or (`j` NULL)
 * such as do while planning. [setup] */
void job_serve(host *h, job *j);
void job_unprepare(prepared_job *j);

/* Meet the other ranks as the job file says; *out stays as it is for one rank. [setup] [collective]
 */
weft_status train_join(const job_identity *who, const char *ini, const char *const *overrides,
                       uint32_t n, job **out);

/* "weft.host.tls/1" for plugins that are asked before ranks have met: nobody can connect. */
const void *job_planning_tls(void);

/* Where a run begins. */
typedef enum train_resume {
    TRAIN_AFRESH, /* a run that is in OUT already is moved aside */
    TRAIN_RESUME, /* after the newest checkpoint, by the job that saved it: see differ.h */
    TRAIN_AUTO,   /* the same if there is a checkpoint; if there is none, afresh in OUT as it is */
    TRAIN_FORCE,  /* after the newest checkpoint, whatever job saved it */
} train_resume;

/* Run this process as a rank (or as the whole of a one-rank job). Returns the exit status and has
 * said on standard error why, when it is not 0; STOP_STATUS (job/stop.h) when it was stopped on
 * request and nothing is lost. [setup] */
int train_rank(const char *ini, const char *const *overrides, uint32_t n, train_resume resume);

#endif
