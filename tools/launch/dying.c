/* launch/dying.c: see dying.h. */
#define _GNU_SOURCE
#include "launch/dying.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "job/control/alive.h"

#define WORDS_A_WAIT (FUTEX_WAITV_MAX - 1) /* one place is for the word that stops the thread */
#define CHANGES_MAX 2                      /* of a word: held, then released */
#define EXIT_CODE_FIELD 52                 /* of /proc/PID/stat, counted from 1 */

typedef struct watcher {
    launch_dying *watch;
    pthread_t thread;
    uint32_t first, n; /* words */
    bool running;
    uint32_t seen[WORDS_A_WAIT], changes[WORDS_A_WAIT];
    bool done[WORDS_A_WAIT];
} watcher;

struct launch_dying {
    int page_fd, ends[2]; /* ends: of the pipe that carries rank numbers */
    _Atomic uint32_t *word;
    uint64_t bytes;
    _Atomic uint32_t stop;
    uint32_t ranks, first, count, nwatchers;
    watcher *watchers;
};

/* Check one word; true when it is still to be waited for. */
static bool look(watcher *w, uint32_t i)
{
    if (w->done[i])
        return false;
    const uint32_t now = atomic_load(&w->watch->word[w->first + i]), before = w->seen[i];
    if (now == before)
        return true;
    w->seen[i] = now;
    if (now & FUTEX_OWNER_DIED) {
        const uint32_t rank = w->first + i;
        w->done[i] = write(w->watch->ends[1], &rank, sizeof rank) == (ssize_t)sizeof rank;
    } else {
        w->done[i] = ++w->changes[i] >= CHANGES_MAX;
    }
    return !w->done[i];
}

static void *watch_words(void *arg)
{
    watcher *w = arg;
    struct futex_waitv v[WORDS_A_WAIT + 1];
    while (!atomic_load(&w->watch->stop)) {
        uint32_t n = 0;
        v[n++] = (struct futex_waitv){0, (uintptr_t)&w->watch->stop, FUTEX_32, 0};
        for (uint32_t i = 0; i < w->n; i++)
            if (look(w, i))
                v[n++] = (struct futex_waitv){w->seen[i], (uintptr_t)&w->watch->word[w->first + i],
                                              FUTEX_32, 0};
        if (syscall(SYS_futex_waitv, v, n, 0, NULL, 0) < 0 && errno != EAGAIN && errno != EINTR)
            return NULL; /* unsupported or not permitted: only the pidfds report deaths */
    }
    return NULL;
}

/* A memfd with a sealed size, so that no process that maps it can get SIGBUS. */
static bool make_page(launch_dying *w)
{
    w->bytes = job_alive_bytes(w->ranks);
    w->page_fd = memfd_create("weft-alive", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (w->page_fd < 0 || ftruncate(w->page_fd, (off_t)w->bytes) ||
        fcntl(w->page_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return false;
    void *at = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->page_fd, 0);
    w->word = at == MAP_FAILED ? NULL : at;
    return w->word && !pipe2(w->ends, O_CLOEXEC | O_NONBLOCK);
}

void launch_dying_begin(launch_dying *w)
{
    if (!w)
        return;
    close(w->page_fd); /* the ranks have inherited it */
    w->page_fd = -1;
    w->nwatchers = (w->count + WORDS_A_WAIT - 1) / WORDS_A_WAIT;
    w->watchers = mem_alloc(w->nwatchers * sizeof *w->watchers);
    for (uint32_t i = 0; i < w->nwatchers; i++) {
        watcher *x = &w->watchers[i];
        x->watch = w;
        const uint32_t left = w->count - i * WORDS_A_WAIT;
        x->first = w->first + i * WORDS_A_WAIT;
        x->n = left < WORDS_A_WAIT ? left : WORDS_A_WAIT;
        x->running = !thread_start(&x->thread, "weft-dying", watch_words, x);
    }
}

launch_dying *launch_dying_open(uint32_t ranks, uint32_t first, uint32_t count)
{
    launch_dying *w = mem_alloc(sizeof *w);
    w->ranks = ranks;
    w->first = first;
    w->count = count;
    w->page_fd = w->ends[0] = w->ends[1] = -1;
    if (make_page(w))
        return w;
    launch_dying_close(w);
    return NULL;
}

int launch_dying_page(const launch_dying *w)
{
    return w ? w->page_fd : -1;
}

int launch_dying_fd(const launch_dying *w)
{
    return w ? w->ends[0] : -1;
}

bool launch_dying_take(launch_dying *w, uint32_t *rank)
{
    return w && read(w->ends[0], rank, sizeof *rank) == (ssize_t)sizeof *rank &&
           *rank - w->first < w->count;
}

void launch_dying_close(launch_dying *w)
{
    if (!w)
        return;
    atomic_store(&w->stop, 1);
    for (uint32_t i = 0; i < w->nwatchers; i++) {
        if (!w->watchers[i].running)
            continue;
        syscall(SYS_futex, &w->stop, FUTEX_WAKE, (int)w->nwatchers, NULL, NULL, 0);
        pthread_join(w->watchers[i].thread, NULL);
    }
    for (uint32_t i = 0; i < 2; i++)
        if (w->ends[i] >= 0)
            close(w->ends[i]);
    if (w->page_fd >= 0)
        close(w->page_fd);
    if (w->word)
        munmap(w->word, w->bytes);
    free(w->watchers);
    free(w);
}

bool launch_dying_how(pid_t pid, job_control_record *out)
{
    char path[48], text[2048], state;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    char *at = strrchr(text, ')'); /* the end of field 2, which may hold any character */
    if (!at || sscanf(at, ") %c", &state) != 1 || state == 'T' || state == 't')
        return false;
    for (uint32_t field = 2; at && field < EXIT_CODE_FIELD; field++)
        at = strchr(at + 1, ' ');
    const long code = at ? strtol(at, NULL, 10) : 0;
    if (code <= 0 || code > 0xffff)
        return false;
    out->kind = code & 0x7f ? CONTROL_KILLED : CONTROL_ENDED;
    out->code = (uint32_t)(code & 0x7f ? code & 0x7f : code >> 8);
    return true;
}
