/* doctor/sysfs.c: see sysfs.h. */
#define _GNU_SOURCE /* strverscmp */
#include "doctor/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 4096
#define LINES_MAX 65536u
#define CPUS_MAX 1000000ul

static bool whole_path(const doctor *d, char out[PATH_MAX], const char *fmt, va_list ap)
{
    size_t n = strlen(d->root);
    if (n >= PATH_MAX)
        return false;
    memcpy(out, d->root, n + 1);
    int m = vsnprintf(out + n, PATH_MAX - n, fmt, ap);
    return m >= 0 && (size_t)m < PATH_MAX - n;
}

static int open_path(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static bool read_path(const char *path, char *out, size_t size)
{
    int fd = open_path(path);
    size_t n = 0;
    ssize_t got = 1;
    while (fd >= 0 && n + 1 < size && got > 0) {
        got = read(fd, out + n, size - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    out[n] = 0;
    n = strlen(out);
    while (n && strchr(" \t\r\n", out[n - 1]))
        out[--n] = 0;
    return n > 0 && got >= 0;
}

bool doctor_read_text(const doctor *d, char *out, size_t size, const char *path, ...)
{
    char whole[PATH_MAX];
    va_list ap;
    va_start(ap, path);
    bool fits = whole_path(d, whole, path, ap);
    va_end(ap);
    out[0] = 0;
    return fits && read_path(whole, out, size);
}

static bool number_of(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || errno || (*end && !strchr(" \t\n", *end)))
        return false;
    *out = v;
    return true;
}

bool doctor_read_number(const doctor *d, int64_t *out, const char *path, ...)
{
    char whole[PATH_MAX], text[128];
    va_list ap;
    va_start(ap, path);
    bool fits = whole_path(d, whole, path, ap);
    va_end(ap);
    return fits && read_path(whole, text, sizeof text) && number_of(text, out);
}

static bool take_line(const char *line, const char *key, char *out, size_t size)
{
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0 || (line[n] && !strchr(" \t:", line[n])))
        return false;
    line += n;
    line += strspn(line, " \t:");
    snprintf(out, size, "%s", line);
    n = strlen(out);
    while (n && strchr(" \t\r\n", out[n - 1]))
        out[--n] = 0;
    return true;
}

bool doctor_read_line(const doctor *d, const char *path, const char *key, char *out, size_t size)
{
    char whole[PATH_MAX], line[8192];
    int n = snprintf(whole, sizeof whole, "%s%s", d->root, path);
    int fd = n > 0 && (size_t)n < sizeof whole ? open_path(whole) : -1;
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    bool found = false;
    for (uint32_t i = 0; f && !found && i < LINES_MAX && fgets(line, sizeof line, f); i++)
        found = take_line(line, key, out, size);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    if (!found)
        out[0] = 0;
    return found && *out;
}

bool doctor_read_bytes(const doctor *d, const char *path, const char *key, uint64_t *out)
{
    char text[256];
    int64_t n;
    if (!doctor_read_line(d, path, key, text, sizeof text) || !number_of(text, &n) || n < 0)
        return false;
    bool kib = strstr(text, " kB");
    if (kib && n > INT64_MAX / 1024)
        return false;
    *out = (uint64_t)n * (kib ? 1024 : 1);
    return true;
}

/* Compares numbers in names as numbers: cpu2 before cpu10. */
static int by_name(const void *a, const void *b)
{
    return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

const char *const *doctor_list_folder(doctor *d, const char *path, ...)
{
    char whole[PATH_MAX];
    VEC(char *) found = {0};
    va_list ap;
    va_start(ap, path);
    DIR *dir = whole_path(d, whole, path, ap) ? opendir(whole) : NULL;
    va_end(ap);
    for (struct dirent *e; dir && found.n < NAMES_MAX && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            *vec_push(&found) = pool_text(&d->pool, e->d_name);
    if (dir)
        closedir(dir);
    const char **out = pool_array(&d->pool, (uint64_t)found.n + 1, sizeof *out);
    if (found.n) {
        qsort(found.at, found.n, sizeof *found.at, by_name);
        memcpy(out, found.at, found.n * sizeof *out);
    }
    free(found.at);
    return out;
}

bool doctor_path_exists(const doctor *d, const char *path, ...)
{
    char whole[PATH_MAX];
    struct stat s;
    va_list ap;
    va_start(ap, path);
    bool fits = whole_path(d, whole, path, ap);
    va_end(ap);
    return fits && stat(whole, &s) == 0;
}

uint32_t doctor_count_cpus(const char *list)
{
    uint64_t n = 0;
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long a = strtoul(list, &end, 10), b = a;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            b = strtoul(end + 1, &end, 10);
        if (a > CPUS_MAX || b > CPUS_MAX || b < a)
            return 0;
        n += b - a + 1;
        list = *end == ',' ? end + 1 : end;
        if (*end != ',' && *end)
            return 0;
    }
    return *list || n > CPUS_MAX ? 0 : (uint32_t)n;
}

bool doctor_bracketed_word(const char *text, char *out, size_t size)
{
    const char *from = strchr(text, '['), *to = from ? strchr(from, ']') : NULL;
    if (!to || to == from + 1 || (size_t)(to - from) > size)
        return false;
    memcpy(out, from + 1, (size_t)(to - from) - 1);
    out[to - from - 1] = 0;
    return true;
}
