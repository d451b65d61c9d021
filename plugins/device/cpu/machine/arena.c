/* arena.c: the arena, and host memory.
 *
 * Anonymous memory in huge pages, or a memfd sealed against resizing if another process maps it.
 * All pages are faulted in here, by the threads that will use them, so that no step page-faults and
 * a shortage of memory is reported before the first step. */
#define _GNU_SOURCE
#include "cpu.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE = 2 << 20 };

static weft_status refuse(const weft_device *d, uint64_t bytes, const char *what)
{
    return cpu_fail(d->m, WEFT_NO_MEMORY, "an arena of %.1f MiB: %s (%s)", (double)bytes / HUGE * 2,
                    what, strerror(errno));
}

/* Available memory in bytes, from /proc/meminfo; all physical memory if that cannot be read. */
static uint64_t memory_free(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    if (kib != 0)
        return kib * 1024;
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int sealed_memory(uint64_t bytes)
{
    const int fd = memfd_create("weft-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        const int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    return fd;
}

/* Fault in pages with one write each. Item: a huge page. */
static void touch(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    for (int64_t at = begin * HUGE; at < end * HUGE; at += 4096)
        *((volatile char *)j->out[0] + at) = 0;
}

/* Map a range aligned to 2 MiB inside a longer reservation of addresses. */
static weft_status map_block(weft_device *d, struct cpu_block *b, uint64_t bytes, int32_t want_fd)
{
    b->bytes = bytes + HUGE;
    if (want_fd && (b->fd = sealed_memory(bytes)) < 0)
        return refuse(d, bytes, "the kernel gives no memfd of that size");
    char *map = mmap(NULL, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return refuse(d, bytes, "that range of addresses does not exist");
    b->map = map;
    b->base = (char *)(((uintptr_t)map + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    const int flags = MAP_FIXED | (want_fd ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    if (mmap(b->base, bytes, PROT_READ | PROT_WRITE, flags, b->fd, 0) == MAP_FAILED)
        return refuse(d, bytes, "the kernel does not give that much memory");
    madvise(b->base, bytes, MADV_HUGEPAGE); /* a hint; without it there are more page faults */
    void *out[1] = {b->base};
    const struct cpu_job j = {.out = out};
    cpu_par(d, touch, &j, (int64_t)(bytes / HUGE), 1);
    return WEFT_OK;
}

static struct cpu_block *new_block(weft_device *d)
{
    struct cpu_block *b = d->m->host->alloc(d->m->host->ctx, sizeof *b, 0);
    if (!b)
        return NULL;
    b->fd = -1;
    b->next = d->blocks;
    d->blocks = b;
    return b;
}

weft_status cpu_arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd)
{
    if (want_fd != 0 && want_fd != WEFT_FD_MAP)
        return cpu_fail(d->m, WEFT_UNSUPPORTED,
                        "the cpu's memory has descriptors that mmap() takes, and no others");
    const uint64_t have = memory_free();
    if (bytes > have)
        return cpu_fail(d->m, WEFT_NO_MEMORY,
                        "the plan needs an arena of %.2f GiB on this rank, and the machine has "
                        "%.2f GiB free; lower train.microbatch or split the model over more ranks",
                        (double)bytes / 0x1p30, (double)have / 0x1p30);
    struct cpu_block *b = new_block(d);
    if (!b)
        return cpu_fail(d->m, WEFT_NO_MEMORY, "no memory to keep account of an arena");
    const uint64_t whole = bytes == 0 ? HUGE : (bytes + HUGE - 1) & ~(uint64_t)(HUGE - 1);
    weft_status st = map_block(d, b, whole, want_fd);
    if (st != WEFT_OK)
        return st; /* close frees what exists of the block */
    *base = b->base;
    *fd = b->fd;
    return WEFT_OK;
}

weft_status cpu_host_memory(weft_device *d, uint64_t bytes, void **out)
{
    struct cpu_block *b = new_block(d);
    if (b)
        b->base = d->m->host->alloc(d->m->host->ctx, bytes > 0 ? bytes : 1, 4096);
    if (!b || !b->base)
        return cpu_fail(d->m, WEFT_NO_MEMORY, "no memory for %llu bytes of host memory",
                        (unsigned long long)bytes);
    *out = b->base;
    return WEFT_OK;
}

void cpu_free_blocks(weft_device *d)
{
    const weft_host *host = d->m->host;
    for (struct cpu_block *b = d->blocks, *next; b; b = next) {
        next = b->next;
        if (b->map)
            munmap(b->map, b->bytes);
        else if (b->bytes == 0)
            host->free(host->ctx, b->base);
        if (b->fd >= 0)
            close(b->fd);
        host->free(host->ctx, b);
    }
    d->blocks = NULL;
}
