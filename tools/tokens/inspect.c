/* tokens/inspect.c: see inspect.h. */
#define _GNU_SOURCE
#include "tokens/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/lengthy.h"
#include "base/mem.h"
#include "data/file.h"

#define PIECE (1u << 20) /* bytes */

typedef struct reader {
    const char *path;
    int fd;
    tokens_facts *facts;
    lengthy progress;
    union {
        uint16_t narrow[PIECE / 2];
        uint32_t wide[PIECE / 4];
        uint64_t end[PIECE / 8];
    } piece;
} reader;

static weft_status read_at(reader *r, uint64_t at, void *out, uint64_t bytes)
{
    const int rc = data_file_read(r->fd, out, bytes, at);
    if (rc > 0)
        return err_fail(WEFT_DATA, "data file %s became shorter while it was read", r->path);
    if (rc < 0)
        return err_fail_errno(WEFT_IO, "cannot read data file %s", r->path);
    lengthy_add(&r->progress, bytes);
    return WEFT_OK;
}

/* Ids [at, at + n), which are in the buffer. */
static weft_status check_ids(reader *r, uint64_t at, uint64_t n)
{
    const weft_tokens *t = &r->facts->header;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t id = t->bits == 32 ? r->piece.wide[i] : r->piece.narrow[i];
        if (id >= t->vocab)
            return err_fail(WEFT_DATA,
                            "data file %s: token number %" PRIu64 " is %" PRIu32
                            ", outside its vocabulary of %" PRIu32,
                            r->path, at + i, id, t->vocab);
        r->facts->largest = id > r->facts->largest ? id : r->facts->largest;
        r->facts->documents += t->begin && (id == t->begin - 1 || !(at + i));
    }
    return WEFT_OK;
}

static weft_status scan_ids(reader *r)
{
    const weft_tokens *t = &r->facts->header;
    const uint64_t width = t->bits / 8;
    weft_status st = WEFT_OK;
    for (uint64_t at = 0, n; st == WEFT_OK && at < t->tokens; at += n) {
        n = t->tokens - at < PIECE / width ? t->tokens - at : PIECE / width;
        st = read_at(r, WEFT_TOKENS_HEADER_BYTES + at * width, &r->piece, n * width);
        if (st == WEFT_OK)
            st = check_ids(r, at, n);
    }
    r->facts->counted |= t->begin != 0;
    return st;
}

static weft_status scan_index(reader *r)
{
    const weft_tokens *t = &r->facts->header;
    uint64_t before = 0;
    weft_status st = WEFT_OK;
    for (uint64_t at = 0, n; st == WEFT_OK && at < t->documents; at += n) {
        n = t->documents - at < PIECE / 8 ? t->documents - at : PIECE / 8;
        st = read_at(r, t->index + at * 8, &r->piece, n * 8);
        for (uint64_t i = 0; st == WEFT_OK && i < n; i++) {
            if (r->piece.end[i] <= before || r->piece.end[i] > t->tokens)
                st = err_fail(WEFT_DATA,
                              "data file %s: document number %" PRIu64 " ends at token %" PRIu64
                              " and the one before at %" PRIu64 ", of %" PRIu64 " tokens",
                              r->path, at + i, r->piece.end[i], before, t->tokens);
            before = r->piece.end[i];
        }
    }
    return st;
}

static weft_status read_head(reader *r)
{
    weft_tokens *t = &r->facts->header;
    unsigned char head[WEFT_TOKENS_HEADER_BYTES] = {0};
    const uint64_t bytes = r->facts->bytes;
    uint64_t last = 0;
    weft_status st = read_at(r, 0, head, bytes < sizeof head ? bytes : sizeof head);
    if (st != WEFT_OK)
        return st;
    st = weft_tokens_read(t, head, bytes);
    if (st != WEFT_OK)
        return err_fail(st, "data file %s %s", r->path, t->why);
    r->facts->documents = t->documents;
    r->facts->counted = t->documents != 0;
    if (t->documents)
        st = read_at(r, t->index + 8 * (t->documents - 1), &last, sizeof last);
    if (st == WEFT_OK && t->documents && last != t->tokens)
        st = err_fail(WEFT_DATA,
                      "data file %s: the index of documents ends at token %" PRIu64
                      ", but the file has %" PRIu64 " tokens",
                      r->path, last, t->tokens);
    return st;
}

weft_status tokens_inspect(const char *path, bool scan, tokens_facts *out)
{
    struct stat info;
    char what[256];
    *out = (tokens_facts){0};
    const int fd = data_file_open_regular(AT_FDCWD, path, true, &info);
    if (fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot read data file %s", path);
    out->bytes = (uint64_t)info.st_size;
    reader *r = mem_alloc(sizeof *r);
    r->path = path;
    r->fd = fd;
    r->facts = out;
    snprintf(what, sizeof what, "%.200s is read", path);
    lengthy_begin(&r->progress, what, out->bytes);
    weft_status st = read_head(r);
    if (st == WEFT_OK && scan)
        st = scan_ids(r);
    if (st == WEFT_OK && scan)
        st = scan_index(r);
    close(fd);
    free(r);
    return st;
}
