/* job/wire/resolve.h: the addresses of MASTER_ADDR, whose name may come late and may change.
 *
 * A name that does not resolve is tried again, with growing pauses, until a deadline; and while
 * rank 0 is not reached the name is resolved anew. A lookup runs in a thread of its own, which is
 * abandoned where the caller does not wait any longer; the caller keeps answering signals and its
 * launcher. docs/ARCHITECTURE.md says why ("A name is waited for").
 *
 * The name of a Slurm node need not resolve, as in clouds: Slurm has an address beside it,
 * NodeAddr. The first lookup asks for that where the name does not resolve. */
#ifndef JOB_RESOLVE_H
#define JOB_RESOLVE_H

#include "job/job.h"

struct addrinfo;

/* Wait until `fd` is readable (-1: only wait) or until `until`. WEFT_OK: it is readable; WEFT_BUSY:
 * the time is over; another status, with a record, ends the search. */
typedef weft_status (*job_resolve_wait)(void *ctx, int fd, uint64_t until);

typedef struct job_resolver {
    const job_identity *who;
    uint64_t deadline; /* of awake_ms() */
    job_resolve_wait wait;
    void *ctx;

    /* kept by the functions; zero at first */
    struct addrinfo *list;
    struct job_lookup *pending;
    const struct addrinfo *at;
    uint64_t began, say, again; /* the start; when to log next; when to resolve anew */
    uint32_t pause;             /* ms, until `again` */
    bool named;                 /* MASTER_ADDR is a name, not an address */
    bool asked;                 /* Slurm has been asked for the address of its node */
} job_resolver;

/* What a message calls the address of rank 0: "MASTER_ADDR=c1", or of a Slurm step that was not
 * told one "the step's first node c1". [any] */
#define JOB_MEETING_TEXT 320
const char *job_resolver_names(const job_identity *who, char out[JOB_MEETING_TEXT]);

/* The addresses of MASTER_ADDR, `list`. WEFT_USAGE: it can be no name; WEFT_PEER: it did not
 * resolve until the deadline. [setup] */
weft_status job_resolver_start(job_resolver *r);

/* The next address to try; after the last one, a pause and the first. The record of the failed
 * attempt before is kept, and logged now and then. A status other than WEFT_OK is that of wait() or
 * of job_resolver_start(). [setup] */
weft_status job_resolver_next(job_resolver *r, const struct addrinfo **out);

/* After a pause resolve the name anew, where its addresses are of no use; `why` says in which way.
 * The old ones are kept where it does not resolve now. WEFT_BUSY: it was tried until the deadline,
 * or is an address. [setup] */
weft_status job_resolver_again(job_resolver *r, const char *why);

void job_resolver_end(job_resolver *r);

#endif
