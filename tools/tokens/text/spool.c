/* tokens/text/spool.c: see spool.h. */
#define _GNU_SOURCE
#include "tokens/text/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/file.h"

#define IN_MEMORY (16u << 20) /* ids of both outputs */
#define CHUNK (1u << 20)      /* ids that are written or read at a time */
#define MARK_MS 10000u
#define MAGIC 0x6c6f6f7073746677u /* "wftspool" */

/* What is stored of a place; `digest` of all before it ends the file. */
typedef struct stored {
    uint64_t magic, run;
    tokens_place place;
    uint64_t ids[2], digest;
} stored;

typedef struct stream {
    int fd; /* -1: all is in memory */
    int32_t *at;
    uint64_t n, capacity, written; /* in `at`; in the file */
} stream;

struct tokens_spool {
    char folder[PATH_MAX];
    int lock; /* of the folder; -1: there is none */
    uint64_t run;
    stream of[2];
    uint64_t in_memory, every_ms, due_ms;
};

static const char *const names[2] = {"train", "valid"};

static uint64_t digest_of(const stored *s)
{
    const unsigned char *p = (const unsigned char *)s;
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < offsetof(stored, digest); i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

/* WEFT_TEST_SPOOL=IDS: tests interrupt short runs, so these keep fewer ids in memory, store each
 * place, and show their progress after each unit (encode.c). */
static void set_limits(tokens_spool *s)
{
    const char *few = getenv("WEFT_TEST_SPOOL");
    const uint64_t ids = few ? strtoull(few, NULL, 10) : 0;
    s->in_memory = ids && ids < IN_MEMORY ? ids : IN_MEMORY;
    s->every_ms = ids ? 0 : MARK_MS;
    s->due_ms = clock_ms() + s->every_ms;
}

static weft_status cannot(const tokens_spool *s, const char *what)
{
    return err_fail_errno(WEFT_IO, "cannot %s %s, which keeps what is done so far", what,
                          s->folder);
}

/* --- the folder --- */

static void remove_folder(tokens_spool *s)
{
    static const char *const all[] = {"train", "valid", "place", "place.new"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        unlinkat(s->lock, all[i], 0);
    rmdir(s->folder);
}

static weft_status lock_folder(tokens_spool *s)
{
    s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->lock < 0)
        return cannot(s, "open the folder");
    if (!flock(s->lock, LOCK_EX | LOCK_NB))
        return WEFT_OK;
    return err_fail(WEFT_USAGE, "another weft data works on %s: wait for it, or name another file",
                    s->folder);
}

static weft_status open_streams(tokens_spool *s, int flags)
{
    for (int i = 0; i < 2; i++) {
        s->of[i].fd = openat(s->lock, names[i], O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0666);
        if (s->of[i].fd < 0)
            return cannot(s, "write to the folder");
    }
    return WEFT_OK;
}

/* The place that a run has stored; false: there is none. */
static bool read_place(const tokens_spool *s, stored *out)
{
    const int fd = openat(s->lock, "place", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const bool got = fd >= 0 && !data_file_read(fd, out, sizeof *out, 0);
    if (fd >= 0)
        close(fd);
    return got && out->magic == MAGIC && out->digest == digest_of(out);
}

static char interrupted[PATH_MAX + 128]; /* "": there is nothing to go on with */

static void on_interrupt(int number)
{
    (void)!write(STDERR_FILENO, interrupted, strlen(interrupted));
    raise(number);
}

static void say_when_interrupted(const tokens_spool *s)
{
    const struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    snprintf(interrupted, sizeof interrupted,
             "\nweft warn: interrupted; %s keeps what is done, and the same command goes on\n",
             s->folder);
    if (!sigaction(SIGINT, NULL, &before) && before.sa_handler == SIG_DFL)
        sigaction(SIGINT, &act, NULL);
}

/* Go on with what is in the folder; false: it cannot be used. */
static bool go_on(tokens_spool *s, tokens_place *place)
{
    stored p;
    if (!read_place(s, &p) || p.run != s->run || open_streams(s, 0) != WEFT_OK)
        return false;
    for (int i = 0; i < 2; i++) {
        struct stat st;
        stream *f = &s->of[i];
        const uint64_t bytes = p.ids[i] * sizeof *f->at;
        if (p.ids[i] > INT64_MAX / 8 || fstat(f->fd, &st) || (uint64_t)st.st_size < bytes ||
            ftruncate(f->fd, (off_t)bytes) || lseek(f->fd, 0, SEEK_END) < 0)
            return false;
        f->written = p.ids[i];
    }
    *place = p.place;
    say_when_interrupted(s);
    return true;
}

/* Another command, or one over other texts, would lose what may have taken hours. */
static weft_status refuse_other(const tokens_spool *s, bool replace)
{
    stored p;
    if (replace || !read_place(s, &p) || p.run == s->run)
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "%s keeps %.1f MB of text of an interrupted command with other texts, another "
                    "tokenizer or other options; give that command again to go on, or --force to "
                    "begin anew",
                    s->folder, (double)p.place.text * 1e-6);
}

static void close_streams(tokens_spool *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->of[i].fd >= 0)
            close(s->of[i].fd);
        s->of[i].fd = -1;
        s->of[i].written = 0;
    }
}

weft_status tokens_spool_open(const char *path, uint64_t digest, bool replace, tokens_place *place,
                              tokens_spool **out)
{
    tokens_spool *s = mem_alloc(sizeof *s);
    weft_status st = WEFT_OK;
    s->run = digest;
    s->lock = s->of[0].fd = s->of[1].fd = -1;
    const int n = snprintf(s->folder, sizeof s->folder, "%s.part", path);
    if (n < 0 || n >= (int)sizeof s->folder)
        st = err_fail(WEFT_USAGE, "the name of data file %s is too long", path);
    struct stat there;
    if (st == WEFT_OK && !lstat(s->folder, &there)) {
        st = lock_folder(s);
        if (st == WEFT_OK)
            st = refuse_other(s, replace);
        if (st == WEFT_OK && !go_on(s, place)) {
            err_clear();
            log_line(WEFT_LOG_INFO, "%s has nothing to go on with: it is removed", s->folder);
            close_streams(s);
            remove_folder(s);
            close(s->lock);
            s->lock = -1;
        }
    }
    set_limits(s);
    if (st == WEFT_OK)
        *out = s;
    else
        tokens_spool_close(s, true);
    return st;
}

/* --- ids --- */

static weft_status flush(tokens_spool *s, stream *f)
{
    if (!f->n)
        return WEFT_OK;
    if (data_file_write(f->fd, f->at, f->n * sizeof *f->at))
        return cannot(s, "write to the folder");
    f->written += f->n;
    f->n = 0;
    return WEFT_OK;
}

static weft_status make_folder(tokens_spool *s)
{
    if (mkdir(s->folder, 0777) && errno != EEXIST)
        return cannot(s, "make the folder");
    weft_status st = lock_folder(s);
    return st == WEFT_OK ? open_streams(s, O_CREAT | O_TRUNC) : st;
}

weft_status tokens_spool_add(tokens_spool *s, bool valid, const int32_t *ids, uint64_t n)
{
    stream *f = &s->of[valid];
    weft_status st = WEFT_OK;
    if (f->capacity - f->n < n) {
        f->capacity = 2 * f->capacity + n;
        f->at = mem_grow(f->at, f->capacity * sizeof *f->at);
    }
    memcpy(f->at + f->n, ids, n * sizeof *ids);
    f->n += n;
    if (s->lock < 0 && s->of[0].n + s->of[1].n > s->in_memory)
        st = make_folder(s);
    if (st == WEFT_OK && s->lock >= 0 && f->n > CHUNK)
        st = flush(s, f);
    return st;
}

static weft_status store(tokens_spool *s, const tokens_place *place)
{
    stored p = {.magic = MAGIC, .run = s->run, .place = *place};
    for (int i = 0; i < 2; i++) {
        weft_status st = flush(s, &s->of[i]);
        if (st != WEFT_OK)
            return st;
        if (fdatasync(s->of[i].fd))
            return cannot(s, "sync");
        p.ids[i] = s->of[i].written;
    }
    p.digest = digest_of(&p);
    const int fd =
        openat(s->lock, "place.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return cannot(s, "write to the folder");
    bool failed = data_file_write(fd, &p, sizeof p) || fsync(fd);
    failed |= close(fd) != 0;
    failed = failed || renameat(s->lock, "place.new", s->lock, "place") || fsync(s->lock);
    if (failed)
        return cannot(s, "write to the folder");
    say_when_interrupted(s);
    return WEFT_OK;
}

weft_status tokens_spool_mark(tokens_spool *s, const tokens_place *place)
{
    if (s->lock < 0 || clock_ms() < s->due_ms)
        return WEFT_OK;
    const weft_status st = store(s, place);
    s->due_ms = clock_ms() + s->every_ms;
    return st;
}

/* --- all of them again --- */

/* Ids and ends in order. */
static weft_status give(const int32_t *at, uint64_t n,
                        weft_status (*put)(void *ctx, const int32_t *ids, uint64_t n),
                        weft_status (*end)(void *ctx), void *ctx)
{
    weft_status st = WEFT_OK;
    for (uint64_t i = 0; st == WEFT_OK && i < n;) {
        uint64_t to = i;
        while (to < n && at[to] != DATA_SPOOL_END)
            to++;
        if (to > i)
            st = put(ctx, at + i, to - i);
        if (st == WEFT_OK && to < n)
            st = end(ctx);
        i = to + 1;
    }
    return st;
}

weft_status tokens_spool_each(tokens_spool *s, bool valid,
                              weft_status (*put)(void *ctx, const int32_t *ids, uint64_t n),
                              weft_status (*end)(void *ctx), void *ctx)
{
    stream *f = &s->of[valid];
    weft_status st = s->lock < 0 ? give(f->at, f->n, put, end, ctx) : flush(s, f);
    if (s->lock < 0 || st != WEFT_OK)
        return st;
    int32_t *ids = mem_alloc(CHUNK * sizeof *ids);
    const uint64_t capacity = CHUNK;
    for (uint64_t at = 0, n; st == WEFT_OK && at < f->written; at += n) {
        n = f->written - at < capacity ? f->written - at : capacity;
        if (data_file_read(f->fd, ids, n * sizeof *ids, at * sizeof *ids))
            st = cannot(s, "read");
        else
            st = give(ids, n, put, end, ctx);
    }
    free(ids);
    return st;
}

void tokens_spool_close(tokens_spool *s, bool keep)
{
    if (!s)
        return;
    interrupted[0] = 0;
    close_streams(s);
    if (s->lock >= 0) {
        if (!keep)
            remove_folder(s);
        close(s->lock);
    }
    free(s->of[0].at);
    free(s->of[1].at);
    free(s);
}
