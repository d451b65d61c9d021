/* job/control/progress.c: see progress.h. */
#define _GNU_SOURCE
#include "job/control/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

typedef struct page {
    _Atomic uint32_t newest, signs, silence_ms;
    _Atomic int asked;
    _Atomic uint32_t failed;    /* 1: `why` is being written, 2: it is there */
    _Atomic uint64_t folder[2]; /* device, inode; 0: none */
    char why[PROGRESS_WHY];
    bool said;               /* ... as the rank that failed says */
    _Atomic uint64_t step[]; /* [ranks] */
} page;

struct job_progress {
    int fd;
    uint32_t ranks;
    uint64_t bytes;
    page *at;
};

/* --- the side that starts ranks --- */

weft_status job_progress_open(uint32_t ranks, job_progress **out)
{
    job_progress *p = mem_alloc(sizeof *p);
    p->ranks = ranks;
    p->bytes = sizeof(page) + ranks * sizeof(uint64_t);
    p->fd = memfd_create("weft progress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at = MAP_FAILED;
    if (p->fd >= 0 && !ftruncate(p->fd, (off_t)p->bytes) &&
        !fcntl(p->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
        at = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    p->at = at == MAP_FAILED ? NULL : at;
    if (!p->at) {
        weft_status st =
            err_fail_errno(WEFT_IO, "no shared memory for the progress of %u ranks", ranks);
        job_progress_close(p);
        return st;
    }
    *out = p;
    return WEFT_OK;
}

int job_progress_fd(const job_progress *p)
{
    return p ? p->fd : -1;
}

void job_progress_close(job_progress *p)
{
    if (!p)
        return;
    if (p->at)
        munmap(p->at, p->bytes);
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

uint64_t job_progress_of(const job_progress *p, uint32_t rank)
{
    return rank < p->ranks ? atomic_load(&p->at->step[rank]) : 0;
}

uint64_t job_progress_furthest(const job_progress *p)
{
    uint64_t furthest = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (job_progress_of(p, r) > furthest)
            furthest = job_progress_of(p, r);
    return furthest;
}

uint32_t job_progress_newest(const job_progress *p)
{
    const uint32_t newest = atomic_load(&p->at->newest);
    return newest <= ATTEMPTS_MAX ? newest : 0;
}

void job_progress_keep_folder(const job_progress *p)
{
    const uint64_t device = atomic_load(&p->at->folder[0]), inode = atomic_load(&p->at->folder[1]);
    char text[48];
    snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)device, (unsigned long long)inode);
    if (inode)
        setenv(FOLDER_ENV, text, 1);
}

bool job_progress_why(const job_progress *p, char out[PROGRESS_WHY])
{
    out[0] = 0;
    if (atomic_load(&p->at->failed) == 2)
        memcpy(out, p->at->why, PROGRESS_WHY);
    out[PROGRESS_WHY - 1] = 0;
    return *out && p->at->said;
}

int job_progress_asked(const job_progress *p)
{
    const int number = p ? atomic_load(&p->at->asked) : 0;
    return number > 0 && number < NSIG ? number : 0;
}

uint32_t job_progress_signs(const job_progress *p, uint32_t *silence_ms)
{
    *silence_ms = atomic_load(&p->at->silence_ms);
    return atomic_load(&p->at->signs);
}

/* --- a rank's side --- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static page *ours;
static uint32_t words; /* of ours->step */
static uint32_t attempt = 1;

/* A whole number of `name`, at most `max`; -1: none. */
static long number(const char *name, long max)
{
    const char *text = getenv(name);
    char *end = NULL;
    errno = 0;
    const long v = text && *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    return v < 0 || errno || *end || v > max ? -1 : v;
}

/* The descriptor is trusted only if it is memory that cannot shrink. */
static void find_page(void)
{
    const long fd = number(PROGRESS_FD_ENV, 1 << 20), nth = number(ATTEMPT_ENV, ATTEMPTS_MAX);
    attempt = nth > 0 ? (uint32_t)nth : 1;
    struct stat info;
    if (fd < 3 || fstat((int)fd, &info) || !S_ISREG(info.st_mode))
        return;
    const int seals = fcntl((int)fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || info.st_size < (off_t)sizeof(page))
        return;
    void *at = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    close((int)fd);
    if (at == MAP_FAILED)
        return;
    ours = at;
    words = (uint32_t)(((uint64_t)info.st_size - sizeof(page)) / sizeof(uint64_t));
}

uint32_t job_attempt_number(void)
{
    pthread_once(&once, find_page);
    return attempt;
}

void job_progress_folder(int folder)
{
    struct stat info;
    pthread_once(&once, find_page);
    if (!ours || fstat(folder, &info))
        return;
    atomic_store(&ours->folder[0], info.st_dev);
    atomic_store(&ours->folder[1], info.st_ino);
}

bool job_attempt_folder(uint64_t *device, uint64_t *inode)
{
    unsigned long long a, b;
    const char *text = job_attempt_number() > 1 ? getenv(FOLDER_ENV) : NULL;
    if (!text || sscanf(text, "%llu:%llu", &a, &b) != 2)
        return false;
    *device = a;
    *inode = b;
    return true;
}

void job_progress_step(uint32_t rank, uint64_t step)
{
    pthread_once(&once, find_page);
    if (ours && rank < words)
        atomic_store_explicit(&ours->step[rank], step, memory_order_relaxed);
}

void job_progress_receive(uint32_t newest)
{
    pthread_once(&once, find_page);
    if (ours && newest > atomic_load(&ours->newest))
        atomic_store(&ours->newest, newest);
}

void job_progress_fail(const char *why, bool said)
{
    uint32_t none = 0;
    pthread_once(&once, find_page);
    if (!ours || !atomic_compare_exchange_strong(&ours->failed, &none, 1))
        return;
    snprintf(ours->why, sizeof ours->why, "%s", why);
    ours->said = said;
    atomic_store(&ours->failed, 2);
}

void job_progress_ask(int number)
{
    int none = 0;
    if (ours)
        atomic_compare_exchange_strong(&ours->asked, &none, number);
}

void job_progress_sign(uint32_t silence_ms)
{
    pthread_once(&once, find_page);
    if (!ours)
        return;
    atomic_store(&ours->silence_ms, silence_ms);
    atomic_fetch_add(&ours->signs, 1);
}
