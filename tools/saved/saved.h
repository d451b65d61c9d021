/* saved/saved.h: the job of a checkpoint, for commands that use a trained model.
 *
 * A checkpoint has the text of the job that wrote it. With other values of keys it becomes a job
 * that trains nothing: on one rank without the layout, transports and sinks of the old job, on
 * several ranks with the layout that the text or the given keys name. Weights are read by extents,
 * so the layout that wrote them does not matter.
 *
 * Steps, in this order, each after the last one succeeded:
 *
 *   saved_open()     the checkpoint, the config, the other ranks, the plugins
 *   saved_plan()     the spec and the plan; may be repeated after WEFT_UNSUPPORTED
 *   saved_load()     the device, and the weights
 *   saved_close()    always, with the status of the whole */
#ifndef SAVED_SAVED_H
#define SAVED_SAVED_H

#include "ckpt/ckpt.h"
#include "run/exec/executor.h"
#include "run/prepare.h"

typedef struct saved_job {
    run_prepared j; /* its config is owned here */
    config *cfg;
    ckpt *c;
    job *job; /* NULL for one rank */
    job_identity who;
    job_hosts hosts;
    run_executor exec;
    const plan *plan; /* of this rank's stage */
} saved_job;

typedef struct saved_args {
    const char *dir;              /* of the checkpoint */
    const char *const *overrides; /* [noverrides] "section.key=value" */
    uint32_t noverrides;
    const char *command; /* "eval" or "sample", for messages */
    bool samples;
} saved_args;

/* Keys that `command` does not read are refused, by whether it samples. [setup] [collective] */
weft_status saved_open(const saved_args *args, saved_job *out);

/* `want` SPEC_...; `data` as resolve_spec() takes it. A job of several ranks agrees on the plan.
 * [setup] [collective] */
weft_status saved_plan(saved_job *s, const weft_data_info *data, int want);

/* [setup] [collective] */
weft_status saved_load(saved_job *s);

/* Ends the job; returns the exit status, and prints or passes on the record of a failure. [setup]
 */
int saved_close(saved_job *s, weft_status st);

/* The size of the vocabulary by the weights, for models that take it from data; 0: not found. */
uint32_t saved_vocab(const saved_job *s);

#endif
