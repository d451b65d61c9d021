/* host/try.c: whether files survive being loaded (host_try_all() of host.h) or probed
 * (host_try_others()).
 *
 * Constructors, the entry function and probes of a plugin are code of others, which may crash, exit
 * or hang before anything is known about it. One child process loads file after file and says
 * through shared memory at which it is. If it ends before the last one, that file is bad, the
 * sentence of its handler of crashes or of its watchdog is the reason, and another child goes on
 * after it. So the usual case costs one fork. The caller's process then loads what has survived. A
 * program that loads what a job names tries only what is not its own (host_try_first()). Transports
 * of others are probed by a child each, so that no file answers for what another one's thread does.
 */
#define _GNU_SOURCE
#include "host/object.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time/awake.h"
#include "base/time/pressure.h"
#include "host/watch.h"

#define LATE_MS 2000 /* what the child's watchdog may need beyond that */
#define LOOK_MS 100
#define PROBE_SECONDS 30 /* half of what others wait for a rank, by default */

typedef struct try_page {      /* shared */
    _Atomic uint32_t at;       /* the file that is being loaded */
    char why[HOST_CRASH_TEXT]; /* what its crash or its time-out says; "": nothing */
} try_page;

typedef struct trial {
    host *h;
    const char *kind;
    const host_object_files *files;
    host_try_work *work; /* with a file, in place of loading it; NULL: none */
    const void *ctx;
    double seconds; /* for a constructor or an entry, at most; 0: run.call_deadline alone */
    const char *what;
    try_page *page;
} trial;

static try_page *mine; /* of this process, the child */

static bool keep_late(const char *text)
{
    snprintf(mine->why, sizeof mine->why, "%s", text);
    return true;
}

_Noreturn static void child(const trial *t)
{
    setpgid(0, 0); /* what a plugin forks ends with it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
    }
    mine = t->page;
    host_crash_keep(mine->why);
    host_watch_report_to(keep_late);
    if (t->seconds > 0)
        host_limits_shorten(t->seconds);
    host_watch_begin();
    if (t->h)
        t->h->try_first = false;
    for (uint32_t i = atomic_load(&t->page->at); i < t->files->n; i++) {
        host_object *o;
        atomic_store(&t->page->at, i);
        if (t->work)
            t->work(t->ctx, t->files->at[i]);
        else
            (void)!host_object_load(t->h, t->kind, t->files->at[i], &o);
    }
    atomic_store(&t->page->at, t->files->n);
    _exit(0);
}

/* Until the child has ended; false: too long at one file, without stops and waits for a core. */
static bool stand_by(pid_t pid, int ended, const trial *t)
{
    const double limit = host_limits_call(), own = t->seconds > 0 ? t->seconds : limit;
    const double most = t->work || own < limit ? own : limit;
    const uint64_t max = (uint64_t)(most * 1000) + LATE_MS;
    awake_count here = {.max = AWAKE_MAX_MS};
    uint32_t before = atomic_load(&t->page->at);
    struct pollfd p = {.fd = ended, .events = POLLIN};
    while (ended >= 0 && poll(&p, 1, LOOK_MS) <= 0) {
        for (; before < atomic_load(&t->page->at); before++)
            here = (awake_count){.max = AWAKE_MAX_MS};
        if (limit > 0 && awake_look(&here, pressure_ms()) > max) {
            kill(pid, SIGKILL);
            return false;
        }
    }
    return true;
}

/* The sentence with which it has ended, or how. */
static void explain(const trial *t, int status, bool in_time, char *why, size_t size)
{
    if (*t->page->why)
        snprintf(why, size, "its code does not survive being %s: %s", t->what, t->page->why);
    else if (!in_time)
        snprintf(why, size, "its code does not return when it is %s", t->what);
    else if (WIFSIGNALED(status))
        snprintf(why, size, "its code does not survive being %s: signal %d (%s)", t->what,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(why, size, "its code ended the process with status %d when it was %s",
                 WEXITSTATUS(status), t->what);
}

/* Run one child from file page->at on; false: none could be started. */
static bool try_from(const trial *t)
{
    int status = 0;
    char why[2048];
    uint32_t i = atomic_load(&t->page->at);
    struct stat st; /* of the file before its code runs, which may remove it */
    bool there = !stat(t->files->at[i], &st);
    memset(t->page->why, 0, sizeof t->page->why);
    fflush(NULL);
    const pid_t pid = host_watch_fork();
    if (pid == 0)
        child(t);
    if (pid < 0 && t->work && there)
        host_object_refuse(st.st_dev, st.st_ino, "no process could be started to probe it in");
    if (pid < 0)
        return false;
    const int ended = pidfd_open(pid, 0);
    const bool in_time = stand_by(pid, ended, t);
    siginfo_t unused; /* its number is its group's until it is waited for */
    while (waitid(P_PID, (id_t)pid, &unused, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (ended >= 0)
        close(ended);
    const uint32_t at = atomic_load(&t->page->at);
    if (at < t->files->n) {
        explain(t, status, in_time, why, sizeof why);
        there = at == i ? there : !stat(t->files->at[at], &st);
        if (there)
            host_object_refuse(st.st_dev, st.st_ino, why);
        atomic_store(&t->page->at, at + 1);
    }
    return true;
}

static void try_all(trial t)
{
    t.page = mmap(NULL, sizeof *t.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.page == MAP_FAILED)
        return;
    while (atomic_load(&t.page->at) < t.files->n && try_from(&t))
        continue;
    munmap(t.page, sizeof *t.page);
}

void host_try_file(host *h, const char *path)
{
    const char *one[] = {path};
    const host_object_files files = {.at = one, .n = 1};
    host_try_files(h, "", &files, TRY_SECONDS);
}

void host_try_files(host *h, const char *kind, const host_object_files *files, double seconds)
{
    try_all((trial){.h = h, .kind = kind, .files = files, .seconds = seconds, .what = "loaded"});
}

/* Whether other threads than the caller's and the watchdog's could hold a lock while it forks. */
static bool has_company(void)
{
    uint32_t n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *d; tasks && (d = readdir(tasks));)
        n += d->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return n == 0 || n > 2;
}

void host_try_before(host *h, const char *kind, const char *path)
{
    const char *one[] = {path};
    const host_object_files files = {.at = one, .n = 1};
    if (!has_company())
        host_try_files(h, kind, &files, 0);
}

bool host_try_each(const host_object_files *files, host_try_work *work, const void *ctx, bool tell)
{
    if (has_company())
        return false;
    for (uint32_t i = 0; i < files->n; i++) {
        const char *why, *path = files->at[i];
        struct stat st;
        if (stat(path, &st) || host_object_refused(st.st_dev, st.st_ino))
            continue;
        try_all((trial){.files = &(host_object_files){.at = &path, .n = 1},
                        .work = work,
                        .ctx = ctx,
                        .seconds = PROBE_SECONDS,
                        .what = "probed"});
        why = host_object_refused(st.st_dev, st.st_ino);
        if (why && tell)
            log_line(WEFT_LOG_WARN, "%s is left out: %s", path, why);
    }
    return true;
}
