/* run/state/outlock.h: the lock that keeps a second job out of OUT.
 *
 * OUT/.lock is locked with open file description locks (fcntl F_OFD_SETLK), not with flock: the
 * kernel releases both when the process dies, so there are no stale locks, but byte ranges also
 * reach other clients of NFS, Lustre and the like, and an exclusive lock becomes a shared one in
 * one step. POSIX locks without the description would be dropped when any part of the process
 * closes any descriptor of the file.
 *
 *   byte 0   exclusive, rank 0, from before OUT is looked at to the end of the job
 *   byte 1   shared, every rank, until it writes there no more; rank 0 first holds it exclusively
 *
 * A job that wants OUT takes both, so it waits for the other ranks of a job whose rank 0 died. The
 * file says who holds it: host, process and time. It is removed at the end of the job; one that a
 * killed job left is in nobody's way. Commands that only read (weft ckpt, sample, flight) take no
 * lock. Where the file system has no locks a warning says so, and the job goes on. */
#ifndef RUN_STATE_OUTLOCK_H
#define RUN_STATE_OUTLOCK_H

#include <stdbool.h>
#include <weft/base.h>

typedef struct outlock {
    int fd; /* 0: none */
    char path[4096];
    bool first; /* of rank 0, which removes the file at the end */
} outlock;

/* Rank 0: take the lock of the folder `out`, which is there, for `patience` seconds if it is held;
 * then fail with WEFT_USAGE and name the holder. Nothing in the folder but .lock is touched.
 * *out_lock is written on success only. [setup] */
weft_status outlock_take(const char *out, double patience, outlock *out_lock);

/* Rank 0: write who we are into the file and admit the other ranks. [setup] */
weft_status outlock_admit(outlock *l);

/* Another rank, after rank 0 has admitted it: hold byte 1. [setup] */
weft_status outlock_join(const char *out, outlock *out_lock);

/* Rank 0 has renamed the folder: the lock file is in `out`. [setup] */
weft_status outlock_moved(outlock *l, const char *out);

/* Give it up. Rank 0 removes the file if no other rank holds it within `patience` seconds; before
 * that the other ranks must have given up theirs. Nothing held: does nothing. [setup] */
void outlock_release(outlock *l, double patience);

#endif
