/* bad/link/link.c: the links and connections of a transport that fails checks of the group link.
 * Each name of link.expected breaks one rule. See link.h. */
#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static weft_status failed(weft_link *l, weft_status code, const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    return l->host->fail(l->host->ctx, code, text);
}

weft_status link_gone(weft_conn *c)
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
    const int near = group->same_machine || BAD == REACHES_ALL;
    *score = near && (group->device_caps & 1) ? 5 : 0;
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
    for (int i = 0; i < l->nkept; i++)
        close(l->kept[i]);
    while (BAD == HANGS_AFTER_FAULTS && l->faults && atomic_load(&l->aborted))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    link_end_regions(l);
    if (l->fd >= 0)
        close(l->fd);
    if (l->event >= 0)
        close(l->event);
    l->host->free(l->host->ctx, l);
}

static void listen_everywhere(weft_link *l)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    l->kept[l->nkept++] = fd;
    (void)!bind(fd, (const struct sockaddr *)&any, sizeof any);
    (void)!listen(fd, 1);
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
    if (BAD == LISTENS_EVERYWHERE)
        listen_everywhere(l);
    *out = l;
    return WEFT_OK;
}

/* The job's id and a rank say all. */
static weft_status address(weft_link *l, void *out, uint64_t *bytes)
{
    const uint32_t text[2] = {0x656d6361, l->rank};
    if (*bytes < ADDRESS)
        return l->host->fail(l->host->ctx, WEFT_USAGE, "an address has 8 bytes");
    memcpy(out, text, ADDRESS);
    *bytes = ADDRESS;
    return WEFT_OK;
}

static int is_address(const weft_conn_args *args)
{
    uint32_t text[2];
    if (args->bytes != ADDRESS && BAD != TRUSTS_ADDRESS)
        return 0;
    memcpy(text, args->address, ADDRESS);
    return text[0] == 0x656d6361 && text[1] == args->peer;
}

static void wake(weft_link *l)
{
    static atomic_int inside;
    if (BAD == WAKE_ALONE && atomic_fetch_add(&inside, 1))
        abort();
    if (BAD == WAKE_ALONE)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    (void)!write(l->event, &(uint64_t){1}, 8);
    atomic_fetch_sub(&inside, 1);
}

static void abort_link(weft_link *l)
{
    atomic_store(&l->aborted, 1);
    wake(l);
}

/* The thread that enters the link ends its connections, so that the peers notice. */
void link_look(weft_link *l)
{
    for (int i = 0; BAD != ABORTS_ALONE && atomic_load(&l->aborted) && i < CONNS; i++)
        if (l->conns[i] && l->conns[i]->fd >= 0)
            shutdown(l->conns[i]->fd, SHUT_RDWR);
}

/* --- connections --- */

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    int slot = 0;
    if (weft_check_args(l->host, args, sizeof *args, 0) != WEFT_OK)
        return WEFT_UNSUPPORTED;
    if (!is_address(args))
        return l->host->fail(l->host->ctx, WEFT_DATA, "this is no address of the peer");
    while (slot < CONNS && l->conns[slot])
        slot++;
    weft_conn *c = slot < CONNS ? l->host->alloc(l->host->ctx, sizeof *c, 0) : NULL;
    if (!c) {
        l->faults++;
        return l->host->fail(l->host->ctx, WEFT_NO_MEMORY, "too many connections");
    }
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

static int served_before(weft_link *l, uint32_t name)
{
    for (unsigned i = 0; i < l->nserved; i++)
        if (l->served[i] == name)
            return 1;
    if (l->nserved < CONNS)
        l->served[l->nserved++] = name;
    return 0;
}

/* Let in who waits at the door, and read their greetings. */
static void receive_guests(weft_link *l)
{
    for (int i = 0; i < CONNS; i++) {
        guest *g = &l->guests[i];
        const guest *before = i ? g - 1 : g;
        if (BAD == SERVES_IN_ORDER && before->fd >= 0 && before->got < sizeof before->name && i)
            return;
        if (g->fd < 0) {
            *g = (guest){.fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)};
            if (g->fd >= 0 && !same_user(g->fd)) {
                close(g->fd);
                g->fd = -1;
            }
        }
        if (g->fd < 0 || g->got == sizeof g->name)
            continue;
        ssize_t n = recv(g->fd, (char *)g->name + g->got, sizeof g->name - g->got, 0);
        if (BAD == TRUSTS_GREETING && n > 0 && g->name[0] == UINT32_MAX)
            abort();
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
        if (!is_there(fd) || (BAD == REMEMBERS && served_before(l, c->peer << 16 | c->channel)) ||
            send(fd, "!", 1, MSG_NOSIGNAL) != 1) {
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
        return link_gone(c);
    if (c->up)
        return WEFT_OK;
    if (BAD == READY_BLOCKS)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
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
    if (BAD == DISCONNECT_WAITS && c->fd >= 0)
        poll(&(struct pollfd){.fd = c->fd, .events = POLLRDHUP}, 1, 20);
    if (c->fd >= 0)
        close(c->fd);
    link_left(c);
    c->link->host->free(c->link->host->ctx, c);
}

static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(l->host);
    struct pollfd fds[CONNS + 1] = {{.fd = l->event, .events = POLLIN}};
    nfds_t n = 1;
    (void)spin_us;
    link_look(l);
    if (atomic_load(&l->aborted))
        return l->host->fail(l->host->ctx, WEFT_PEER, "the link was aborted");
    for (int i = 0; i < CONNS; i++) {
        weft_conn *c = l->conns[i];
        if (!c || !c->up)
            continue;
        const int listens = c->in.done < c->in.posted && BAD != SLEEPS_ON;
        short events =
            (short)((listens ? POLLIN : 0) | (c->out.done < c->out.posted ? POLLOUT : 0));
        if (events)
            fds[n++] = (struct pollfd){.fd = c->fd, .events = events};
    }
    struct timespec t = {timeout_us / 1000000, (long)(timeout_us % 1000000) * 1000};
    uint64_t woken;
    if (BAD == LOSES_WAKE)
        (void)!read(l->event, &woken, sizeof woken);
    for (const clock_t since = clock(); BAD == WAIT_SPINS && !poll(fds, n, 0);)
        if (clock() - since > (clock_t)timeout_us)
            return WEFT_OK;
    (void)!ppoll(fds, n, &t, NULL);
    (void)!read(l->event, &woken, sizeof woken);
    return WEFT_OK;
}

/* --- the plugin --- */

static const weft_link_table table = {
    .struct_size = sizeof table,
    .caps = WEFT_LINK_HOST | WEFT_LINK_LOCAL | WEFT_LINK_MAP,
    .probe = probe,
    .create = create,
    .destroy = destroy,
    .address = address,
    .connect = connect_to,
    .ready = ready,
    .disconnect = disconnect,
    .send = link_send,
    .recv = link_recv,
    .progress = link_progress,
    .wait = wait_for,
    .wake = wake,
    .abort = abort_link,
    .register_memory = link_register,
    .deregister_memory = link_deregister,
    .key = link_key,
    .map = link_map,
};
static const weft_component component = {
    sizeof component, 0,   "weft.link/1", "acme.bad", "Unix sockets on one machine", NULL,
    &table,           NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.bad", "1", "", components, weft_open_host, NULL);
