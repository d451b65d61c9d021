/* outside/socket.c: a transport from outside, over Unix sockets between processes of one user.
 *
 * The higher rank of a pair listens for each connection, at an abstract address made of the job's
 * id, both ranks and the channel; the lower one dials, and the other answers with a byte once it
 * has let it in. The kernel vouches for the user at the other end (SO_PEERCRED), which is all the
 * authentication that one machine and one user need. A message is its length in eight bytes, then
 * its bytes. */
#define _GNU_SOURCE
#include <weft/link.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { QUEUE = 64, CONNS = 64, GUESTS = 8 };

typedef struct message {
    char *at;
    uint64_t bytes, header, moved; /* header: the length on the wire; moved counts it, too */
} message;

typedef struct queue {
    message m[QUEUE];
    uint64_t posted, done;
} queue;

struct weft_conn {
    weft_link *link;
    uint32_t peer, channel;
    int door, fd, up; /* where it listens; up: the other end has asked for this connection, too */
    queue out, in;
};

struct weft_link {
    const weft_host *host;
    uint32_t rank;
    int event;
    atomic_int aborted;
    weft_conn *conns[CONNS];
    char job[73]; /* with ranks and channel it fits an address */
};

__attribute__((format(printf, 3, 4))) static weft_status fail(const weft_link *l, weft_status code,
                                                              const char *fmt, ...)
{
    char text[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return l->host->fail(l->host->ctx, code, text);
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static socklen_t address_of(const weft_conn *c, struct sockaddr_un *a)
{
    const uint32_t me = c->link->rank, low = me < c->peer ? me : c->peer;
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s-%x-%x-%x", c->link->job, low,
                     me + c->peer - low, c->channel);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int same_user(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) && who.uid == geteuid();
}

/* --- the link --- */

static weft_status probe(void *module, const weft_conf *conf, const weft_link_group *group,
                         int32_t *score)
{
    const weft_host *host = module;
    (void)conf;
    const weft_status st = weft_check_args(host, group, sizeof *group, 0);
    if (st != WEFT_OK)
        return st;
    *score = group->same_machine && (group->device_caps & 1) ? 5 : 0;
    if (!*score)
        (void)!host->fail(host->ctx, WEFT_UNSUPPORTED,
                          "it joins ranks of one machine, from host memory");
    return WEFT_OK;
}

static void destroy(weft_link *l)
{
    if (!l)
        return;
    shut(&l->event);
    l->host->free(l->host->ctx, l);
}

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *host = module;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_link *l = weft_new(host, sizeof *l, &st);
    if (!l)
        return st;
    l->host = host;
    l->rank = args->rank;
    snprintf(l->job, sizeof l->job, "%s", args->job_id);
    l->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->event < 0) {
        st = fail(l, WEFT_IO, "no descriptor of an event: %m");
        destroy(l);
        return st;
    }
    *out = l;
    return WEFT_OK;
}

static weft_status address(weft_link *l, void *out, uint64_t *bytes)
{
    (void)l, (void)out;
    *bytes = 0; /* the job's id and a rank say all */
    return WEFT_OK;
}

static void wake(weft_link *l)
{
    (void)!write(l->event, &(uint64_t){1}, 8);
}

static void abort_link(weft_link *l)
{
    atomic_store(&l->aborted, 1);
    wake(l);
}

/* The thread that enters the link ends its connections, so that the peers notice. */
static weft_status aborted(weft_link *l)
{
    if (!atomic_load(&l->aborted))
        return WEFT_OK;
    for (int i = 0; i < CONNS; i++)
        if (l->conns[i] && l->conns[i]->fd >= 0)
            shutdown(l->conns[i]->fd, SHUT_RDWR);
    return fail(l, WEFT_PEER, "the link was aborted");
}

/* --- connections --- */

/* The higher rank of the pair opens its door. */
static weft_status listen_at(weft_conn *c)
{
    struct sockaddr_un a;
    const socklen_t n = address_of(c, &a);
    c->door = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->door < 0 || bind(c->door, (struct sockaddr *)&a, n) || listen(c->door, GUESTS))
        return fail(c->link, WEFT_IO, "cannot listen for rank %u: %m", c->peer);
    return WEFT_OK;
}

static void disconnect(weft_conn *c)
{
    if (!c)
        return;
    for (int i = 0; i < CONNS; i++)
        if (c->link->conns[i] == c)
            c->link->conns[i] = NULL;
    shut(&c->door);
    shut(&c->fd);
    c->link->host->free(c->link->host->ctx, c);
}

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    int slot = 0;
    weft_status st = weft_check_args(l->host, args, sizeof *args, 0);
    while (slot < CONNS && l->conns[slot])
        slot++;
    if (st == WEFT_OK && slot == CONNS)
        st = fail(l, WEFT_NO_MEMORY, "more than %d connections", CONNS);
    weft_conn *c = weft_new(l->host, sizeof *c, &st);
    if (!c)
        return st;
    c->link = l;
    c->peer = args->peer;
    c->channel = args->channel;
    c->door = c->fd = -1;
    st = l->rank > c->peer ? listen_at(c) : WEFT_OK;
    if (st != WEFT_OK)
        disconnect(c);
    else
        l->conns[slot] = *out = c;
    return st;
}

static weft_status dial(weft_conn *c)
{
    struct sockaddr_un a;
    const socklen_t n = address_of(c, &a);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return fail(c->link, WEFT_IO, "no socket: %m");
    weft_status st = WEFT_BUSY;
    if (connect(c->fd, (struct sockaddr *)&a, n)) {
        if (errno != EAGAIN && errno != ECONNREFUSED) /* we may be early */
            st = fail(c->link, WEFT_PEER, "cannot dial rank %u: %m", c->peer);
        shut(&c->fd);
    } else if (!same_user(c->fd)) {
        st = fail(c->link, WEFT_PEER, "another user answers in the place of rank %u", c->peer);
        shut(&c->fd);
    }
    return st;
}

/* Whether the other end has answered. Until then it may also hang up: then dial again. */
static weft_status answered(weft_conn *c)
{
    char byte;
    const ssize_t n = recv(c->fd, &byte, 1, 0);
    c->up = n == 1;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        shut(&c->fd);
    return c->up ? WEFT_OK : WEFT_BUSY;
}

/* Let in the next one at the door; who has gone since is no peer. */
static weft_status let_in(weft_conn *c)
{
    char byte;
    c->fd = accept4(c->door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (c->fd < 0)
        return WEFT_BUSY;
    c->up = same_user(c->fd) && recv(c->fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN &&
            send(c->fd, "!", 1, MSG_NOSIGNAL) == 1;
    shut(c->up ? &c->door : &c->fd);
    return c->up ? WEFT_OK : WEFT_BUSY;
}

static weft_status ready(weft_conn *c)
{
    weft_link *l = c->link;
    if (atomic_load(&l->aborted))
        return aborted(l);
    if (c->up)
        return WEFT_OK;
    if (l->rank > c->peer)
        return let_in(c);
    return c->fd < 0 ? dial(c) : answered(c);
}

/* --- messages --- */

static weft_status post(weft_conn *c, queue *q, void *at, uint64_t bytes, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(c->link->host);
    const weft_status st = aborted(c->link);
    if (st != WEFT_OK)
        return st;
    if (q->posted - q->done == QUEUE)
        return WEFT_BUSY;
    q->m[q->posted++ % QUEUE] = (message){at, bytes, bytes, 0};
    return WEFT_OK;
}

static weft_status post_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *none,
                             uint32_t flags)
{
    (void)none;
    return post(c, &c->out, (void *)from, bytes, flags);
}

static weft_status post_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *none,
                             uint32_t flags)
{
    (void)none;
    return post(c, &c->in, to, bytes, flags);
}

/* Where the next byte of a message lies, and how many follow it there: header first, then body. */
static char *next_bytes(message *m, uint64_t *left)
{
    if (m->moved < sizeof m->header) {
        *left = sizeof m->header - m->moved;
        return (char *)&m->header + m->moved;
    }
    *left = m->bytes - (m->moved - sizeof m->header);
    return m->at + (m->moved - sizeof m->header);
}

/* Move what can be moved of one direction. */
static weft_status move(weft_conn *c, queue *q, int out)
{
    while (q->done < q->posted) {
        message *m = &q->m[q->done % QUEUE];
        uint64_t left;
        char *at = next_bytes(m, &left);
        ssize_t n = out ? send(c->fd, at, left, MSG_NOSIGNAL) : recv(c->fd, at, left, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return WEFT_OK;
        if (n <= 0)
            return fail(c->link, WEFT_PEER, "rank %u has hung up", c->peer);
        m->moved += (uint64_t)n;
        if (m->moved >= sizeof m->header && m->header != m->bytes)
            return fail(c->link, WEFT_PEER, "rank %u sent %llu bytes, and this rank expects %llu",
                        c->peer, (unsigned long long)m->header, (unsigned long long)m->bytes);
        if (m->moved == sizeof m->header + m->bytes)
            q->done++;
    }
    return WEFT_OK;
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    if (flags)
        return weft_refuse_unknown(c->link->host);
    weft_status st = aborted(c->link);
    if (st == WEFT_OK)
        st = move(c, &c->out, 1);
    if (st == WEFT_OK)
        st = move(c, &c->in, 0);
    if (st == WEFT_OK) {
        *sent = c->out.done;
        *received = c->in.done;
    }
    return st;
}

static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(l->host);
    struct pollfd fds[CONNS + 1] = {{.fd = l->event, .events = POLLIN}};
    nfds_t n = 1;
    (void)spin_us;
    const weft_status st = aborted(l);
    if (st != WEFT_OK)
        return st;
    for (int i = 0; i < CONNS; i++) {
        weft_conn *c = l->conns[i];
        if (!c || !c->up)
            continue;
        short events = (short)((c->in.done < c->in.posted ? POLLIN : 0) |
                               (c->out.done < c->out.posted ? POLLOUT : 0));
        if (events)
            fds[n++] = (struct pollfd){.fd = c->fd, .events = events};
    }
    struct timespec t = {timeout_us / 1000000, (long)(timeout_us % 1000000) * 1000};
    uint64_t woken;
    (void)!ppoll(fds, n, &t, NULL);
    (void)!read(l->event, &woken, sizeof woken);
    return WEFT_OK;
}

/* --- the plugin --- */

static const weft_link_table table = {
    .struct_size = sizeof table,
    .caps = WEFT_LINK_HOST | WEFT_LINK_LOCAL,
    .probe = probe,
    .create = create,
    .destroy = destroy,
    .address = address,
    .connect = connect_to,
    .ready = ready,
    .disconnect = disconnect,
    .send = post_send,
    .recv = post_recv,
    .progress = progress,
    .wait = wait_for,
    .wake = wake,
    .abort = abort_link,
};
static const weft_component component = {
    sizeof component, 0,   "weft.link/1", "acme.socket", "Unix sockets on one machine", NULL,
    &table,           NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.socket", "1", "", components, weft_open_host, NULL);
