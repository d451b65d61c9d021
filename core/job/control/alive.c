/* job/control/alive.c: see alive.h. */
#define _GNU_SOURCE
#include "job/control/alive.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sealed.h"

uint64_t job_alive_bytes(uint32_t ranks)
{
    return ((uint64_t)ranks * 4 + 4095) & ~(uint64_t)4095;
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void job_alive_take_hold(job_alive_hold *h, uint32_t rank, uint32_t ranks)
{
    *h = (job_alive_hold){.rank = rank};
    const uint64_t bytes = job_alive_bytes(ranks);
    uint32_t *page = rank < ranks ? sealed_map(ALIVE_FD_ENV, bytes, bytes, &h->bytes) : NULL;
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
