/* verbs.h: the objects of the verbs transport, and what its files call of each other.
 *
 *   plugin.c         manifest, options, probe
 *   library.c        libibverbs, opened at run time
 *   device.c         which ports of which devices carry the traffic: the rails
 *   gid.c            which entry of a port's table of addresses is used
 *   link.c           the link: rails, side channels, abort
 *   wait.c           events and sleeping
 *   region.c         registered memory
 *   address.c        where a rank listens for side channels, as bytes
 *   listener.c       the socket on which peers dial, and who is let wait at it
 *   handshake.c      a side channel until it has proved itself: TLS, who is it, which connection
 *   endpoint_info.c  what peers need to know: queue pairs, where slots are
 *   connect.c        connections: begin, become ready, end
 *   pair.c           queue pairs: make, bring up, post to
 *   move.c           messages: post, progress
 *   slots.c          ... that are short, or whose memory is not registered: through slots there
 *   direct.c         ... that are long: into the memory of the receiver; writes into its regions
 *   record.c         what the ends tell each other meanwhile: credits, slots that are free again
 *   flush.c          makes what the NIC has written visible to a device
 *   failure.c        completions and events that are errors, as sentences
 *
 * A connection is one (peer, channel): up to PAIRS reliable connected queue pairs, spread over the
 * rails, and a TCP socket, the side channel. Over the socket both ends prove with the job's key who
 * they are before a queue pair is connected; afterwards it carries nothing, and its end says
 * without delay that the peer has left, which RDMA tells only those who send, and late.
 *
 * Everything that arrives takes a receive request and is announced by a completion: data by writes
 * with immediate (enum announced), records by sends. Memory is never polled, so no assumption is
 * made about the order in which a NIC writes. Requests are counted such that one is always there.
 */
#ifndef VERBS_VERBS_H
#define VERBS_VERBS_H

#define _GNU_SOURCE 1 /* accept4, epoll_pwait2 */

#include <weft/handshake.h>
#include <weft/host.h>
#include <weft/link.h>
#include <weft/pause.h>

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

enum {
    QUEUE = 128,        /* posted messages that a connection holds each way */
    RAILS = 4,          /* ports that a link uses at once */
    PAIRS = 16,         /* queue pairs of a connection */
    SEND_DEPTH = 256,   /* send requests that a queue pair holds */
    SIGNAL_EVERY = 32,  /* of them one at least completes with a word */
    RECORD = 64,        /* bytes of a record */
    SLOTS_MOST = 1024,  /* of a connection, each way */
    SLOT_MOST = 131072, /* bytes of one; what an announcement can count is twice that */
    STRIPE = 65536,     /* bytes below which a message is not cut for another queue pair */
    MARKS = 2048,       /* of messages, as announcements number them: enough to tell QUEUE apart */
    HELLO = WEFT_HANDSHAKE_BYTES, /* bytes that an end says of itself over the side channel ... */
    CARD = 512,                   /* ... and of its queue pairs */
    ADDRESS = 32,                 /* bytes of address() */
    PLACES = 24,                  /* accepted sockets that have not proved themselves, at once */
    WHY = 400,                    /* longest sentence */
    GRACE_US = 100000,            /* what a peer sent before it left has arrived by then */
    DRAIN_US = 2000000,           /* longest that disconnect() waits for what was sent to arrive */
    BLOCKED_US = 20000, /* without a credit so long, a sender says what it wants to send */
    KEY = 64            /* bytes of key() */
};

typedef struct verbs_api { /* of libibverbs; what it inlines goes through its objects */
    struct ibv_device **(*get_device_list)(int *n);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *d);
    struct ibv_context *(*open_device)(struct ibv_device *d);
    int (*close_device)(struct ibv_context *c);
    int (*query_device)(struct ibv_context *c, struct ibv_device_attr *out);
    int (*query_port)(struct ibv_context *c, uint8_t port, struct ibv_port_attr *out);
    ssize_t (*query_gid_table)(struct ibv_context *c, struct ibv_gid_entry *out, size_t most,
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

/* What an epoll event points at. */
enum source_kind { SOURCE_LISTENER, SOURCE_WAKE, SOURCE_GREETING, SOURCE_LINE, SOURCE_RAIL };
typedef struct source {
    int kind, fd;
    bool readable, writable;
    bool heard; /* something has come */
} source;

typedef union endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} endpoint;

/* --- rails --- */

typedef struct rail {       /* a port of a device */
    source events, trouble; /* completions to wake for; what befalls device and port */
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
    bool dead;           /* the device says that it has failed */
    struct ibv_qp *loop; /* flush.c: connected to itself, where a device's memory is registered */
    struct ibv_cq *loop_cq;
    struct ibv_mr *loop_mr;
    uint8_t landing[64];
    uint64_t loops, looped; /* reads posted, finished */
} rail;

typedef struct verbs_options {
    const char *devices;
    int port, gid; /* 0 and -1: choose */
    int traffic_class, service_level, mtu, timeout, retry, qps;
    uint32_t most_inline, eager, slots;
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

/* The bits of an immediate: kind (2), mark of the message (11), and a number (19): bytes in the
 * slot, or for MESSAGE_DATA how many stripes the message has. */
enum announced {
    MESSAGE_WHOLE, /* in the next slot: a message */
    MESSAGE_PART,  /* in the next slot: what follows of a message */
    MESSAGE_DATA   /* a stripe, written where the credit said */
};

/* What a request was for, in wr_id beside its pair and number. */
enum operation { OP_SLOT, OP_DATA, OP_RECORD, OP_WRITE, OP_LAST, OP_RECEIVE };

typedef struct credit { /* the peer's word on a receive that it has posted */
    uint64_t number;    /* of the message, from 1; 0: none */
    uint64_t at, bytes;
    uint32_t key[RAILS]; /* by the peer's rails */
    bool direct;         /* its memory can be written; else the message goes through slots */
} credit;

typedef struct message {
    uint8_t *at;
    uint64_t bytes, moved;
    weft_region *region;
    uint64_t number; /* which of those that the ends match, from 1; 0: matched with none */
    /* out */
    bool write;           /* a write into a region ... */
    uint64_t there;       /* ... to this address */
    uint32_t there_key;   /* ... with this key */
    uint64_t last[PAIRS]; /* the last request of each pair that belongs to it; 0: none */
    uint32_t first;       /* the pair of stripe 0 */
    uint32_t next_stripe; /* to be posted */
    uint64_t in_stripe;   /* bytes of it that are posted */
    /* in */
    bool direct; /* the peer was told to write into it */
    bool flushing;
    uint32_t arrived, stripes; /* 0: not known yet */
    uint64_t loops[RAILS];     /* flush.c */
} message;
typedef struct queue { /* messages posted - done */
    uint64_t posted, done;
    uint64_t issued;  /* out: all requests of these are posted. in: credits of these are sent */
    uint64_t matched; /* numbers given */
    message m[QUEUE];
} queue;

typedef struct qpair {
    struct ibv_qp *qp;
    uint32_t rail;                /* of the link */
    uint64_t posted, done, spoke; /* send requests: posted, known to be done, last with a word */
    uint32_t receives;            /* receive requests that it holds */
    uint32_t inlined;             /* bytes that a request can hold itself */
} qpair;

typedef struct pair_card {
    union ibv_gid gid;
    uint32_t number, first; /* of the queue pair; of its packets */
    uint16_t lid;
    uint8_t mtu, ethernet;
} pair_card;
typedef struct card {
    uint32_t pairs, rails, slots, slot_bytes, eager;
    uint32_t slots_key;
    uint64_t slots_at, longest;
    pair_card pair[PAIRS];
} card;

enum gone { GONE_NOT, GONE_LEFT, GONE_ABORTED, GONE_DIED };

struct weft_conn {
    source line; /* the side channel; first */
    weft_link *link;
    weft_conn *next;
    struct greeting *greeting;
    uint32_t peer, channel;
    endpoint to;       /* where the peer listens */
    uint32_t attempts; /* dialed in vain, so often */
    uint64_t dial_at;  /* us: the next attempt, while there is no greeting */
    bool joined;       /* the queue pairs know those of `theirs` */
    bool up, news;     /* news: wait() has found something for progress() */
    weft_status broken;
    enum gone gone;
    uint64_t gone_since, blocked_since; /* us; 0: not */
    uint32_t idle;                      /* calls of progress() that found nothing */

    card mine, theirs;
    uint32_t pairs;
    qpair pair[PAIRS];
    struct ibv_cq *cq[RAILS];
    bool armed[RAILS];
    uint8_t *memory; /* slots, staged slots, records received, records to send */
    uint64_t memory_bytes;
    struct ibv_mr *mr; /* of it, on the rail of pair 0 */
    uint8_t *slot, *staged, *heard, *said;

    uint32_t slots, slot_bytes;     /* what both ends have */
    uint32_t eager;                 /* messages up to this go through a slot unasked */
    uint64_t longest;               /* bytes of one request */
    uint64_t slots_out, slots_free; /* put so far; of those, free again at the peer */
    uint64_t *slot_request;         /* [slots] the request that carried the staged copy */
    uint64_t slots_in, slots_taken, slots_told; /* arrived, emptied, told to be free */
    uint32_t *arrival;                          /* [slots] immediates of those that arrived */

    uint32_t stripe_first; /* the pair where the next message's stripes begin */
    bool unordered;        /* a write on pair 0 may still be under way */
    credit credit[QUEUE];
    uint64_t issued_number;           /* of the message that was issued last */
    uint64_t want_told;               /* of the message that the peer was told of */
    uint64_t want_number, want_bytes; /* what the peer has told of */
    queue out, in;
    char why[WHY];
};

/* A socket on its way to a side channel. Dialers know their connection from the start, accepted
 * sockets are matched to one by what they say. */
enum phase { DIALING, SHAKING, HELLOING, MATCHING, ANSWERING, GOING };
typedef struct greeting {
    source io; /* first */
    struct greeting *next;
    weft_conn *conn; /* NULL: accepted and not matched yet */
    weft_tls *tls;
    enum phase phase;
    bool dialer, proved; /* proved: holds the job's key */
    uint32_t moved;      /* bytes of `text` in this phase */
    uint32_t rank, channel;
    uint64_t began; /* the link's setup clock, ms */
    bool final;     /* why it failed does not change with another attempt */
    uint8_t text[HELLO + CARD];
    char where[80]; /* the other end, for messages */
    char why[WHY];  /* why it failed, if we know */
} greeting;

struct weft_link {
    const weft_host *host;
    const weft_host_tls *tls;
    const verbs_api *api;
    verbs_options wish;
    uint32_t rank, ranks;
    uint32_t nrails;
    rail rail[RAILS];
    bool device_memory; /* a region is not the host's: nothing may be copied */
    int epoll;
    source listener, waker;
    endpoint bound;
    char job[128];
    weft_conn *conns;
    weft_region *regions;
    greeting *greetings;
    uint32_t strangers;     /* accepted and not proved */
    uint32_t dropped;       /* of them, those that broke the protocol */
    uint32_t turned_away;   /* of them, those that gave way to others */
    bool settled;           /* no connection is on its way up */
    bool listening;         /* epoll watches the listener */
    uint64_t clock, ticked; /* ms that were spent looking at new sockets; when that was last */
    atomic_bool aborted, woken;
    pthread_mutex_t lock; /* list and sockets of the connections, against abort() */
};

/* library.c */
weft_status verbs_load(verbs_module *m);

/* device.c */
weft_status verbs_wish(const weft_host *host, const weft_conf *conf, verbs_options *out);
weft_status verbs_rails(const weft_host *host, const verbs_api *api, const verbs_options *wish,
                        const endpoint *bound, rail *out, uint32_t *n);
void verbs_close_rail(const verbs_api *api, rail *r);
weft_status verbs_can_lock(const weft_host *host, uint64_t bytes);

/* gid.c */
int verbs_pick_gid(const struct ibv_gid_entry *table, int n, uint32_t port, const endpoint *bound,
                   bool *exact);
void verbs_print_gid(const struct ibv_gid_entry *e, char *out, size_t size);
void verbs_print_gids(const struct ibv_gid_entry *table, int n, uint32_t port, char *out,
                      size_t size);

/* link.c */
weft_status verbs_create(void *module, const weft_link_args *args, weft_link **out);
void verbs_destroy(weft_link *l);
void verbs_wake(weft_link *l);
void verbs_abort(weft_link *l);
weft_status verbs_fail(const weft_host *host, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* wait.c */
weft_status verbs_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us);
int verbs_events(weft_link *l, int64_t timeout_us); /* take events into the flags; their number */
weft_status verbs_watch(weft_link *l, source *s, int op);
uint64_t verbs_now_us(void);

/* region.c */
weft_status verbs_register(weft_link *l, void *base, uint64_t bytes, int32_t fd, weft_region **out);
void verbs_deregister(weft_region *r);
weft_status verbs_key(weft_region *r, void *out, uint64_t *bytes);
weft_status verbs_find(weft_conn *c, const void *key, uint64_t key_bytes, uint64_t offset,
                       uint64_t bytes, uint64_t *at, uint32_t *rkey);

/* address.c */
weft_status verbs_parse(const weft_host *host, const char *text, endpoint *out);
void verbs_pack(const endpoint *e, uint8_t out[ADDRESS]);
weft_status verbs_unpack(weft_link *l, uint32_t peer, const void *in, uint64_t bytes,
                         endpoint *out);
socklen_t verbs_length(const endpoint *e);
void verbs_print(const endpoint *e, char *out, size_t size);
bool verbs_is_loopback(const endpoint *e);

/* listener.c */
weft_status verbs_open_listener(weft_link *l);
void verbs_close_listener(weft_link *l);
weft_status verbs_listen(weft_link *l); /* open it when a connection waits for its peer */
void verbs_settle(weft_link *l);        /* close it when none does, and watch it for free places */
void verbs_accept(weft_link *l);

/* handshake.c */
void verbs_accepted(weft_link *l, int fd, const endpoint *from); /* an accepted socket */
weft_status verbs_dial(weft_conn *c);    /* begin an attempt; one that fails later is repeated */
void verbs_handshake_step(weft_link *l); /* take every greeting as far as it goes */
uint32_t verbs_pause_us(const weft_link *l); /* until verbs_handshake_step() has to look again */
void verbs_drop_handshake(weft_link *l, greeting *g);

/* endpoint_info.c */
void verbs_put_endpoint_info(const card *c, uint8_t out[CARD]);
bool verbs_get_endpoint_info(const uint8_t in[CARD], card *out); /* false: it cannot be */
void verbs_put(uint8_t *at, uint64_t v, int bytes);
uint64_t verbs_get(const uint8_t *at, int bytes);

/* connect.c */
weft_status verbs_address(weft_link *l, void *out, uint64_t *bytes);
weft_status verbs_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                          uint64_t bytes, weft_conn **out);
weft_status verbs_ready(weft_conn *c);
void verbs_disconnect(weft_conn *c);
weft_status verbs_usable(weft_conn *c); /* not broken and not aborted */
void verbs_adopt(weft_conn *c, int fd);

/* pair.c */
weft_status verbs_make_pairs(weft_conn *c); /* and say so in c->mine */
weft_status verbs_join_pairs(weft_conn *c); /* with those of c->theirs */
void verbs_free_pairs(weft_conn *c);
bool verbs_room(const qpair *p);
weft_status verbs_post(weft_conn *c, uint32_t pair, enum operation op, struct ibv_send_wr *wr,
                       bool speak);
weft_status verbs_take_back(weft_conn *c, uint32_t pair, uint64_t request); /* a receive request */
uint8_t verbs_timeout_code(double seconds);
double verbs_patience(const verbs_options *o); /* seconds until a request counts as lost */

/* move.c */
weft_status verbs_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region);
weft_status verbs_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region);
weft_status verbs_write(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                        const void *key, uint64_t key_bytes, uint64_t offset, int32_t notify);
weft_status verbs_progress(weft_conn *c, uint64_t *sent, uint64_t *received);
bool verbs_poll(weft_conn *c);        /* take completions; did any come? */
bool verbs_waits(const weft_conn *c); /* is anything posted and not finished? */

/* slots.c: each says whether it could do all of what it is for */
bool verbs_put_slots(weft_conn *c, message *m);
bool verbs_put_signal(weft_conn *c, uint64_t number);
bool verbs_take_slots(weft_conn *c, message *m);
weft_status verbs_slot_arrived(weft_conn *c, uint32_t imm);
uint32_t verbs_mark(enum announced kind, uint64_t number, uint64_t count);
weft_status verbs_unequal(weft_conn *c, uint64_t number, uint64_t sent, uint64_t expected);

/* direct.c */
bool verbs_put_stripes(weft_conn *c, message *m, const credit *to);
bool verbs_put_write(weft_conn *c, message *m);
weft_status verbs_stripe_arrived(weft_conn *c, uint32_t imm);

/* record.c */
bool verbs_give_credit(weft_conn *c, message *m);
bool verbs_tell_free(weft_conn *c);
bool verbs_tell_want(weft_conn *c, const message *m);
weft_status verbs_record(weft_conn *c, const uint8_t *text, uint32_t bytes);
void verbs_compare(weft_conn *c); /* what the peer has told of with what is posted */

/* flush.c */
weft_status verbs_begin_loops(weft_link *l); /* once the link has a device's memory */
bool verbs_flushed(weft_conn *c, message *m);
void verbs_end_loop(const verbs_api *api, rail *r);

/* failure.c */
weft_status verbs_break(weft_conn *c, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
weft_status verbs_bad(weft_conn *c, const struct ibv_wc *wc); /* a completion that is an error */
void verbs_trouble(weft_link *l, rail *r);                    /* take the device's events */
void verbs_judge(weft_conn *c); /* nothing moves: has the other end left, is a port down? */
void verbs_read_line(weft_conn *c);

#endif
