/* limits.c: does this process have the descriptors and the thread that UCX takes for granted?
 *
 * Where one is missing, UCX ends the process with an assertion, also in a probe of a transport that
 * the job does not need. So they are tried before UCX is called. */
#include "ucx.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { DESCRIPTORS = 16 }; /* a context, a worker and a few endpoints */

static weft_status check_descriptors(const ucx_module *m)
{
    int fds[DESCRIPTORS], n = 0;
    while (n < DESCRIPTORS && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
        n++;
    const int why = errno, had = n;
    while (n > 0)
        close(fds[--n]);
    if (had == DESCRIPTORS)
        return WEFT_OK;
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    return sockets_fail(m->host, WEFT_ABSENT,
                        "UCX needs %d more open files, and this process can open %d more (%s); its "
                        "limit is %llu: raise it with ulimit -n",
                        DESCRIPTORS, had, strerror(why), (unsigned long long)limit.rlim_cur);
}

static void *nothing(void *arg)
{
    return arg;
}

static weft_status check_thread(const ucx_module *m)
{
    pthread_t thread;
    const int why = pthread_create(&thread, NULL, nothing, NULL);
    if (why)
        return sockets_fail(
            m->host, WEFT_ABSENT,
            "UCX needs a thread of its own, and this process cannot start one (%s): "
            "see ulimit -u, and pids.max of its control group",
            strerror(why));
    pthread_join(thread, NULL);
    return WEFT_OK;
}

weft_status ucx_check_limits(const ucx_module *m)
{
    const weft_status st = check_descriptors(m);
    return st == WEFT_OK ? check_thread(m) : st;
}
