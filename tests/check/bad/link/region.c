/* bad/link/region.c: memory that peers map. A key names the process and descriptor of a file in
 * memory, with a sum that only the ranks of the job can make. See link.h. */
#define _GNU_SOURCE
#include "link.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct region_key {
    int32_t process, fd;
    uint64_t rank, bytes, sum;
} region_key;

struct weft_region {
    weft_link *link;
    weft_region *next;
    int fd;
    uint64_t bytes;
};

typedef struct mapping {
    struct mapping *next;
    region_key key;
    void *at;
} mapping;

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

static weft_status fail(const weft_link *l, weft_status code, const char *what)
{
    return l->host->fail(l->host->ctx, code, what);
}

weft_status link_register(weft_link *l, const weft_memory *memory, weft_region **out)
{
    const weft_status st = weft_check_args(l->host, memory, sizeof *memory, 0);
    if (st != WEFT_OK)
        return st;
    if (memory->fd < 0)
        return fail(l, WEFT_UNSUPPORTED, "it registers memory with a descriptor");
    weft_region *r = l->host->alloc(l->host->ctx, sizeof *r, 0);
    if (!r)
        return fail(l, WEFT_NO_MEMORY, "no memory for a region");
    *r = (weft_region){l, l->regions, memory->fd, memory->bytes};
    l->regions = *out = r;
    return WEFT_OK;
}

void link_deregister(weft_region *r)
{
    if (!r)
        return;
    weft_region **at = &r->link->regions;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    r->link->host->free(r->link->host->ctx, r);
}

weft_status link_key(weft_region *r, void *out, uint64_t *bytes)
{
    region_key k = {.process = getpid(), .fd = r->fd, .rank = r->link->rank, .bytes = r->bytes};
    if (*bytes < sizeof k)
        return fail(r->link, WEFT_USAGE, "a key has 32 bytes");
    k.sum = sum_of(r->link, &k);
    memcpy(out, &k, sizeof k);
    *bytes = sizeof k;
    return WEFT_OK;
}

/* --- the peer's --- */

static weft_status read_key(const weft_link *l, uint32_t peer, const void *key, uint64_t bytes,
                            region_key *k)
{
    if (bytes != sizeof *k)
        return fail(l, WEFT_DATA, "a key has 32 bytes");
    memcpy(k, key, sizeof *k);
    if ((k->sum != sum_of(l, k) && BAD != TRUSTS_KEY) || k->rank != peer)
        return fail(l, WEFT_DATA, "this is no key of the peer");
    return WEFT_OK;
}

static weft_status map_key(weft_link *l, const region_key *k, void **base)
{
    struct stat s;
    char path[64];
    const int prot = PROT_READ | PROT_WRITE;
    for (mapping *m = l->mappings; m; m = m->next)
        if (!memcmp(&m->key, k, sizeof *k)) {
            *base = m->at;
            return WEFT_OK;
        }
    snprintf(path, sizeof path, "/proc/%d/fd/%d", k->process, k->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    const int whole = fd >= 0 && !fstat(fd, &s) && S_ISREG(s.st_mode) &&
                      ((uint64_t)s.st_size >= k->bytes || BAD == LARGER_THAN_FILE);
    mapping *m = whole ? l->host->alloc(l->host->ctx, sizeof *m, 0) : NULL;
    void *at = !m                   ? MAP_FAILED
               : BAD == MAPS_A_COPY ? mmap(NULL, k->bytes, prot, MAP_PRIVATE, fd, 0)
                                    : mmap(NULL, k->bytes, prot, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED) {
        l->host->free(l->host->ctx, m);
        return fail(l, WEFT_PEER, "the peer's memory is not what its key says");
    }
    *m = (mapping){l->mappings, *k, at};
    l->mappings = m;
    *base = at;
    return WEFT_OK;
}

weft_status link_map(weft_link *l, uint32_t peer, const void *key, uint64_t bytes, uint32_t flags,
                     void **base)
{
    region_key k;
    if (flags)
        return weft_refuse_unknown(l->host);
    const weft_status st = read_key(l, peer, key, bytes, &k);
    return st == WEFT_OK ? map_key(l, &k, base) : st;
}

void link_end_regions(weft_link *l)
{
    while (l->regions)
        link_deregister(l->regions);
    while (l->mappings) {
        mapping *m = l->mappings;
        l->mappings = m->next;
        munmap(m->at, m->key.bytes);
        l->host->free(l->host->ctx, m);
    }
}
