/* run/train.h: one rank of a training job, from the INI to the last step. */
#ifndef RUN_TRAIN_H
#define RUN_TRAIN_H

#include "data/source.h"
#include "job/job.h"
#include "plan/plan.h"
#include "resolve/resolve.h"
#include "run/state/foreign.h"
#include "run/tables.h"

#include <stdbool.h>

/* The part of a job that needs no other ranks, no device and no network. The launcher prepares the
 * job too, so that an invalid job is rejected once, before any rank starts. */
typedef struct run_prepared {
    config *cfg; /* borrowed */
    host *host;
    spec spec;
    data_set train, valid; /* .set NULL: none */
    plan_set plans;
    bool planned;
    run_tables tables;              /* served to the plugins */
    const run_foreign_files *files; /* of checkpoint.init; NULL: checkpoints alone */
} run_prepared;

/* Check `cfg`, open the data and plan for `ranks` ranks (0: as many as the sizes of the mesh axes
 * multiply to). `with_data` false: data that cannot be opened here is done without, unless the
 * model asks for it; `meeting` NULL: only planning, for one machine. `cfg` gets the keys of plugins
 * and has to outlive `out`; to prepare a job twice, use config_copy(). Free with run_unprepare()
 * also after a failure. [setup]
 */
weft_status run_prepare(config *cfg, uint32_t ranks, bool with_data, const resolve_meeting *meeting,
                        run_prepared *out);

/* The transports alone, without a job file: a mesh axis of all ranks over comm.plugin, and no plan.
 * [setup] */
weft_status run_prepare_links(config *cfg, uint32_t ranks, const resolve_meeting *meeting,
                              run_prepared *out);
void run_unprepare(run_prepared *j);

/* Rendezvous with the other ranks as set in [run], which is checked first; *out is unchanged for
 * one rank. [setup] [collective] */
weft_status run_train_join(const job_identity *who, const config *cfg, job **out);

/* Where a run starts. */
typedef enum run_resume_mode {
    TRAIN_AFRESH, /* at step 1; an earlier run in OUT is renamed */
    TRAIN_RESUME, /* after the newest checkpoint, with the settings of the job that saved it: see
                     config/differ.h */
    TRAIN_AUTO,   /* like TRAIN_RESUME if there is a checkpoint, else at step 1 in the same OUT */
    TRAIN_FORCE,  /* after the newest checkpoint, with any settings */
} run_resume_mode;

/* Runs this process as one rank of a job. Returns the exit status; if it is not 0, the reason has
 * been written to standard error. STOP_STATUS (job/stop.h): stopped on request, and nothing is
 * lost. `files` NULL: checkpoint.init names checkpoints alone. [setup] */
int run_train_rank(config *cfg, run_resume_mode resume, const run_foreign_files *files);

/* Ends a rank whose config could not be loaded: reports the error, through the launcher if there is
 * one, and returns the exit status. [setup] */
int run_train_refuse(weft_status st);

#endif
