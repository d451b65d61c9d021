/* schedule/schedule.h: collectives as data.
 *
 * A collective is a *schedule*: the steps of one rank (send, receive, reduce, copy, read a peer's
 * memory), made by a pure function from (kind, type, count, ranks, rank, link capabilities). The
 * plan asks schedules for their scratch memory and bytes; tests run them against each other without
 * a transport; the engine of core/comm executes them over a link. One algorithm per file: alg/.
 * Nothing here does I/O or accesses another rank. */
#ifndef SCHEDULE_SCHEDULE_H
#define SCHEDULE_SCHEDULE_H

#include "config/config.h"

#include <stdbool.h>
#include <weft/coll.h>
#include <weft/link.h>

/* The topology of a group. Equal on all members, except where noted for `me`. */
typedef struct sched_layout {
    uint32_t machines;
    const uint32_t *machine; /* [ranks] numbered from 0 in the order of first appearance */
    const uint32_t *order;   /* [ranks] place in its machine, 0 nearest to the network; or NULL */
    uint64_t intra_caps;     /* of the link between members of one machine */
} sched_layout;

/* Measured cost of sending: a message of b bytes arrives `latency` + b * `per_byte` seconds after
 * it was sent, and keeps its sender busy for `message` + b * `per_byte`; reading a byte to reduce
 * it takes `reduce`, a byte of a peer's mapped memory `mapped`. intra: intra-node, inter:
 * inter-node. */
typedef struct sched_speed {
    double latency, message, per_byte;
} sched_speed;
typedef struct sched_cost {
    sched_speed intra, inter;
    double reduce, mapped;
} sched_cost;

/* Reads the costs in [comm] and [comm.TRANSPORT], intra-node and inter-node; all 0, and *known 0,
 * when they are absent. WEFT_USAGE if only some are given. [setup] */
weft_status sched_cost_read(const config *c, const char *transport, sched_cost *out, int *known);

/* The message format of elements. All but SCHED_PLAIN change results (compress.c). */
#define SCHED_PLAIN 0u
#define SCHED_TO_FP16 1u
#define SCHED_TO_BF16 2u
#define SCHED_TO_INT8 3u
const char *sched_form_name(uint32_t compress); /* "none", "int8". [any] */

typedef struct sched_request {
    uint32_t kind, redop, dtype; /* weft/coll.h */
    uint64_t count;              /* elements, as weft/coll.h counts them */
    uint32_t ranks, me;          /* of the group */
    uint32_t root;
    uint32_t in_place;     /* in and out are the same buffer (see weft/coll.h) */
    uint64_t link_caps;    /* of the link that will carry it */
    const char *algorithm; /* one word: "auto", "ring", "halving", "pairwise", ... */
    uint64_t chunk;        /* chunk size of long messages in bytes; 0: the algorithm's own */
    uint32_t compress;     /* SCHED_PLAIN, ... */
    uint32_t feedback;     /* compressed: the residual is kept for the next start */
    uint32_t staged; /* no link reaches in and out, scratch is host memory (core/comm/staging.c);
                        or, over a link that maps, devices import each other's memory
                        (core/comm/import_peer.c) */
    const sched_layout *layout; /* NULL: all on one machine, or unknown. Borrowed */
    const sched_cost *cost;     /* costs for `auto`; NULL: thresholds of select.c. Borrowed */
} sched_request;

/* Checks [comm] algorithm, a word or rules by collective and size (rules.c): WEFT_USAGE with the
 * key's location and the error (without a config, in the text `rules`). The second function returns
 * the algorithm that it names for this request, "auto" where it names none. A single word is
 * returned as it is. [any] */
weft_status sched_rules_check(const config *c, const char *key, const char *rules);
const char *sched_rule(const char *rules, const sched_request *r);

/* Whether schedules over this link may read and write peers' memory. [any] */
int sched_link_maps(uint64_t link_caps);

/* Capabilities of two transports as one link (comm_add_link()): `intra` intra-node, `inter`
 * inter-node. [any] */
uint64_t sched_pair_caps(uint64_t intra_caps, uint64_t inter_caps);

int sched_may_map(const char *algorithm); /* whether it maps peers' memory, or is auto [any] */

const char *sched_kind_name(uint32_t kind); /* "all-reduce": for people. [any] */
const char *sched_kind_word(uint32_t kind); /* "all_reduce": for programs. [any] */

/* What a request became. Callers read it. */
typedef struct sched_schedule {
    sched_request r; /* r.algorithm: the one that was selected */
    const struct sched_algorithm *algorithm;
    uint64_t scratch;  /* bytes of scratch, aligned to 64 */
    uint64_t residual; /* bytes kept between starts, likewise */
    uint64_t sent;     /* payload bytes that this rank sends or writes */
    uint32_t steps, places;
    bool maps; /* reads or writes peers' memory */
} sched_schedule;

/* WEFT_USAGE when the named algorithm does not support this request; the message lists those that
 * do. Owned by the caller. [plan] */
weft_status sched_make(const sched_request *r, sched_schedule **out);
void sched_free(sched_schedule *s);

/* Algorithms that a version before called otherwise: resolve takes the former names for a release,
 * and digests of plans go by them. Ends with NULL. */
typedef struct sched_rename {
    const char *was, *is;
} sched_rename;
extern const sched_rename sched_renames[];

#endif
