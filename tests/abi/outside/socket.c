/* outside/socket.c: a transport from outside, over Unix sockets between processes of one user.
 *
 * Each rank listens at an abstract address made of the job's id and its rank. Of two ranks the
 * lower one dials, and says with its first eight bytes who it is and for which channel; the other
 * answers with a byte once it wants that connection. The kernel vouches for the user at the other
 * end (SO_PEERCRED), which is all the authentication that one machine and one user need. A message
 * is its length in eight bytes, then its bytes. */
#define _GNU_SOURCE
#include <weft/link.h>

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { QUEUE = 64, CONNS = 64 };

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
    int fd, up; /* up: the other end has asked for this connection, too */
    queue out, in;
};

typedef struct guest { /* dialled us before we knew of the connection */
    int fd;
    uint32_t name[2], got;
} guest;

struct weft_link {
    const weft_host *host;
    uint32_t rank;
    int fd, event;
    atomic_int aborted;
    weft_conn *conns[CONNS];
    guest guests[CONNS];
    char name[100]; /* of the abstract address, without its rank */
};

static weft_status failed(weft_link *l, weft_status code, const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    return l->host->fail(l->host->ctx, code, text);
}

static weft_status gone(weft_conn *c)
{
    char text[80];
    snprintf(text, sizeof text, "rank %u has hung up", c->peer);
    return c->link->host->fail(c->link->host->ctx, WEFT_PEER, text);
}

static socklen_t address_of(const weft_link *l, uint32_t rank, struct sockaddr_un *a)
{
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s-%u", l->name, rank);
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
    for (int i = 0; i < CONNS; i++)
        if (l->guests[i].fd >= 0)
            close(l->guests[i].fd);
    if (l->fd >= 0)
        close(l->fd);
    if (l->event >= 0)
        close(l->event);
    l->host->free(l->host->ctx, l);
}

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *host = module;
    struct sockaddr_un a;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    if (st != WEFT_OK)
        return st;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (!l)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for a link");
    l->host = host;
    l->rank = args->rank;
    for (int i = 0; i < CONNS; i++)
        l->guests[i].fd = -1;
    snprintf(l->name, sizeof l->name, "acme-%.80s", args->job_id);
    l->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t n = address_of(l, l->rank, &a);
    if (l->event < 0 || l->fd < 0 || bind(l->fd, (struct sockaddr *)&a, n) ||
        listen(l->fd, CONNS)) {
        st = failed(l, WEFT_IO, "cannot listen");
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
    return l->host->fail(l->host->ctx, WEFT_PEER, "the link was aborted");
}

/* --- connections --- */

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    int slot = 0;
    if (weft_check_args(l->host, args, sizeof *args, 0) != WEFT_OK)
        return WEFT_UNSUPPORTED;
    while (slot < CONNS && l->conns[slot])
        slot++;
    weft_conn *c = slot < CONNS ? l->host->alloc(l->host->ctx, sizeof *c, 0) : NULL;
    if (!c)
        return l->host->fail(l->host->ctx, WEFT_NO_MEMORY, "too many connections");
    c->link = l;
    c->peer = args->peer;
    c->channel = args->channel;
    c->fd = -1;
    l->conns[slot] = *out = c;
    return WEFT_OK;
}

/* Dial once; the greeting is small enough to go out whole. */
static weft_status dial(weft_conn *c)
{
    struct sockaddr_un a;
    uint32_t greeting[2] = {c->link->rank, c->channel};
    socklen_t n = address_of(c->link, c->peer, &a);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return failed(c->link, WEFT_IO, "no socket");
    if (connect(fd, (struct sockaddr *)&a, n)) {
        int early = errno == EAGAIN || errno == ECONNREFUSED;
        weft_status st = early ? WEFT_BUSY : failed(c->link, WEFT_PEER, "cannot dial");
        close(fd);
        return st;
    }
    if (!same_user(fd) || send(fd, greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) {
        weft_status st = failed(c->link, WEFT_PEER, "the other end is not of this job");
        close(fd);
        return st;
    }
    c->fd = fd;
    return WEFT_BUSY;
}

/* Whether the other end has answered. Until then it may also hang up: then dial again. */
static weft_status answered(weft_conn *c)
{
    char byte;
    const ssize_t n = recv(c->fd, &byte, 1, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WEFT_BUSY;
    if (n == 1) {
        c->up = 1;
        return WEFT_OK;
    }
    close(c->fd);
    c->fd = -1;
    return WEFT_BUSY;
}

/* A guest who has gone since is no peer. */
static int is_there(int fd)
{
    char byte;
    const ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Let in who waits at the door, and read their greetings. */
static void receive_guests(weft_link *l)
{
    for (int i = 0; i < CONNS; i++) {
        guest *g = &l->guests[i];
        if (g->fd < 0) {
            *g = (guest){.fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)};
            if (g->fd >= 0 && !same_user(g->fd)) {
                close(g->fd);
                g->fd = -1;
            }
        }
        if (g->fd >= 0 && g->got == sizeof g->name && !is_there(g->fd)) { /* nobody asked for it */
            close(g->fd);
            g->fd = -1;
        }
        if (g->fd < 0 || g->got == sizeof g->name)
            continue;
        ssize_t n = recv(g->fd, (char *)g->name + g->got, sizeof g->name - g->got, 0);
        if (n > 0)
            g->got += (uint32_t)n;
        else if (!n || errno != EAGAIN) {
            close(g->fd);
            g->fd = -1;
        }
    }
}

/* The guest who has named this connection gets an answer and becomes its peer. */
static weft_status match(weft_conn *c)
{
    weft_link *l = c->link;
    for (int i = 0; i < CONNS; i++) {
        guest *g = &l->guests[i];
        if (g->fd < 0 || g->got != sizeof g->name || g->name[0] != c->peer ||
            g->name[1] != c->channel)
            continue;
        const int fd = g->fd;
        g->fd = -1;
        if (!is_there(fd) || send(fd, "!", 1, MSG_NOSIGNAL) != 1) {
            close(fd);
            continue;
        }
        c->fd = fd;
        c->up = 1;
        return WEFT_OK;
    }
    return WEFT_BUSY;
}

static weft_status ready(weft_conn *c)
{
    weft_link *l = c->link;
    if (atomic_load(&l->aborted))
        return aborted(l);
    if (c->up)
        return WEFT_OK;
    if (l->rank < c->peer)
        return c->fd < 0 ? dial(c) : answered(c);
    receive_guests(l);
    return match(c);
}

static void disconnect(weft_conn *c)
{
    if (!c)
        return;
    for (int i = 0; i < CONNS; i++)
        if (c->link->conns[i] == c)
            c->link->conns[i] = NULL;
    if (c->fd >= 0)
        close(c->fd);
    c->link->host->free(c->link->host->ctx, c);
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

static weft_status unequal(const weft_conn *c, const message *m)
{
    char text[120];
    snprintf(text, sizeof text, "rank %u sent %llu bytes, and this rank expects %llu", c->peer,
             (unsigned long long)m->header, (unsigned long long)m->bytes);
    return c->link->host->fail(c->link->host->ctx, WEFT_PEER, text);
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
            return gone(c);
        m->moved += (uint64_t)n;
        if (m->moved >= sizeof m->header && m->header != m->bytes)
            return unequal(c, m);
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
