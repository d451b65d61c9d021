/* shm.h: the objects of the shm transport, and what its files call of each other.
 *
 *   plugin.c   manifest, options, probe
 *   segment.c  a rank's own shared memory, and opening that of a peer
 *   link.c     the link: sleeping, doorbells, who is alive, abort
 *   connect.c  connections: begin, become ready, end
 *   move.c     messages through the rings
 *   region.c   arenas that peers map
 *
 * Every rank owns one memfd, the segment: a head with its doorbell and a directory, then a ring for
 * each connection, which the peer fills and the owner empties. Peers reach it as /proc/PID/fd/N, so
 * nothing has a name that could be left behind; a random number in the head, told over the core's
 * authenticated store, proves that it is the right one. What peers write there is checked like
 * anything from outside.
 *
 * A ring has cells of two cache lines. A cell carries a number that rises by one, by which the
 * owner sees that it is new: one line moves between the cores for a small message, two for one of
 * up to INLINE bytes. Longer messages lie in the data part, a chunk a cell, so that both sides copy
 * at once. */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#define _GNU_SOURCE 1 /* memfd_create, F_GET_SEALS */

#include <weft/link.h>
#include <weft/pause.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    QUEUE = 128,       /* posted messages that a connection holds each way */
    CELLS_MAX = 256,   /* of a ring: a power of two between these, the fewer the more ranks */
    CELLS_MIN = 16,    /* ... share the machine */
    CELLS_ALL = 8192,  /* that the rings of one rank to all others have together, at the least */
    INLINE = 312,      /* bytes that fit into a cell beside its number */
    ENTRIES = 2048,    /* connections that a link may have in its life */
    CHUNK = 16384,     /* bytes of a longer message that one cell announces, at most */
    WARM = 32768,      /* bytes of the data part that short messages use again and again */
    WARM_CELL = 128,   /* of them at hand from the start, for each cell */
    TURN = 256 * 1024, /* bytes that one call moves each way, so that connections share fairly */
    WHY = 256,         /* longest sentence */
    RING_MIN = 65536,
    RING_MAX = 1 << 26,
    LOOK_US = 50000 /* between two looks whether peers are alive */
};

#define SEGMENT_MAGIC 0x316d687374666577u /* "weftshm1" */

/* --- in shared memory --- */

enum entry_state { ENTRY_FREE, ENTRY_OPEN, ENTRY_TAKEN, ENTRY_CLOSED };
typedef struct entry { /* one ring of the owner */
    atomic_uint state;
    uint32_t peer, channel; /* who fills it */
    uint32_t data_bytes;    /* a power of two */
    uint64_t offset;        /* of the ring in the segment */
    uint32_t cells;         /* a power of two */
    uint32_t reserved;
} entry;

enum gone { GONE_NOT, GONE_CLOSED, GONE_ABORTED };
typedef struct segment {
    uint64_t magic, nonce[2];
    uint32_t rank, reserved;
    _Alignas(64) atomic_uint bell; /* a futex: rises when the owner is to wake */
    atomic_uint sleeping;          /* the owner sleeps, or is about to */
    atomic_uint gone;
    _Alignas(64) atomic_uint entries;
    _Alignas(64) entry directory[ENTRIES];
} segment;

/* `stamp` is the cell's number from 1 in its low 48 bits and, above, the bytes of an inline message
 * or CELL_CHUNK. It is written last and read first. */
#define CELL_NUMBER ((1ull << 48) - 1)
#define CELL_CHUNK 0xffffull
typedef struct chunk {
    uint64_t total, part; /* bytes of the message; of them in this chunk */
    uint64_t at;          /* bytes of data before it, skipped ones too: where it lies */
} chunk;
typedef struct cell {
    _Alignas(64) _Atomic uint64_t stamp;
    union {
        uint8_t body[INLINE]; /* the message */
        chunk chunk;
    };
} cell;

typedef struct ring {
    atomic_uint writer_closed, reader_closed;
    _Alignas(64) _Atomic uint64_t cells_read, bytes_read; /* by the owner, who frees with them */
    _Alignas(64) cell cells[]; /* then, from the next page on, the data part */
} ring;

/* --- in each rank --- */

typedef struct address { /* what address() tells the peers; ranks of one machine, so one layout */
    uint64_t magic, nonce[2], pid_space;
    uint32_t rank;
    int32_t pid, fd, reserved;
    char boot[40];
} address;

typedef struct peer {
    struct peer *next;
    uint32_t rank;
    int pid, pidfd, fd;
    segment *head;
    bool watched; /* its end comes as an event of the link's `alive` */
    bool dead;
} peer;

typedef struct mapping { /* a peer's arena */
    struct mapping *next;
    void *base;
    uint64_t bytes;
} mapping;

typedef struct message {
    uint8_t *at;
    uint64_t bytes;
} message;
typedef struct queue { /* messages posted - done, the first of them moved up to `at` */
    uint64_t posted, done, at;
    message m[QUEUE];
} queue;

struct weft_conn {
    weft_link *link;
    weft_conn *next;
    peer *peer;
    uint32_t channel;
    bool up;
    weft_status broken;                /* not WEFT_OK: every call answers this and `why` */
    entry *entry;                      /* of `in_ring` */
    unsigned searched;                 /* entries of the peer that were not for this connection */
    ring *in_ring;                     /* mine, which the peer fills */
    ring *out_ring;                    /* the peer's; NULL until it is there */
    uint8_t *in_data, *out_data;       /* their data parts ... */
    uint64_t in_bytes, out_bytes;      /* ... the sizes of these ... */
    uint32_t in_mask, out_mask;        /* ... and the numbers of their cells less one */
    uint64_t cells_in, bytes_in;       /* taken so far */
    uint64_t told;                     /* of cells_in, known to the peer */
    uint64_t cells_out, bytes_out;     /* put so far */
    uint64_t cells_taken, bytes_taken; /* of those, taken by the peer as far as we know */
    uint64_t look_at;                  /* bytes_out at which to see whether to begin again */
    queue out, in;
    char why[WHY];
};

struct weft_region {
    weft_link *link;
    weft_region *next;
    uint64_t bytes;
    int fd;
};

struct weft_link {
    const weft_host *host;
    uint32_t rank, ranks;
    uint32_t ring_bytes; /* of the data part of my rings */
    uint32_t cells;      /* of each of them */
    unsigned passed;     /* the bell when all connections on their way up were last looked at */
    bool begun;          /* a connection was begun since then */
    int alive;           /* an epoll set of the peers' process descriptors; -1: none */
    int fd;              /* the segment */
    uint64_t size;       /* of it */
    segment *head;
    address self;
    weft_conn *conns;
    peer *peers;
    mapping *mappings;
    weft_region *regions;
    uint32_t idle;   /* calls that found nothing, since the last look */
    uint64_t looked; /* us, when peers were last looked at */
    atomic_bool aborted, woken;
    pthread_mutex_t lock; /* the list of peers, against abort() */
};

/* segment.c */
weft_status shm_fail(const weft_host *host, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
weft_status shm_segment(weft_link *l); /* make mine */
weft_status shm_grow(weft_link *l, uint64_t bytes, uint64_t *offset);
void *shm_map(int fd, uint64_t offset, uint64_t bytes); /* NULL when it cannot be */
ring *shm_map_ring(int fd, uint64_t offset, uint32_t cells, uint64_t data_bytes); /* the same */
uint8_t *shm_data(ring *r, uint32_t cells); /* its data part */
weft_status shm_open_peer(weft_link *l, uint32_t rank, const address *a, peer **out);
void shm_close_peer(weft_link *l, peer *p);
int shm_open_fd(int32_t pid, int32_t fd); /* of another process; -1 */
weft_status shm_check_address(weft_link *l, uint32_t rank, const address *a);
uint64_t shm_ring_size(uint32_t cells, uint64_t data_bytes);

/* link.c */
weft_status shm_create(void *module, const weft_link_args *args, weft_link **out);
void shm_destroy(weft_link *l);
weft_status shm_address(weft_link *l, void *out, uint64_t *bytes);
weft_status shm_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us);
void shm_wake(weft_link *l);
void shm_abort(weft_link *l);
void shm_notify(peer *p);    /* after a change that it may sleep for */
void shm_tell(peer *p);      /* after one to a connection on its way up: it looks, awake or not */
bool shm_news(weft_link *l); /* has a peer told, since the last look at such connections? */
void shm_look(weft_link *l); /* are the peers alive? */

/* connect.c */
weft_status shm_connect(weft_link *l, uint32_t rank, uint32_t channel, const void *where,
                        uint64_t bytes, weft_conn **out);
weft_status shm_ready(weft_conn *c);
void shm_disconnect(weft_conn *c);
weft_status shm_break(weft_conn *c, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
weft_status shm_usable(weft_conn *c); /* not broken and not aborted */

/* move.c */
weft_status shm_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region);
weft_status shm_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region);
weft_status shm_progress(weft_conn *c, uint64_t *sent, uint64_t *received);
bool shm_can_move(weft_conn *c);

/* region.c */
weft_status shm_register(weft_link *l, void *base, uint64_t bytes, int32_t fd, weft_region **out);
void shm_deregister(weft_region *r);
weft_status shm_key(weft_region *r, void *out, uint64_t *bytes);
weft_status shm_map_region(weft_link *l, uint32_t rank, const void *key, uint64_t bytes,
                           void **base);

#endif
