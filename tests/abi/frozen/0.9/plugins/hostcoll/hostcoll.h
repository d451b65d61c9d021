/* hostcoll.h: a library of collectives on host memory, over Unix sockets of one machine.
 *
 * A sample of weft.coll/1 with WEFT_COLL_HOST, complete and naive: in each round every rank sends
 * one piece to each peer that needs it, receives what it needs, and combines. Sums are added in the
 * order of the ranks, 16-bit floats in fp32 with one rounding, so all ranks have the same bits. */
#ifndef ACME_HOSTCOLL_H
#define ACME_HOSTCOLL_H

#include <weft/coll.h>
#include <weft/host.h>

#include <errno.h>
#include <stdatomic.h>

enum { RANKS = 64, QUEUE = 1024, PIECE = 1 << 18, ID = 16 };

typedef struct op {
    uint32_t kind, redop, dtype, root;
    const char *in;
    char *out;
    uint64_t bytes; /* of what one peer sends or receives */
    uint64_t at;    /* bytes of it that earlier rounds have moved */
    uint64_t group; /* its number among the groups of the communicator, from 1 */
    int32_t done;
} op;

typedef struct peer {
    int fd;                  /* -1: not connected yet */
    uint64_t sent, received; /* bytes of the round */
    char *piece;             /* [PIECE] */
} peer;

struct weft_comm {
    const weft_host *host;
    struct module *module;
    uint32_t me, n;
    uint32_t members[RANKS];
    peer peer[RANKS];
    char *pieces;
    int listener;
    int guest[RANKS]; /* have dialled, and not said yet who they are; -1: none */
    unsigned char id[ID];
    op queue[QUEUE];
    uint64_t posted, finished; /* operations */
    uint64_t started;          /* groups */
    int32_t in_group, failed;
    atomic_int aborted;
    weft_comm *next; /* with operations in the open group */
};

typedef struct module {
    const weft_host *host;
    weft_comm *group; /* the communicators of the group that is open */
} module;

/* A failure with errno, and without. */
weft_status hostcoll_fail_errno(const weft_host *h, weft_status code, const char *what);
weft_status hostcoll_fail(const weft_host *h, weft_status code, const char *what);

/* out[i] = from[0][i] op ... op from[n - 1][i]; out may be one of them. reduce.c */
void hostcoll_reduce(uint32_t dtype, uint32_t redop, const char *const *from, uint32_t n, char *out,
                     uint64_t count);

/* Members of the table. rounds.c */
weft_status hostcoll_begin(void *m, uint32_t flags);
weft_status hostcoll_end(void *m, uint32_t flags);
weft_status hostcoll_call(weft_comm *c, const weft_coll_call *a);
weft_status hostcoll_test(weft_comm *c, uint32_t flags, uint64_t *done);
weft_status hostcoll_supports(void *m, uint32_t kind, uint32_t redop, uint32_t dtype);

#endif
