/* launch/progress.c: see progress.h. */
#define _GNU_SOURCE
#include "launch/progress.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

struct launch_progress {
    int fd;
    uint32_t ranks;
    uint64_t bytes;
    job_progress_page *at;
};

weft_status launch_progress_open(uint32_t ranks, launch_progress **out)
{
    launch_progress *p = mem_alloc(sizeof *p);
    p->ranks = ranks;
    p->bytes = sizeof(job_progress_page) + ranks * sizeof(uint64_t);
    p->fd = memfd_create("weft progress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at = MAP_FAILED;
    if (p->fd >= 0 && !ftruncate(p->fd, (off_t)p->bytes) &&
        !fcntl(p->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
        at = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    p->at = at == MAP_FAILED ? NULL : at;
    if (!p->at) {
        weft_status st =
            err_fail_errno(WEFT_IO, "no shared memory for the progress of %u ranks", ranks);
        launch_progress_close(p);
        return st;
    }
    *out = p;
    return WEFT_OK;
}

int launch_progress_fd(const launch_progress *p)
{
    return p ? p->fd : -1;
}

void launch_progress_close(launch_progress *p)
{
    if (!p)
        return;
    if (p->at)
        munmap(p->at, p->bytes);
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

uint64_t launch_progress_of(const launch_progress *p, uint32_t rank)
{
    return rank < p->ranks ? atomic_load(&p->at->step[rank]) : 0;
}

uint64_t launch_progress_furthest(const launch_progress *p)
{
    uint64_t furthest = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (launch_progress_of(p, r) > furthest)
            furthest = launch_progress_of(p, r);
    return furthest;
}

uint32_t launch_progress_newest(const launch_progress *p)
{
    const uint32_t newest = atomic_load(&p->at->newest);
    return newest <= ATTEMPTS_MAX ? newest : 0;
}

void launch_progress_keep_folder(const launch_progress *p)
{
    const uint64_t device = atomic_load(&p->at->folder[0]), inode = atomic_load(&p->at->folder[1]);
    char text[48];
    snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)device, (unsigned long long)inode);
    if (inode)
        setenv(FOLDER_ENV, text, 1);
}

const char *launch_progress_why(const launch_progress *p, char out[PROGRESS_WHY])
{
    out[0] = 0;
    if (atomic_load(&p->at->failed) == 2)
        memcpy(out, p->at->why, PROGRESS_WHY);
    out[PROGRESS_WHY - 1] = 0;
    return p->at->own < strlen(out) ? out + p->at->own : NULL;
}

int launch_progress_asked(const launch_progress *p)
{
    const int number = p ? atomic_load(&p->at->asked) : 0;
    return number > 0 && number < NSIG ? number : 0;
}

bool launch_progress_met(const launch_progress *p)
{
    return atomic_load(&p->at->met);
}

uint32_t launch_progress_signs(const launch_progress *p, uint32_t *silence_ms)
{
    *silence_ms = atomic_load(&p->at->silence_ms);
    return atomic_load(&p->at->signs);
}
