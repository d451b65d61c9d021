/* check/device/memory.c: the arena, its descriptors, and copies of all sizes. */
#include "check/device/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGN ((uintptr_t)2 << 20)

/* --- the arena --- */

static void look_at_arena(check_dev *w)
{
    if ((uintptr_t)w->base % ALIGN)
        check_fail("arena() of '%s' gave the address %p, which is not aligned to 2 MiB", w->c->name,
                   (void *)w->base);
    memset(w->staging, 0xa5, CHECK_DEV_ARENA);
    check_dev_copy(w, 0, w->staging, w->base, CHECK_DEV_ARENA);
    check_dev_wait(w, 0);
    for (uint64_t i = 0; i < CHECK_DEV_ARENA; i++)
        if (w->staging[i])
            check_fail("byte %llu of a new arena of '%s' is %d; arena() gives zeros",
                       (unsigned long long)i, w->c->name, (unsigned char)w->staging[i]);
}

void check_device_arena(check_run *r)
{
    check_dev_each_up(r, look_at_arena);
}

static void ask_too_much(check_dev *w)
{
    void *base = NULL;
    int32_t fd = -1;
    const weft_status st = CHECK_DEV(w, arena, w->d, (uint64_t)1 << 60, 0, &base, &fd);
    if (st != WEFT_NO_MEMORY)
        check_fail("arena() of '%s' returned %s for 2^60 bytes instead of WEFT_NO_MEMORY",
                   w->c->name, check_status(st));
    if (!w->host->why[0])
        check_fail("arena() of '%s' returned WEFT_NO_MEMORY for 2^60 bytes without a sentence",
                   w->c->name);
}

void check_device_huge(check_run *r)
{
    check_dev_each_open(r, ask_too_much);
}

static void want_none(check_dev *w)
{
    void *base = NULL;
    int32_t fd = 12345;
    check_dev_ok(w, CHECK_DEV(w, arena, w->d, CHECK_DEV_ARENA, 0, &base, &fd), "arena");
    if (fd != -1)
        check_fail("arena() of '%s' was asked for no descriptor and gave %d; it gives -1",
                   w->c->name, fd);
}

void check_device_stray(check_run *r)
{
    check_dev_each_open(r, want_none);
}

/* --- descriptors --- */

typedef struct mapping {
    check_dev *w;
    int32_t fd;
} mapping;

static unsigned char byte_at(uint64_t i)
{
    return (unsigned char)(i * 131 + (i >> 12) * 17 + 5);
}

/* In another process: the arena has the pattern; every byte of it is turned. */
static void look_through(void *arg)
{
    const mapping *p = arg;
    unsigned char *at = mmap(NULL, CHECK_DEV_ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (at == MAP_FAILED)
        check_fail("another process cannot map the descriptor WEFT_FD_MAP of the arena of '%s'",
                   p->w->c->name);
    for (uint64_t i = 0; i < CHECK_DEV_ARENA; i++) {
        if (at[i] != byte_at(i))
            check_fail("byte %llu of the arena of '%s' is %d, and %d in another process that maps "
                       "its descriptor",
                       (unsigned long long)i, p->w->c->name, byte_at(i), at[i]);
        at[i] = (unsigned char)~at[i];
    }
}

static void map_arena(check_dev *w)
{
    mapping p = {w, -1};
    void *base = NULL, *staging = NULL;
    bool late;
    check_dev_ok(w, CHECK_DEV(w, arena, w->d, CHECK_DEV_ARENA, WEFT_FD_MAP, &base, &p.fd), "arena");
    if (p.fd < 0)
        check_fail("arena() of '%s' was asked for a descriptor WEFT_FD_MAP and gave %d", w->c->name,
                   p.fd);
    check_dev_ok(w, CHECK_DEV(w, host_memory, w->d, CHECK_DEV_ARENA, &staging), "host_memory");
    check_dev_ok(w, CHECK_DEV(w, stream, w->d, 0, &w->s[0]), "stream");
    check_dev_ok(w, CHECK_DEV(w, event, w->d, &w->e[0]), "event");
    unsigned char *bytes = staging;
    for (uint64_t i = 0; i < CHECK_DEV_ARENA; i++)
        bytes[i] = byte_at(i);
    check_dev_copy(w, 0, base, bytes, CHECK_DEV_ARENA);
    check_dev_wait(w, 0);
    if (check_fork(look_through, &p, 5, &late) || late)
        check_fail("a process that maps the descriptor of the arena of '%s' does not end well",
                   w->c->name);
    check_dev_copy(w, 0, bytes, base, CHECK_DEV_ARENA);
    check_dev_wait(w, 0);
    for (uint64_t i = 0; i < CHECK_DEV_ARENA; i++)
        if (bytes[i] != (unsigned char)~byte_at(i))
            check_fail("byte %llu, which another process wrote through the descriptor, is not in "
                       "the arena of '%s'",
                       (unsigned long long)i, w->c->name);
}

/* A descriptor of another kind can only be had here: another process needs its driver. */
static void have_one(check_dev *w, int32_t kind)
{
    void *base = NULL;
    int32_t fd = -1;
    check_dev_close(w);
    if (!check_dev_open(w))
        return;
    check_dev_ok(w, CHECK_DEV(w, arena, w->d, CHECK_DEV_ARENA, kind, &base, &fd), "arena");
    if (fd < 0)
        check_fail("arena() of '%s' was asked for a descriptor of kind %d and gave %d", w->c->name,
                   kind, fd);
}

static void each_kind(check_dev *w)
{
    if (w->t->caps & WEFT_DEV_EXPORT_FD)
        map_arena(w);
    if (w->t->caps & WEFT_DEV_EXPORT_CUDA)
        have_one(w, WEFT_FD_CUDA);
    if (w->t->caps & WEFT_DEV_EXPORT_DMABUF)
        have_one(w, WEFT_FD_DMABUF);
    if (!(w->t->caps & (WEFT_DEV_EXPORT_FD | WEFT_DEV_EXPORT_CUDA | WEFT_DEV_EXPORT_DMABUF)))
        check_absent("'%s' has no kind of descriptor in its caps", w->c->name);
}

void check_device_mapped(check_run *r)
{
    check_dev_each_open(r, each_kind);
}

/* --- sizes --- */

#define CAPACITY ((uint64_t)5 << 19) /* of each of the three places: 2.5 MiB */

/* Staging to arena, arena to arena, arena to staging: `n` bytes at odd places, between others. */
static void copy_around(check_dev *w, uint64_t n, uint64_t skew)
{
    unsigned char *from = (unsigned char *)w->staging, *to = from + CHECK_DEV_HALF;
    char *first = w->base + skew, *second = w->base + CHECK_DEV_HALF + 3 * skew;
    memset(to, 0x5a, n + 128);
    for (uint64_t i = 0; i < n + 128; i++)
        from[i] = byte_at(i + n);
    check_dev_fill(w, 0, w->base, 0x11, CAPACITY);
    check_dev_fill(w, 0, w->base + CHECK_DEV_HALF, 0x22, CAPACITY);
    check_dev_copy(w, 0, first, from + skew, n);
    check_dev_copy(w, 0, second, first, n);
    check_dev_copy(w, 0, to + 64, second, n);
    check_dev_wait(w, 0);
    for (uint64_t i = 0; i < n + 128; i++) {
        const bool inside = i >= 64 && i < n + 64;
        const unsigned char want = inside ? from[skew + i - 64] : 0x5a;
        if (to[i] != want)
            check_fail("copies of %llu bytes, at %llu bytes behind an aligned address, of '%s': "
                       "byte %lld is %d instead of %d",
                       (unsigned long long)n, (unsigned long long)skew, w->c->name,
                       (long long)i - 64, to[i], want);
    }
    check_dev_copy(w, 0, to, second + n, 64); /* what is behind the piece in the arena stays */
    check_dev_wait(w, 0);
    for (uint32_t i = 0; i < 64; i++)
        if (to[i] != 0x22)
            check_fail("a copy of %llu bytes of '%s' writes behind its end", (unsigned long long)n,
                       w->c->name);
}

static void each_size(check_dev *w)
{
    static const uint64_t sizes[] = {0,
                                     1,
                                     2,
                                     3,
                                     5,
                                     7,
                                     31,
                                     63,
                                     64,
                                     65,
                                     127,
                                     1000,
                                     4095,
                                     4096,
                                     4097,
                                     65535,
                                     65537,
                                     999999,
                                     (1 << 21) - 1,
                                     (1 << 21) + 1};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t skew = 0; skew < 4; skew++)
            copy_around(w, sizes[i], skew);
}

void check_device_sizes(check_run *r)
{
    check_dev_each_up(r, each_size);
}
