/* bad/link/link.h: a transport over Unix sockets between processes of one user, and its ways of
 * failing.
 *
 * Each rank listens at an abstract address made of the job's id and its rank. Of two ranks the
 * lower one dials, and says with its first eight bytes who it is and for which channel; the other
 * answers with a byte once it wants that connection. A message is its length in eight bytes, then
 * its bytes. */
#ifndef BAD_LINK_H
#define BAD_LINK_H

#include "faults.h"

#include <stdatomic.h>
#include <weft/link.h>

#define PICK(which, odd, usual) (BAD == (which) ? (odd) : (usual))

enum { QUEUE = 64, ROOM = 2 * QUEUE, CONNS = 64, KEPT = 64, ADDRESS = 8 };
enum { PIECE = 65536 };
#define MARK ((uint64_t)0x6143 << 48) /* of a length on the wire */

typedef struct message {
    char *at;
    uint64_t bytes, header, moved; /* header: the length on the wire; moved counts it, too */
} message;

typedef struct queue {
    message m[ROOM];
    uint64_t posted, done;
} queue;

struct weft_conn {
    weft_link *link;
    uint32_t peer, channel;
    int fd, up; /* up: the other end has asked for this connection, too */
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
    char name[100];        /* of the abstract address, without its rank */
    int kept[KEPT], nkept; /* descriptors that a bad plugin keeps; the first is a socket */
    unsigned sends, served[CONNS], nserved;
    int faults;
    weft_region *regions;
    struct mapping *mappings;
};

void link_look(weft_link *l); /* end all connections if the link is aborted */

weft_status link_gone(weft_conn *c);
void link_left(const weft_conn *c); /* it is disconnected */
weft_status link_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *none,
                      uint32_t flags);
weft_status link_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *none, uint32_t flags);
weft_status link_progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received);

/* regions: link_region.c */
void link_end_regions(weft_link *l);
weft_status link_register(weft_link *l, const weft_memory *memory, weft_region **out);
void link_deregister(weft_region *r);
weft_status link_key(weft_region *r, void *out, uint64_t *bytes);
weft_status link_map(weft_link *l, uint32_t peer, const void *key, uint64_t bytes, uint32_t flags,
                     void **base);

#endif
