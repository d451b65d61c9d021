/* job/control/alive.c: see alive.h. */
#define _GNU_SOURCE
#include "job/control/alive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t job_alive_bytes(uint32_t ranks)
{
    return ((uint64_t)ranks * 4 + 4095) & ~(uint64_t)4095;
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* The page passed by the launcher, if it is valid: a memfd of the right size that cannot shrink. */
static uint32_t *map_page(uint32_t ranks, uint64_t *bytes)
{
    const char *text = getenv(ALIVE_FD_ENV);
    char *end = NULL;
    errno = 0;
    const long fd = text ? strtol(text, &end, 10) : -1;
    if (!text || errno || !*text || *end || fd < 3 || fd > 1 << 20)
        return NULL;
    struct stat s;
    const int seals = fcntl((int)fd, F_GET_SEALS);
    *bytes = job_alive_bytes(ranks);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat((int)fd, &s) || s.st_size != (off_t)*bytes)
        return NULL;
    void *at = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    close((int)fd);
    return at == MAP_FAILED ? NULL : at;
}

void job_alive_take_hold(job_alive_hold *h, uint32_t rank, uint32_t ranks)
{
    *h = (job_alive_hold){.rank = rank};
    uint32_t *page = rank < ranks ? map_page(ranks, &h->bytes) : NULL;
    size_t known = 0;
    if (!page)
        return;
    /* The entry is private memory; only the word is shared, at the offset in the head. */
    h->head.list.next = &h->entry;
    h->entry.next = &h->head.list;
    h->head.futex_offset = (long)((uintptr_t)&page[rank] - (uintptr_t)&h->entry);
    if (syscall(SYS_get_robust_list, 0, &h->before, &known) || known != sizeof h->head ||
        syscall(SYS_set_robust_list, &h->head, sizeof h->head)) {
        munmap(page, h->bytes);
        return;
    }
    h->page = page;
    _Atomic uint32_t *word = (_Atomic uint32_t *)&page[rank];
    atomic_store(word, (uint32_t)gettid() | FUTEX_WAITERS);
    wake(word);
}

void job_alive_release(job_alive_hold *h)
{
    if (!h->page)
        return;
    _Atomic uint32_t *word = (_Atomic uint32_t *)&h->page[h->rank];
    atomic_store(word, 0);
    wake(word);
    syscall(SYS_set_robust_list, h->before, sizeof h->head);
    munmap(h->page, h->bytes);
    h->page = NULL;
}
