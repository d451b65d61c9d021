/* job/job.h: membership of a job: which ranks take part, the rendezvous, and failure detection.
 *
 * Rank 0 keeps a small key-value store behind TLS 1.3 with a pre-shared job key. Every rank has one
 * connection to it, over which all ranks learn of a rank that dies or freezes; each wait in the run
 * polls job_failure(). Heartbeats of many ranks go by a tree (decide/tree.h).
 *
 * Folders: wire/ is the connection: addresses, handshake, keys, TLS, frames. meet/ finds rank 0,
 * beats/ exchanges heartbeats. store/ has keys and gathers, without I/O. decide/ has the pure
 * decisions on failures and stops. The threads of a job, which act on them, are in this folder. */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <stdbool.h>
#include <weft/base.h>

typedef struct job job; /* opaque; one per process */

typedef struct job_identity {
    uint32_t rank, ranks;
    uint32_t local_rank, local_ranks; /* on this host: a guess until job_find_hosts() has run */
    bool local_rank_said, local_ranks_said; /* ... or set by the environment */
    bool one_machine;  /* all ranks are known to share one, see job/host_map.h */
    bool launched;     /* started by a launcher: RANK and WORLD_SIZE, or mpirun's or srun's names */
    char addr[256];    /* MASTER_ADDR: where the others reach rank 0 */
    uint16_t port;     /* MASTER_PORT */
    char listen[80];   /* rank 0: where it listens, from job_options; "": at MASTER_ADDR */
    char address[80];  /* this rank's own, for transports: known once it has joined */
    bool address_said; /* ... it is from job_options */
    bool node;         /* addr is the name of a Slurm step's first node, not MASTER_ADDR */
    bool slurm;        /* a task of a Slurm step that was not told where rank 0 is */
    bool mpirun;       /* the same of Open MPI's mpirun, on one machine */
    uint64_t launch;   /* digest of the launcher's name for this run; 0: it has none */
} job_identity;

/* Read this process's rank from the environment: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
 * MASTER_PORT, or OMPI_COMM_WORLD_*, PMI_*, SLURM_*; of an Indexed Job of Kubernetes
 * JOB_COMPLETION_INDEX instead of RANK. Contradictions are errors. Nothing set: one
 * rank, not launched. identity/identity.c has the order of precedence. [setup] */
weft_status job_identify(job_identity *out);

typedef struct job_options {
    const char *key_file; /* [run] key: NULL unless given; a descriptor of the launcher wins */
    double frozen_after; /* seconds from a rank's last sign of life until the survivors have exited;
                            0: 2.5; the minimum is 1 */
    double join_timeout; /* timeout in seconds until all ranks have joined; 0: 60 */
    const char *listen;  /* [run] listen: an address, ADDRESS:PORT, or NULL */
    const char *address; /* [run] address: an address, an interface, a network, or NULL */
} job_options;

/* Connect and wait until all ranks have joined. One rank: opens nothing. [setup] [collective] */
weft_status job_join(const job_identity *who, const job_options *opt, job **out);

/* Leave the job. With `status` WEFT_OK it waits until all ranks have called it, so an early exit
 * elsewhere counts as a failure. With another status it reports this rank's failure to the others
 * at once (`text`, which names the instruction) and does not wait. Its connections are closed
 * afterwards; job_failure(), job_mark() and the sessions of job_tls_table() work until job_free().
 * NULL allowed.
 *
 * True when every rank left in good order. False although `status` is WEFT_OK: another rank failed
 * during the wait; err_text() says which and how, and the process must not exit with 0. In all
 * other cases the record of this thread is unchanged. [setup] */
bool job_leave(job *j, weft_status st, const char *text);

/* Free the job after job_leave(), and wipe the key. Destroy all users of the job or its TLS table
 * first: links end TLS sessions when they are closed, and progress threads call job_failure(). NULL
 * allowed. [setup] */
void job_free(job *j);

/* The store: values up to 1 MiB, keys up to 200 bytes. put replaces; get waits for the key until
 * the deadline (seconds), or until a rank fails. The caller frees the value. [setup] */
weft_status job_put(job *j, const char *key, const void *value, uint64_t bytes);
weft_status job_get(job *j, const char *key, double deadline, void **value, uint64_t *bytes);

/* For kv.h, keys and values as above. add stores a key that is new, else WEFT_USAGE; find returns
 * WEFT_BUSY without a record while no rank has set the key. [setup] */
weft_status job_add(job *j, const char *key, const void *value, uint64_t bytes);
weft_status job_find(job *j, const char *key, void **value, uint64_t *bytes);

/* All-gather among `n` ranks, this one among them: `members` ascends, NULL is all ranks of the job.
 * At most 64 KiB a rank, at most run.join_timeout. Ranks without a common member may use the same
 * key at the same time. [setup] [collective] */
weft_status job_gather(job *j, const char *key, const uint32_t *members, uint32_t n,
                       const void *mine, uint64_t bytes, void *all);

/* All-gather: all ranks give `bytes` bytes and get those of all ranks in rank order (ranks *
 * bytes). With `bytes` 0 it is a barrier. The timeout is that of job_join(); the error names the
 * missing ranks. [setup] [collective] */
weft_status job_exchange(job *j, const char *name, const void *mine, uint64_t bytes, void *all);

/* As job_exchange(), with a timeout of `seconds`, for work that may take long. A rank that dies or
 * freezes ends the wait at once. All ranks give the same timeout. [setup] [collective] */
weft_status job_exchange_for(job *j, const char *name, const void *mine, uint64_t bytes,
                             double seconds, void *all);

/* Set the progress mark of this rank, which its heartbeats carry: step and place in the list.
 * Cheap. [any] */
void job_mark(job *j, uint64_t step, uint64_t place);

/* Has another rank failed? Reads one atomic, so wait loops can poll it. On WEFT_PEER the record
 * names the rank, how it failed (killed by signal 9, frozen, ended early, its own report) and its
 * last known place. A NULL job never fails. [any] */
weft_status job_failure(job *j);

/* The one local address that this rank listens on, as text: that of the interface towards rank 0.
 * [setup] */
weft_status job_address(const job *j, char *out, size_t capacity);

/* 32 bytes derived from the job key for `label` (HKDF-SHA256). [setup] */
weft_status job_subkey(job *j, const char *label, uint8_t out[32]);

/* The table weft_host_tls of weft/host.h, bound to this job's key and to this meeting of its ranks:
 * a rank left over from an earlier run with the same key file cannot connect. Lives as long as `j`.
 *
 * A session may hold decrypted bytes when the socket has none: read until WEFT_BUSY before polling
 * the socket. After a write that returned WEFT_BUSY, the next write begins with the same bytes and
 * has at least as many of them. */
const void *job_tls_table(job *j);

#endif
