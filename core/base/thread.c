/* base/thread.c: see thread.h. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>

int thread_start(pthread_t *out, const char *name, void *(*body)(void *), void *arg)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    char creator[16]; /* its name is inherited: naming by way of /proc slows the process' end */
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    prctl(PR_GET_NAME, creator);
    prctl(PR_SET_NAME, name);
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, body, arg);
    prctl(PR_SET_NAME, creator);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return error;
    if (out)
        *out = thread;
    else
        pthread_detach(thread);
    return 0;
}
