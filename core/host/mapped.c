/* host/mapped.c: which file is mapped at an address; see call.h. Only calls that a signal handler
 * may make: open(), read(), close(). */
#include "host/call.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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
static int number(reader *r, uintptr_t *out)
{
    int c;
    *out = 0;
    while ((c = next(r)) >= 0) {
        const char *digits = "0123456789abcdef", *digit = c ? strchr(digits, c) : NULL;
        if (!digit)
            break;
        *out = *out * 16 + (uintptr_t)(digit - digits);
    }
    return c;
}

/* One line, "START-END PERMISSIONS OFFSET DEVICE INODE PATH": whether the address is in it and has
 * a path. */
static bool line(reader *r, uintptr_t address, char *path, size_t capacity, int *c)
{
    uintptr_t start, end;
    size_t n = 0, fields = 1;
    number(r, &start);
    *c = number(r, &end);
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

bool host_mapped_file(const void *address, char *path, size_t capacity)
{
    static reader r; /* a signal's stack is small, and one thread dies at a time */
    int c = 0;
    bool found = false;
    r = (reader){.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    while (r.fd >= 0 && c >= 0 && !found)
        found = line(&r, (uintptr_t)address, path, capacity, &c);
    if (r.fd >= 0)
        close(r.fd);
    return found;
}
