/* job/kv.h: the host table "weft.host.kv/1" (weft/host.h): bytes among ranks, for plugins.
 *
 * Every plugin gets a table of its own, in which its keys are: a key K of plugin P is "kv/P/K" in
 * the job's store (store/store.h). A job of one rank has no store; its table keeps the values
 * itself. */
#ifndef JOB_KV_H
#define JOB_KV_H

#include "job/job.h"

typedef struct job_kv job_kv; /* opaque */

#define JOB_KV_JOB 0u      /* of a job; `j` NULL: of one rank */
#define JOB_KV_PLANNING 1u /* every call fails */

/* The tables use `j` until job_kv_end(). [setup] */
job_kv *job_kv_create(job *j, uint32_t kind);

/* From here on the calls of the tables fail; before job_leave(). NULL allowed. [setup] */
void job_kv_end(job_kv *kv);

/* After the last plugin is closed. NULL allowed. [setup] */
void job_kv_free(job_kv *kv);

/* The weft_host_kv of the plugin with this id: the same for the same id, and it lives until
 * job_kv_free(). `kv` is a job_kv; the type is that of host_serve_each(). [any] */
const void *job_kv_table(void *kv, const char *plugin);

#endif
