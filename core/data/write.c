/* data/write.c: see write.h.
 *
 * The texts are read one after the other as one stream of bytes, block by block, and encoded as
 * they come; bytes that the tokenizer keeps for later wait in front of the next block. Every
 * DATA_VALID_EVERY-th block goes to the second output. Memory is a buffer an output, however long
 * the texts are. Both outputs are complete and synced under temporary names before either is
 * renamed, and a file that is replaced keeps a second name until both are in place, so a failure of
 * any kind leaves the old files as they were. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/file.h"
#include "data/write.h"

#define BUFFER_TOKENS (16 * DATA_BLOCK)

typedef struct output {
    const char *path; /* NULL: not wanted */
    char temp[PATH_MAX];
    char old[PATH_MAX]; /* what `path` was before, until all is in place */
    int fd;             /* -1: not open; while it is, `temp` exists */
    bool kept, renamed; /* `old` is there; `path` is the new file */
    uint64_t tokens;
    bool wide;     /* 32 bits an id */
    uint32_t held; /* tokens in the buffer */
    union {
        uint16_t narrow[BUFFER_TOKENS];
        uint32_t wide[BUFFER_TOKENS];
    } buffer;
} output;

typedef struct job {
    output train, valid;
    const data_tokenizer *tokenizer;
    uint64_t at;   /* bytes of text read so far */
    uint32_t held; /* bytes that are read and not encoded */
    char text[DATA_TOKENIZER_WAITS + DATA_BLOCK];
    int32_t ids[DATA_BLOCK];
} job;

static bool same_file(const char *a, const struct stat *b)
{
    struct stat st;
    return stat(a, &st) == 0 && st.st_dev == b->st_dev && st.st_ino == b->st_ino;
}

/* Two names of one place, whether or not a file is there yet: same last part, same folder. */
static bool same_place(const char *a, const char *b)
{
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
    const char *last_a = slash_a ? slash_a + 1 : a, *last_b = slash_b ? slash_b + 1 : b;
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    if (strcmp(last_a, last_b) || last_a - a >= PATH_MAX - 1 || last_b - b >= PATH_MAX - 1)
        return false;
    snprintf(folder_a, sizeof folder_a, "./%.*s", (int)(last_a - a), a);
    snprintf(folder_b, sizeof folder_b, "./%.*s", (int)(last_b - b), b);
    struct stat st;
    return stat(*a == '/' ? folder_a + 2 : folder_a, &st) == 0 &&
           same_file(*b == '/' ? folder_b + 2 : folder_b, &st);
}

/* An output may be new or replace a regular file, but not a text, a folder or a device. */
static weft_status check_output(const char *path, const char *const *texts, uint32_t n)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        if (errno == ENOENT)
            return WEFT_OK;
        return err_fail_errno(data_file_status(errno), "cannot write data file %s", path);
    }
    if (!S_ISREG(st.st_mode))
        return err_fail(WEFT_USAGE,
                        "cannot write data file %s: it exists and is not a regular file", path);
    for (uint32_t i = 0; i < n; i++)
        if (same_file(texts[i], &st))
            return err_fail(WEFT_USAGE, "data file %s would replace the text that it is made from",
                            path);
    return WEFT_OK;
}

static weft_status check_request(const char *const *texts, uint32_t n, const char *train,
                                 const char *valid)
{
    if (!n)
        return err_fail(WEFT_USAGE, "no text was given to make data file %s from", train);
    for (uint32_t i = 0; i < n; i++) {
        struct stat st;
        int fd = data_file_open_regular(AT_FDCWD, texts[i], true, &st);
        if (fd < 0)
            return err_fail_errno(data_file_status(errno), "cannot read text %s", texts[i]);
        close(fd);
    }
    struct stat there;
    if (valid &&
        (same_place(train, valid) || (stat(train, &there) == 0 && same_file(valid, &there))))
        return err_fail(WEFT_USAGE, "training and validation data are both to be written to %s",
                        train);
    weft_status st = check_output(train, texts, n);
    return st != WEFT_OK || !valid ? st : check_output(valid, texts, n);
}

static weft_status cannot_write(const output *o)
{
    return err_fail_errno(WEFT_IO, "cannot write data file %s (after %" PRIu64 " tokens)", o->path,
                          o->tokens);
}

/* Creates an unused name beside the output, and reserves room for the header. */
static weft_status output_open(output *o, const char *path)
{
    static const unsigned char blank[DATA_HEADER_BYTES];
    o->fd = -1;
    o->path = path;
    if (!path)
        return WEFT_OK;
    for (int i = 0; o->fd < 0 && i < 100; i++) {
        int n = snprintf(o->temp, sizeof o->temp, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        if (n < 0 || n >= (int)sizeof o->temp)
            return err_fail(WEFT_USAGE, "the name of data file %s is too long", path);
        o->fd = open(o->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (o->fd < 0 && errno != EEXIST)
            break;
    }
    if (o->fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot write data file %s", path);
    return data_file_write(o->fd, blank, sizeof blank) ? cannot_write(o) : WEFT_OK;
}

static weft_status output_flush(output *o)
{
    if (data_file_write(o->fd, &o->buffer, (uint64_t)o->held * (o->wide ? 4 : 2)))
        return cannot_write(o);
    o->held = 0;
    return WEFT_OK;
}

static weft_status output_add(output *o, const int32_t *ids, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (o->wide)
            o->buffer.wide[o->held++] = (uint32_t)ids[i];
        else
            o->buffer.narrow[o->held++] = (uint16_t)ids[i];
        if (o->held < BUFFER_TOKENS)
            continue;
        weft_status st = output_flush(o);
        if (st != WEFT_OK)
            return st;
    }
    o->tokens += n;
    return WEFT_OK;
}

/* Writes the remaining tokens, then the header with their number. */
static weft_status output_finish(output *o, uint32_t vocab)
{
    if (!o->path)
        return WEFT_OK;
    weft_status st = output_flush(o);
    if (st != WEFT_OK)
        return st;
    uint32_t head[DATA_HEADER_WORDS] = {DATA_MAGIC, o->wide ? DATA_VERSION_32 : DATA_VERSION_16,
                                        (uint32_t)o->tokens, vocab, (uint32_t)(o->tokens >> 32)};
    if (lseek(o->fd, 0, SEEK_SET) < 0 || data_file_write(o->fd, head, sizeof head) ||
        data_file_sync(o->fd))
        return cannot_write(o);
    return WEFT_OK;
}

/* The output of the block that byte `at` of the stream belongs to. */
static output *output_of(job *j, uint64_t at)
{
    const bool last = at / DATA_BLOCK % DATA_VALID_EVERY == DATA_VALID_EVERY - 1;
    return last && j->valid.path ? &j->valid : &j->train;
}

/* What is held, as far as it can be encoded; `last`: all of it. */
static weft_status encode_held(job *j, bool last, output *to)
{
    uint32_t at = 0;
    uint64_t used = 1, n;
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && at < j->held && used) {
        st = data_tokenizer_encode(j->tokenizer, j->text + at, j->held - at, last, j->ids,
                                   sizeof j->ids / sizeof *j->ids, &used, &n);
        if (st != WEFT_OK)
            return st;
        st = output_add(to, j->ids, n);
        at += (uint32_t)used;
    }
    memmove(j->text, j->text + at, j->held - at);
    j->held -= at;
    return st;
}

/* Whole blocks of the stream, whatever the lengths of the texts: the block that byte `at` belongs
 * to decides. At most as many bytes as the text had when it was opened, so that one that is being
 * written to comes to an end. */
static weft_status add_text(job *j, const char *text)
{
    struct stat info;
    int fd = data_file_open_regular(AT_FDCWD, text, true, &info);
    if (fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot read text %s", text);
    uint64_t size = (uint64_t)info.st_size;
    output *to = &j->train;
    weft_status st = WEFT_OK;
    for (uint64_t done = 0; done < size && st == WEFT_OK;) {
        uint64_t n = DATA_BLOCK - j->at % DATA_BLOCK;
        n = n < size - done ? n : size - done;
        to = output_of(j, j->at);
        int rc = data_file_read(fd, j->text + j->held, n, done);
        if (rc > 0)
            st = err_fail(WEFT_DATA, "text %s became shorter while it was read", text);
        else if (rc < 0)
            st = err_fail_errno(WEFT_IO, "cannot read text %s", text);
        j->at += n;
        done += n;
        j->held += (uint32_t)n;
        if (st == WEFT_OK)
            st = encode_held(j, done == size || output_of(j, j->at) != to, to);
    }
    close(fd);
    const int32_t end = (int32_t)j->tokenizer->info.end - 1;
    return st == WEFT_OK && size && end >= 0 ? output_add(to, &end, 1) : st;
}

/* A window needs a token and its target, so each file needs two. */
static weft_status check_amount(const job *j)
{
    const output *o = j->valid.path && j->valid.tokens < j->train.tokens ? &j->valid : &j->train;
    uint64_t need = j->valid.path ? (DATA_VALID_EVERY - 1) * DATA_BLOCK + 2 : 2;
    if (j->at >= need && o->tokens < 2)
        return err_fail(WEFT_USAGE,
                        "%s would have %" PRIu64 " tokens of the %" PRIu64
                        " bytes of text; it needs at least 2",
                        o->path, o->tokens, j->at);
    if (j->at >= need)
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "the text has %" PRIu64 " bytes; %s needs at least %" PRIu64
                    " (every %uth block of %u bytes is for validation)",
                    j->at, j->valid.path ? j->valid.path : j->train.path, need, DATA_VALID_EVERY,
                    DATA_BLOCK);
}

/* A second name for the file that is to be replaced, or another name where the file system has no
 * hard links: 0, or -1 with errno. */
static int keep_old(output *o)
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

static weft_status output_rename(output *o)
{
    if (!o->path)
        return WEFT_OK;
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

/* Success: removes the old file. */
static void output_settle(output *o)
{
    if (o->kept)
        unlink(o->old);
}

/* Failure: restores `old` under its own name. */
static void put_back(const output *o)
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

static void output_drop(output *o)
{
    if (o->kept)
        put_back(o);
    else if (o->renamed)
        unlink(o->path);
    if (o->fd < 0)
        return;
    close(o->fd);
    unlink(o->temp);
}

static weft_status write_all(job *j, const data_request *r)
{
    const uint32_t vocab = r->tokenizer->info.vocab;
    weft_status st = output_open(&j->train, r->train);
    if (st == WEFT_OK)
        st = output_open(&j->valid, r->valid);
    j->train.wide = j->valid.wide = vocab > 65536;
    for (uint32_t i = 0; i < r->n && st == WEFT_OK; i++)
        st = add_text(j, r->texts[i]);
    if (st == WEFT_OK)
        st = check_amount(j);
    if (st == WEFT_OK)
        st = output_finish(&j->train, vocab);
    if (st == WEFT_OK)
        st = output_finish(&j->valid, vocab);
    if (st == WEFT_OK)
        st = output_rename(&j->train);
    return st != WEFT_OK ? st : output_rename(&j->valid);
}

weft_status data_write(const data_request *r, uint64_t *train_tokens, uint64_t *valid_tokens)
{
    weft_status st = check_request(r->texts, r->n, r->train, r->valid);
    if (st != WEFT_OK)
        return st;
    job *j = mem_alloc(sizeof *j);
    j->train.fd = j->valid.fd = -1;
    j->tokenizer = r->tokenizer;
    st = write_all(j, r);
    if (st != WEFT_OK) {
        output_drop(&j->train);
        output_drop(&j->valid);
    } else {
        output_settle(&j->train);
        output_settle(&j->valid);
        if (train_tokens)
            *train_tokens = j->train.tokens;
        if (valid_tokens)
            *valid_tokens = j->valid.tokens;
    }
    free(j);
    return st;
}
