/* shm.h: the objects of the shm transport, and the functions that its files share.
 *
 *   plugin.c   manifest, options, probe
 *   segment.c  creates a rank's own segment and opens those of peers
 *   link.c     the link: sleep and wake-up, doorbells, peer liveness, abort
 *   connect.c  connections: connect, ready, disconnect
 *   move.c     messages through the rings
 *   region.c   arenas that peers map
 *
 * Every rank owns one memfd, the segment: a head with its doorbell and a directory, then one ring
 * buffer per connection; the peer writes to the ring and the owner reads it. Peers open the segment
 * as /proc/PID/fd/N, so no named file can be left behind. A random number (nonce) in the head, also
 * published in the core's authenticated store, proves that it is the right segment. All that peers
 * write there is validated as untrusted input.
 *
 * A ring has cells of five cache lines. Each cell has a sequence number, by which the owner detects
 * new data: a small message moves one cache line between cores, and a message of up to INLINE bytes
 * moves further lines of the same cell. Longer messages go through the data part, one chunk per
 * cell, so that sender and receiver copy at the same time. */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#define _GNU_SOURCE 1 /* memfd_create, F_GET_SEALS */

#include <weft/link.h>
#include <weft/pause.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    QUEUE = 128,       /* posted messages that a connection can queue per direction */
    CELLS_MAX = 256,   /* cells of a ring: a power of two in this range, fewer when more ranks */
    CELLS_MIN = 16,    /* ... share the machine */
    CELLS_ALL = 8192,  /* limit on the cells of all rings of one rank */
    INLINE = 312,      /* largest message that fits into a cell after the stamp */
    ENTRIES = 2048,    /* connections that a link may open in its lifetime */
    CHUNK = 16384,     /* most bytes of a longer message that one cell announces */
    WARM = 32768,      /* bytes of the data part that short messages reuse, to stay in cache */
    WARM_CELL = 128,   /* part of WARM that is pre-faulted, per cell */
    TURN = 256 * 1024, /* most bytes that one call moves per direction, for fairness */
    WHY = 256,         /* longest error message */
    RING_MIN = 65536,
    RING_MAX = 1 << 26,
    LOOK_US = 50000 /* interval between liveness checks of peers */
};

#define SEGMENT_MAGIC 0x316d687374666577u /* "weftshm1" */

/* --- in shared memory --- */

enum entry_state { ENTRY_FREE, ENTRY_OPEN, ENTRY_TAKEN, ENTRY_CLOSED };
typedef struct entry { /* one ring of the owner */
    atomic_uint state;
    uint32_t peer, channel; /* the rank and channel that write to it */
    uint32_t data_bytes;    /* a power of two */
    uint64_t offset;        /* of the ring in the segment */
    uint32_t cells;         /* a power of two */
    uint32_t reserved;
} entry;

enum gone { GONE_NOT, GONE_CLOSED, GONE_ABORTED };
typedef struct segment {
    uint64_t magic, nonce[2];
    uint32_t rank, reserved;
    _Alignas(64) atomic_uint bell; /* a futex; incremented to wake the owner */
    atomic_uint sleeping;          /* the owner sleeps, or is about to */
    atomic_uint gone;
    _Alignas(64) atomic_uint entries;
    _Alignas(64) entry directory[ENTRIES];
} segment;

/* The low 48 bits of `stamp` are the cell's sequence number, from 1; the high bits are the size of
 * an inline message, or CELL_CHUNK. The stamp is written last and read first. */
#define CELL_NUMBER ((1ull << 48) - 1)
#define CELL_CHUNK 0xffffull
typedef struct chunk {
    uint64_t total, part; /* bytes of the whole message; bytes in this chunk */
    uint64_t at;          /* position in the data stream, skipped bytes included */
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
    _Alignas(64) _Atomic uint64_t cells_read, bytes_read; /* written by the owner, to free space */
    _Alignas(64) cell cells[]; /* the data part begins at the next page */
} ring;

/* --- in each rank --- */

typedef struct address { /* what address() gives to peers: one machine, so one layout */
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
    bool watched; /* the epoll set `alive` of the link reports its exit */
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
typedef struct queue { /* posted - done messages; `at` bytes of the first are moved */
    uint64_t posted, done, at;
    message m[QUEUE];
} queue;

struct weft_conn {
    weft_link *link;
    weft_conn *next;
    peer *peer;
    uint32_t channel;
    bool up;
    weft_status broken;                /* if not WEFT_OK, every call returns it with `why` */
    entry *entry;                      /* of `in_ring` */
    unsigned searched;                 /* directory entries of the peer that were already checked */
    ring *in_ring;                     /* own ring, written by the peer */
    ring *out_ring;                    /* the peer's ring; NULL until it is mapped */
    uint8_t *in_data, *out_data;       /* their data parts ... */
    uint64_t in_bytes, out_bytes;      /* ... the sizes of these ... */
    uint32_t in_mask, out_mask;        /* ... and their cell counts minus one */
    uint64_t cells_in, bytes_in;       /* consumed so far */
    uint64_t told;                     /* value of cells_in that the peer knows */
    uint64_t cells_out, bytes_out;     /* produced so far */
    uint64_t cells_taken, bytes_taken; /* of those, consumed by the peer as far as is known */
    uint64_t look_at;                  /* value of bytes_out at which to try turn_back() next */
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
    uint32_t ring_bytes; /* size of the data part of own rings */
    uint32_t cells;      /* of each of them */
    unsigned passed;     /* value of the bell at the last check of connections in set-up */
    bool begun;          /* a connection was begun since then */
    int alive;           /* an epoll set of the peers' pidfds; -1: none */
    int fd;              /* the segment */
    uint64_t size;       /* bytes of the segment */
    segment *head;
    address self;
    weft_conn *conns;
    peer *peers;
    mapping *mappings;
    weft_region *regions;
    uint32_t idle;   /* calls that found nothing since the last liveness check */
    uint64_t looked; /* us, time of the last liveness check */
    atomic_bool aborted, woken;
    pthread_mutex_t lock; /* guards the list of peers against abort() */
};

/* segment.c */
weft_status shm_fail(const weft_host *host, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
weft_status shm_segment(weft_link *l); /* create the own segment */
weft_status shm_grow(weft_link *l, uint64_t bytes, uint64_t *offset);
void *shm_map(int fd, uint64_t offset, uint64_t bytes); /* NULL on failure */
ring *shm_map_ring(int fd, uint64_t offset, uint32_t cells, uint64_t data_bytes); /* the same */
uint8_t *shm_data(ring *r, uint32_t cells); /* its data part */
weft_status shm_open_peer(weft_link *l, uint32_t rank, const address *a, peer **out);
void shm_close_peer(weft_link *l, peer *p);
int shm_open_fd(int32_t pid, int32_t fd); /* of another process; -1 on failure */
weft_status shm_check_address(weft_link *l, uint32_t rank, const address *a);
uint64_t shm_ring_size(uint32_t cells, uint64_t data_bytes);

/* link.c */
weft_status shm_create(void *module, const weft_link_args *args, weft_link **out);
void shm_destroy(weft_link *l);
weft_status shm_address(weft_link *l, void *out, uint64_t *bytes);
weft_status shm_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us);
void shm_wake(weft_link *l);
void shm_abort(weft_link *l);
void shm_notify(peer *p);    /* wake a sleeping peer after new data or space */
void shm_tell(peer *p);      /* always ring: a connection in set-up has changed */
bool shm_news(weft_link *l); /* rung, or a connection begun, since the last check? */
void shm_look(weft_link *l); /* liveness check of the peers */

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
