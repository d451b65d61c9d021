/* tokens/output.c: see output.h. */
#define _GNU_SOURCE
#include "tokens/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/tokens.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/file.h"

#define BUFFER_TOKENS 65536u
#define BUFFER_ENDS 8192u

struct tokens_output {
    char path[PATH_MAX]; /* where a link leads, that file itself */
    char temp[PATH_MAX];
    char old[PATH_MAX]; /* what `path` was before, until all is in place */
    int fd;             /* -1: not open; while it is, `temp` exists */
    bool kept, renamed; /* `old` is there; `path` is the new file */
    uint64_t tokens;
    uint32_t vocab;
    bool wide;     /* 32 bits an id */
    uint32_t held; /* tokens in the buffer */
    int ends_fd;   /* a file without a name that has the ends of documents; -1: there is no index */
    uint64_t documents, ended; /* ended: tokens in documents that have ended */
    uint32_t ends_held;
    uint64_t ends[BUFFER_ENDS];
    union {
        uint16_t narrow[BUFFER_TOKENS];
        uint32_t wide[BUFFER_TOKENS];
    } buffer;
};

static weft_status cannot_write(const tokens_output *o)
{
    return err_fail_errno(WEFT_IO, "cannot write data file %s (after %" PRIu64 " tokens)", o->path,
                          o->tokens);
}

/* An unused name beside the output, "PATH.PID-NUMBERSUFFIX". */
static weft_status open_beside(const char *path, const char *suffix, char temp[PATH_MAX], int *fd)
{
    *fd = -1;
    for (int i = 0; *fd < 0 && i < 100; i++) {
        int n = snprintf(temp, PATH_MAX, "%s.%ld-%d%s", path, (long)getpid(), i, suffix);
        if (n < 0 || n >= PATH_MAX)
            return err_fail(WEFT_USAGE, "the name of data file %s is too long", path);
        *fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*fd < 0 && errno != EEXIST)
            break;
    }
    return *fd >= 0 ? WEFT_OK
                    : err_fail_errno(data_file_status(errno), "cannot write data file %s", path);
}

/* A rename would replace a link, and the file would go to another disk than the one it leads to. */
static weft_status follow_link(const char *path, char out[PATH_MAX])
{
    if (!data_file_follow(path, out))
        return WEFT_OK;
    if (errno == ENAMETOOLONG)
        return err_fail(WEFT_USAGE, "the name of data file %s is too long", path);
    return err_fail_errno(WEFT_USAGE,
                          "data file %s is a link that leads to no file; remove it, or make the "
                          "file that it names",
                          path);
}

weft_status tokens_output_open(const char *path, uint32_t vocab, bool index, tokens_output **out)
{
    static const unsigned char blank[WEFT_TOKENS_HEADER_BYTES];
    char name[PATH_MAX];
    tokens_output *o = mem_alloc(sizeof *o);
    o->vocab = vocab;
    o->wide = vocab > 65536;
    o->ends_fd = -1;
    o->fd = -1;
    weft_status st = follow_link(path, o->path);
    if (st == WEFT_OK)
        st = open_beside(o->path, ".tmp", o->temp, &o->fd);
    if (st == WEFT_OK && index) {
        st = open_beside(o->path, ".index.tmp", name, &o->ends_fd);
        if (st == WEFT_OK)
            unlink(name);
    }
    if (st == WEFT_OK && data_file_write(o->fd, blank, sizeof blank))
        st = cannot_write(o);
    if (st != WEFT_OK)
        tokens_output_close(o, false);
    else
        *out = o;
    return st;
}

static weft_status flush_tokens(tokens_output *o)
{
    if (data_file_write(o->fd, &o->buffer, (uint64_t)o->held * (o->wide ? 4 : 2)))
        return cannot_write(o);
    o->held = 0;
    return WEFT_OK;
}

static weft_status flush_ends(tokens_output *o)
{
    if (data_file_write(o->ends_fd, o->ends, o->ends_held * sizeof *o->ends))
        return cannot_write(o);
    o->ends_held = 0;
    return WEFT_OK;
}

weft_status tokens_output_add(tokens_output *o, const int32_t *ids, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (o->wide)
            o->buffer.wide[o->held++] = (uint32_t)ids[i];
        else
            o->buffer.narrow[o->held++] = (uint16_t)ids[i];
        if (o->held < BUFFER_TOKENS)
            continue;
        weft_status st = flush_tokens(o);
        if (st != WEFT_OK)
            return st;
    }
    o->tokens += n;
    return WEFT_OK;
}

weft_status tokens_output_end_document(tokens_output *o)
{
    if (o->ends_fd < 0 || o->ended == o->tokens)
        return WEFT_OK;
    o->ended = o->ends[o->ends_held++] = o->tokens;
    o->documents++;
    return o->ends_held < BUFFER_ENDS ? WEFT_OK : flush_ends(o);
}

uint64_t tokens_output_tokens(const tokens_output *o)
{
    return o->tokens;
}

/* The index behind the ids, from the file that has it. */
static weft_status append_index(tokens_output *o)
{
    static const unsigned char zeros[8];
    const uint64_t bytes = o->documents * 8, gap = (8 - o->tokens * (o->wide ? 4 : 2) % 8) % 8;
    weft_status st = flush_ends(o);
    if (st == WEFT_OK && data_file_write(o->fd, zeros, gap))
        st = cannot_write(o);
    for (uint64_t at = 0, n; st == WEFT_OK && at < bytes; at += n) {
        n = bytes - at < sizeof o->ends ? bytes - at : sizeof o->ends;
        if (data_file_read(o->ends_fd, o->ends, n, at) || data_file_write(o->fd, o->ends, n))
            st = cannot_write(o);
    }
    return st;
}

weft_status tokens_output_finish(tokens_output *o)
{
    if (!o->tokens)
        return err_fail(WEFT_USAGE, "data file %s would have no tokens", o->path);
    const bool index = o->ends_fd >= 0;
    weft_status st = tokens_output_end_document(o);
    if (st == WEFT_OK)
        st = flush_tokens(o);
    if (st == WEFT_OK && index)
        st = append_index(o);
    if (st != WEFT_OK)
        return st;
    const uint32_t version = index ? WEFT_TOKENS_INDEXED : o->wide ? 2 : 1;
    uint32_t head[WEFT_TOKENS_HEADER_WORDS] = {WEFT_TOKENS_MAGIC, version, (uint32_t)o->tokens,
                                               o->vocab, (uint32_t)(o->tokens >> 32)};
    if (index) {
        head[5] = o->wide ? 32 : 16;
        head[6] = (uint32_t)o->documents;
        head[7] = (uint32_t)(o->documents >> 32);
    }
    if (lseek(o->fd, 0, SEEK_SET) < 0 || data_file_write(o->fd, head, sizeof head) ||
        data_file_sync(o->fd))
        return cannot_write(o);
    return WEFT_OK;
}

/* A second name for the file that is to be replaced, or another name where the file system has no
 * hard links: 0, or -1 with errno. */
static int keep_old(tokens_output *o)
{
    int n = snprintf(o->old, sizeof o->old, "%s.old", o->temp);
    if (n < 0 || n >= (int)sizeof o->old) {
        errno = ENAMETOOLONG;
        return -1;
    }
    o->kept = link(o->path, o->old) == 0;
    if (o->kept || errno == ENOENT)
        return 0;
    o->kept = rename(o->path, o->old) == 0;
    return o->kept ? 0 : -1;
}

weft_status tokens_output_rename(tokens_output *o)
{
    int fd = o->fd;
    o->fd = -1;
    if (close(fd) < 0 || keep_old(o) < 0 || rename(o->temp, o->path) < 0) {
        weft_status st = err_fail_errno(WEFT_IO, "cannot put data file %s in place", o->path);
        unlink(o->temp);
        return st;
    }
    o->renamed = true;
    if (data_file_sync_parent(o->path) < 0)
        return err_fail_errno(WEFT_IO, "cannot sync the folder of data file %s", o->path);
    return WEFT_OK;
}

/* Failure: restores `old` under its own name. */
static void put_back(const tokens_output *o)
{
    struct stat a, b;
    bool same =
        !lstat(o->old, &a) && !lstat(o->path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    if (!same && rename(o->old, o->path) == 0)
        return;
    if (!same && ((unlink(o->path) && errno != ENOENT) || link(o->old, o->path))) {
        log_line(WEFT_LOG_ERROR, "data file %s: the old one is left under the name %s", o->path,
                 o->old);
        return;
    }
    unlink(o->old);
}

void tokens_output_close(tokens_output *o, bool keep)
{
    if (!o)
        return;
    if (o->kept && keep)
        unlink(o->old);
    else if (o->kept)
        put_back(o);
    else if (o->renamed && !keep)
        unlink(o->path);
    if (o->fd >= 0) {
        close(o->fd);
        unlink(o->temp);
    }
    if (o->ends_fd >= 0)
        close(o->ends_fd);
    free(o);
}
