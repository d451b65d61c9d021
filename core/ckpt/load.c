/* ckpt/load.c: opens and verifies a checkpoint, and reads tensors from it.
 *
 * Order of verification: the manifest's own checksum, the manifest's text, each shard's length and
 * checksum, each shard's header, manifest against headers, and that every tensor is covered exactly
 * once. Only then are data returned. Each read opens the shard again, and checks that it is the
 * verified file: same inode, length and times.
 *
 * The requested block and the stored block intersect in rows contiguous in both (base/box.h), which
 * are read stored range by stored range, so that the file is read forwards: long rows directly into
 * the output, short ones through a window over the file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number/check.h"
#include "base/number/digest.h"
#include "ckpt/internal.h"
#include "data/file.h"

#define WINDOW ((uint64_t)1 << 16) /* bytes of a file that are read for short rows */

/* The folder has no manifest.json: does it have checkpoints, itself or in its "checkpoints"? Then
 * name the newest, else say what is missing. */
static weft_status no_manifest(int folder)
{
    static const char *const below[] = {"checkpoints", "."}, *const where[] = {
                                                                 "its folder checkpoints",
                                                                 "this folder"};
    for (int i = 0; i < 2; i++) {
        int fd = openat(folder, below[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ckpt_steps steps = {0};
        char name[CKPT_FILE_MAX] = "";
        if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
            return err_fail_errno(WEFT_IO, "cannot list %s, where checkpoints may be", where[i]);
        const weft_status st = fd >= 0 ? ckpt_list(fd, &steps) : WEFT_OK;
        if (st == WEFT_OK && steps.n)
            ckpt_step_name(steps.at[0], "", "", name);
        free(steps.at);
        if (fd >= 0)
            close(fd);
        if (st != WEFT_OK)
            return st;
        if (*name)
            return err_fail(WEFT_USAGE,
                            "this folder holds checkpoints: name one of them; the newest is %s%s",
                            i ? "" : "checkpoints/", name);
        if (fd >= 0 && !i)
            return err_fail(WEFT_USAGE, "this is the folder of a run that has no checkpoint");
    }
    return err_fail(WEFT_DATA, "there is no manifest.json: this is not a complete checkpoint%s",
                    faccessat(folder, "config.json", F_OK, 0) ? ""
                                                              : "; weft import hf makes one of a "
                                                                "folder of Hugging Face");
}

static weft_status read_manifest(ckpt *c)
{
    struct stat info;
    int fd = data_file_open_regular(c->folder, "manifest.json", false, &info);
    if (fd < 0 && errno == ENOENT)
        return no_manifest(c->folder);
    if (fd < 0)
        return err_fail_errno(data_file_damage(errno), "cannot read manifest.json");
    uint64_t bytes = (uint64_t)info.st_size;
    weft_status st = bytes > CKPT_JSON_MAX
                         ? err_fail(WEFT_DATA, "it is over %u bytes long", CKPT_JSON_MAX)
                         : WEFT_OK;
    if (st == WEFT_OK) {
        char *text = mem_alloc(bytes);
        st = ckpt_read_part(fd, text, bytes, 0);
        if (st == WEFT_OK)
            st = ckpt_manifest_parse(text, bytes, &c->mem, &c->manifest);
        free(text);
    }
    close(fd);
    if (st != WEFT_OK)
        err_context("manifest.json");
    return st;
}

/* Hashes the shards of `part` of `parts`; all other checks are the same in every part. */
static weft_status verify(ckpt *c, uint32_t part, uint32_t parts)
{
    weft_status st = read_manifest(c);
    if (st != WEFT_OK)
        return st;
    const ckpt_manifest *m = &c->manifest;
    c->files = pool_array(&c->mem, m->shards, sizeof *c->files);
    for (uint32_t i = 0; i < m->shards && st == WEFT_OK; i++)
        st = ckpt_shard_check(c->folder, i, m->shards, &m->sums[i], i % parts == part, NULL,
                              &c->mem, &c->ranges, &c->files[i]);
    if (st != WEFT_OK)
        return st;
    ckpt_ranges_sort(&c->ranges);
    ckpt_ranges_sort(&c->manifest.ranges);
    st = ckpt_ranges_agree(&c->manifest.ranges, &c->ranges);
    return st != WEFT_OK ? st : ckpt_cover(&c->ranges, &c->mem, &c->tensors, &c->starts, &c->n);
}

weft_status ckpt_open_part(int folder, const char *dir, uint32_t part, uint32_t parts, ckpt **out)
{
    ckpt *c = mem_alloc(sizeof *c);
    c->folder = folder;
    c->dir = pool_text(&c->mem, dir);
    weft_status st = verify(c, part, parts);
    if (st != WEFT_OK) {
        err_context("checkpoint %s", dir);
        ckpt_close(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

/* Part 0 of 1 has all shards, part 1 of 1 none. */
static weft_status open_named(const char *dir, uint32_t part, ckpt **out)
{
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return err_fail_errno(data_file_status(errno), "cannot open checkpoint %s", dir);
    return ckpt_open_part(folder, dir, part, 1, out);
}

weft_status ckpt_open(const char *dir, ckpt **out)
{
    return open_named(dir, 0, out);
}

weft_status ckpt_open_ahead(const char *dir, ckpt **out)
{
    return open_named(dir, 1, out);
}

void ckpt_close(ckpt *c)
{
    if (!c)
        return;
    close(c->folder);
    free(c->ranges.at);
    free(c->manifest.ranges.at);
    pool_free(&c->mem);
    free(c);
}

uint64_t ckpt_step(const ckpt *c)
{
    return c->manifest.step;
}

const char *ckpt_job_text(const ckpt *c)
{
    return c->manifest.job;
}

const char *ckpt_dir(const ckpt *c)
{
    return c->dir;
}

uint64_t ckpt_digest(const ckpt *c)
{
    uint64_t h = DIGEST_BEGIN;
    digest_mix(&h, &c->manifest.step, sizeof c->manifest.step);
    digest_mix(&h, c->manifest.sums, c->manifest.shards * sizeof *c->manifest.sums);
    return h;
}

uint32_t ckpt_tensors(const ckpt *c, const ckpt_piece **out)
{
    *out = c->tensors;
    return c->n;
}

/* --- reading --- */

static int by_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const ckpt_piece *)tensor)->name);
}

static const ckpt_piece *tensor_of(const ckpt *c, const char *name)
{
    return c->n ? bsearch(name, c->tensors, c->n, sizeof *c->tensors, by_name) : NULL;
}

bool ckpt_has(const ckpt *c, const char *name)
{
    return tensor_of(c, name);
}

/* Finds the stored tensor for `want`, checks type and shape, and gives the requested block of
 * it. */
static weft_status find(const ckpt *c, const ckpt_piece *want, box *block, const ckpt_piece **out)
{
    const ckpt_piece *t = tensor_of(c, want->name);
    if (!t)
        return err_fail(WEFT_USAGE, "checkpoint %s has no tensor %s", c->dir, want->name);
    if (t->dtype != want->dtype || !ckpt_shape_same(t->rank, t->shape, want->rank, want->shape)) {
        char have[CKPT_SHAPE_TEXT], need[CKPT_SHAPE_TEXT];
        const char *type = ckpt_dtype_name(want->dtype);
        ckpt_shape_text(t->rank, t->shape, have);
        ckpt_shape_text(want->rank, want->shape, need);
        return err_fail(WEFT_USAGE,
                        "checkpoint %s has tensor %s as %s %s, where this job has %s %s", c->dir,
                        t->name, ckpt_dtype_name(t->dtype), have, type ? type : "no type", need);
    }
    uint64_t held = t->count;
    if (ckpt_piece_block(want, block) && !ckpt_block_ok(block, t->shape, &held))
        return err_fail(WEFT_INTERNAL, "tensor %s: the requested block is not inside it",
                        want->name);
    if (!check_range(want->first, want->count, held))
        return err_fail(WEFT_INTERNAL, "tensor %s: elements %" PRIu64 " + %" PRIu64 " of %" PRIu64,
                        want->name, want->first, want->count, held);
    *out = t;
    return WEFT_OK;
}

typedef struct reader {
    const ckpt *c;
    int fd; /* -1: none open */
    uint32_t shard;
    uint64_t at, end;      /* bytes of the file that are in the window */
    unsigned char *window; /* [WINDOW] */
    uint64_t width;        /* bytes of an element */
    uint64_t first, last;  /* elements of the block that are wanted, up to `last` */
    unsigned char *out;    /* where element `first` goes */
} reader;

static void close_shard(reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    r->at = r->end = 0;
}

static weft_status open_shard(reader *r, uint32_t shard)
{
    char name[CKPT_FILE_MAX];
    struct stat now;
    if (r->fd >= 0 && r->shard == shard)
        return WEFT_OK;
    close_shard(r);
    ckpt_shard_name(shard, r->c->manifest.shards, name);
    r->shard = shard;
    r->fd = data_file_open_regular(r->c->folder, name, false, &now);
    if (r->fd < 0)
        return err_fail_errno(WEFT_IO, "checkpoint %s: cannot read shard %s", r->c->dir, name);
    if (!ckpt_same_file(&now, &r->c->files[shard]))
        return err_fail(WEFT_DATA, "checkpoint %s: shard %s was changed after it was verified",
                        r->c->dir, name);
    return WEFT_OK;
}

static weft_status read_bytes(reader *r, uint64_t at, uint64_t bytes, void *out)
{
    int rc = data_file_read(r->fd, out, bytes, at);
    if (!rc)
        return WEFT_OK;
    char name[CKPT_FILE_MAX];
    ckpt_shard_name(r->shard, r->c->manifest.shards, name);
    if (rc < 0)
        return err_fail_errno(WEFT_IO, "checkpoint %s: cannot read shard %s", r->c->dir, name);
    return err_fail(WEFT_DATA, "checkpoint %s: shard %s was changed after it was verified",
                    r->c->dir, name);
}

/* Bytes [at, at + bytes) of the open shard; a window may be read ahead as far as `end`. */
static weft_status take(reader *r, uint64_t at, uint64_t bytes, uint64_t end, void *out)
{
    if (bytes >= WINDOW / 2)
        return read_bytes(r, at, bytes, out);
    if (at < r->at || at + bytes > r->end) {
        uint64_t n = end - at < WINDOW ? end - at : WINDOW;
        r->at = r->end = 0;
        weft_status st = read_bytes(r, at, n, r->window);
        if (st != WEFT_OK)
            return st;
        r->at = at;
        r->end = at + n;
    }
    memcpy(out, r->window + (at - r->at), bytes);
    return WEFT_OK;
}

/* Copies the rows that the requested block (side 0) and the block of a stored range (side 1) have
 * in common, as far as they are both requested and stored. */
static weft_status read_range(reader *r, const ckpt_range *x, const box_rows *rows)
{
    uint64_t from = box_row_from(rows, 0, r->first), other = box_row_from(rows, 1, x->first);
    uint64_t stored_end = x->first + x->count, at[2];
    weft_status st = open_shard(r, x->shard);
    for (uint64_t i = from > other ? from : other; i < rows->n && st == WEFT_OK; i++) {
        box_row(rows, i, at);
        if (at[0] >= r->last || at[1] >= stored_end)
            break;
        uint64_t skip = 0, n = rows->length;
        if (at[0] < r->first)
            skip = r->first - at[0];
        if (at[1] + skip < x->first)
            skip = x->first - at[1];
        if (n > r->last - at[0])
            n = r->last - at[0];
        if (n > stored_end - at[1])
            n = stored_end - at[1];
        if (n > skip)
            st = take(r, x->at + (at[1] + skip - x->first) * r->width, (n - skip) * r->width,
                      x->at + x->count * r->width, r->out + (at[0] + skip - r->first) * r->width);
    }
    return st;
}

/* Of ranges x[0 .. n), which cover one block in order, the first that ends after element `at`. */
static uint32_t range_from(const ckpt_range *x, uint32_t n, uint64_t at)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (x[mid].first + x[mid].count > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Reads what is requested of `block` and stored in the ranges x[0 .. n) of one stored block. */
static weft_status read_block(reader *r, const box *block, const ckpt_range *x, uint32_t n)
{
    box stored = ckpt_range_box(x);
    box_rows rows;
    uint64_t at[2];
    box_common(block, &stored, &rows);
    uint64_t from = box_row_from(&rows, 0, r->first);
    if (from == rows.n)
        return WEFT_OK;
    box_row(&rows, from, at);
    if (at[0] >= r->last)
        return WEFT_OK;
    uint64_t begin = at[1] + (at[0] < r->first ? r->first - at[0] : 0), end = begin;
    uint64_t last = box_row_from(&rows, 0, r->last - 1); /* the last row needed */
    box_row(&rows, last < rows.n ? last : rows.n - 1, at);
    end = at[1] + rows.length;
    weft_status st = WEFT_OK;
    for (uint32_t i = range_from(x, n, begin); i < n && x[i].first < end && st == WEFT_OK; i++)
        st = read_range(r, &x[i], &rows);
    return st;
}

weft_status ckpt_read(const ckpt *c, const ckpt_piece *want, void *out)
{
    const ckpt_piece *t = NULL;
    box block;
    weft_status st = find(c, want, &block, &t);
    if (st != WEFT_OK || !want->count)
        return st;
    reader r = {.c = c, .fd = -1, .width = weft_dtype_size(t->dtype), .out = out};
    r.first = want->first;
    r.last = want->first + want->count;
    r.window = mem_alloc(WINDOW);
    uint32_t i = c->starts[t - c->tensors], end = c->starts[t - c->tensors + 1], next;
    for (; i < end && st == WEFT_OK; i = next) {
        const ckpt_range *x = &c->ranges.at[i];
        for (next = i + 1; next < end && !ckpt_block_order(x->block, x[next - i].block);)
            next++;
        st = read_block(&r, &block, x, next - i);
    }
    close_shard(&r);
    free(r.window);
    return st;
}
