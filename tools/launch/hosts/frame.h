/* launch/hosts/frame.h: messages between the launcher and its agent on another host, over the
 * standard input and output of ssh.
 *
 * A frame is a header of 24 bytes and at most FRAME_TEXT bytes. Both sides take the other's bytes
 * as input from outside: a header that is none of ours ends the connection. Output is queued, so no
 * side waits for the other in a write. */
#ifndef LAUNCH_HOSTS_FRAME_H
#define LAUNCH_HOSTS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <weft/base.h>

#define FRAME_PROTOCOL 2u
#define FRAME_TEXT 4096u
#define HOST_ADDR_MAX 256u /* bytes of an address, with its zero byte */
#define HOSTS_RANKS_MAX 65536u
#define FRAME_MAGIC 0x31746677u /* "wft1" in the order of little-endian machines */

typedef enum {
    /* agent to launcher */
    FRAME_HERE = 1, /* first; code: FRAME_PROTOCOL; text: the address that ssh has reached, or "" */
    FRAME_PORT,     /* code: the port where rank 0 of this host listens */
    FRAME_RECORD, /* from: the rank; a job_control_record of it, code: its code, kind in bits 16 up
                   */
    FRAME_ENDED,  /* the same, of its end: rank, code; text: "K" killed by signal, "E" by itself */
    FRAME_STEP, /* from: the rank; code: the signal that asked ranks of this host to stop, 0: none;
                   text: 8 bytes, the step that it has begun, 0: none */
    FRAME_GONE, /* from: the rank, whose process no longer exists */
    FRAME_OUTPUT, /* text: what ranks have written to standard output */
    FRAME_FAILED, /* text: why the agent cannot start its ranks */
    /* launcher to agent */
    FRAME_BEGIN, /* from: the first rank; rank: how many; code: ranks of the job; text: 4 bytes, the
                    attempt */
    FRAME_ARGUMENT, /* text: the next argument of the ranks */
    FRAME_VARIABLE, /* text: NAME=VALUE for their environment */
    FRAME_JOB,      /* text: the next part of the job file, where it came from a pipe */
    FRAME_KEY,      /* text: the job key */
    FRAME_LISTEN,   /* text: the address where rank 0 of this host listens */
    FRAME_MEET,     /* code: port, text: address of rank 0; start the ranks */
    FRAME_SIGNAL,   /* code: send it to the ranks */
    FRAME_TELL,     /* as FRAME_ENDED, of a rank of another host */
    FRAME_KILL,     /* kill the ranks; code 1: at once */
    /* agent to launcher */
    FRAME_FROZEN, /* text: no rank of this host gives a sign of life */
    FRAME_KINDS
} launch_frame_kind;

typedef struct launch_frame {
    uint32_t kind, from, rank, code, bytes, magic;
    char text[FRAME_TEXT + 1]; /* [bytes], and a zero byte behind */
} launch_frame;

/* A connection: two descriptors, both non-blocking. Zeroed at first. */
typedef struct launch_frame_link {
    int in, out;
    bool broken; /* nothing more can be received: closed, or `alien` */
    bool alien;  /* what came is no frame; `part` has its first `have` bytes */
    bool deaf;   /* nothing more can be sent */
    size_t have; /* bytes of `part` */
    char part[sizeof(launch_frame)];
    char *queue; /* bytes to be written, from `sent` to `queued` */
    size_t sent, queued, capacity;
} launch_frame_link;

void launch_frame_open(launch_frame_link *l, int in, int out);
void launch_frame_close(launch_frame_link *l); /* closes the descriptors and frees the queue */

/* Queue a frame, and write what can be written. `bytes` <= FRAME_TEXT; `text` may be NULL for 0. */
void launch_frame_send(launch_frame_link *l, uint32_t kind, uint32_t from, uint32_t rank,
                       uint32_t code, const void *text, uint32_t bytes);

/* Write what can be written; is anything left? */
bool launch_frame_flush(launch_frame_link *l);

/* The next frame. False: none now, or the link is broken. */
bool launch_frame_receive(launch_frame_link *l, launch_frame *out);

#endif
