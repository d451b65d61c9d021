/* check/behaviour/step.c: calls in a step take no memory, descriptor or thread.
 *
 * What the plugin's own object imports is replaced, so its calls are seen, also those that give
 * everything back at once; calls of libraries that it uses are not. */
#define _GNU_SOURCE
#include "check/behaviour/behaviour.h"
#include "check/hook.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

static check_host h;

static void *step_malloc(size_t bytes)
{
    check_host_step(&h, "malloc()");
    return malloc(bytes);
}

static void *step_calloc(size_t n, size_t bytes)
{
    check_host_step(&h, "calloc()");
    return calloc(n, bytes);
}

static void *step_realloc(void *p, size_t bytes)
{
    check_host_step(&h, "realloc()");
    return realloc(p, bytes);
}

static int step_posix_memalign(void **out, size_t align, size_t bytes)
{
    check_host_step(&h, "posix_memalign()");
    return posix_memalign(out, align, bytes);
}

static void *step_aligned_alloc(size_t align, size_t bytes)
{
    check_host_step(&h, "aligned_alloc()");
    return aligned_alloc(align, bytes);
}

static void *step_new(size_t bytes)
{
    check_host_step(&h, "operator new");
    void *p = malloc(bytes ? bytes : 1);
    return p ? p : (abort(), NULL);
}

static void *step_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    check_host_step(&h, "mmap()");
    return mmap(at, bytes, prot, flags, fd, offset);
}

static int step_open(const char *path, int flags, mode_t mode)
{
    check_host_step(&h, "open()");
    return open(path, flags, mode);
}

static FILE *step_fopen(const char *path, const char *mode)
{
    check_host_step(&h, "fopen()");
    return fopen(path, mode);
}

static int step_socket(int domain, int type, int protocol)
{
    check_host_step(&h, "socket()");
    return socket(domain, type, protocol);
}

static int step_eventfd(unsigned value, int flags)
{
    check_host_step(&h, "eventfd()");
    return eventfd(value, flags);
}

static int step_thread(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    check_host_step(&h, "pthread_create()");
    return pthread_create(out, attr, fn, arg);
}

#define TO(fn) ((void (*)(void))(fn))
static const check_hooks hooks[] = {
    {"malloc", TO(step_malloc)},
    {"calloc", TO(step_calloc)},
    {"realloc", TO(step_realloc)},
    {"posix_memalign", TO(step_posix_memalign)},
    {"aligned_alloc", TO(step_aligned_alloc)},
    {"_Znwm", TO(step_new)},
    {"_Znam", TO(step_new)},
    {"mmap", TO(step_mmap)},
    {"mmap64", TO(step_mmap)},
    {"open", TO(step_open)},
    {"open64", TO(step_open)},
    {"fopen", TO(step_fopen)},
    {"fopen64", TO(step_fopen)},
    {"socket", TO(step_socket)},
    {"eventfd", TO(step_eventfd)},
    {"pthread_create", TO(step_thread)},
    {0},
};

void check_behaviour_step(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    check_exercise d = {.run = r, .host = &h};
    check_host_begin(&h, "the host");
    check_hook_object(m, hooks);
    check_exercise_life(&d);
    if (h.misuse[CHECK_MISUSE_STEP][0])
        check_fail("'%s': %s; a call tagged [compute] or [progress] takes no memory, descriptor or "
                   "thread",
                   m->id, h.misuse[CHECK_MISUSE_STEP]);
}
