/* run/prepare.h: a job from its INI to its plans, for ranks and for tools that look at it. */
#ifndef RUN_PREPARE_H
#define RUN_PREPARE_H

#include "data/source.h"
#include "job/job.h"
#include "plan/plan.h"
#include "resolve/resolve.h"
#include "run/settings.h"
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
    run_settings set;
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

/* Probe transports that are not the program's own in child processes, where comm.plugin = auto may
 * ask them: one whose code does not survive it is refused in this process. Takes the limits of
 * [run]. Once, while this process has no other threads; later calls do nothing. run_prepare() and
 * run_join() call it; who joins otherwise calls it before. `tell`: warn of those. [setup] */
void run_try_transports(const config *cfg, uint32_t ranks, bool tell);

/* Rendezvous with the other ranks as set in [run], which is checked first; *out is unchanged for
 * one rank. [setup] [collective] */
weft_status run_join(const job_identity *who, const config *cfg, job **out);

#endif
