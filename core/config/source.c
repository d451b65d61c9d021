/* config/source.c: see source.h. */
#define _GNU_SOURCE
#include "config/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sealed.h"
#include "config/store.h"

/* The one job of this process that cannot be opened again. */
static struct {
    char *path;
    int fd;
} kept = {NULL, -1};

const char *config_source_name(const char *path)
{
    return strcmp(path, "-") ? path : "standard input";
}

int config_source_descriptor(void)
{
    return kept.fd;
}

static void keep(const char *path, int fd)
{
    free(kept.path);
    kept.path = mem_alloc(strlen(path) + 1);
    memcpy(kept.path, path, strlen(path));
    kept.fd = fd;
}

weft_status config_read_all(int fd, bool file, const char *what, const char *path, char **out,
                            size_t *bytes)
{
    char *text = mem_alloc(CONFIG_MAX_TEXT + 1);
    size_t n = 0;
    while (n <= CONFIG_MAX_TEXT) {
        size_t capacity = CONFIG_MAX_TEXT + 1 - n;
        ssize_t got = file ? pread(fd, text + n, capacity, (off_t)n) : read(fd, text + n, capacity);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(text);
            return err_fail_errno(WEFT_USAGE, "cannot read the %s %s", what,
                                  config_source_name(path));
        }
        if (!got)
            break;
        n += (size_t)got;
    }
    if (n > CONFIG_MAX_TEXT) {
        free(text);
        return err_fail(WEFT_USAGE, "%s is longer than %u bytes; this is not a %s",
                        config_source_name(path), CONFIG_MAX_TEXT, what);
    }
    *out = text;
    *bytes = n;
    return WEFT_OK;
}

/* What can be read once: read it and keep it. */
static weft_status read_once(int fd, const char *path, char **out, size_t *bytes)
{
    weft_status st = config_read_all(fd, false, "job file", path, out, bytes);
    if (st != WEFT_OK)
        return st;
    int copy = -1;
    if (!*bytes)
        st = err_fail(
            WEFT_USAGE,
            "the job from %s is empty: write the job into the pipe, or name a file (mpirun "
            "and srun give standard input to rank 0 alone)",
            config_source_name(path));
    else if ((copy = sealed_make("weft-job", *out, *bytes)) < 0)
        st = err_fail_errno(WEFT_IO, "cannot keep the job from %s in memory",
                            config_source_name(path));
    if (st != WEFT_OK)
        free(*out);
    else if (kept.fd < 0)
        keep(path, copy);
    else
        close(copy);
    return st;
}

static weft_status adopt(const char *path)
{
    int fd = kept.fd < 0 ? sealed_inherited(CONFIG_SOURCE_ENV) : -1;
    if (fd == -2)
        return err_fail(WEFT_USAGE,
                        CONFIG_SOURCE_ENV
                        "=%s is not a sealed memory file: the launcher's job was not "
                        "handed over; unset it",
                        getenv(CONFIG_SOURCE_ENV));
    if (fd >= 0)
        keep(path, fd);
    return WEFT_OK;
}

weft_status config_source_read(const char *path, char **out, size_t *bytes)
{
    weft_status st = adopt(path);
    if (st != WEFT_OK)
        return st;
    if (kept.fd >= 0 && !strcmp(kept.path, path))
        return config_read_all(kept.fd, true, "job file", path, out, bytes);
    bool input = !strcmp(path, "-");
    int fd = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat s;
    if (fd < 0 || fstat(fd, &s))
        st = err_fail_errno(WEFT_USAGE, "cannot open the job file %s", config_source_name(path));
    else if (!input && (S_ISREG(s.st_mode) || S_ISDIR(s.st_mode)))
        st = config_read_all(fd, true, "job file", path, out, bytes);
    else
        st = read_once(fd, path, out, bytes);
    if (fd >= 0 && !input)
        close(fd);
    return st;
}
