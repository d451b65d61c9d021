/* job/job.h: who is in the job, where they meet, and whether everybody is alive.
 *
 * Rank 0 keeps a small key-value store behind TLS 1.3 with a pre-shared job key; every rank holds
 * one connection to it, which carries the rendezvous first and heartbeats after. A rank that dies
 * or freezes is told to all others over it, and each wait in the run asks job_failure().
 *
 * Folders: launch/ starts, watches and ends ranks. wire/ is bytes to another process: addresses,
 * handshake, keys, TLS, frames. store/ is the key-value store, without I/O. decide/ has the pure
 * decisions on failures and stops. The threads of a job, which act on them, are in this folder. */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <stdbool.h>
#include <weft/base.h>

typedef struct job job; /* opaque; one a process */

typedef struct job_identity {
    uint32_t rank, ranks;
    uint32_t local_rank,
        local_ranks; /* on this host: guessed until job_find_hosts() has found them */
    bool local_rank_said, local_ranks_said; /* ... or told by the environment */
    bool one_machine; /* all ranks are known to share one, see job/host_map.h */
    bool launched; /* a launcher started us: RANK and WORLD_SIZE, or mpirun's or srun's own names */
    char addr[256]; /* MASTER_ADDR                                                                */
    uint16_t port;  /* MASTER_PORT                                                                */
    uint64_t launch; /* digest of what the launcher calls this run; 0: it has no name for it */
} job_identity;

/* Read who we are from the environment: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, or
 * OMPI_COMM_WORLD_*, PMI_*, SLURM_* . Contradictions are refused. Nothing set: one rank, not
 * launched. identity.c says what wins over what. [setup] */
weft_status job_identify(job_identity *out);

/* Make a job key and write it to the new file `path`, mode 0600, for `weft key -o FILE`. A file
 * that exists is left alone and refused. [setup] */
weft_status job_key_write(const char *path);

typedef struct job_options {
    const char *key_file; /* [run] key: NULL unless given; a descriptor of the launcher wins   */
    double frozen_after;  /* seconds without a sign of life within which survivors are gone;
                           * 0: 5, and never less than 1                                       */
    double join_timeout;  /* seconds to wait for all ranks to meet; 0: 60                      */
} job_options;

/* Meet the other ranks. One rank: opens nothing. [setup] [collective] */
weft_status job_join(const job_identity *who, const job_options *opt, job **out);

/* Leave in good order: waits until all ranks came here, so that an early exit elsewhere reads as a
 * failure. `status` WEFT_OK for a good end; otherwise tells the others what failed here at once
 * (`text`, which names the instruction) and does not wait. Its connections are closed afterwards;
 * job_failure(), job_mark() and the sessions of job_tls_table() work until job_free(). NULL
 * allowed.
 *
 * True when every rank left in good order. False with WEFT_OK given means that another rank failed
 * while this one waited: then err_text() says which and how, and the process must not exit with 0.
 * The record of this thread is left as it is otherwise. [setup] */
bool job_leave(job *j, weft_status st, const char *text);

/* Free the job after job_leave(), and wipe the key. Whatever was given the job or its TLS table is
 * destroyed before: links end TLS sessions when they are closed, and the threads that move bytes
 * ask job_failure(). NULL allowed. [setup] */
void job_free(job *j);

/* The store: values up to 1 MiB, keys up to 200 bytes. put replaces; get waits for the key until
 * the deadline (seconds), or until a rank fails. The value is the caller's to free(). [setup] */
weft_status job_put(job *j, const char *key, const void *value, uint64_t bytes);
weft_status job_get(job *j, const char *key, double deadline, void **value, uint64_t *bytes);

/* All ranks give `bytes` bytes and get all of them in rank order (ranks * bytes). `bytes` 0 makes
 * it a barrier. Waits for the slowest rank as long as job_join() would; names those that did not
 * come. [setup] [collective] */
weft_status job_exchange(job *j, const char *name, const void *mine, uint64_t bytes, void *all);

/* The same, but waits `seconds` for the slowest rank: for work that may take long. A rank that dies
 * or freezes meanwhile ends the wait at once. All ranks give the same time. [setup] [collective] */
weft_status job_exchange_for(job *j, const char *name, const void *mine, uint64_t bytes,
                             double seconds, void *all);

/* Progress mark of this rank, sent with its heartbeats: step and place in the list. Cheap. [any] */
void job_mark(job *j, uint64_t step, uint64_t place);

/* Has another rank failed? Cheap enough for a wait loop: reads one atomic. On WEFT_PEER the record
 * names the rank, how (killed by signal 9, frozen, ended early, its own words) and the last place
 * it is known to have reached. A NULL job never fails. [any] */
weft_status job_failure(job *j);

/* A descriptor that becomes readable when job_failure() starts to fail; -1 for one rank. */
int job_failure_fd(job *j);

/* The one local address that this rank listens on, as text: that which leads to rank 0. [setup] */
weft_status job_address(const job *j, char *out, size_t room);

/* 32 bytes derived from the job key for `label` (HKDF-SHA256). [setup] */
weft_status job_subkey(job *j, const char *label, uint8_t out[32]);

/* The table weft_host_tls of weft/host.h bound to this job's key and to this meeting of its ranks:
 * a rank left over from an earlier run with the same key file cannot connect. Lives as long as `j`.
 *
 * The session may hold decrypted bytes when the socket is silent: read until WEFT_BUSY before
 * waiting for the socket. After a write that was WEFT_BUSY the next one begins with the same bytes
 * and brings no fewer of them. */
const void *job_tls_table(job *j);

#endif
