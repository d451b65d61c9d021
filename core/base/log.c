/* base/log.c: see log.h. */
#include "base/log.h"

#include "base/time/date.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOMENT_MS 200 /* much less than any deadline */
#define ERROR_MS 3000
#define PARTS_MAX 64 /* of a line that a terminal takes bit by bit */

static int max_level = WEFT_LOG_INFO;
static int own_rank = -1;
static atomic_bool adds_time;
static atomic_uint lost;         /* lines that were dropped since the last one that was written */
static atomic_bool error_waited; /* one of them is an error, which waited */
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_setup(int level, int rank)
{
    max_level = level;
    own_rank = rank;
}

int log_rank(void)
{
    return own_rank;
}

int log_level(void)
{
    return max_level;
}

int log_level_from(const char *name)
{
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, level_names[i]))
            return i;
    return -1;
}

void log_add_time(void)
{
    atomic_store(&adds_time, !isatty(STDERR_FILENO));
}

const char *log_time(char out[32])
{
    *out = 0;
    if (atomic_load(&adds_time))
        memcpy(date_now(out), " ", 2);
    return out;
}

void log_plain(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        const bool c1 = c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f;
        if (c1)
            c[1] = '?';
        if (c1 || (*c < 32 && *c != '\n' && *c != '\t') || *c == 127)
            *c = '?';
    }
}

bool log_has_capacity(int ms)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    int n;
    while ((n = poll(&p, 1, ms)) < 0 && errno == EINTR)
        continue;
    return n != 0; /* after an error of poll() write() has its own */
}

/* A terminal is opened anew. It may take the first part of a line and then be held, and O_NONBLOCK
 * of standard error itself would be the shell's, too. */
void log_put(const char *text, size_t bytes)
{
    const int own = isatty(STDERR_FILENO)
                        ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
                        : -1;
    for (int i = 0; bytes && i < PARTS_MAX && log_has_capacity(MOMENT_MS); i++) {
        const ssize_t w = write(own < 0 ? STDERR_FILENO : own, text, bytes);
        if (w < 0 && errno != EAGAIN)
            break; /* standard error is closed: the failure cannot be reported */
        text += w > 0 ? w : 0;
        bytes -= w > 0 ? (size_t)w : 0;
    }
    if (own >= 0)
        close(own);
}

/* Is there room for another line? A reader that is only slow gets a moment, once; some seconds
 * where an error would be lost. */
static bool may_write(int level)
{
    char text[128], when[32];
    int wait = atomic_load(&lost) ? 0 : MOMENT_MS;
    if (level == WEFT_LOG_ERROR && !atomic_exchange(&error_waited, true))
        wait = ERROR_MS;
    if (!log_has_capacity(wait)) {
        atomic_fetch_add(&lost, 1);
        return false;
    }
    atomic_store(&error_waited, false);
    const unsigned before = atomic_exchange(&lost, 0);
    if (!before)
        return true;
    log_put(text, (size_t)snprintf(text, sizeof text,
                                   "%sweft warn: %u lines of the log are lost, since nobody read "
                                   "standard error\n",
                                   log_time(when), before));
    return log_has_capacity(0);
}

void log_line(int level, const char *fmt, ...)
{
    if (level > max_level || level < 0)
        return;
    char line[4096], when[32], rank[32] = "";
    if (own_rank >= 0)
        snprintf(rank, sizeof rank, "rank %d ", own_rank);
    const int n =
        snprintf(line, sizeof line, "%sweft %s%s: ", log_time(when), rank, level_names[level]);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    log_plain(line);
    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    line[len++] = '\n';
    if (may_write(level))
        log_put(line, len);
}
