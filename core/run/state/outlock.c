/* run/state/outlock.c: see outlock.h. */
#define _GNU_SOURCE
#include "run/state/outlock.h"

#include "base/err.h"
#include "base/log.h"
#include "base/time/awake.h"
#include "base/time/date.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_MS 50
#define HOLDER 200 /* bytes of the text that names the holder */

/* F_RDLCK, F_WRLCK or F_UNLCK on bytes [first, first + bytes): 0, or -1 with errno. */
static int set_lock(int fd, short type, off_t first, off_t bytes)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = bytes};
    int rc;
    do
        rc = fcntl(fd, F_OFD_SETLK, &l);
    while (rc < 0 && errno == EINTR);
    return rc;
}

static bool held_by_other(int error)
{
    return error == EAGAIN || error == EACCES;
}

static bool no_locks_here(int error)
{
    return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, AGAIN_MS * 1000000L}, NULL);
}

static void close_files(run_outlock *l)
{
    if (l->fd > 0)
        close(l->fd);
    if (l->folder > 0)
        close(l->folder);
    l->fd = l->folder = 0;
}

static weft_status open_file(const char *out, bool make, run_outlock *l)
{
    if ((size_t)snprintf(l->out, sizeof l->out, "%s", out) >= sizeof l->out)
        return err_fail(WEFT_USAGE, "run.out is longer than %zu bytes", sizeof l->out - 1);
    l->folder = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    l->fd = l->folder < 0
                ? -1
                : openat(l->folder, ".lock",
                         O_RDWR | (make ? O_CREAT : 0) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (l->fd >= 0)
        return WEFT_OK;
    weft_status st =
        err_fail_errno(WEFT_USAGE, "run.out: the lock file %s/.lock cannot be opened", out);
    close_files(l);
    return st;
}

/* Whether the name leads to another file than the open one, or to none. An error that says neither
 * does not count. */
static bool is_another(int fd, int folder, const char *name)
{
    struct stat a, b;
    if (fstat(fd, &a))
        return false;
    if (fstatat(folder, name, &b, 0))
        return errno == ENOENT || errno == ENOTDIR;
    return a.st_dev != b.st_dev || a.st_ino != b.st_ino;
}

/* Whether OUT and its lock file are still the open ones. A job that ended has removed the file, and
 * a job that started anew has renamed the folder. */
static bool still_there(const run_outlock *l)
{
    return !is_another(l->folder, AT_FDCWD, l->out) && !is_another(l->fd, l->folder, ".lock");
}

/* " (it is now PATH)", as far as this system tells. */
static void where_now(const run_outlock *l, char out[4200])
{
    char link[64], path[4096];
    struct stat info;
    snprintf(link, sizeof link, "/proc/self/fd/%d", l->folder);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (*path == '/' && !is_another(l->folder, AT_FDCWD, path))
        snprintf(out, 4200, " (it is now %s)", path);
    else
        snprintf(out, 4200, "%s",
                 !fstat(l->folder, &info) && !info.st_nlink ? " (it was removed)" : "");
}

int run_outlock_folder(const run_outlock *l)
{
    return l && l->fd > 0 ? l->folder : -1;
}

bool run_outlock_leads(const run_outlock *l)
{
    return run_outlock_folder(l) < 0 || !is_another(l->folder, AT_FDCWD, l->out);
}

static uint64_t number_of(const struct stat *info)
{
    return info->st_ino << 20 ^ info->st_ino >> 44 ^ info->st_dev;
}

void run_outlock_note(run_outlock *l)
{
    struct stat info;
    if (run_outlock_folder(l) >= 0 && !fstatat(l->folder, "checkpoints", &info, 0))
        atomic_store(&l->saves, number_of(&info));
}

/* A link to a folder elsewhere is the user's; one that comes while the job runs may lead into
 * another run. A folder that was removed is made again, unless a write failed without it. */
static weft_status same_saves(run_outlock *l, bool after_failure)
{
    struct stat info, link;
    const uint64_t before = atomic_load(&l->saves);
    const bool there = !fstatat(l->folder, "checkpoints", &info, 0);
    if (!there && (!before || (errno != ENOENT && errno != ENOTDIR)))
        return WEFT_OK;
    if (!there && !after_failure) {
        atomic_store(&l->removed, true);
        return WEFT_OK;
    }
    const uint64_t now = there ? number_of(&info) : 0;
    const bool made = atomic_load(&l->removed) && there &&
                      !fstatat(l->folder, "checkpoints", &link, AT_SYMLINK_NOFOLLOW) &&
                      S_ISDIR(link.st_mode);
    if (!before || now == before || made) {
        atomic_store(&l->saves, now);
        atomic_store(&l->removed, false);
        return WEFT_OK;
    }
    return err_fail(WEFT_IO,
                    "run.out: %s/checkpoints is %s: it was moved or %s while the job ran; nothing "
                    "more is written there. Continue with --resume=auto where the checkpoints are",
                    l->out, there ? "another folder than before" : "not there any more",
                    there ? "replaced" : "removed");
}

static weft_status check(run_outlock *l, bool after_failure)
{
    char now[4200];
    if (!run_outlock_leads(l)) {
        where_now(l, now);
        return err_fail(WEFT_IO,
                        "run.out is not there any more: %s was moved or removed while the job "
                        "ran%s; nothing more is written there. Continue with --resume=auto where "
                        "its checkpoints are",
                        l->out, now);
    }
    if (l && l->fd > 0 && is_another(l->fd, l->folder, ".lock"))
        return err_fail(WEFT_IO,
                        "run.out is not there any more: the lock file %s/.lock was removed while "
                        "the job ran, so that another job may write there; nothing more is "
                        "written there. Continue with --resume=auto if it has checkpoints",
                        l->out);
    return run_outlock_folder(l) < 0 ? WEFT_OK : same_saves(l, after_failure);
}

weft_status run_outlock_check(run_outlock *l)
{
    return check(l, false);
}

weft_status run_outlock_cause(run_outlock *l)
{
    return check(l, true);
}

/* The text of the holder. The contents are untrusted: only printable ASCII is shown. */
static void read_holder(int fd, char out[HOLDER])
{
    ssize_t n = pread(fd, out, HOLDER - 1, 0);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
    for (char *p = out; *p; p++)
        *p = *p >= 32 && *p < 127 ? *p : '?';
    if (!*out)
        snprintf(out, HOLDER, "another job");
}

static weft_status warn_no_locks(const char *out)
{
    log_line(WEFT_LOG_WARN,
             "the file system of %s does not support locks (%s): make sure that no second job "
             "writes there",
             out, strerror(errno));
    return WEFT_OK;
}

/* One attempt. WEFT_BUSY: another job holds the lock, or held it a moment ago. */
static weft_status attempt(const char *out, run_outlock *l, char holder[HOLDER])
{
    weft_status st = open_file(out, true, l);
    if (st != WEFT_OK)
        return st;
    if (set_lock(l->fd, F_WRLCK, 0, 2)) {
        st = held_by_other(errno) ? WEFT_BUSY
             : no_locks_here(errno)
                 ? warn_no_locks(out)
                 : err_fail_errno(WEFT_IO, "run.out: %s/.lock cannot be locked", l->out);
        if (st == WEFT_BUSY)
            read_holder(l->fd, holder);
    } else if (!still_there(l)) {
        st = WEFT_BUSY;
    }
    if (st != WEFT_OK)
        close_files(l);
    return st;
}

weft_status run_outlock_take(const char *out, double timeout, run_outlock *out_lock)
{
    run_outlock l = {.first = true};
    char holder[HOLDER] = "another job";
    const uint64_t until = awake_ms() + (uint64_t)(timeout * 1000);
    bool reported = false;
    weft_status st;
    while ((st = attempt(out, &l, holder)) == WEFT_BUSY && awake_ms() < until) {
        if (!reported)
            log_line(WEFT_LOG_INFO, "%s is in use by %s: waiting up to %.0f s for it to end", out,
                     holder, timeout);
        reported = true;
        nap();
    }
    if (st == WEFT_BUSY)
        return err_fail(
            WEFT_USAGE,
            "run.out: %s is in use by %s; wait for it to end, or give this job another run.out",
            out, holder);
    if (st == WEFT_OK)
        *out_lock = l;
    return st;
}

weft_status run_outlock_admit(run_outlock *l)
{
    char text[HOLDER], host[128] = "", since[32];
    date_now(since);
    since[10] = ' '; /* for people: without T, milliseconds and Z */
    gethostname(host, sizeof host - 1);
    if (getrandom(&l->token, sizeof l->token, 0) != (ssize_t)sizeof l->token)
        return err_fail_errno(WEFT_IO, "no random number for the token of the run");
    int n = snprintf(text, sizeof text, "process %ld on %s, since %.19s UTC\n%016" PRIx64 "\n",
                     (long)getpid(), host, since, l->token);
    /* synced: other machines are to see it now */
    if (ftruncate(l->fd, 0) || pwrite(l->fd, text, (size_t)n, 0) != n || fsync(l->fd))
        return err_fail_errno(WEFT_IO, "run.out: %s/.lock cannot be written", l->out);
    if (set_lock(l->fd, F_RDLCK, 1, 1) && !no_locks_here(errno))
        return err_fail_errno(WEFT_IO, "run.out: %s/.lock cannot be shared with the other ranks",
                              l->out);
    return WEFT_OK;
}

/* Whether the file has the token, on its second line. */
static bool has_token(int fd, uint64_t token)
{
    char text[HOLDER + 1];
    const ssize_t n = pread(fd, text, HOLDER, 0);
    text[n > 0 ? n : 0] = 0;
    const char *second = strchr(text, '\n');
    uint64_t found;
    return second && sscanf(second + 1, "%16" SCNx64, &found) == 1 && found == token;
}

/* The folder is opened anew, since that makes NFS ask the server which files it has. */
static weft_status find_token(const char *out, uint64_t token, run_outlock *l)
{
    char path[4096 + 8];
    weft_status st = open_file(out, false, l);
    snprintf(path, sizeof path, "%s/.lock", out);
    if (st != WEFT_OK && access(path, F_OK) == 0)
        return st;
    err_clear();
    if (st != WEFT_OK)
        return WEFT_BUSY;
    if (has_token(l->fd, token))
        return WEFT_OK;
    close_files(l);
    return WEFT_BUSY;
}

weft_status run_outlock_join(const char *out, uint64_t token, double timeout, job *j,
                             run_outlock *out_lock)
{
    run_outlock l = {0};
    const uint64_t until = awake_ms() + (uint64_t)(timeout * 1000);
    weft_status st;
    while ((st = find_token(out, token, &l)) == WEFT_BUSY) {
        if ((st = job_failure(j)) != WEFT_OK)
            return st;
        if (awake_ms() > until)
            return WEFT_BUSY;
        nap();
    }
    if (st != WEFT_OK)
        return st;
    if (set_lock(l.fd, F_RDLCK, 1, 1) && !no_locks_here(errno)) {
        st = err_fail_errno(WEFT_IO, "run.out: %s/.lock cannot be locked", l.out);
        close_files(&l);
        return st;
    }
    *out_lock = l;
    return WEFT_OK;
}

void run_outlock_release(run_outlock *l, double timeout)
{
    if (!l->fd)
        return;
    const uint64_t until = awake_ms() + (uint64_t)(timeout * 1000);
    int rc = l->first ? set_lock(l->fd, F_WRLCK, 0, 2) : -1;
    while (l->first && rc && held_by_other(errno) && awake_ms() < until) {
        nap();
        rc = set_lock(l->fd, F_WRLCK, 0, 2);
    }
    if (!rc && !is_another(l->fd, l->folder, ".lock"))
        unlinkat(l->folder, ".lock", 0);
    close_files(l);
    *l = (run_outlock){0};
}
