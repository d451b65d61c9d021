/* run/state/outlock.h: the lock that keeps a second job out of OUT.
 *
 * OUT/.lock is locked with open file description locks (fcntl F_OFD_SETLK). The kernel releases
 * them when the process dies, so there are no stale locks. In contrast to flock, they also work
 * between clients of NFS, Lustre and similar file systems, and an exclusive lock is converted to a
 * shared one atomically. Traditional POSIX locks would be lost when any part of the process closes
 * any descriptor of the file.
 *
 *   byte 0   exclusive, rank 0, from before OUT is read to the end of the job
 *   byte 1   shared, every rank, until its last write; rank 0 first holds it exclusively
 *
 * A job that wants OUT locks both bytes, so it waits for the other ranks of a job whose rank 0
 * died. The file names the holder: host, process and time, and a token of the run: a rank that does
 * not find it has another folder under the same name. The file is removed at the end; that of a
 * killed job is harmless. The folder may be moved or removed while the job runs, and another one
 * get its name: run_outlock_check() notices, and what is written below `folder` does not go there.
 * Commands that only read take no lock. Where the file system has no locks, the job logs a warning
 * and continues. */
#ifndef RUN_STATE_OUTLOCK_H
#define RUN_STATE_OUTLOCK_H

#include "job/job.h"

#include <stdbool.h>

typedef struct run_outlock {
    int fd;         /* 0: none */
    int folder;     /* OUT itself, wherever it is moved; 0: none */
    char out[4096]; /* its name */
    bool first;     /* of rank 0, which removes the file at the end */
    uint64_t token; /* of rank 0: that it wrote into the file */
    _Atomic uint64_t
        saves;            /* device and inode of OUT/checkpoints, once it is there; 0: never yet */
    _Atomic bool removed; /* it was gone when it was last looked for; outlock.c */
} run_outlock;

/* Rank 0: lock the existing folder `out`. If another job holds the lock, wait for up to `timeout`
 * seconds, then fail with WEFT_USAGE and name the holder. Only .lock is changed in the folder.
 * *out_lock is written on success only. [setup] */
weft_status run_outlock_take(const char *out, double timeout, run_outlock *out_lock);

/* Rank 0: write the holder into the file and let the other ranks join. [setup] */
weft_status run_outlock_admit(run_outlock *l);

/* Other ranks, after run_outlock_admit() of rank 0: lock byte 1. WEFT_BUSY without a record if
 * `out` is not the folder in which rank 0 wrote `token`. A network file system may show it late, so
 * the rank looks for `timeout` seconds, unless the job fails meanwhile. [setup] */
weft_status run_outlock_join(const char *out, uint64_t token, double timeout, job *j,
                             run_outlock *out_lock);

/* The open folder, or -1 if no lock is held; `l` may be NULL here and below. [any] */
int run_outlock_folder(const run_outlock *l);

/* Whether `out` still leads to the locked folder, the lock file is in it, since no rank removes it
 * while another one holds its lock, and OUT/checkpoints, where it is, is the folder of the call
 * before or a new one that is no link. WEFT_IO says what was moved or removed. An error of the file
 * system says neither. Does nothing if no lock is held. [any] */
weft_status run_outlock_check(run_outlock *l);

/* Without a record: whether `out` leads to the locked folder. [any] */
bool run_outlock_leads(const run_outlock *l);

/* As run_outlock_check(), after a write into OUT has failed: then OUT/checkpoints must still be
 * there. [any]
 */
weft_status run_outlock_cause(run_outlock *l);

/* Other ranks, after a write: the next failure is judged by the OUT/checkpoints of now. [any] */
void run_outlock_note(run_outlock *l);

/* Release the lock. Rank 0 removes the file if all other ranks have released theirs within
 * `timeout` seconds. Does nothing if no lock is held. [setup] */
void run_outlock_release(run_outlock *l, double timeout);

#endif
