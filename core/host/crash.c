/* host/crash.c: the last message of a process that a plugin ends (call.h).
 *
 * The signal handler calls only open(), read(), write(), close() and sigaction(). It restores the
 * previous handler, the system's or a sanitizer's, and lets the signal happen again: core dump,
 * status and the sanitizer's report are unchanged. */
#include "host/call.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/number/hex.h"

static const struct {
    int number;
    const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"},
             {SIGBUS, "SIGBUS"},
             {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},
             {SIGABRT, "SIGABRT"}};

#define FATAL (sizeof fatal / sizeof *fatal)

static struct sigaction before[FATAL];
static char other_stack[65536]; /* for a main thread that has overflowed its own stack */
static bool main_returns;
static char *kept; /* instead of standard error, for this process: */
static pid_t keeper;

/* --- a line, formatted without the C library --- */

typedef struct line {
    char text[HOST_CRASH_TEXT];
    size_t n, head; /* bytes; those before the sentence */
} line;

static void add(line *l, const char *text)
{
    while (*text && l->n < sizeof l->text - 1)
        l->text[l->n++] = *text++;
}

static void add_number(line *l, uint64_t n)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    add(l, digits + at);
}

static void begin(line *l)
{
    char when[32];
    l->n = 0;
    add(l, log_time(when));
    add(l, "weft ");
    if (log_rank() >= 0) {
        add(l, "rank ");
        add_number(l, (uint64_t)log_rank());
        add(l, " ");
    }
    add(l, "error: ");
    l->head = l->n;
}

static void end(line *l)
{
    if (kept) {
        if (getpid() == keeper) /* and no child of it */
            memcpy(kept, l->text + l->head, l->n - l->head);
        return;
    }
    l->text[l->n++] = '\n';
    log_put(l->text, l->n);
}

/* "update() of the plugin acme.lion (PATH)"; false: the thread is in no plugin's call. */
static bool add_call(line *l)
{
    const char *name, *path, *call = host_call_current(&name, &path);
    if (!call)
        return false;
    add(l, call);
    add(l, "() of the plugin ");
    add(l, name);
    add(l, " (");
    add(l, path);
    add(l, ")");
    return true;
}

/* --- which file is mapped at an address --- */

typedef struct reader {
    int fd;
    char text[4096];
    size_t at, n;
} reader;

static int next(reader *r)
{
    if (r->at == r->n) {
        const ssize_t got = read(r->fd, r->text, sizeof r->text);
        r->n = got > 0 ? (size_t)got : 0;
        r->at = 0;
    }
    return r->at < r->n ? r->text[r->at++] : -1;
}

/* A hexadecimal number, and the character behind it. */
static int hex_number(reader *r, uintptr_t *out)
{
    int c;
    *out = 0;
    while ((c = next(r)) >= 0) {
        const char *digit = c ? strchr(hex_digits, c) : NULL;
        if (!digit)
            break;
        *out = *out * 16 + (uintptr_t)(digit - hex_digits);
    }
    return c;
}

/* One line, "START-END PERMISSIONS OFFSET DEVICE INODE PATH": whether the address is in it and has
 * a path. */
static bool mapping(reader *r, uintptr_t address, char *path, size_t capacity, int *c)
{
    uintptr_t start, end;
    size_t n = 0, fields = 1;
    hex_number(r, &start);
    *c = hex_number(r, &end);
    while (*c >= 0 && *c != '\n' && fields < 5) { /* a run of blanks before the path is one */
        *c = next(r);
        fields += *c == ' ';
    }
    while (*c == ' ')
        *c = next(r);
    for (; *c >= 0 && *c != '\n'; *c = next(r))
        if (n < capacity - 1)
            path[n++] = (char)*c;
    path[n] = 0;
    return start <= address && address < end && path[0] == '/';
}

static bool mapped_file(const void *address, char *path, size_t capacity)
{
    static reader r; /* a signal's stack is small, and one thread dies at a time */
    int c = 0;
    bool found = false;
    r = (reader){.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    while (r.fd >= 0 && c >= 0 && !found)
        found = mapping(&r, (uintptr_t)address, path, capacity, &c);
    if (r.fd >= 0)
        close(r.fd);
    return found;
}

/* --- signals --- */

static void last_words(int number, const siginfo_t *info, const char *name)
{
    line l;
    const char *plugin, *path;
    const bool sent = info->si_code <= 0 && info->si_pid && info->si_pid != getpid();
    if (!sent && !host_call_current(&plugin, &path))
        return; /* the parent process reports the signal */
    begin(&l);
    add(&l, "signal ");
    add_number(&l, (uint64_t)number);
    add(&l, " (");
    add(&l, name);
    if (sent) {
        add(&l, "), sent by process ");
        add_number(&l, (uint64_t)info->si_pid);
    } else {
        add(&l, ") during ");
        add_call(&l);
    }
    end(&l);
}

/* A mapped file that became shorter, or a network folder that is gone: no fault of the program. */
static void end_of_file(const siginfo_t *info)
{
    static char path[768];
    line l;
    if (!mapped_file(info->si_addr, path, sizeof path))
        return;
    begin(&l);
    add(&l, "the file ");
    add(&l, path);
    add(&l, " became shorter while it was used, or cannot be read any more");
    end(&l);
    _exit(1);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    const int saved = errno;
    if (number == SIGBUS && info->si_code == BUS_ADRERR)
        end_of_file(info);
    for (size_t i = 0; i < FATAL; i++)
        if (fatal[i].number == number) {
            sigaction(number, &before[i], NULL);
            last_words(number, info, fatal[i].name);
        }
    errno = saved;
    if (info->si_code <= 0) /* not caused by the instruction, so it would not happen again */
        raise(number);
}

/* --- exit() --- */

/* exit() was called by a plugin: without this, the job would look finished. */
static void on_exit_called(void)
{
    line l;
    if (main_returns)
        return;
    begin(&l);
    add(&l, "exit() was called during ");
    if (!add_call(&l))
        add(&l, "no call of a plugin, by one's thread or a library");
    add(&l, "; a plugin may not end the process, and the job is not done");
    end(&l);
    fflush(NULL);
    _exit(1);
}

void host_crash_main_returns(void)
{
    main_returns = true;
}

void host_crash_keep(char sentence[HOST_CRASH_TEXT])
{
    kept = sentence;
    keeper = getpid();
}

void host_crash_watch(void)
{
    stack_t have, own = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    if (!sigaltstack(NULL, &have) && (have.ss_flags & SS_DISABLE))
        sigaltstack(&own, NULL);
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (size_t i = 0; i < FATAL; i++)
        sigaction(fatal[i].number, &act, &before[i]);
    atexit(on_exit_called);
}
