/* ucx.h: the objects of the ucx transport, and what its files call of each other.
 *
 *   plugin.c    manifest, options, probe
 *   library.c   libucp, opened at run time and kept off the process's signals
 *   limits.c    descriptors and threads that UCX takes for granted
 *   log.c       what UCX would print goes to the host's log
 *   context.c   a UCX context: its settings, and which transports it has found
 *   link.c      the link: create, destroy, sleep, abort; how ucx uses sockets
 *   address.c   what address() tells the peers
 *   endpoint.c  UCX endpoints, one for each connection
 *   hello.c     the first message in each direction
 *   connect.c   connections: begin, become ready, end
 *   move.c      messages: post, progress
 *   failure.c   peers that have left, and what UCX reports, as sentences
 *
 * A connection is one (peer, channel). It has a TCP socket, the side channel, which
 * plugins/comm/sockets sets up, and messages of UCX's tag interface. UCX neither authenticates nor
 * encrypts. So both ends authenticate over the socket with the job's key, inside TLS; there each
 * tells the other a random tag of 63 bits, and only then an endpoint is made. Messages that do not
 * carry the tag of a connection match no receive. The first message in each direction is a hello
 * with the sender's own tag: with it a connection is ready.
 *
 * Afterwards the socket is silent until one end leaves or aborts. UCX looks for dead peers every 20
 * seconds, and over shared memory it may not see them; the end of the socket is reported at once.
 *
 * UCX keeps the order of messages with one tag and endpoint. It makes one completion a message, in
 * any order; this transport counts them in the order of posting.
 *
 * Threads: each link has a UCX context and a worker of its own, in UCX's mode "serialized": one
 * thread at a time enters it. wake() and abort() do not call UCX.
 */
#ifndef UCX_UCX_H
#define UCX_UCX_H

#include "sockets.h"

#include <weft/pause.h>

#include <ucp/api/ucp.h>

enum {
    QUEUE = 128,        /* posted messages that a connection holds each way */
    DESCRIPTION = 16,   /* bytes that two ends tell each other behind the hello of the socket */
    ADDRESS_HEAD = 64,  /* bytes of address() before the worker's own */
    ADDRESS_MAX = 4096, /* bytes of address() */
    GRACE_US = 100000,  /* without a message; all that a peer has sent is here by then */
    DRAIN_US = 2000000, /* longest wait for that, and of disconnect() for what was sent */
    LOOK_EVERY = 64,    /* calls of progress() that found nothing, until the socket is looked at */
    NAMES = 200         /* bytes of the list of transports */
};

/* The functions of libucp and libucs that are used. */
typedef struct ucx_api {
    void (*get_version)(unsigned *major, unsigned *minor, unsigned *release);
    const char *(*status_string)(ucs_status_t status);
    ucs_status_t (*config_read)(const char *prefix, const char *file, ucp_config_t **out);
    ucs_status_t (*config_modify)(ucp_config_t *c, const char *key, const char *value);
    void (*config_release)(ucp_config_t *c);
    ucs_status_t (*init_version)(unsigned major, unsigned minor, const ucp_params_t *params,
                                 const ucp_config_t *config, ucp_context_h *out);
    void (*cleanup)(ucp_context_h context);
    void (*context_print_info)(const ucp_context_h context, FILE *to);
    ucs_status_t (*worker_create)(ucp_context_h context, const ucp_worker_params_t *params,
                                  ucp_worker_h *out);
    void (*worker_destroy)(ucp_worker_h worker);
    ucs_status_t (*worker_get_address)(ucp_worker_h worker, ucp_address_t **out, size_t *bytes);
    void (*worker_release_address)(ucp_worker_h worker, ucp_address_t *address);
    ucs_status_t (*worker_get_efd)(ucp_worker_h worker, int *fd);
    ucs_status_t (*worker_arm)(ucp_worker_h worker);
    unsigned (*worker_progress)(ucp_worker_h worker);
    ucs_status_t (*ep_create)(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *out);
    ucs_status_ptr_t (*ep_close)(ucp_ep_h ep, const ucp_request_param_t *how);
    ucs_status_ptr_t (*tag_send)(ucp_ep_h ep, const void *from, size_t bytes, ucp_tag_t tag,
                                 const ucp_request_param_t *how);
    ucs_status_ptr_t (*tag_recv)(ucp_worker_h worker, void *to, size_t bytes, ucp_tag_t tag,
                                 ucp_tag_t mask, const ucp_request_param_t *how);
    ucp_tag_message_h (*tag_probe)(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t mask, int take,
                                   ucp_tag_recv_info_t *info);
    ucs_status_t (*request_check)(void *request);
    void (*request_cancel)(ucp_worker_h worker, void *request);
    void (*request_free)(void *request);
    void (*log_push_handler)(void *handler); /* NULL where this version has none */
} ucx_api;

typedef struct ucx_module {
    const weft_host *host;
    ucx_api api;
    bool loaded;
    unsigned major, minor; /* of the library */
} ucx_module;

/* What a context can use, from its own list of resources. */
typedef struct ucx_found {
    char names[NAMES]; /* "posix/memory, rc_mlx5/mlx5_0:1" */
    bool rdma, tcp;
} ucx_found;

typedef struct message {
    weft_conn *conn;
    void *at;
    uint64_t bytes, came; /* `came`: the bytes that the sender has sent, of a receive */
    void *request;        /* UCX's, while it is in flight */
    bool finished;
    ucs_status_t status;
} message;

/* One direction of a connection. Messages done to posted are unfinished, and those from `issued` on
 * are unknown to UCX. */
typedef struct queue {
    uint64_t posted, issued, done;
    message m[QUEUE];
} queue;

enum gone { GONE_NOT, GONE_LEFT, GONE_DIED, GONE_ABORTED };

struct weft_conn {
    sockets_peer peer; /* first */
    weft_link *link;
    uint8_t address[ADDRESS_MAX]; /* the peer's */
    uint64_t address_bytes;
    uint64_t mine, theirs; /* tags of what this end receives, of what it sends; hello: plus 1 */
    bool joined, came, greeted, ready; /* the hello: has come, is sent, both */
    ucp_ep_h ep;                       /* NULL before it is made, and once it is closed */
    ucs_status_t failed;               /* of the endpoint */
    message hello_out, hello_in;
    uint64_t hello_mine, hello_theirs; /* their memory */
    bool unseen;                       /* a message has finished since progress() last looked */
    uint32_t idle;
    enum gone gone;
    uint64_t looked, gone_for, quiet; /* us: last look at one that is gone; time in looks since it
                                         is so, since something has moved */
    uint64_t moves;                   /* the link's, at that look */
    queue out, in;
};

struct weft_link {
    sockets_link net;
    const ucx_module *module;
    const ucx_api *api;
    ucp_context_h context;
    ucp_worker_h worker;
    ucx_found found;
    sockets_source events; /* the worker's descriptor */
    uint64_t moves;        /* turns of UCX that have done something */
    ucp_address_t *address;
    size_t address_bytes;
};

static inline weft_conn *ucx_first(const weft_link *l)
{
    return (weft_conn *)l->net.peers;
}

static inline weft_conn *ucx_next(const weft_conn *c)
{
    return (weft_conn *)c->peer.next;
}

static inline bool ucx_has_posted(const weft_conn *c)
{
    return c->out.done < c->out.posted || c->in.done < c->in.posted;
}

/* log.c */
void ucx_log_to(const ucx_module *m); /* from now on, for all of UCX in this process */
void ucx_log_end(const ucx_module *m);

/* limits.c: WEFT_ABSENT, with the limit and how to raise it; before any call of UCX */
weft_status ucx_check_limits(const ucx_module *m);

/* library.c */
weft_status ucx_load(ucx_module *m, const weft_conf *conf);

/* context.c; `bound`: this rank's address, or NULL where it is not known */
weft_status ucx_open_context(const ucx_module *m, const weft_conf *conf,
                             const sockets_endpoint *bound, uint32_t ranks, ucp_context_h *out,
                             ucx_found *found);

/* link.c */
weft_status ucx_create(void *module, const weft_link_args *args, weft_link **out);
void ucx_destroy(weft_link *l);
weft_status ucx_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us);
void ucx_wake(weft_link *l);
void ucx_abort(weft_link *l);

/* address.c */
weft_status ucx_address(weft_link *l, void *out, uint64_t *bytes);
weft_status ucx_check_address(weft_link *l, uint32_t rank, const void *address, uint64_t bytes);

/* endpoint.c */
weft_status ucx_open_endpoint(weft_conn *c);
void ucx_close_endpoint(weft_conn *c, bool force);

/* hello.c */
void ucx_greet(weft_link *l); /* advance the hellos of all connections */

/* connect.c */
weft_status ucx_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                        uint64_t bytes, weft_conn **out);
weft_status ucx_ready(weft_conn *c);
void ucx_disconnect(weft_conn *c);
void ucx_describe(const sockets_peer *p, uint8_t *out);
weft_status ucx_join(sockets_peer *p, const uint8_t *theirs);

/* move.c */
void ucx_issue_send(message *m, ucp_tag_t tag);
void ucx_issue_recv(message *m, ucp_tag_t tag);
void ucx_issue(weft_conn *c); /* what is posted and unknown to UCX */
bool ucx_turn(weft_link *l);  /* let UCX work; true: it has done something */
weft_status ucx_send(weft_conn *c, const void *from, uint64_t bytes);
weft_status ucx_recv(weft_conn *c, void *to, uint64_t bytes);
weft_status ucx_progress(weft_conn *c, uint64_t *sent, uint64_t *received);

/* failure.c */
void ucx_events(weft_link *l, int64_t timeout_us); /* sockets_events(), and the side channels */
weft_status ucx_message_failed(weft_conn *c, const message *m, bool sending);
void ucx_check_peer(weft_conn *c); /* break a connection whose peer is gone */

#endif
