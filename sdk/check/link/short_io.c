/* check/link/short_io.c: a wire that moves few bytes at a time, and late.
 *
 * What the plugin's own calls send on a stream socket is taken whole, and a thread passes it to the
 * kernel in small pieces, the next one when the other end has read the one before, or a while
 * later. So the other end receives what a slow network would give it, on a busy machine, too.
 * close() and shutdown() first pass the rest. */
#define _GNU_SOURCE
#include "base/mem.h"
#include "check/hook.h"
#include "check/link/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS 1024

typedef struct wire {
    VEC(unsigned char) bytes; /* not passed yet, from `at` */
    uint32_t at;
} wire;

/* Of both ranks: bytes that the plugin has read, and that were passed. */
typedef struct pace {
    _Atomic uint64_t read[2], passed[2];
    _Atomic uint32_t taken; /* whether a call has sent */
} pace;

static pace *both;
static uint32_t me;
static wire wires[SOCKETS]; /* by descriptor */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t seed;
static bool runs; /* the thread */

static bool is_stream(int fd)
{
    int type = 0;
    socklen_t n = sizeof type;
    return fd >= 0 && fd < SOCKETS && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) &&
           type == SOCK_STREAM;
}

/* Pass at most `max` bytes; false: nothing moved. The lock is held. */
static bool pass(int fd, uint32_t max)
{
    wire *w = &wires[fd];
    const uint32_t left = w->bytes.n - w->at;
    if (!left)
        return false;
    const ssize_t n =
        send(fd, w->bytes.at + w->at, left < max ? left : max, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        w->at = w->bytes.n; /* the peer has gone: so would these bytes */
    if (n > 0) {
        w->at += (uint32_t)n;
        atomic_fetch_add(&both->passed[me], (uint64_t)n);
    }
    if (w->at == w->bytes.n)
        w->at = w->bytes.n = 0;
    return n > 0;
}

#define NAP_NS 50000
#define NAPS 100 /* for an end that reads by calls that are not seen here */

static void await_reader(void)
{
    const uint64_t passed = atomic_load(&both->passed[me]);
    for (uint32_t i = 0; i < NAPS && atomic_load(&both->read[!me]) < passed; i++)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static void *pass_slowly(void *arg)
{
    (void)arg;
    for (uint64_t state = atomic_load(&seed);;) {
        bool moved = false;
        pthread_mutex_lock(&lock);
        for (int fd = 0; fd < SOCKETS; fd++) {
            const uint64_t what = check_random(&state);
            moved = pass(fd, (uint32_t)(what % 4 ? 1 + what / 8 % 9 : 600)) || moved;
        }
        pthread_mutex_unlock(&lock);
        await_reader();
        if (!moved || check_random(&state) % 64 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return NULL;
}

/* Take all of it. */
static ssize_t take(int fd, const struct iovec *at, size_t n)
{
    ssize_t bytes = 0;
    pthread_t thread;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n; i++) {
        const unsigned char *from = at[i].iov_base;
        for (size_t k = 0; k < at[i].iov_len; k++)
            *vec_push(&wires[fd].bytes) = from[k];
        bytes += (ssize_t)at[i].iov_len;
    }
    if (!runs && pthread_create(&thread, NULL, pass_slowly, NULL))
        check_fail("no thread for the check");
    runs = true;
    pthread_mutex_unlock(&lock);
    atomic_store(&both->taken, 1);
    return bytes;
}

static void flush(int fd)
{
    if (fd < 0 || fd >= SOCKETS)
        return;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < 1000 && wires[fd].bytes.n; i++)
        if (!pass(fd, UINT32_MAX) && wires[fd].bytes.n)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    wires[fd].at = wires[fd].bytes.n = 0;
    pthread_mutex_unlock(&lock);
}

static ssize_t slow_send(int fd, const void *at, size_t bytes, int flags)
{
    const struct iovec one = {(void *)(uintptr_t)at, bytes};
    return bytes && is_stream(fd) ? take(fd, &one, 1) : send(fd, at, bytes, flags);
}

static ssize_t slow_write(int fd, const void *at, size_t bytes)
{
    const struct iovec one = {(void *)(uintptr_t)at, bytes};
    return bytes && is_stream(fd) ? take(fd, &one, 1) : write(fd, at, bytes);
}

static ssize_t slow_writev(int fd, const struct iovec *at, int n)
{
    return n > 0 && is_stream(fd) ? take(fd, at, (size_t)n) : writev(fd, at, n);
}

static ssize_t slow_sendmsg(int fd, const struct msghdr *m, int flags)
{
    return !m->msg_controllen && is_stream(fd) ? take(fd, m->msg_iov, m->msg_iovlen)
                                               : sendmsg(fd, m, flags);
}

static ssize_t seen(int fd, ssize_t n)
{
    if (n > 0 && is_stream(fd))
        atomic_fetch_add(&both->read[me], (uint64_t)n);
    return n;
}

static ssize_t slow_recv(int fd, void *at, size_t bytes, int flags)
{
    const ssize_t n = recv(fd, at, bytes, flags);
    return flags & MSG_PEEK ? n : seen(fd, n);
}

static ssize_t slow_read(int fd, void *at, size_t bytes)
{
    return seen(fd, read(fd, at, bytes));
}

static ssize_t slow_readv(int fd, const struct iovec *at, int n)
{
    return seen(fd, readv(fd, at, n));
}

static ssize_t slow_recvmsg(int fd, struct msghdr *m, int flags)
{
    const ssize_t n = recvmsg(fd, m, flags);
    return flags & MSG_PEEK ? n : seen(fd, n);
}

static int slow_close(int fd)
{
    flush(fd);
    return close(fd);
}

static int slow_shutdown(int fd, int how)
{
    flush(fd);
    return shutdown(fd, how);
}

#define HOOK(name)                                                                                 \
    {                                                                                              \
#name, (void (*)(void))slow_##name                                                         \
    }

static const check_hooks hooks[] = {HOOK(send),  HOOK(write),    HOOK(writev), HOOK(sendmsg),
                                    HOOK(recv),  HOOK(read),     HOOK(readv),  HOOK(recvmsg),
                                    HOOK(close), HOOK(shutdown), {0}};

#define MESSAGES 40u
#define LIMIT 3000u

static void over_a_slow_wire(check_end *e)
{
    uint64_t state = e->run->seed * 31, done = 0;
    both = e->arg;
    me = e->rank;
    atomic_store(&both->read[me], 0);
    atomic_store(&both->passed[me], 0);
    check_rank_exchange(e->k, NULL, 0, NULL);
    atomic_store(&seed, e->run->seed + e->rank);
    check_hook_object(check_manifest(e->run), hooks);
    weft_conn *c = check_end_connect(e, e->peer, 0);
    for (uint32_t i = 0; i < MESSAGES; i++)
        check_end_rounds(e, c, 1, check_end_size(e, &state, LIMIT), &done,
                         "over a wire that moves few bytes at a time");
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_short_io(check_run *r)
{
    pace *p = check_shared(sizeof *p);
    const check_link_job job = {.ranks = 2,
                                .seconds = 6,
                                .memory = 2 * LIMIT,
                                .others_only = true,
                                .processes = true,
                                .run = over_a_slow_wire,
                                .arg = p};
    check_link_run(r, &job);
    if (!atomic_load(&p->taken))
        check_absent("no transport of the file sends on a stream socket by calls of its own");
}
