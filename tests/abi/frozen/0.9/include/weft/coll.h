/* weft/coll.h: the kinds of collectives, and collective libraries, "weft.coll/1".
 *
 * A coll plugin wraps a library of collectives: NCCL, whose operations are ordered on a device
 * stream, or MPI, UCC and oneCCL, which work on host memory. With such a plugin the core runs none
 * of its own algorithms: it opens one communicator per channel and starts the plan's operations, in
 * the plan's order, in the plan's groups. 16-bit sums round as the library does.
 *
 * On a stream (WEFT_COLL_STREAM) call() enqueues, and the work is ordered on the driver's own
 * stream (device.h, native_stream), because a plugin never sees another plugin's tables. On host
 * memory (WEFT_COLL_HOST) there is no stream: end() starts the group, and test() advances it and
 * counts the groups that are complete. A device with WEFT_DEV_HOST_MEMORY takes the second, any
 * other device the first.
 *
 * Threads. On host memory two threads call a module: the compute thread starts groups and waits,
 * and while it computes, a progress thread calls test() at intervals. The host holds one lock for
 * all communicators of a module: two threads are never in begin() ... end(), ready(), health() or
 * test() at once, and no other call comes between begin() and its end(). So MPI needs
 * MPI_THREAD_SERIALIZED. Only abort() may meet another call. A library that is global to a process
 * and serves other plugins too (a link over MPI) needs a lock of its own, or full thread support.
 *
 * Set-up never blocks indefinitely: open() only begins, ready() is polled under a deadline.
 * health() reports a failure; abort() may be slow or hang inside the library, so the host calls it
 * on a helper thread, waits a bounded time, and exits. A library that needs an exchange of bytes
 * among the ranks before it can work takes it from "weft.host.kv/1" (host.h).
 */
#ifndef WEFT_COLL_H
#define WEFT_COLL_H

#include <weft/device.h>

WEFT_EXTERN_C_BEGIN

/* Kinds of communication; n ranks, `count` elements. The count is that of the larger side: what
 * each rank has after an all-gather, before a reduce-scatter. In place means: the smaller side lies
 * at rank * count / n of the larger. */
#define WEFT_ALL_REDUCE 1u     /* in [count] -> out [count], reduced */
#define WEFT_REDUCE_SCATTER 2u /* in [count] -> out [count / n], part r reduced at rank r */
#define WEFT_ALL_GATHER 3u     /* in [count / n] -> out [count] */
#define WEFT_BROADCAST 4u      /* root's in [count] -> out [count] of all */
#define WEFT_REDUCE 5u         /* in [count] -> root's out [count] */
#define WEFT_GATHER 6u         /* in [count / n] -> root's out [count] */
#define WEFT_SCATTER 7u        /* root's in [count] -> out [count / n] */
#define WEFT_ALL_TO_ALL 8u     /* in [count] -> out [count]: part j of rank i is part i of rank j */
#define WEFT_BARRIER 9u        /* no rank leaves before all have entered; count 0 */
#define WEFT_SEND 10u          /* in [count] -> root (the peer) */
#define WEFT_RECV 11u          /* root (the peer) -> out [count] */
/* In [count] -> out [count] of the rank `root` further, cyclically. The host asks a coll plugin for
 * a send and a receive in one group instead. */
#define WEFT_SHIFT 12u

#define WEFT_SUM 1u
#define WEFT_MAX 2u
#define WEFT_MIN 3u

typedef struct weft_comm weft_comm; /* opaque, the plugin's: one communicator */

typedef struct weft_coll_args {
    uint32_t struct_size, flags;
    uint32_t rank, ranks; /* in the group */
    const void *id;       /* what id() gave on the group's rank 0; NULL with a parent */
    uint64_t id_bytes;
    weft_comm *parent; /* idle, to be split: all its ranks call open() alike, in this order; NULL */
    uint32_t color;    /* with a parent: equal in one group, unlike in any two */
    uint32_t reserved; /* 0 */
    void *stream; /* a native stream of the device: work in its context; NULL: on host memory */
    const weft_conf *conf;
    const uint32_t *members; /* [ranks] of the group, as ranks of the whole job */
} weft_coll_args;
WEFT_FREEZE(weft_coll_args, members, 72);

/* One operation. */
typedef struct weft_coll_call {
    uint32_t struct_size, flags;
    uint32_t kind;  /* WEFT_ALL_REDUCE ... */
    uint32_t redop; /* WEFT_SUM ... where the kind reduces, else 0 */
    uint32_t dtype; /* of the elements */
    uint32_t root;  /* as the list of kinds says */
    const void *in;
    void *out;
    uint64_t count; /* elements of the larger side */
    void *stream;   /* the native stream; NULL: on host memory */
} weft_coll_call;
WEFT_FREEZE(weft_coll_call, stream, 56);

#define WEFT_COLL_STREAM 1u /* operations on memory of a device with native streams */
#define WEFT_COLL_HOST 2u   /* operations on host memory; test() is there */

typedef struct weft_coll_table {
    uint32_t struct_size;
    uint32_t channels; /* communicators that may have operations in flight at once; 0: any number */
    uint64_t caps;     /* WEFT_COLL_..., at least one */

    /* Score 0 where the library or a fitting device is missing: the reason is recorded by
     * weft_host.fail(), and the call returns WEFT_OK. [setup] */
    weft_status (*probe)(void *module, const weft_conf *conf, uint32_t device_caps, int32_t *score);

    /* Bytes that identify a new communicator, made on one rank and carried to the others by the
     * core; *bytes is the room on entry (4096) and the number on return. [setup] */
    weft_status (*id)(void *module, const weft_conf *conf, void *out, uint64_t *bytes);

    /* Begin to open: WEFT_OK and a communicator even where the library is still at it; ready() is
     * WEFT_BUSY until all ranks are in. [setup] [collective] */
    weft_status (*open)(void *module, const weft_coll_args *args, weft_comm **out);

    /* Also after end(), see there. [setup] [compute] */
    weft_status (*ready)(weft_comm *c);

    /* After all work has finished, or after abort(). May wait for the other ranks to close; NULL
     * allowed. [setup] [collective] */
    void (*close)(weft_comm *c);

    /* Register memory that will be sent from and received into; close() deregisters it.
     * WEFT_UNSUPPORTED: the host continues without. OPT [setup] [collective] */
    weft_status (*register_memory)(weft_comm *c, void *base, uint64_t bytes, uint32_t flags);

    /* Calls between begin and end of a module form one group, which starts as one: sends and
     * receives in it do not wait for each other. Its operations may be of several communicators.
     * Both calls come from one thread, end() after a call that failed too. WEFT_BUSY from end():
     * the library is still launching; the host polls ready() of the group's communicators until
     * WEFT_OK before it puts anything more on their streams. [compute] */
    weft_status (*begin)(void *module, uint32_t flags);
    weft_status (*end)(void *module, uint32_t flags);

    /* Enqueue one operation, always inside a group. Never blocks. A kind or type that the library
     * lacks is WEFT_UNSUPPORTED. Sends of a pair match its receives in order. On host memory the
     * buffers are borrowed until test() has counted the group. [compute] [collective] */
    weft_status (*call)(weft_comm *c, const weft_coll_call *call);

    /* WEFT_OK, or what has gone wrong since: WEFT_PEER, WEFT_IO. Cheap. [progress] */
    weft_status (*health)(weft_comm *c);

    /* Abort all operations in flight; only close() follows. May hang: called on a thread that can
     * be abandoned, while another is in a call of `c`. [any] */
    void (*abort)(weft_comm *c);

    /* Advance the operations on host memory, and return how many groups with an operation on this
     * communicator are complete here since it was opened, as far as their operations on it go:
     * counted in the order in which they were started. A count never falls and never exceeds the
     * groups that were started. The buffers of a counted group are the caller's again, whatever
     * other ranks are at. Never blocks. OPT with WEFT_COLL_HOST [progress] [compute] */
    weft_status (*test)(weft_comm *c, uint32_t flags, uint64_t *done);

    /* Whether call() serves this kind with this operator (0: none) and element type; else
     * WEFT_UNSUPPORTED with a message. Asked before the first step, so that a job ends there and
     * not in a step. NULL: call() answers. OPT [setup] */
    weft_status (*supports)(void *module, uint32_t kind, uint32_t redop, uint32_t dtype);
} weft_coll_table;
WEFT_FREEZE(weft_coll_table, supports, 120);

WEFT_EXTERN_C_END

#endif
