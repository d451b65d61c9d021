/* host/try.c: whether files survive being loaded (host_try_all() of host.h).
 *
 * Constructors and the entry function of a plugin are code of others, which may crash, exit or hang
 * before anything is known about it. One child process loads file after file and says through
 * shared memory at which it is. If it ends before the last one, that file is bad, the last line of
 * its handler of crashes or of its watchdog is the reason, and another child goes on after it. So
 * the usual case costs one fork. The caller's process then loads what has survived. A program that
 * loads what a job names tries only what is not its own (host_try_first()). */
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

#include "base/err.h"
#include "base/log.h"
#include "base/time/awake.h"
#include "base/time/pressure.h"
#include "host/watch.h"

#define LATE_MS 2000 /* what the child's watchdog may need beyond that */
#define LOOK_MS 100
#define SAID_MAX 4096

typedef struct trial {
    host *h;
    const char *kind;
    const host_object_files *files;
    double seconds;       /* for a constructor or an entry, at most; 0: run.call_deadline alone */
    _Atomic uint32_t *at; /* shared: the file that is being loaded */
} trial;

typedef struct attempt {
    pid_t pid;
    int ended, from; /* pidfd; what it says on standard error */
    char said[SAID_MAX];
    size_t n;
} attempt;

_Noreturn static void child(const trial *t, int to)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    dup2(to, STDERR_FILENO);
    host_watch_report_to(NULL);
    if (t->seconds > 0)
        host_limits_shorten(t->seconds);
    host_watch_begin();
    t->h->try_first = false;
    for (uint32_t i = atomic_load(t->at); i < t->files->n; i++) {
        host_object *o;
        atomic_store(t->at, i);
        (void)!host_object_load(t->h, t->kind, t->files->at[i], &o);
    }
    atomic_store(t->at, t->files->n);
    _exit(0);
}

/* What has arrived, and true at its end. The rest of a long text is dropped. */
static bool receive(attempt *a)
{
    char part[1024];
    for (;;) {
        const ssize_t n = read(a->from, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        const size_t capacity = sizeof a->said - 1 - a->n,
                     more = (size_t)n < capacity ? (size_t)n : capacity;
        memcpy(a->said + a->n, part, more);
        a->n += more;
    }
}

/* Until the child has ended; false: too long at one file, without stops and waits for a core. */
static bool stand_by(attempt *a, const trial *t)
{
    const double limit = host_limits_call(), own = t->seconds > 0 ? t->seconds : limit;
    const uint64_t max = (uint64_t)((limit < own ? limit : own) * 1000) + LATE_MS;
    awake_count here = {.max = AWAKE_MAX_MS};
    uint32_t before = atomic_load(t->at);
    bool over = false, hung_up = false;
    while (!over) {
        struct pollfd p[2] = {{.fd = a->ended, .events = POLLIN},
                              {.fd = hung_up ? -1 : a->from, .events = POLLIN}};
        (void)poll(p, 2, LOOK_MS);
        hung_up = hung_up || receive(a);
        over = p[0].revents != 0 || a->ended < 0;
        for (; before < atomic_load(t->at); before++)
            here = (awake_count){.max = AWAKE_MAX_MS};
        if (!over && limit > 0 && awake_look(&here, pressure_ms()) > max) {
            kill(a->pid, SIGKILL);
            return false;
        }
    }
    return true;
}

/* The sentence of its last message, or how it has ended. */
static void explain(const attempt *a, int status, bool in_time, char *why, size_t size)
{
    const char *line = a->said;
    while (line && strncmp(line, "weft ", 5) != 0) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    const char *text = line ? strstr(line, "error: ") : NULL;
    if (text)
        snprintf(why, size, "its code does not survive being loaded: %.*s",
                 (int)strcspn(text + 7, "\n"), text + 7);
    else if (!in_time)
        snprintf(why, size, "its code does not return when it is loaded");
    else if (WIFSIGNALED(status))
        snprintf(why, size, "its code does not survive being loaded: signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(why, size, "its code ended the process with status %d when it was loaded",
                 WEXITSTATUS(status));
}

/* Run one child from file *at on; false: none could be started. */
static bool try_from(const trial *t)
{
    int ends[2], status = 0;
    char why[2048];
    struct stat st;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        return false;
    fcntl(ends[1], F_SETFL, 0); /* the child's: what does not fit waits */
    fflush(NULL);
    attempt a = {.pid = host_watch_fork(), .from = ends[0]};
    if (a.pid == 0)
        child(t, ends[1]);
    close(ends[1]);
    a.ended = a.pid > 0 ? pidfd_open(a.pid, 0) : -1;
    const bool in_time = a.pid > 0 && stand_by(&a, t);
    while (a.pid > 0 && waitpid(a.pid, &status, 0) < 0 && errno == EINTR)
        ;
    (void)receive(&a);
    close(a.from);
    if (a.ended >= 0)
        close(a.ended);
    const uint32_t i = atomic_load(t->at);
    if (a.pid > 0 && i < t->files->n) {
        explain(&a, status, in_time, why, sizeof why);
        if (!stat(t->files->at[i], &st))
            *vec_push(&t->h->bad) =
                (host_bad_file){st.st_dev, st.st_ino, pool_text(&t->h->pool, why)};
        atomic_store(t->at, i + 1);
    }
    return a.pid > 0;
}

void host_try_file(host *h, const char *path)
{
    const char *one[] = {path};
    const host_object_files files = {.at = one, .n = 1};
    host_try_files(h, "", &files, TRY_SECONDS);
}

void host_try_files(host *h, const char *kind, const host_object_files *files, double seconds)
{
    trial t = {h, kind, files, seconds, NULL};
    t.at = mmap(NULL, sizeof *t.at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.at == MAP_FAILED)
        return;
    atomic_store(t.at, 0);
    while (atomic_load(t.at) < files->n && try_from(&t))
        continue;
    munmap(t.at, sizeof *t.at);
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

static bool is_known(const host *h, const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return true; /* loading it will say why not */
    for (uint32_t i = 0; i < h->objects.n; i++)
        if (h->objects.at[i]->dev == st.st_dev && h->objects.at[i]->ino == st.st_ino)
            return true;
    return false;
}

void host_try_before(host *h, const char *kind, const char *path)
{
    const char *one[] = {path};
    const host_object_files files = {.at = one, .n = 1};
    if (!is_known(h, path) && !has_company())
        host_try_files(h, kind, &files, 0);
}
