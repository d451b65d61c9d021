/* bad/link.h: a transport over Unix sockets between processes of one user, and its ways of failing.
 *
 * Each rank listens at an abstract address made of the job's id and its rank. Of two ranks the
 * lower one dials, and says with its first eight bytes who it is and for which channel. A message
 * is its length in eight bytes, then its bytes. */
#ifndef BAD_LINK_H
#define BAD_LINK_H

#include <stdatomic.h>
#include <weft/link.h>

enum {
    GOOD,
    SWAPS_EQUALS,
    CUTS_AT_4_GIB,
    DEAF_TO_DEATH,
    TAKES_MEMORY,
    BLOCKS,
    WAKE_ALONE,
    SHARED_BUFFER,
    FORGETS_AFTER_NOTHING
};
#define PICK(which, odd, usual) (BAD == (which) ? (odd) : (usual))

enum { QUEUE = 64, CONNS = 64 };

typedef struct message {
    char *at;
    uint64_t bytes, header, moved; /* header: the length on the wire; moved counts it, too */
} message;

typedef struct queue {
    message m[QUEUE];
    uint64_t posted, done;
} queue;

struct weft_conn {
    weft_link *link;
    uint32_t peer, channel;
    int fd;
    queue out, in;
};

typedef struct guest { /* dialled us before we knew of the connection */
    int fd;
    uint32_t name[2], got;
} guest;

struct weft_link {
    const weft_host *host;
    uint32_t rank;
    int fd, event;
    atomic_int aborted;
    weft_conn *conns[CONNS];
    guest guests[CONNS];
    char name[100]; /* of the abstract address, without its rank */
};

weft_status link_gone(weft_conn *c);
weft_status link_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *none,
                      uint32_t flags);
weft_status link_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *none, uint32_t flags);
weft_status link_progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received);

#endif
