/* verbs.h: the objects of the verbs transport, and what its files call of each other.
 *
 *   plugin.c         manifest, options, probe
 *   library.c        libibverbs, opened at run time
 *   device.c         the rails: which ports of which devices carry the traffic
 *   gid.c            which entry of a port's table of addresses is used
 *   link.c           the link: create, destroy, abort; how verbs uses sockets
 *   wait.c           events and sleeping
 *   region.c         registered memory
 *   endpoint_info.c  what two peers need to know of each other, as bytes
 *   connect.c        connections: begin, become ready, end
 *   pair.c           queue pairs: create, connect, post requests
 *   move.c           messages: post, progress
 *   slots.c          messages that are short, or not in registered memory: through slots
 *   direct.c         long messages, written into the receiver's memory
 *   record.c         control messages of a connection: credits, free slots, wants
 *   flush.c          makes what the NIC has written visible to a device
 *   failure.c        failed completions and asynchronous events, as sentences
 *
 * A connection is one (peer, channel). It has up to PAIRS reliable connected queue pairs, spread
 * over the rails, and a TCP socket, the side channel, which plugins/comm/sockets sets up. Over the
 * socket both ends authenticate with the job's key and exchange their endpoint_info before a queue
 * pair is connected. Afterwards it is silent until one end leaves or aborts. RDMA reports a dead
 * peer only to senders, and late; the end of the socket is reported at once.
 *
 * Everything that arrives consumes a receive request and makes a completion: data by writes with
 * immediate (enum announcement), records by sends. Memory is never polled, so the order in which a
 * NIC writes does not matter. Receive requests are counted so that one is always posted (pair.c).
 */
#ifndef VERBS_VERBS_H
#define VERBS_VERBS_H

#include "sockets.h"

#include <weft/pause.h>

#include <infiniband/verbs.h>

enum {
    QUEUE = 128,       /* posted messages that a connection holds each way */
    RAILS = 4,         /* ports that a link uses at once */
    PAIRS = 16,        /* queue pairs of a connection */
    SEND_DEPTH = 256,  /* send requests that a queue pair holds */
    SIGNAL_EVERY = 32, /* of them one at least is signaled, that is, makes a completion */
    RECORD = 64,       /* bytes of a record */
    SLOTS_MAX = 1024,  /* slots of a connection, each way */
    SLOT_MAX = 131072, /* bytes of one; an immediate can count twice as many */
    STRIPE = 65536,    /* bytes below which a message is not split over queue pairs */
    NUMBERS = 2048,    /* message numbers are announced modulo this, well above QUEUE */
    ENDPOINT_BYTES = SOCKETS_EXTRA, /* of endpoint_info, behind a hello or an answer */
    GRACE_US = 100000,              /* what a peer sent before it left has arrived by then */
    DRAIN_US = 2000000, /* longest that disconnect() waits until what was sent has arrived */
    BLOCKED_US = 20000  /* after this long without a credit a sender sends a want */
};

typedef struct verbs_api { /* of libibverbs; what it inlines goes through its objects */
    struct ibv_device **(*get_device_list)(int *n);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *d);
    struct ibv_context *(*open_device)(struct ibv_device *d);
    int (*close_device)(struct ibv_context *c);
    int (*query_device)(struct ibv_context *c, struct ibv_device_attr *out);
    int (*query_port)(struct ibv_context *c, uint8_t port, struct ibv_port_attr *out);
    ssize_t (*query_gid_table)(struct ibv_context *c, struct ibv_gid_entry *out, size_t max,
                               uint32_t flags, size_t size);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *c);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *at, size_t bytes, int access);
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access); /* NULL in older ones */
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *c);
    int (*destroy_comp_channel)(struct ibv_comp_channel *c);
    struct ibv_cq *(*create_cq)(struct ibv_context *c, int entries, void *mine,
                                struct ibv_comp_channel *events, int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *c, struct ibv_cq **cq, void **mine);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *how);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *to, int what);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*get_async_event)(struct ibv_context *c, struct ibv_async_event *out);
    void (*ack_async_event)(struct ibv_async_event *e);
} verbs_api;

typedef struct verbs_module {
    const weft_host *host;
    verbs_api api;
    bool loaded;
} verbs_module;

/* --- rails --- */

typedef struct rail {                  /* a port of a device */
    sockets_source completions, async; /* descriptors: of the completion channel; of the device */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    char name[IBV_SYSFS_NAME_MAX];
    uint8_t port;
    uint8_t gid_index;
    bool ethernet;
    union ibv_gid gid;
    uint16_t lid;
    uint8_t mtu;         /* enum ibv_mtu */
    uint64_t longest;    /* bytes of one request */
    uint64_t down_since; /* us; 0: the port is up */
    bool dead;           /* the device has reported that it failed */
    struct ibv_qp *loop; /* flush.c: the loopback queue pair, if a device's memory is registered */
    struct ibv_cq *loop_cq;
    struct ibv_mr *loop_mr;
    uint8_t flush_target[64];
    uint64_t loops, looped; /* reads posted, completed */
} rail;

typedef struct verbs_options {
    const char *devices;
    int port, gid; /* 0 and -1: choose */
    int traffic_class, service_level, mtu, timeout, retry, qps;
    uint32_t max_inline, eager, slots;
} verbs_options;

struct weft_region {
    weft_link *link;
    weft_region *next;
    uint8_t *base;
    uint64_t bytes;
    bool device; /* memory that the host cannot touch */
    struct ibv_mr *mr[RAILS];
};

/* --- connections --- */

/* The kind in an immediate. Its bits: kind (2), number of the message modulo NUMBERS (11), and a
 * count (19): bytes in the slot, or for MESSAGE_DATA the stripes of the message. */
enum announcement {
    MESSAGE_WHOLE, /* in the next slot: a whole message */
    MESSAGE_PART,  /* in the next slot: the next part of a message */
    MESSAGE_DATA   /* a stripe, written to the address in the credit */
};

/* What a request does; in wr_id, with its pair and number. */
enum operation { OP_SLOT, OP_DATA, OP_RECORD, OP_DRAIN, OP_RECEIVE };

typedef struct credit { /* permission from the peer, for a receive that it has posted */
    uint64_t number;    /* of the message, from 1; 0: none */
    uint64_t at, bytes;
    uint32_t key[RAILS]; /* by the peer's rails */
    bool direct;         /* write into its memory; else send through slots */
} credit;

typedef struct message {
    uint8_t *at;
    uint64_t bytes, moved;
    weft_region *region;
    uint64_t number; /* from 1, the same at both ends */
    /* of a send */
    uint64_t last[PAIRS]; /* its last request on each pair; 0: none */
    uint32_t first;       /* the pair of stripe 0 */
    uint32_t next_stripe; /* to be posted */
    uint64_t in_stripe;   /* bytes of it that are posted */
    /* of a receive */
    bool direct;               /* a credit allows the peer to write into it */
    uint32_t arrived, stripes; /* 0: not known yet */
    uint64_t loops[RAILS];     /* flush.c: the read on each rail; 0: none */
} message;
typedef struct queue { /* messages `done` to `posted` are unfinished */
    uint64_t posted, done;
    uint64_t issued; /* out: all requests of these are posted; in: credits of these are sent */
    message m[QUEUE];
} queue;

typedef struct qpair {
    struct ibv_qp *qp;
    uint32_t rail;                   /* of the link */
    uint64_t posted, done, signaled; /* send requests: posted, known to be done, last signaled */
    uint32_t inlined;                /* bytes that a request can contain itself */
} qpair;

typedef struct pair_info {
    union ibv_gid gid;
    uint32_t number, first; /* of the queue pair; of its packets */
    uint16_t lid;
    uint8_t mtu, ethernet;
} pair_info;
typedef struct endpoint_info {
    uint32_t pairs, rails, slots, slot_bytes, eager;
    uint32_t slots_key;
    uint64_t slots_at, longest;
    pair_info pair[PAIRS];
} endpoint_info;

/* How the other end of the side channel ended: by disconnect(), by abort(), or without a byte. */
enum gone { GONE_NOT, GONE_LEFT, GONE_ABORTED, GONE_DIED };

struct weft_conn {
    sockets_peer peer; /* first; its socket is the side channel */
    weft_link *link;
    bool joined; /* the queue pairs are connected to those of `theirs` */
    bool unseen; /* wait() has found completions that progress() has not acted on */
    enum gone gone;
    uint64_t looked, gone_for; /* us: last look at one that is gone; time in looks, all in vain */
    uint64_t blocked_since;    /* us; 0: not */
    uint32_t idle;             /* calls of progress() that found nothing */

    endpoint_info mine, theirs;
    uint32_t pairs;
    qpair pair[PAIRS];
    struct ibv_cq *cq[RAILS];
    bool armed[RAILS];
    uint8_t *memory; /* slots, staging copies, records in, records out */
    uint64_t memory_bytes;
    struct ibv_mr *mr; /* of it, on the rail of pair 0 */
    uint8_t *slot, *staged, *records_in, *records_out;

    uint32_t slots, slot_bytes;     /* the smaller of both ends, as the next two */
    uint32_t eager;                 /* messages up to this go through a slot without a credit */
    uint64_t longest;               /* bytes of one request */
    uint64_t slots_out, slots_free; /* filled so far; of those, free again at the peer */
    uint64_t *slot_request;         /* [slots] the request that carried the staging copy */
    uint64_t slots_in, slots_taken, slots_reported; /* arrived, emptied, reported as free */
    uint32_t *arrival;                              /* [slots] immediates of those that arrived */

    uint32_t stripe_first; /* the pair of the next message's first stripe */
    credit credit[QUEUE];
    uint64_t want_sent;               /* of the message that the last want was for */
    uint64_t want_number, want_bytes; /* of the peer's last want */
    queue out, in;
};

struct weft_link {
    sockets_link net;
    const verbs_api *api;
    verbs_options options;
    uint32_t nrails;
    rail rail[RAILS];
    bool device_memory; /* a region is a device's: the host cannot copy it */
    weft_region *regions;
};

static inline weft_conn *verbs_first(const weft_link *l)
{
    return (weft_conn *)l->net.peers;
}

static inline weft_conn *verbs_next(const weft_conn *c)
{
    return (weft_conn *)c->peer.next;
}

/* library.c */
weft_status verbs_load(verbs_module *m);

/* device.c */
weft_status verbs_read_options(const weft_host *host, const weft_conf *conf, verbs_options *out);
weft_status verbs_rails(const weft_host *host, const verbs_api *api, const verbs_options *options,
                        const sockets_endpoint *bound, rail *out, uint32_t *n);
void verbs_close_rail(const verbs_api *api, rail *r);
weft_status verbs_can_lock(const weft_host *host, uint64_t bytes);

/* gid.c */
int verbs_pick_gid(const struct ibv_gid_entry *table, int n, uint32_t port,
                   const sockets_endpoint *bound, bool *exact);
void verbs_print_gid(const struct ibv_gid_entry *e, char *out, size_t size);
void verbs_print_gids(const struct ibv_gid_entry *table, int n, uint32_t port, char *out,
                      size_t size);

/* link.c */
weft_status verbs_create(void *module, const weft_link_args *args, weft_link **out);
void verbs_destroy(weft_link *l);
void verbs_wake(weft_link *l);
void verbs_abort(weft_link *l);

/* wait.c */
weft_status verbs_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us);
int verbs_events(weft_link *l, int64_t timeout_us); /* take events into the flags; their number */

/* region.c */
weft_status verbs_register(weft_link *l, void *base, uint64_t bytes, int32_t fd, weft_region **out);
void verbs_deregister(weft_region *r);

/* endpoint_info.c */
void verbs_put_endpoint_info(const endpoint_info *c, uint8_t out[ENDPOINT_BYTES]);
bool verbs_get_endpoint_info(const uint8_t in[ENDPOINT_BYTES],
                             endpoint_info *out); /* false: not valid */
void verbs_put(uint8_t *at, uint64_t v, int bytes);
uint64_t verbs_get(const uint8_t *at, int bytes);

/* connect.c */
weft_status verbs_address(weft_link *l, void *out, uint64_t *bytes);
weft_status verbs_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                          uint64_t bytes, weft_conn **out);
weft_status verbs_ready(weft_conn *c);
void verbs_disconnect(weft_conn *c);
void verbs_describe(const sockets_peer *p, uint8_t *out); /* for sockets_transport, as the next */
weft_status verbs_join(sockets_peer *p, const uint8_t *theirs);

/* pair.c */
weft_status verbs_make_pairs(weft_conn *c); /* and describe them in c->mine */
weft_status verbs_join_pairs(weft_conn *c); /* connect them to those of c->theirs */
void verbs_free_pairs(weft_conn *c);
bool verbs_capacity(const qpair *p); /* for a send request */
weft_status verbs_post(weft_conn *c, uint32_t pair, enum operation op, struct ibv_send_wr *wr,
                       bool signal);
weft_status verbs_post_receive(weft_conn *c, uint32_t pair, uint64_t request);
uint8_t verbs_timeout_code(double seconds);
double verbs_retry_seconds(const verbs_options *o); /* until a request counts as lost */

/* move.c */
weft_status verbs_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region);
weft_status verbs_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region);
weft_status verbs_progress(weft_conn *c, uint64_t *sent, uint64_t *received);
bool verbs_poll(weft_conn *c);             /* take completions; true: some came */
bool verbs_has_posted(const weft_conn *c); /* something is posted and not finished */

/* slots.c: true: all of it was done */
bool verbs_put_slots(weft_conn *c, message *m);
bool verbs_take_slots(weft_conn *c, message *m);
weft_status verbs_slot_arrived(weft_conn *c, uint32_t imm);
uint32_t verbs_immediate(enum announcement kind, uint64_t number, uint64_t count);
weft_status verbs_length_mismatch(weft_conn *c, uint64_t number, uint64_t sent, uint64_t expected);

/* direct.c: true: all requests are posted */
bool verbs_put_stripes(weft_conn *c, message *m, const credit *to);
weft_status verbs_stripe_arrived(weft_conn *c, uint32_t imm);

/* record.c: true: it was sent */
bool verbs_send_credit(weft_conn *c, message *m);
bool verbs_send_free(weft_conn *c);
bool verbs_send_want(weft_conn *c, const message *m);
weft_status verbs_record(weft_conn *c, const uint8_t *text, uint32_t bytes);
void verbs_compare_want(weft_conn *c); /* the peer's last want with the posted receive */

/* flush.c */
weft_status verbs_open_loopbacks(weft_link *l); /* once a device's memory is registered */
bool verbs_flushed(weft_conn *c, message *m);   /* it has arrived: does the device see it? */
void verbs_close_loopback(const verbs_api *api, rail *r);

/* failure.c */
weft_status verbs_completion_failed(weft_conn *c, const struct ibv_wc *wc);
void verbs_async_events(weft_link *l, rail *r); /* take the events of the device */
void verbs_check_stall(weft_conn *c); /* nothing moves: has the peer left, is a port down? */
void verbs_read_side_channel(weft_conn *c);

#endif
