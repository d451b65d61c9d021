/* map.c: mapped files; see source.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source.h"

weft_status source_fail(const weft_host *host, weft_status code, const char *format, ...)
{
    char text[4608];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return (host->fail)(host->ctx, code, text);
}

weft_status source_status(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ENODEV:
    case ENXIO:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL: return WEFT_USAGE;
    case ENOMEM: return WEFT_NO_MEMORY;
    default: return WEFT_IO;
    }
}

/* A descriptor of a regular file, or -1 with errno. Does not wait for the writer of a pipe. */
static int open_regular(const char *path, struct stat *st)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int error = 0;
    if (fstat(fd, st) < 0)
        error = errno;
    else if (S_ISDIR(st->st_mode))
        error = EISDIR;
    else if (!S_ISREG(st->st_mode) || st->st_size < 0)
        error = ENODEV;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

weft_status source_map_open(const weft_host *host, const char *what, const char *path,
                            source_map *out)
{
    struct stat st;
    const int fd = open_regular(path, &st);
    if (fd < 0)
        return source_fail(host, source_status(errno), "%s %s cannot be read: %s", what, path,
                           strerror(errno));
    void *at = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    const int error = errno;
    close(fd);
    if (at == MAP_FAILED)
        return source_fail(host, error == ENOMEM ? WEFT_NO_MEMORY : WEFT_IO,
                           "%s %s cannot be mapped: %s", what, path, strerror(error));
    *out = (source_map){(const unsigned char *)at, (uint64_t)st.st_size};
    return WEFT_OK;
}

void source_map_close(source_map *m)
{
    if (m->at)
        munmap((void *)(uintptr_t)m->at, m->bytes);
    *m = (source_map){0};
}
