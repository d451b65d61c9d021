/* bad/link.c: the transport of the template, with addresses of eight bytes and memory that peers
 * map. Each name of link.expected plants one fault: in a member of the table, which calls the
 * template's, or in what the system does for the template. */
#define _GNU_SOURCE
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <weft/link.h>

static int sys_accept(const weft_link *l);
static ssize_t sys_send(const weft_conn *c, int fd, const void *at, size_t n);
static int sys_poll(struct pollfd *fds, nfds_t n, const struct timespec *t);
const weft_manifest *good_entry(void);
#define accept4(fd, address, bytes, flags) sys_accept(l)
#define send(fd, at, n, flags) sys_send(c, fd, at, n)
#define ppoll(fds, n, t, signals) sys_poll(fds, n, t)
#define shutdown(fd, how) (void)(BAD == ABORTS_ALONE || shutdown(fd, how))
#define weft_plugin_entry good_entry
#include "socket/socket.c"
#undef accept4
#undef send
#undef ppoll
#undef shutdown
#undef weft_plugin_entry

enum { ADDRESS = 8, KEPT = 64 };

static int kept[KEPT], nkept; /* descriptors, until destroy() */

static void keep(int fd)
{
    if (nkept < KEPT)
        kept[nkept++] = fd;
}

static void nap(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static int is_aborted(const weft_link *l)
{
    return __atomic_load_n(&l->aborted, __ATOMIC_SEQ_CST);
}

/* The message that moves next; NULL: none waits. */
static message *first(queue *q)
{
    return q->done < q->posted ? &q->m[q->done % QUEUE] : NULL;
}

static int moves(queue *q, uint64_t bytes)
{
    return first(q) && first(q)->bytes == bytes;
}

/* --- the system --- */

static int sys_accept(const weft_link *l)
{
    for (int i = 0; BAD == SERVES_IN_ORDER && i < CONNS; i++)
        if (l->guests[i].fd >= 0 && l->guests[i].got < sizeof l->guests[i].name)
            return -1;
    return accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static struct {
    const weft_link *by; /* NULL: free */
    uint32_t name;
} served[CONNS];

static int served_before(const weft_conn *c)
{
    const uint32_t name = c->peer << 16 | c->channel;
    for (int i = 0; i < CONNS; i++) {
        if (served[i].by == c->link && served[i].name == name)
            return 1;
        if (served[i].by)
            continue;
        served[i].by = c->link;
        served[i].name = name;
        return 0;
    }
    return 0;
}

/* A send that has not moved for so many calls. */
static int waits_too_long(const void *at)
{
    static uintptr_t last;
    static unsigned calls;
    calls = (uintptr_t)at == last ? calls + 1 : 0;
    last = (uintptr_t)at;
    return calls > 1500;
}

static ssize_t sys_send(const weft_conn *c, int fd, const void *at, size_t n)
{
    static char buffer[256];                                      /* of all connections */
    if (BAD == REMEMBERS && n == 1 && !c->up && served_before(c)) /* the answer to a greeting */
        return -1;
    if (BAD == SHARED_BUFFER && n > sizeof(uint64_t)) {
        n = n < sizeof buffer ? n : sizeof buffer;
        memcpy(buffer, at, n);
        nap(50);
        at = buffer;
    }
    const ssize_t moved = send(fd, at, n, MSG_NOSIGNAL);
    if (BAD == IMPATIENT && moved < 0 && errno == EAGAIN && waits_too_long(at))
        errno = ETIMEDOUT;
    return moved;
}

static int sys_poll(struct pollfd *fds, nfds_t n, const struct timespec *t)
{
    const clock_t us = t->tv_sec * 1000000 + t->tv_nsec / 1000;
    for (nfds_t i = 1; BAD == SLEEPS_ON && i < n; i++)
        fds[i].events &= (short)~POLLIN;
    for (const clock_t since = clock(); BAD == WAIT_SPINS && !poll(fds, n, 0);)
        if (clock() - since > us)
            return 0;
    return ppoll(fds, n, t, NULL);
}

/* --- memory that peers map --- */

/* It names the process and descriptor of a file in memory, with a sum that only the ranks of the
 * job can make. */
typedef struct region_key {
    int32_t process, fd;
    uint64_t rank, bytes, sum;
} region_key;

struct weft_region {
    weft_link *link;
    weft_region *next;
    region_key key;
    void *at; /* where a peer's is mapped; NULL: it is this rank's */
};

static weft_region *regions; /* of all links */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static weft_status refuse(const weft_link *l, weft_status code, const char *why)
{
    return l->host->fail(l->host->ctx, code, why);
}

static uint64_t sum_of(const weft_link *l, const region_key *k)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (const char *at = l->name; *at; at++)
        sum = (sum ^ (unsigned char)*at) * 0x100000001b3u;
    const uint64_t words[] = {(uint64_t)(uint32_t)k->process << 32 | (uint32_t)k->fd, k->rank,
                              k->bytes};
    for (int i = 0; i < 3; i++) {
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    return sum;
}

static weft_status add_region(weft_link *l, const region_key *k, void *at, weft_region **out)
{
    weft_status st = WEFT_OK;
    weft_region *r = weft_new(l->host, sizeof *r, &st);
    if (!r)
        return st;
    pthread_mutex_lock(&lock);
    *r = (weft_region){l, regions, *k, at};
    regions = *out = r;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

static void end_region(weft_region *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&lock);
    weft_region **at = &regions;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    pthread_mutex_unlock(&lock);
    if (r->at)
        munmap(r->at, r->key.bytes);
    r->link->host->free(r->link->host->ctx, r);
}

/* One of the link; with a key the mapping of that key. NULL: there is none. */
static weft_region *find_region(const weft_link *l, const region_key *k)
{
    pthread_mutex_lock(&lock);
    weft_region *r = regions;
    while (r && (r->link != l || (k && (!r->at || memcmp(&r->key, k, sizeof *k) != 0))))
        r = r->next;
    pthread_mutex_unlock(&lock);
    return r;
}

static weft_status register_memory(weft_link *l, const weft_memory *memory, weft_region **out)
{
    const weft_status st = weft_check_args(l->host, memory, sizeof *memory, 0);
    if (st != WEFT_OK)
        return st;
    if (memory->fd < 0)
        return refuse(l, WEFT_UNSUPPORTED, "it registers memory with a descriptor");
    region_key k = {.process = getpid(), .fd = memory->fd, .rank = l->rank, .bytes = memory->bytes};
    k.sum = sum_of(l, &k);
    return add_region(l, &k, NULL, out);
}

static weft_status key(weft_region *r, void *out, uint64_t *bytes)
{
    if (*bytes < sizeof r->key)
        return refuse(r->link, WEFT_USAGE, "a key has 32 bytes");
    memcpy(out, &r->key, sizeof r->key);
    *bytes = sizeof r->key;
    return WEFT_OK;
}

static void *map_file(const region_key *k)
{
    struct stat s;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", k->process, k->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    const int whole = fd >= 0 && !fstat(fd, &s) && S_ISREG(s.st_mode) &&
                      ((uint64_t)s.st_size >= k->bytes || BAD == LARGER_THAN_FILE);
    void *at = !whole ? MAP_FAILED
                      : mmap(NULL, k->bytes, PROT_READ | PROT_WRITE,
                             BAD == MAPS_A_COPY ? MAP_PRIVATE : MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return at;
}

static weft_status map(weft_link *l, uint32_t peer, const void *from, uint64_t bytes,
                       uint32_t flags, void **base)
{
    region_key k;
    if (flags)
        return weft_refuse_unknown(l->host);
    if (bytes != sizeof k)
        return refuse(l, WEFT_DATA, "a key has 32 bytes");
    memcpy(&k, from, sizeof k);
    if ((k.sum != sum_of(l, &k) && BAD != TRUSTS_KEY) || k.rank != peer)
        return refuse(l, WEFT_DATA, "this is no key of the peer");
    weft_region *r = find_region(l, &k);
    void *at = r ? r->at : map_file(&k);
    if (at == MAP_FAILED)
        return refuse(l, WEFT_PEER, "the peer's memory is not what its key says");
    const weft_status st = r ? WEFT_OK : add_region(l, &k, at, &r);
    if (st != WEFT_OK)
        munmap(at, k.bytes);
    else
        *base = at;
    return st;
}

/* --- the link --- */

static int faults; /* connections that no memory was there for */

static weft_status bad_probe(void *module, const weft_conf *conf, const weft_link_group *group,
                             int32_t *score)
{
    const weft_status st = probe(module, conf, group, score);
    if (st == WEFT_OK && BAD == REACHES_ALL && group->device_caps & 1)
        *score = 5;
    return st;
}

static const weft_host *told;

static weft_status tell_no_counts(void *ctx, weft_status code, const char *why)
{
    return told->fail(ctx, code,
                      code == WEFT_PEER ? "a message has another length than expected" : why);
}

static weft_status bad_create(void *module, const weft_link_args *args, weft_link **out)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    const weft_status st = create(module, args, out);
    if (st == WEFT_OK && BAD == LISTENS_EVERYWHERE) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        keep(fd);
        (void)!bind(fd, (const struct sockaddr *)&any, sizeof any);
        (void)!listen(fd, 1);
    }
    if (st == WEFT_OK && BAD == COUNTS_UNNAMED) {
        static weft_host host;
        told = (*out)->host;
        host = *told;
        host.fail = tell_no_counts;
        (*out)->host = &host;
    }
    return st;
}

static void bad_destroy(weft_link *l)
{
    while (BAD == HANGS_AFTER_FAULTS && l && faults && is_aborted(l))
        nap(1000);
    for (weft_region *r; l && (r = find_region(l, NULL));)
        end_region(r);
    for (int i = 0; i < CONNS; i++)
        if (served[i].by == l)
            served[i].by = NULL;
    while (nkept)
        close(kept[--nkept]);
    destroy(l);
}

static weft_status bad_address(weft_link *l, void *out, uint64_t *bytes)
{
    const uint32_t text[2] = {0x656d6361, l->rank};
    if (*bytes < ADDRESS)
        return refuse(l, WEFT_USAGE, "an address has 8 bytes");
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

static weft_status bad_connect(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    weft_status st = weft_check_args(l->host, args, sizeof *args, 0);
    if (st == WEFT_OK && !is_address(args))
        st = refuse(l, WEFT_DATA, "this is no address of the peer");
    if (st == WEFT_OK)
        st = connect_to(l, args, out);
    if (BAD == HANGS_AFTER_FAULTS && st == WEFT_NO_MEMORY)
        faults++;
    return st;
}

static weft_status bad_ready(weft_conn *c)
{
    if (BAD == READY_BLOCKS && !c->up)
        nap(10000);
    const weft_status st = ready(c);
    for (const guest *g = c->link->guests; BAD == TRUSTS_GREETING && g < c->link->guests + CONNS;
         g++)
        if (g->fd >= 0 && g->got && g->name[0] == UINT32_MAX)
            abort();
    return st;
}

static weft_status bad_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    uint64_t woken;
    if (BAD == LOSES_WAKE)
        (void)!read(l->event, &woken, sizeof woken);
    return wait_for(l, spin_us, timeout_us, flags);
}

static void bad_wake(weft_link *l)
{
    static int inside;
    if (BAD == WAKE_ALONE) {
        if (__atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST))
            abort();
        nap(100);
    }
    wake(l);
    if (BAD == WAKE_ALONE)
        __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
}

/* --- messages --- */

static struct {
    weft_conn *c;
    const void *from;
    uint64_t bytes;
} behind; /* BUSY_POSTS: posted when there is room */

static char *later; /* a byte of memory that is not borrowed any more */

/* The message posted last and the one before change places. */
static void swap_equals(queue *q)
{
    message *last = &q->m[(q->posted - 1) % QUEUE], *before = &q->m[(q->posted - 2) % QUEUE];
    if (q->posted - q->done < 2 || before->moved || last->bytes != before->bytes)
        return;
    char *at = last->at;
    last->at = before->at;
    before->at = at;
}

static int follows_nothing(queue *q)
{
    return q->posted - q->done > 1 && !q->m[(q->posted - 1) % QUEUE].bytes;
}

static weft_status bad_post(weft_conn *c, queue *q, const void *at, uint64_t bytes, uint32_t flags)
{
    if (BAD == SHORT_QUEUE && q->posted - q->done >= 60)
        return WEFT_BUSY;
    return post(c, q, (void *)(uintptr_t)at, BAD == CUTS_AT_4_GIB ? (uint32_t)bytes : bytes, flags);
}

static weft_status bad_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *none,
                            uint32_t flags)
{
    static const char zeros[4096];
    static unsigned sends;
    (void)none;
    if (BAD == FORGETS_AFTER_NOTHING && c->channel == 2 && bytes && bytes <= sizeof zeros &&
        follows_nothing(&c->out))
        from = zeros;
    if (BAD == LOSES_LAST_BYTE && bytes > 65536 && bytes % 65536) /* it is split into pieces */
        ((char *)(uintptr_t)from)[bytes - 1] ^= 1;
    if (BAD == KEEPS_DESCRIPTORS && ++sends % 100 == 0)
        keep(dup(c->link->event));
    const weft_status st = bad_post(c, &c->out, from, bytes, flags);
    if (BAD == SWAPS_EQUALS && st == WEFT_OK)
        swap_equals(&c->out);
    if (BAD == BUSY_POSTS && st == WEFT_BUSY && !behind.c) {
        behind.c = c;
        behind.from = from;
        behind.bytes = bytes;
    }
    return st;
}

static weft_status bad_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *none,
                            uint32_t flags)
{
    (void)none;
    return bad_post(c, &c->in, to, bytes, flags);
}

static void bad_disconnect(weft_conn *c)
{
    if (c && BAD == DISCONNECT_WAITS && c->fd >= 0)
        poll(&(struct pollfd){.fd = c->fd, .events = POLLRDHUP}, 1, 20);
    if (c && BAD == WRITES_AFTER_END && moves(&c->in, 8192))
        later = first(&c->in)->at;
    disconnect(c);
}

/* Whether another connection is in the way. */
static int must_wait(const weft_conn *c)
{
    int before = 1;
    for (int i = 0; i < CONNS; i++) {
        weft_conn *o = c->link->conns[i];
        const message *m = o && o != c ? first(&o->out) : NULL;
        before &= o != c;
        if (m && BAD == STUCK_TOGETHER && m->bytes == 524288 && m->moved)
            return 1;
        if (m && BAD == ONE_AT_A_TIME && m->bytes > 1000000)
            return before;
    }
    return 0;
}

static int has_several_peers(const weft_link *l)
{
    for (int i = 1; i < CONNS; i++)
        if (l->conns[0] && l->conns[i] && l->conns[i]->peer != l->conns[0]->peer)
            return 1;
    return 0;
}

static void before_progress(weft_conn *c)
{
    if (BAD == BLOCKS)
        poll(&(struct pollfd){.fd = c->fd, .events = POLLIN}, 1, 10);
    if (BAD == TAKES_MEMORY) {
        void *volatile p = malloc(64);
        free(p);
    }
    if (later)
        *(volatile char *)later = *later;
    if (behind.c == c &&
        post(c, &c->out, (void *)(uintptr_t)behind.from, behind.bytes, 0) == WEFT_OK)
        behind.c = NULL;
}

static weft_status bad_progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    static unsigned calls;
    const uint64_t done = c->in.done;
    before_progress(c);
    weft_status st = must_wait(c) ? WEFT_OK : progress(c, flags, sent, received);
    if (st == WEFT_PEER && BAD == DIES_TOGETHER && has_several_peers(c->link))
        __atomic_store_n(&c->link->aborted, 1, __ATOMIC_SEQ_CST);
    if (st == WEFT_PEER && BAD == DEAF_TO_DEATH && !is_aborted(c->link) &&
        (moves(&c->out, 1 << 20) || moves(&c->in, 1 << 20)))
        st = WEFT_OK;
    if (st != WEFT_OK)
        return st;
    *sent = c->out.done;
    *received = c->in.done;
    for (uint64_t k = done; BAD == WRITES_LATER && k < c->in.done; k++)
        if (c->in.m[k % QUEUE].bytes == 12288)
            later = c->in.m[k % QUEUE].at;
    message *m = first(&c->in);
    if (BAD == TORN_HEADER && m && m->moved && m->moved < sizeof m->header) {
        m->moved = sizeof m->header; /* and in its last bytes is what was there before */
        m->header |= (uint64_t)1 << 63;
    }
    if (BAD == COUNTS_FALL && c->in.posted >= 48 && ++calls % 4 == 3 && *received)
        --*received;
    return WEFT_OK;
}

/* --- the plugin --- */

static const weft_link_table bad = {
    .struct_size = sizeof bad,
    .caps = WEFT_LINK_HOST | WEFT_LINK_LOCAL | WEFT_LINK_MAP,
    .probe = bad_probe,
    .create = bad_create,
    .destroy = bad_destroy,
    .address = bad_address,
    .connect = bad_connect,
    .ready = bad_ready,
    .disconnect = bad_disconnect,
    .send = bad_send,
    .recv = bad_recv,
    .progress = bad_progress,
    .wait = bad_wait,
    .wake = bad_wake,
    .abort = abort_link,
    .register_memory = register_memory,
    .deregister_memory = end_region,
    .key = key,
    .map = map,
};
static const weft_component bad_link = {
    sizeof bad_link, 0, "weft.link/1", "acme.bad", "Unix sockets on one machine", NULL, &bad, NULL};
static const weft_component *const bad_components[] = {&bad_link, NULL};
WEFT_PLUGIN("org.acme.bad", "1", "", bad_components, weft_open_host, NULL);
