/* job/control/progress.c: see progress.h. */
#define _GNU_SOURCE
#include "job/control/progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/number/check.h"
#include "base/sealed.h"
#include "job/control/control.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static job_progress_page *ours;
static uint32_t words; /* of ours->step */
static uint32_t attempt = 1;

static void find_page(void)
{
    const char *text = getenv(ATTEMPT_ENV);
    uint64_t nth, bytes;
    if (text && check_number(&text, ATTEMPTS_MAX, &nth) && !*text && nth)
        attempt = (uint32_t)nth;
    ours = sealed_map(PROGRESS_FD_ENV, sizeof *ours, UINT64_MAX, &bytes);
    if (ours)
        words = (uint32_t)((bytes - sizeof *ours) / sizeof *ours->step);
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
