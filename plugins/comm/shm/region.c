/* region.c: arenas that peers map. The owner publishes its device's file descriptor and the file's
 * identity; a peer validates the owner's segment, opens the descriptor through /proc, and compares
 * the file's identity and size. */
#include "shm.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct region_key {
    address owner;
    uint64_t device, inode, file_bytes, bytes;
    int32_t fd, reserved;
} region_key;

weft_status shm_register(weft_link *l, void *base, uint64_t bytes, int32_t fd, weft_region **out)
{
    struct stat s;
    (void)base; /* the descriptor maps the same bytes */
    if (fd < 0 || fstat(fd, &s) != 0 || s.st_size < 0 || (uint64_t)s.st_size < bytes)
        return shm_fail(l->host, WEFT_UNSUPPORTED,
                        "shm can share memory only by a descriptor that maps all of its %llu bytes",
                        (unsigned long long)bytes);
    weft_region *r = l->host->alloc(l->host->ctx, sizeof *r, 0);
    if (!r)
        return shm_fail(l->host, WEFT_NO_MEMORY, "no memory for a region");
    *r = (weft_region){.link = l, .next = l->regions, .bytes = bytes, .fd = fd};
    l->regions = r;
    *out = r;
    return WEFT_OK;
}

void shm_deregister(weft_region *r)
{
    if (!r)
        return;
    weft_region **at = &r->link->regions;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    r->link->host->free(r->link->host->ctx, r);
}

weft_status shm_key(weft_region *r, void *out, uint64_t *bytes)
{
    region_key k;
    struct stat s;
    memset(&k, 0, sizeof k);
    if (*bytes < sizeof k || fstat(r->fd, &s) != 0)
        return shm_fail(r->link->host, WEFT_USAGE, "a key of shm takes %zu bytes", sizeof k);
    k.owner = r->link->self;
    k.device = s.st_dev;
    k.inode = s.st_ino;
    k.file_bytes = (uint64_t)s.st_size;
    k.bytes = r->bytes;
    k.fd = r->fd;
    memcpy(out, &k, sizeof k);
    *bytes = sizeof k;
    return WEFT_OK;
}

static weft_status keep(weft_link *l, int fd, uint64_t bytes, uint64_t unit, void **base)
{
    mapping *m = l->host->alloc(l->host->ctx, sizeof *m, 0);
    if (!m)
        return shm_fail(l->host, WEFT_NO_MEMORY, "no memory for a mapping");
    m->bytes =
        (bytes + unit - 1) / unit * unit; /* whole pages of the file; huge pages if it uses them */
    m->base = shm_map(fd, 0, m->bytes);
    if (!m->base) {
        l->host->free(l->host->ctx, m);
        return shm_fail(l->host, WEFT_NO_MEMORY, "shm cannot map %llu bytes of a peer: %s",
                        (unsigned long long)bytes, strerror(errno));
    }
    (void)madvise(m->base, m->bytes, MADV_HUGEPAGE);
    m->next = l->mappings;
    l->mappings = m;
    *base = m->base;
    return WEFT_OK;
}

weft_status shm_map_region(weft_link *l, uint32_t rank, const void *key, uint64_t bytes,
                           void **base)
{
    region_key k;
    struct stat s;
    peer *p = NULL;
    memset(&k, 0, sizeof k);
    if (key && bytes == sizeof k)
        memcpy(&k, key, sizeof k);
    weft_status st = shm_open_peer(l, rank, &k.owner, &p);
    if (st != WEFT_OK)
        return st;
    int fd = shm_open_fd(p->pid, k.fd);
    if (fd < 0)
        return shm_fail(l->host, WEFT_PEER, "shm cannot open the arena of rank %u: %s", rank,
                        strerror(errno));
    bool same = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
                s.st_dev == k.device && s.st_ino == k.inode && s.st_size > 0 &&
                (uint64_t)s.st_size == k.file_bytes && k.bytes > 0 && k.bytes <= k.file_bytes &&
                k.reserved == 0;
    if (same)
        st = keep(l, fd, k.bytes, s.st_blksize > 4096 ? (uint64_t)s.st_blksize : 4096, base);
    else
        st = shm_fail(l->host, WEFT_PEER,
                      "descriptor %d of rank %u is not the arena that it announced", k.fd, rank);
    close(fd);
    return st;
}
