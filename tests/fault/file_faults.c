/* tests/fault/file_faults.c: loaded in front of the C library (LD_PRELOAD), it makes file
 * operations of a real rank fail, or wait.
 *
 * WEFT_FILE_FAULT has rules RANK:CALL:PATH:NTH:ACTION, separated by ';'. RANK is a number or *.
 * CALL is open, read, write, sync, look (stat), rename, mkdir or unlink. PATH is part of the path.
 * NTH counts the calls that fit, from 1; with a '+' all later ones are meant too. ACTION is a
 * number of errno, or sleep=S for S seconds before the call is done, or hold: it is done once there
 * is no file WEFT_FILE_HOLD.
 *
 * WEFT_FILE_COUNT names a folder where the rank writes, when it ends, how many bytes it has read
 * from shards. What struck is written there as well, one line a fault. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RULES = 16 };

typedef struct rule {
    char call[8], path[128];
    long nth, error;
    bool later, hold;
    double sleep;
    atomic_long seen;
} rule;

static rule rules[RULES];
static int n_rules;
static _Atomic unsigned long long shard_bytes;

static void note(const char *text)
{
    const char *dir = getenv("WEFT_FILE_COUNT"), *rank = getenv("RANK");
    char path[4096];
    if (!dir)
        return;
    snprintf(path, sizeof path, "%s/rank-%s", dir, rank ? rank : "0");
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd >= 0) {
        (void)!syscall(SYS_write, fd, text, strlen(text));
        syscall(SYS_close, fd);
    }
}

static __attribute__((constructor)) void read_rules(void)
{
    const char *own = getenv("RANK");
    char text[4096], *rest = text, rank[16], action[32];
    snprintf(text, sizeof text, "%s", getenv("WEFT_FILE_FAULT") ? getenv("WEFT_FILE_FAULT") : "");
    for (char *one; n_rules < RULES && (one = strsep(&rest, ";"));) {
        rule *r = &rules[n_rules];
        char nth[16];
        if (sscanf(one, "%15[^:]:%7[^:]:%127[^:]:%15[^:]:%31s", rank, r->call, r->path, nth,
                   action) != 5)
            continue;
        if (strcmp(rank, "*") && strcmp(rank, own ? own : "0"))
            continue;
        r->nth = strtol(nth, NULL, 10);
        r->later = strchr(nth, '+');
        if (!strncmp(action, "sleep=", 6))
            r->sleep = strtod(action + 6, NULL);
        else if (!strcmp(action, "hold"))
            r->hold = getenv("WEFT_FILE_HOLD");
        else
            r->error = strtol(action, NULL, 10);
        n_rules++;
    }
}

static __attribute__((destructor)) void write_count(void)
{
    char text[64];
    snprintf(text, sizeof text, "read %llu\n", (unsigned long long)shard_bytes);
    if (getenv("RANK"))
        note(text);
}

/* True: the call fails with errno. */
static bool strikes(const char *call, const char *path)
{
    bool fails = false;
    for (int i = 0; i < n_rules; i++) {
        rule *r = &rules[i];
        if (strcmp(r->call, call) || !strstr(path, r->path))
            continue;
        const long seen = atomic_fetch_add(&r->seen, 1) + 1;
        if (seen != r->nth && !(r->later && seen > r->nth))
            continue;
        char text[512];
        snprintf(text, sizeof text, "%s %.400s\n", call, path);
        note(text);
        if (r->sleep > 0)
            nanosleep(&(struct timespec){(time_t)r->sleep,
                                         (long)((r->sleep - (double)(time_t)r->sleep) * 1e9)},
                      NULL);
        while (r->hold && !access(getenv("WEFT_FILE_HOLD"), F_OK))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (r->error) {
            errno = (int)r->error;
            fails = true;
        }
    }
    return fails;
}

static bool strikes_fd(const char *call, int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = n_rules ? readlink(link, path, sizeof path - 1) : -1;
    if (n <= 0)
        return false;
    path[n] = 0;
    return strikes(call, path);
}

static bool strikes_at(const char *call, int folder, const char *name)
{
    char link[64], path[8192];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t n = n_rules && *name != '/' && folder != AT_FDCWD ? readlink(link, path, 4095) : 0;
    n = n > 0 ? n : 0;
    snprintf(path + n, sizeof path - (size_t)n, "%s%s", n ? "/" : "", name);
    return strikes(call, path);
}

static bool is_shard(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = getenv("WEFT_FILE_COUNT") ? readlink(link, path, sizeof path - 1) : -1;
    path[n > 0 ? n : 0] = 0;
    return strstr(path, "/shard-");
}

ssize_t pread(int fd, void *out, size_t n, off_t at)
{
    if (strikes_fd("read", fd))
        return -1;
    ssize_t got = syscall(SYS_pread64, fd, out, n, at);
    if (got > 0 && is_shard(fd))
        shard_bytes += (unsigned long long)got;
    return got;
}

ssize_t write(int fd, const void *data, size_t n)
{
    return strikes_fd("write", fd) ? -1 : syscall(SYS_write, fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return strikes_fd("write", fd) ? -1 : syscall(SYS_pwrite64, fd, data, n, at);
}

int stat(const char *restrict path, struct stat *restrict out)
{
    return strikes("look", path) ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict out, int flags)
{
    return strikes_at("look", folder, path)
               ? -1
               : (int)syscall(SYS_newfstatat, folder, path, out, flags);
}

int fsync(int fd)
{
    return strikes_fd("sync", fd) ? -1 : (int)syscall(SYS_fsync, fd);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    return strikes("open", path) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    return strikes_at("open", folder, path) ? -1
                                            : (int)syscall(SYS_openat, folder, path, flags, mode);
}

/* What the compiler makes of calls without a mode, and of reads into buffers that it knows. */
int __open_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
ssize_t __pread_chk(int fd, void *out, size_t n, off_t at, size_t room);

int __open_2(const char *path, int flags)
{
    return open(path, flags, 0);
}

int __openat_2(int folder, const char *path, int flags)
{
    return openat(folder, path, flags, 0);
}

ssize_t __pread_chk(int fd, void *out, size_t n, off_t at, size_t room)
{
    (void)room;
    return pread(fd, out, n, at);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    return strikes_at("mkdir", folder, path) ? -1 : (int)syscall(SYS_mkdirat, folder, path, mode);
}

int unlinkat(int folder, const char *path, int flags)
{
    return strikes_at("unlink", folder, path) ? -1
                                              : (int)syscall(SYS_unlinkat, folder, path, flags);
}

int rename(const char *from, const char *to)
{
    return strikes("rename", from) ? -1
                                   : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return strikes_at("rename", from_folder, from)
               ? -1
               : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return renameat2(from_folder, from, to_folder, to, 0);
}
