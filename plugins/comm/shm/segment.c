/* segment.c: creates this rank's segment and opens those of peers. A peer's segment is accepted
 * only if it is on this machine, belongs to the same user, is sealed against shrinking (access to a
 * truncated page would raise SIGBUS) and holds the nonce that the peer published in the store. */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

weft_status shm_fail(const weft_host *host, weft_status code, const char *fmt, ...)
{
    char text[WHY];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->fail(host->ctx, code, text);
}

void *shm_map(int fd, uint64_t offset, uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t pages(uint64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static uint64_t data_at(uint32_t cells)
{
    return pages(sizeof(ring) + cells * sizeof(cell));
}

uint8_t *shm_data(ring *r, uint32_t cells)
{
    return (uint8_t *)r + data_at(cells);
}

/* Pre-faults the pages that every ring uses, so that no step page-faults. Kernels before 5.14
 * cannot; there each page is faulted in at first use. */
ring *shm_map_ring(int fd, uint64_t offset, uint32_t cells, uint64_t data_bytes)
{
    uint64_t bytes = shm_ring_size(cells, data_bytes), warm = data_at(cells) + cells * WARM_CELL;
    ring *r = shm_map(fd, offset, bytes);
    if (r && madvise(r, pages(warm), MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
        int why = errno;
        munmap(r, bytes);
        errno = why;
        return NULL;
    }
    return r;
}

uint64_t shm_ring_size(uint32_t cells, uint64_t data_bytes)
{
    return data_at(cells) + data_bytes;
}

/* Identifies the machine and the PID namespace (containers). */
static void whereabouts(address *a)
{
    struct stat s;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, a->boot, sizeof a->boot - 1) : 0;
    if (n <= 0)
        a->boot[0] = '\0';
    if (fd >= 0)
        close(fd);
    a->pid_space = stat("/proc/self/ns/pid", &s) == 0 ? s.st_ino : 0;
    a->pid = getpid();
}

static uint64_t head_size(void)
{
    return (sizeof(segment) + 4095) / 4096 * 4096;
}

weft_status shm_segment(weft_link *l)
{
    address *a = &l->self;
    whereabouts(a);
    a->magic = SEGMENT_MAGIC;
    a->rank = l->rank;
    if (getrandom(a->nonce, sizeof a->nonce, 0) != sizeof a->nonce)
        return shm_fail(l->host, WEFT_IO, "shm gets no random bytes: %s", strerror(errno));
    l->fd = memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    l->size = head_size();
    if (l->fd < 0 || ftruncate(l->fd, (off_t)l->size) != 0 ||
        fcntl(l->fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0 || !(l->head = shm_map(l->fd, 0, l->size)))
        return shm_fail(l->host, WEFT_IO, "shm gets no shared memory from the system: %s",
                        strerror(errno));
    a->fd = l->fd;
    l->head->rank = l->rank;
    memcpy(l->head->nonce, a->nonce, sizeof a->nonce);
    l->head->magic = SEGMENT_MAGIC;
    return WEFT_OK;
}

weft_status shm_grow(weft_link *l, uint64_t bytes, uint64_t *offset)
{
    if (ftruncate(l->fd, (off_t)(l->size + bytes)) != 0)
        return shm_fail(l->host, WEFT_NO_MEMORY, "shm cannot enlarge its memory to %llu bytes: %s",
                        (unsigned long long)(l->size + bytes), strerror(errno));
    *offset = l->size;
    l->size += bytes;
    return WEFT_OK;
}

int shm_open_fd(int32_t pid, int32_t fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

weft_status shm_check_address(weft_link *l, uint32_t rank, const address *a)
{
    const address *me = &l->self;
    if (a->magic != SEGMENT_MAGIC || a->rank != rank || a->pid <= 0 || a->fd < 0)
        return shm_fail(l->host, WEFT_DATA,
                        "the address of rank %u is not one of shm's: every rank needs the same "
                        "version of the transport",
                        rank);
    if (memcmp(a->boot, me->boot, sizeof a->boot) != 0)
        return shm_fail(l->host, WEFT_USAGE,
                        "rank %u runs on another machine, which shm cannot reach", rank);
    if (a->pid_space != me->pid_space)
        return shm_fail(l->host, WEFT_USAGE,
                        "rank %u runs in another container, which shm cannot reach", rank);
    return WEFT_OK;
}

static bool trusted(const peer *p, const address *a)
{
    struct stat s;
    int seals = fcntl(p->fd, F_GET_SEALS);
    return fstat(p->fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
           (uint64_t)s.st_size >= head_size() && seals >= 0 && (seals & F_SEAL_SHRINK) != 0 &&
           a->reserved == 0;
}

static weft_status enter(weft_link *l, peer *p, const address *a)
{
    p->fd = shm_open_fd(a->pid, a->fd);
    if (p->fd < 0)
        return shm_fail(l->host, WEFT_PEER,
                        "shm cannot open the memory of rank %u (process %d): %s", p->rank, a->pid,
                        strerror(errno));
    if (trusted(p, a))
        p->head = shm_map(p->fd, 0, head_size());
    if (!p->head || p->head->magic != SEGMENT_MAGIC || p->head->rank != p->rank ||
        memcmp(p->head->nonce, a->nonce, sizeof a->nonce) != 0)
        return shm_fail(
            l->host, WEFT_PEER,
            "descriptor %d of process %d is not the shared memory that rank %u announced", a->fd,
            a->pid, p->rank);
    return WEFT_OK;
}

static void leave(weft_link *l, peer *p)
{
    if (p->head)
        munmap(p->head, head_size());
    if (p->fd >= 0)
        close(p->fd);
    if (p->pidfd >= 0)
        close(p->pidfd);
    l->host->free(l->host->ctx, p);
}

weft_status shm_open_peer(weft_link *l, uint32_t rank, const address *a, peer **out)
{
    weft_status st = shm_check_address(l, rank, a);
    for (peer *p = l->peers; st == WEFT_OK && p; p = p->next)
        if (p->rank == rank && p->pid == a->pid &&
            memcmp(p->head->nonce, a->nonce, sizeof a->nonce) == 0) {
            *out = p;
            return WEFT_OK;
        }
    if (st != WEFT_OK)
        return st;
    peer *p = l->host->alloc(l->host->ctx, sizeof *p, 0);
    if (!p)
        return shm_fail(l->host, WEFT_NO_MEMORY, "no memory for a peer");
    p->rank = rank;
    p->pid = a->pid;
    p->fd = -1;
    p->pidfd = (int)syscall(SYS_pidfd_open, a->pid,
                            0); /* opened first, so that all checks are of the same process */
    st = enter(l, p, a);
    if (st != WEFT_OK) {
        leave(l, p);
        return st;
    }
    pthread_mutex_lock(&l->lock);
    p->next = l->peers;
    l->peers = p;
    pthread_mutex_unlock(&l->lock);
    if (p->pidfd >= 0 && l->alive >= 0) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
        p->watched = epoll_ctl(l->alive, EPOLL_CTL_ADD, p->pidfd, &e) == 0;
    }
    *out = p;
    return WEFT_OK;
}

void shm_close_peer(weft_link *l, peer *p)
{
    pthread_mutex_lock(&l->lock);
    peer **at = &l->peers;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    pthread_mutex_unlock(&l->lock);
    leave(l, p);
}
