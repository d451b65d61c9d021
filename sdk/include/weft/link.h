/* weft/link.h: a point-to-point transport, interface "weft.link/1".
 *
 * A link moves bytes between pairs of ranks; the core runs its own collectives over any link. Its
 * duties: publish an endpoint address, open a connection for each (peer, channel), post sends and
 * receives in order, and count completions.
 *
 * Matching is by order alone: the k-th send of a connection matches the k-th receive at its other
 * end, and their byte counts are equal (the plan has checked that; a link that sees a mismatch
 * fails with both counts). There are no tags. A link need not buffer, but may. A send may stay
 * pending indefinitely before its receive is posted: that is no failure. Sizes have no upper bound:
 * a link splits what its hardware cannot take at once. Data received into device memory is visible
 * to work that the device gets afterwards.
 *
 * One thread at a time enters a link object, with three exceptions tagged [any]: wake, abort and
 * the constant members. No call blocks except wait().
 *
 * A peer that is gone is WEFT_PEER, from any call that notices. Data is either delivered unchanged
 * or the connection fails.
 */
#ifndef WEFT_LINK_H
#define WEFT_LINK_H

#include <weft/plugin.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_link weft_link; /* all opaque, the plugin's */
typedef struct weft_conn weft_conn;
typedef struct weft_region weft_region;

#define WEFT_LINK_HOST 1u     /* sends from and receives into host memory */
#define WEFT_LINK_CUDA 2u     /* ... and CUDA memory */
#define WEFT_LINK_REGISTER 4u /* send and recv take registered memory only */
#define WEFT_LINK_MAP 8u      /* map() gives the peer's region in this address space */
#define WEFT_LINK_LOCAL 32u   /* reaches ranks of the same machine only */
/* The bit 16u has no name and gets none: a plugin of 0.9 may have set it, and the host ignores it.
 */

/* The kind of descriptor that register_memory() wants (device.h); with neither it is WEFT_FD_MAP.
 */
#define WEFT_LINK_FD_CUDA 64u
#define WEFT_LINK_FD_DMABUF 128u

typedef struct weft_link_args {
    uint32_t struct_size, flags;
    uint32_t rank, ranks;             /* in the whole job */
    uint32_t local_rank, local_ranks; /* on this machine */
    const weft_conf *conf;
    const char *bind_addr; /* the one local address to listen on, as text; never a wildcard */
    const char *job_id;    /* the same on all ranks of a job, unlike any other job's */
} weft_link_args;
WEFT_FREEZE(weft_link_args, job_id, 48);

/* The group and memory that a link would serve, for probe(). */
typedef struct weft_link_group {
    uint32_t struct_size, flags;
    uint32_t same_machine; /* 1 when all ranks of the group share one machine */
    uint32_t device_caps;  /* of the device whose memory is moved (device.h), the low 32 bits; with
                            * WEFT_DEV_HOST_MEMORY it may go through the host's, and without it the
                            * question is whether this machine's card reaches the device's own */
    const char *bind_addr; /* the local address that leads to the other ranks, as create() gets it;
                            * NULL: not known, as while a job is planned */
} weft_link_group;
WEFT_FREEZE(weft_link_group, bind_addr, 24);

/* A connection to begin. */
typedef struct weft_conn_args {
    uint32_t struct_size, flags;
    uint32_t peer;    /* its rank in the whole job */
    uint32_t channel; /* a number that both ends use, unique among the connections of the link with
                       * that peer; other links of the module may use it too */
    const void *address; /* what the peer's address() wrote */
    uint64_t bytes;
} weft_conn_args;
WEFT_FREEZE(weft_conn_args, bytes, 32);

/* Memory to register: the arena, of which `fd` is a descriptor of the kind in caps, or any host
 * memory, with -1; -1 also where the device has no such kind. */
typedef struct weft_memory {
    uint32_t struct_size, flags;
    void *base;
    uint64_t bytes;
    int32_t fd;
    uint32_t reserved;
} weft_memory;
WEFT_FREEZE(weft_memory, reserved, 32);

typedef struct weft_link_table {
    uint32_t struct_size;
    uint32_t channels; /* how many channels may have operations in flight at once; 0: any number */
    uint64_t caps;     /* WEFT_LINK_... */

    /* Score of the link for this group here; higher is better (a loopback tcp 10, shared memory 50,
     * an RDMA NIC 80). 0: not at all; the reason is recorded by weft_host.fail(), and the call
     * returns WEFT_OK. Also asked by `weft plan`, with bind_addr NULL. [setup] */
    weft_status (*probe)(void *module, const weft_conf *conf, const weft_link_group *group,
                         int32_t *score);

    weft_status (*create)(void *module, const weft_link_args *args, weft_link **out); /* [setup] */
    void (*destroy)(weft_link *l); /* closes what is open; NULL allowed. [setup] */

    /* Up to *bytes bytes that let any peer reach this rank; *bytes becomes their number (at most
     * 4096). The core carries them to the others over its authenticated store. What belongs to one
     * connection (a queue pair's number) its two ends tell each other in ready(). [setup] */
    weft_status (*address)(weft_link *l, void *out, uint64_t *bytes);

    /* Begin a connection; both ends call it, and the plugin decides who dials. Never blocks:
     * ready() returns WEFT_BUSY until both ends are up and have authenticated each other. The
     * dialer retries until it succeeds: the peer may be late, or busy with other sockets. ready()
     * may record why it is WEFT_BUSY; the core reports that at its deadline. A pair may connect
     * again on the same channel after both ends have disconnected. [setup] */
    weft_status (*connect)(weft_link *l, const weft_conn_args *args, weft_conn **out);
    weft_status (*ready)(weft_conn *c);

    /* On return no posted memory is accessed any more. NULL allowed. [setup] */
    void (*disconnect)(weft_conn *c);

    /* Post a send or a receive of `bytes` (0 is valid: a signal). The memory is borrowed until the
     * matching count of progress() has passed it. WEFT_BUSY: the queue is full (it holds 64 at
     * least), post again after progress(). `region` covers the memory when WEFT_LINK_REGISTER is
     * set, else NULL. [progress] */
    weft_status (*send)(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                        uint32_t flags);
    weft_status (*recv)(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                        uint32_t flags);

    /* Advance the transfers, and return how many sends and receives of this connection have
     * completed since it began: completions are counted in posting order, even if later ones finish
     * first. A completed send's memory may be written again. Valid without posted work. [progress]
     */
    weft_status (*progress)(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received);

    /* Sleep until a connection with posted work may make progress, wake() is called, or
     * `timeout_us` is over; early returns are fine. `spin_us` first polls that long without
     * sleeping. [progress] */
    weft_status (*wait)(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags);
    void (*wake)(weft_link *l); /* [any] */

    /* Make every call on this link that needs a peer fail with WEFT_PEER from now on, and let both
     * ends notice. Called once when the job has failed, before disconnect() at the latest.
     * Resources are still released by the usual calls. [any] */
    void (*abort)(weft_link *l);

    /* Register memory before connect(), deregister it after the last use (NULL allowed); destroy()
     * deregisters the rest. OPT with REGISTER or MAP [setup] */
    weft_status (*register_memory)(weft_link *l, const weft_memory *memory, weft_region **out);
    void (*deregister_memory)(weft_region *r);

    /* Up to *bytes bytes (4096) that a peer needs for map(), its length among them: map() checks
     * what it is given. OPT with WEFT_LINK_MAP [setup] */
    weft_status (*key)(weft_region *r, void *out, uint64_t *bytes);

    /* The peer's region mapped into this address space until destroy(), readable and writable by
     * the users of an arena of its kind (the host, or the device). What is written there before a
     * send is visible to the peer after the matching receive. The peer does not help: it may be in
     * the same call. OPT with WEFT_LINK_MAP [setup] */
    weft_status (*map)(weft_link *l, uint32_t peer, const void *key, uint64_t bytes, uint32_t flags,
                       void **base);

    void *reserved; /* NULL; a plugin of 0.9 may have set it (write()), and the host ignores it */

    /* What the link can do with these options, where that differs from the members caps and
     * channels: for a wrapper, which can do what the link behind it can. Both arguments hold these
     * members on entry, and may lose bits only. Asked before probe(). OPT [setup] */
    weft_status (*features)(void *module, const weft_conf *conf, uint64_t *caps,
                            uint32_t *channels);
} weft_link_table;
WEFT_FREEZE(weft_link_table, features, 168);

WEFT_EXTERN_C_END

#endif
