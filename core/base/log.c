/* base/log.c: see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int max_level = WEFT_LOG_INFO;
static int own_rank = -1;
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

void log_line(int level, const char *fmt, ...)
{
    if (level > max_level || level < 0)
        return;
    char line[4096];
    int n = own_rank < 0
                ? snprintf(line, sizeof line, "weft %s: ", level_names[level])
                : snprintf(line, sizeof line, "weft rank %d %s: ", own_rank, level_names[level]);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    log_plain(line);
    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    line[len++] = '\n';
    for (size_t at = 0; at < len;) {
        ssize_t w = write(STDERR_FILENO, line + at, len - at);
        if (w <= 0)
            break; /* standard error is closed: the failure cannot be reported */
        at += (size_t)w;
    }
}
