/* host/try.c: whether the code of files survives being loaded or probed (host_try() of host.h).
 *
 * Constructors, the entry function and the probe of a plugin are code of others, which may crash,
 * exit or hang on this machine. A child process runs it first and says through shared memory at
 * which file it is. If it ends there, that file is bad, the sentence of its handler of crashes or
 * of its watchdog is the reason, and another child begins again, without that file. So the usual
 * case costs one fork. The caller's process then loads what has survived. A program that loads what
 * a job names tries only what is not its own (host_try_first()). */
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

typedef struct try_page { /* shared */
    _Atomic uint32_t at;  /* files so far; 0: none has been begun */
    _Atomic bool survived;
    char path[PATH_MAX];       /* the file whose code runs, */
    char what[16];             /* and what is done to it: "loaded" */
    char why[HOST_CRASH_TEXT]; /* what its crash or its time-out says; "": nothing */
} try_page;

typedef struct trial {
    host_try_work *work;
    void *ctx;
    double seconds; /* for a file, at most; 0: run.call_deadline alone */
    bool tell;
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
    t->work(t->ctx);
    atomic_store(&t->page->survived, true);
    _exit(0);
}

void host_try_at(const char *path, const char *what)
{
    if (!mine)
        return;
    snprintf(mine->path, sizeof mine->path, "%s", path);
    snprintf(mine->what, sizeof mine->what, "%s", what);
    atomic_fetch_add(&mine->at, 1);
}

bool host_try_runs(void)
{
    return mine != NULL;
}

/* Until the child has ended; false: too long at one file, without stops and waits for a core. */
static bool stand_by(pid_t pid, int ended, const trial *t)
{
    const double limit = host_limits_call(), own = t->seconds > 0 ? t->seconds : limit;
    const uint64_t max = (uint64_t)((limit < own ? limit : own) * 1000) + LATE_MS;
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
static void explain(const try_page *p, int status, bool in_time, char *why, size_t size)
{
    if (*p->why)
        snprintf(why, size, "its code does not survive being %s: %s", p->what, p->why);
    else if (!in_time)
        snprintf(why, size, "its code does not return when it is %s", p->what);
    else if (WIFSIGNALED(status))
        snprintf(why, size, "its code does not survive being %s: signal %d (%s)", p->what,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(why, size, "its code ended the process with status %d when it was %s",
                 WEXITSTATUS(status), p->what);
}

/* The child has ended at a file: refuse it. False: no file is to blame, or it is known to be bad,
 * and another child would end in the same way. */
static bool blame(const trial *t, int status, bool in_time)
{
    const try_page *p = t->page;
    char why[2048];
    struct stat st;
    if (!atomic_load(&p->at) || stat(p->path, &st) || host_object_refused(st.st_dev, st.st_ino))
        return false;
    explain(p, status, in_time, why, sizeof why);
    host_object_refuse(st.st_dev, st.st_ino, why);
    if (t->tell)
        log_line(WEFT_LOG_WARN, "%s is left out: %s", p->path, why);
    return true;
}

/* Run one child; true: it ended at a file that is refused from now on. */
static bool try_once(const trial *t)
{
    int status = 0;
    *t->page = (try_page){0};
    fflush(NULL);
    const pid_t pid = host_watch_fork();
    if (pid == 0)
        child(t);
    if (pid < 0)
        return false;
    const int ended = pidfd_open(pid, 0);
    const bool in_time = stand_by(pid, ended, t);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (ended >= 0)
        close(ended);
    return !atomic_load(&t->page->survived) && blame(t, status, in_time);
}

static void try_all(trial t)
{
    t.page = mmap(NULL, sizeof *t.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.page == MAP_FAILED)
        return;
    while (try_once(&t))
        continue;
    munmap(t.page, sizeof *t.page);
}

typedef struct loads {
    host *h;
    const char *kind;
    const host_object_files *files;
} loads;

static void load_all(void *ctx)
{
    const loads *l = ctx;
    for (uint32_t i = 0; i < l->files->n; i++) {
        host_object *o;
        host_try_at(l->files->at[i], "loaded");
        (void)!host_object_load(l->h, l->kind, l->files->at[i], &o);
    }
}

void host_try_files(host *h, const char *kind, const host_object_files *files, double seconds)
{
    if (files->n)
        try_all((trial){.work = load_all, .ctx = &(loads){h, kind, files}, .seconds = seconds});
}

void host_try_file(host *h, const char *path)
{
    const char *one[] = {path};
    host_try_files(h, "", &(host_object_files){.at = one, .n = 1}, TRY_SECONDS);
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

bool host_try(host_try_work *work, void *ctx, bool tell)
{
    if (has_company())
        return false;
    try_all((trial){.work = work, .ctx = ctx, .tell = tell});
    return true;
}

void host_try_before(host *h, const char *kind, const char *path)
{
    const char *one[] = {path};
    if (!has_company())
        host_try_files(h, kind, &(host_object_files){.at = one, .n = 1}, 0);
}
