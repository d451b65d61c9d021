/* run/tables.h: the host tables that a run serves to its plugins (weft/host.h). */
#ifndef RUN_TABLES_H
#define RUN_TABLES_H

#include <stdbool.h>

#include "host/host.h"
#include "job/job.h"
#include "job/kv.h"
#include "run/view/meter.h"
#include "run/view/spans.h"

typedef struct run_tables {
    run_spans *spans; /* "weft.host.trace/1" */
    job_kv *kv;       /* "weft.host.kv/1" */
    run_meter *meter; /* "weft.host.metrics/1" */
} run_tables;

/* Offer plugins the tables of a job that has been joined, of a job of one rank (`j` NULL), or
 * tables for planning, whose functions fail. [setup] */
void run_tables_serve(run_tables *t, host *h, job *j, bool planning);

/* The tables stop using the job; before job_leave(). [setup] */
void run_tables_end(run_tables *t);

/* After host_destroy(). All zero is allowed. [setup] */
void run_tables_free(run_tables *t);

#endif
