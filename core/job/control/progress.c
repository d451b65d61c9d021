/* job/control/progress.c: see progress.h. */
#define _GNU_SOURCE
#include "job/control/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/control/control.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static job_progress_page *ours;
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
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || info.st_size < (off_t)sizeof(job_progress_page))
        return;
    void *at = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    close((int)fd);
    ours = at == MAP_FAILED ? NULL : at;
    words = (uint32_t)(((uint64_t)info.st_size - sizeof(job_progress_page)) / sizeof(uint64_t));
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

void job_progress_fail(const char *why, const char *own)
{
    uint32_t none = 0;
    pthread_once(&once, find_page);
    if (!ours || !atomic_compare_exchange_strong(&ours->failed, &none, 1))
        return;
    job_control_shorten(ours->why, sizeof ours->why, why);
    ours->own = own ? (uint32_t)(own - why) : PROGRESS_WHY;
    atomic_store(&ours->failed, 2);
}

void job_progress_ask(int number)
{
    int none = 0;
    if (ours)
        atomic_compare_exchange_strong(&ours->asked, &none, number);
}

void job_progress_sign(uint32_t silence_ms, bool met)
{
    pthread_once(&once, find_page);
    if (!ours)
        return;
    atomic_store(&ours->met, met);
    atomic_store(&ours->silence_ms, silence_ms);
    atomic_fetch_add(&ours->signs, 1);
}
