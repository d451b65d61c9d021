/* job/wire/wire.h: frames over an authenticated session.
 *
 *   bytes  u32   of the body; never above what the receiver allows at that moment
 *   type   u32   one of WIRE_...
 *   arg    u32   a status, a rank, or milliseconds to wait, by type
 *   seq    u32   of a request; its reply carries the same
 *   body
 *
 * All little-endian. A body is read into memory only after the session is authenticated, and only
 * as much as the limit: a rank that is not admitted yet has room for its hello and no more. */
#ifndef JOB_WIRE_H
#define JOB_WIRE_H

#include "job/wire/tls.h"

#define WIRE_HELLO 1u     /* to the store: job_wire_hello */
#define WIRE_WELCOME 2u   /* to a rank: welcome; the meeting's number, 16 bytes */
#define WIRE_REFUSED 3u   /* to a rank: rejected; text: why; arg is the status */
#define WIRE_JOINED 4u    /* to a rank: all ranks have joined; where its parent listens */
#define WIRE_BEAT 5u      /* both ways, also in the tree: heartbeat (beats/frame.h) */
#define WIRE_PUT 6u       /* to the store: key and value */
#define WIRE_GET 7u       /* to the store: key; arg is the timeout */
#define WIRE_EXCHANGE 8u  /* to the store: name and this rank's part; arg is the timeout */
#define WIRE_REPLY 9u     /* to a rank: arg is the status; the value or the error text */
#define WIRE_FAILURE 10u  /* to a rank: arg failed; text, its own words from `seq` on, 0: none */
#define WIRE_BYE 11u      /* to the store: arg is the status that this rank leaves with; text */
#define WIRE_ALL_LEFT 12u /* to a rank: all ranks have left in good order */

#define WIRE_STOP 13u /* to the store: arg is the signal that asked for a stop (stop.h) */
#define WIRE_HOLD 14u /* to a rank: begin no further step; arg is the signal */
#define WIRE_HELD 15u /* to the store: the step that this rank has begun, u64 */
#define WIRE_LAST 16u /* to a rank, also a late one: last step, u64, 0: none; arg is the signal */

#define WIRE_ADD 17u  /* to the store: key and value, which must be new */
#define WIRE_FIND 18u /* to the store: key; WEFT_BUSY at once if it is not there */
#define WIRE_GATHER                                                                                \
    19u /* to the store: key and a request of store/gather.h; arg is the timeout                   \
         */

#define WIRE_ATTEMPT                                                                               \
    20u /* to a rank: arg is the newest attempt (job/control/progress.h), not its own */

#define WIRE_WATCHES 21u /* to the store: the sender watches its child, rank arg */
#define WIRE_SILENT 22u  /* to the store: it has not heard its child, rank arg, for u64 ms */

#define WIRE_PROTOCOL 7u /* incremented with every change that the other end must know of */
#define WIRE_HEAD 16
#define WIRE_KEY_MAX 200u
#define WIRE_VALUE_MAX (1u << 20)
#define WIRE_BODY_MAX (WIRE_VALUE_MAX + WIRE_KEY_MAX + 4)
#define WIRE_TEXT 1024u
#define WIRE_VERSION 48
#define MEETING_BYTES 16

#define HOST_BYTES 64  /* of a host name, its zero included */
#define PLACE_BYTES 64 /* of a numeric address, its zero included */
#define HELLO_BYTES (32 + WIRE_VERSION + HOST_BYTES + PLACE_BYTES)

typedef struct job_place { /* where a rank listens for its children in the tree of heartbeats */
    uint32_t port;         /* 0: nowhere */
    char address[PLACE_BYTES];
} job_place;

typedef struct job_wire_hello {
    uint32_t rank, ranks;
    uint64_t process; /* random, the same in all attempts of one process */
    uint64_t launch;  /* job_identity.launch */
    uint32_t attempt; /* job/control/progress.h */
    job_place at;     /* in the tree it is empty */
    char version[WIRE_VERSION];
    char host[HOST_BYTES]; /* for messages: what a scheduler calls this machine */
} job_wire_hello;

typedef struct job_wire_frame {
    uint32_t bytes, type, arg, seq;
    const uint8_t *body; /* owned by the wire; valid until the next job_wire_take() */
} job_wire_frame;

typedef struct job_wire {
    int fd; /* owned: job_wire_close() closes it */
    weft_tls *tls;
    uint32_t limit; /* largest body accepted now */
    uint8_t head[WIRE_HEAD];
    uint8_t small[256];
    uint8_t *body;  /* `small`, or allocated for a larger one */
    uint32_t got;   /* bytes of the frame received so far, head included */
    uint32_t bytes; /* of its body */
    bool whole;     /* it was returned; the next take begins a new one */
    uint8_t *out;   /* bytes [sent, queued) wait to be written */
    uint64_t sent, queued, capacity;
} job_wire;

/* Take over a connected socket that has no session yet; job_wire_open() with the same `fd` starts
 * the session. */
void job_wire_hold(job_wire *w, int fd);

/* Start a session on a connected non-blocking socket. On failure the socket is closed. */
weft_status job_wire_open(job_wire *w, job_tls_context *c, int fd, bool server,
                          const uint8_t psk[32]);
void job_wire_close(job_wire *w); /* idempotent; also on a zeroed one with fd -1 */

/* WEFT_OK: a whole frame. WEFT_BUSY: no whole frame yet. */
weft_status job_wire_take(job_wire *w, job_wire_frame *out);

/* Queue a frame of up to two parts; never blocks. Dropped if the connection is closed. */
void job_wire_send(job_wire *w, uint32_t type, uint32_t arg, uint32_t seq, const void *body,
                   uint32_t bytes);
void job_wire_send2(job_wire *w, uint32_t type, uint32_t arg, uint32_t seq, const void *a,
                    uint32_t a_bytes, const void *b, uint32_t b_bytes);

/* Write the queue. WEFT_BUSY: some bytes are left. */
weft_status job_wire_flush(job_wire *w);
uint64_t job_wire_unsent(const job_wire *w);

/* Parse the key at the start of a body: u16 of length, then that many bytes, none of them zero.
 * Copies it to `key` with a terminating zero; the rest of the body is the value. */
bool job_wire_key(const job_wire_frame *f, char key[WIRE_KEY_MAX + 1], const uint8_t **value,
                  uint32_t *value_bytes);

/* The text of a body, truncated to `bytes` - 1, with control characters made visible. */
void job_wire_text(const job_wire_frame *f, char *out, uint32_t bytes);

/* Numbers of messages are little-endian. */
void job_wire_put32(uint8_t *to, uint32_t v);
uint32_t job_wire_get32(const uint8_t *from);
void job_wire_put64(uint8_t *to, uint64_t v);
uint64_t job_wire_get64(const uint8_t *from);

/* The version text, which must be the same at both ends. */
void job_wire_version(char out[WIRE_VERSION]);
void job_wire_host(char out[HOST_BYTES]); /* SLURMD_NODENAME, or the name of the machine */
void job_wire_pack_hello(const job_wire_hello *h, uint8_t out[HELLO_BYTES]);
bool job_wire_unpack_hello(const job_wire_frame *f, job_wire_hello *out);

/* The body of WIRE_JOINED: port and address. */
#define JOINED_BYTES (4 + PLACE_BYTES)
void job_wire_pack_place(const job_place *at, uint8_t out[JOINED_BYTES]);
bool job_wire_unpack_place(const job_wire_frame *f, job_place *out);

#endif
