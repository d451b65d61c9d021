/* run/save/write.h: all ranks write a checkpoint, which is complete afterwards or absent.
 *
 *   1. rank 0 makes the temporary folder and says so
 *   2. each rank writes its shard and says how that went
 *   3. rank 0 commits the checkpoint, or removes the folder, and says which
 *
 * What a rank says is a value in the job's store that the others look for; no request to the store
 * waits for another rank. So a save may run beside the steps of its rank, and beside requests of
 * the thread that runs them, and ranks that save beside their steps can save together with ranks
 * that wait for the end. */
#ifndef RUN_SAVE_WRITE_H
#define RUN_SAVE_WRITE_H

#include <stdatomic.h>

#include "ckpt/ckpt.h"
#include "job/job.h"
#include "run/state/outlock.h"

typedef struct run_save_writer {
    job *job; /* NULL: one rank */
    uint32_t rank, ranks;
    ckpt_keep keep;
    const char *out;      /* OUT */
    run_outlock *lock;    /* of OUT; NULL: none */
    const char *job_text; /* for the manifest */
    double timeout;       /* seconds that a rank waits for the others */
    atomic_bool give_up;  /* set by another thread: end soon, with a failure */
    bool blameless; /* the failure is that of another rank, which reports it: what this one has to
                       tell adds nothing */
} run_save_writer;

/* Write the checkpoint of `step`; `pieces` are those of this rank. On failure the temporary folder
 * is removed and earlier checkpoints stay. Fails where OUT does not lead to the locked folder any
 * more, and writes into no other one. Each call has a later step than the one before.
 * [collective] */
weft_status run_save_write(run_save_writer *w, uint64_t step, const ckpt_piece *pieces, uint32_t n);

#endif
