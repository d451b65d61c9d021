/* tokens/text/input.c: see input.h. */
#define _GNU_SOURCE
#include "tokens/text/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "base/mem.h"
#include "data/file.h"

#define PACKED (256u << 10) /* bytes that are read at a time */
#define WINDOW_LOG 27       /* zstd: at most 128 MiB of memory */

struct tokens_input {
    const tokens_text_file *file;
    int fd;
    uint64_t at, size; /* bytes of the file: read, and in all when it was opened */
    uint64_t given;    /* unpacked bytes */
    z_stream gz;
    ZSTD_DCtx *zst;
    bool open, inside; /* gz is set up; a member or frame is under way */
    unsigned char *packed;
    uint64_t from, to; /* what is left of `packed` */
};

static weft_status damaged(const tokens_input *in, const char *why)
{
    return err_fail(WEFT_DATA, "text %s: after %" PRIu64 " unpacked bytes: %s", in->file->path,
                    in->given, why);
}

static weft_status set_up(tokens_input *in)
{
    bool made = true;
    if (in->file->packing == DATA_GZ)
        made = in->open = inflateInit2(&in->gz, 15 + 16) == Z_OK;
    if (in->file->packing == DATA_ZST) {
        in->zst = ZSTD_createDCtx();
        made = in->zst != NULL;
        if (made)
            ZSTD_DCtx_setParameter(in->zst, ZSTD_d_windowLogMax, WINDOW_LOG);
    }
    if (in->file->packing != DATA_PLAIN)
        in->packed = mem_alloc(PACKED);
    return made ? WEFT_OK : err_fail(WEFT_NO_MEMORY, "no memory to unpack %s", in->file->path);
}

weft_status tokens_input_open(const tokens_text_file *file, tokens_input **out)
{
    struct stat info = {0};
    tokens_input *in = mem_alloc(sizeof *in);
    in->file = file;
    in->fd = data_file_open_regular(AT_FDCWD, file->path, true, &info);
    const weft_status st =
        in->fd < 0 ? err_fail_errno(data_file_status(errno), "cannot read text %s", file->path)
                   : set_up(in);
    in->size = in->fd < 0 ? 0 : (uint64_t)info.st_size;
    if (st != WEFT_OK)
        tokens_input_close(in);
    else
        *out = in;
    return st;
}

void tokens_input_close(tokens_input *in)
{
    if (!in)
        return;
    if (in->open)
        inflateEnd(&in->gz);
    ZSTD_freeDCtx(in->zst);
    if (in->fd >= 0)
        close(in->fd);
    free(in->packed);
    free(in);
}

/* Bytes of the file itself, as many as are asked for unless it ends before. */
static weft_status read_file(tokens_input *in, void *out, uint64_t capacity, uint64_t *n)
{
    const uint64_t left = in->size - in->at;
    *n = left < capacity ? left : capacity;
    const int rc = data_file_read(in->fd, out, *n, in->at);
    if (rc > 0)
        return err_fail(WEFT_DATA, "text %s became shorter while it was read", in->file->path);
    if (rc < 0)
        return err_fail_errno(WEFT_IO, "cannot read text %s", in->file->path);
    in->at += *n;
    return WEFT_OK;
}

/* One call of zlib: a file may have several members, one after the other. */
static weft_status unpack_gz(tokens_input *in, char *out, uint64_t capacity, uint64_t *n)
{
    in->gz.next_in = in->packed + in->from;
    in->gz.avail_in = (uInt)(in->to - in->from);
    in->gz.next_out = (Bytef *)out;
    in->gz.avail_out = (uInt)(capacity < UINT32_MAX ? capacity : UINT32_MAX);
    const uInt before = in->gz.avail_out;
    const int rc = inflate(&in->gz, Z_NO_FLUSH);
    in->from = in->to - in->gz.avail_in;
    *n = before - in->gz.avail_out;
    in->inside = rc != Z_STREAM_END;
    if (rc == Z_MEM_ERROR)
        return err_fail(WEFT_NO_MEMORY, "no memory to unpack %s", in->file->path);
    if (rc == Z_STREAM_END)
        inflateReset(&in->gz);
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return damaged(in, in->gz.msg ? in->gz.msg : "it is not in the format of gzip");
    return WEFT_OK;
}

static weft_status unpack_zst(tokens_input *in, char *out, uint64_t capacity, uint64_t *n)
{
    ZSTD_inBuffer from = {in->packed, in->to, in->from};
    ZSTD_outBuffer to = {out, capacity, 0};
    const size_t rc = ZSTD_decompressStream(in->zst, &to, &from);
    in->from = from.pos;
    *n = to.pos;
    in->inside = rc != 0;
    return ZSTD_isError(rc) ? damaged(in, ZSTD_getErrorName(rc)) : WEFT_OK;
}

weft_status tokens_input_read(tokens_input *in, char *out, uint64_t capacity, uint64_t *n)
{
    weft_status st = WEFT_OK;
    *n = 0;
    if (in->file->packing == DATA_PLAIN)
        return read_file(in, out, capacity, n);
    while (st == WEFT_OK && !*n && capacity) {
        if (in->from == in->to) {
            uint64_t got = 0;
            st = read_file(in, in->packed, PACKED, &got);
            in->from = 0;
            in->to = got;
            /* What a decoder still holds comes out without more input. */
        }
        if (st != WEFT_OK)
            return st;
        const bool end = in->from == in->to;
        if (end && !in->inside)
            return WEFT_OK;
        const uint64_t before = in->from;
        st = in->file->packing == DATA_GZ ? unpack_gz(in, out, capacity, n)
                                          : unpack_zst(in, out, capacity, n);
        if (st == WEFT_OK && end && in->inside && !*n && before == in->from)
            return damaged(in, "it is cut off");
    }
    in->given += *n;
    return st;
}

weft_status tokens_input_skip(tokens_input *in, uint64_t bytes)
{
    weft_status st = WEFT_OK;
    if (in->file->packing == DATA_PLAIN) {
        if (bytes > in->size - in->at)
            return err_fail(WEFT_DATA, "text %s became shorter", in->file->path);
        in->at += bytes;
        return WEFT_OK;
    }
    char *drop = mem_alloc(PACKED);
    while (st == WEFT_OK && bytes) {
        uint64_t n;
        st = tokens_input_read(in, drop, bytes < PACKED ? bytes : PACKED, &n);
        if (st == WEFT_OK && !n)
            st = damaged(in, "it became shorter");
        bytes -= n;
    }
    free(drop);
    return st;
}

uint64_t tokens_input_place(const tokens_input *in)
{
    return in->at - (in->to - in->from);
}
