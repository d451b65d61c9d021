/* ckpt/load.c: opening a checkpoint, which verifies all of it, and reading tensors from it.
 *
 * Order of trust: the manifest's own sum, the manifest's text, each shard's length and sum, each
 * shard's header, the two accounts of what lies where, and that every tensor is covered exactly
 * once. Only then is anything handed out. A shard is opened anew for each read, and must be the
 * file that was verified: same inode, length and times. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/log.h"
#include "ckpt/internal.h"
#include "data/file.h"

struct ckpt {
    pool mem;
    int folder;
    const char *dir;
    ckpt_manifest manifest;
    struct stat *files;  /* [shards], as they were verified            */
    ckpt_ranges ranges;  /* sorted; from the shards' headers            */
    ckpt_piece *tensors; /* [n], sorted by name                         */
    uint32_t *starts;    /* [n + 1], first range of each tensor         */
    uint32_t n;
};

static weft_status read_text(int fd, uint64_t bytes, char *out)
{
    int rc = file_read(fd, out, bytes, 0);
    if (rc < 0)
        return fail_errno(WEFT_IO, "cannot read it");
    return rc ? fail(WEFT_DATA, "it became shorter while it was read") : WEFT_OK;
}

static weft_status read_manifest(ckpt *c)
{
    struct stat st;
    int fd = file_open_regular(c->folder, "manifest.json", false, &st);
    if (fd < 0 && errno == ENOENT)
        return fail(WEFT_DATA, "there is no manifest.json: this is no complete checkpoint");
    if (fd < 0)
        return fail_errno(file_blame(errno) == WEFT_USAGE ? WEFT_DATA : WEFT_IO,
                          "cannot read manifest.json");
    uint64_t bytes = (uint64_t)st.st_size;
    weft_status status = bytes > CKPT_JSON_MAX
                             ? fail(WEFT_DATA, "it is over %u bytes long", CKPT_JSON_MAX)
                             : WEFT_OK;
    if (!status) {
        char *text = mem_alloc(bytes);
        status = read_text(fd, bytes, text);
        if (!status)
            status = ckpt_manifest_parse(text, bytes, &c->mem, &c->manifest);
        free(text);
    }
    close(fd);
    if (status)
        err_context("manifest.json");
    return status;
}

static weft_status verify(ckpt *c)
{
    weft_status st = read_manifest(c);
    if (st)
        return st;
    const ckpt_manifest *m = &c->manifest;
    c->files = pool_array(&c->mem, m->shards, sizeof *c->files);
    for (uint32_t i = 0; i < m->shards && !st; i++)
        st = ckpt_shard_check(c->folder, i, m->shards, &m->sums[i], true, &c->mem, &c->ranges,
                              &c->files[i]);
    if (st)
        return st;
    ckpt_ranges_sort(&c->ranges);
    ckpt_ranges_sort(&c->manifest.ranges);
    st = ckpt_ranges_agree(&c->manifest.ranges, &c->ranges);
    return st ? st : ckpt_cover(&c->ranges, &c->mem, &c->tensors, &c->starts, &c->n);
}

/* `folder` is taken over; `dir` is what messages call it. */
static weft_status open_folder(int folder, const char *dir, ckpt **out)
{
    ckpt *c = mem_alloc(sizeof *c);
    c->folder = folder;
    c->dir = pool_text(&c->mem, dir);
    weft_status st = verify(c);
    if (st) {
        err_context("checkpoint %s", dir);
        ckpt_close(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

weft_status ckpt_open(const char *dir, ckpt **out)
{
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return fail_errno(file_blame(errno), "cannot open checkpoint %s", dir);
    return open_folder(folder, dir, out);
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

/* A checkpoint of ours in OUT/checkpoints, which has the step that its name says. */
static weft_status open_step(int parent, const char *out_dir, uint64_t step, ckpt **out)
{
    char name[CKPT_FILE_MAX], dir[CKPT_PATH_MAX];
    ckpt_step_name(step, "", "", name);
    snprintf(dir, sizeof dir, "%s/checkpoints/%s", out_dir, name);
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return fail_errno(WEFT_DATA, "cannot open checkpoint %s", dir);
    ckpt *c;
    weft_status st = open_folder(folder, dir, &c);
    if (st)
        return st;
    if (c->manifest.step != step) {
        st = fail(WEFT_DATA, "checkpoint %s: its manifest is that of step %" PRIu64, dir,
                  c->manifest.step);
        ckpt_close(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

weft_status ckpt_open_newest(const char *out_dir, ckpt **out)
{
    int folder;
    ckpt_steps list;
    weft_status st = ckpt_folder_open(out_dir, false, &folder);
    if (st)
        return st;
    st = ckpt_list(folder, &list);
    if (!st && !list.n)
        st = fail(WEFT_USAGE, "there is no checkpoint in %s/checkpoints", out_dir);
    for (uint32_t i = 0; i < list.n && !st; i++) {
        st = open_step(folder, out_dir, list.at[i], out);
        if (!st)
            break;
        log_line(WEFT_LOG_WARN, "passed over: %s", err_text());
        st = WEFT_OK;
        if (i + 1 == list.n)
            st = fail(WEFT_USAGE, "none of the %" PRIu32 " checkpoints in %s/checkpoints verifies",
                      list.n, out_dir);
    }
    free(list.at);
    close(folder);
    return st;
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

/* The stored tensor that `want` means, if it is the same in all that matters. */
static weft_status find(const ckpt *c, const ckpt_piece *want, const ckpt_piece **out)
{
    const ckpt_piece *t = c->n ? bsearch(want->name, c->tensors, c->n, sizeof *t, by_name) : NULL;
    if (!t)
        return fail(WEFT_USAGE, "checkpoint %s has no tensor %s", c->dir, want->name);
    if (t->dtype != want->dtype || !ckpt_shape_same(t->rank, t->shape, want->rank, want->shape)) {
        char have[CKPT_SHAPE_TEXT], need[CKPT_SHAPE_TEXT];
        const char *type = ckpt_dtype_name(want->dtype);
        ckpt_shape_text(t->rank, t->shape, have);
        ckpt_shape_text(want->rank, want->shape, need);
        return fail(WEFT_USAGE, "checkpoint %s has tensor %s as %s %s, where this job has %s %s",
                    c->dir, t->name, ckpt_dtype_name(t->dtype), have, type ? type : "no type",
                    need);
    }
    if (!ck_range(want->first, want->count, t->count))
        return fail(WEFT_INTERNAL, "tensor %s: elements %" PRIu64 " + %" PRIu64 " of %" PRIu64,
                    want->name, want->first, want->count, t->count);
    *out = t;
    return WEFT_OK;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static weft_status read_shard(const ckpt *c, uint32_t shard, uint64_t at, uint64_t bytes, void *out)
{
    char name[CKPT_FILE_MAX];
    struct stat now;
    ckpt_shard_name(shard, c->manifest.shards, name);
    int fd = file_open_regular(c->folder, name, false, &now);
    if (fd < 0)
        return fail_errno(WEFT_IO, "checkpoint %s: cannot read shard %s", c->dir, name);
    int rc = same_file(&now, &c->files[shard]) ? file_read(fd, out, bytes, at) : 1;
    weft_status st = WEFT_OK;
    if (rc < 0)
        st = fail_errno(WEFT_IO, "checkpoint %s: cannot read shard %s", c->dir, name);
    else if (rc)
        st = fail(WEFT_DATA, "checkpoint %s: shard %s was changed after it was verified", c->dir,
                  name);
    close(fd);
    return st;
}

/* The range of tensor `t` that holds element `first`: the last one that begins at or before it. */
static uint32_t range_of(const ckpt *c, uint32_t t, uint64_t first)
{
    uint32_t low = c->starts[t], high = c->starts[t + 1];
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (c->ranges.at[mid].first <= first)
            low = mid;
        else
            high = mid;
    }
    return low;
}

weft_status ckpt_read(const ckpt *c, const ckpt_piece *want, void *out)
{
    const ckpt_piece *t;
    weft_status st = find(c, want, &t);
    if (st || !want->count)
        return st;
    uint64_t width = weft_dtype_size(t->dtype), at = want->first, end = at + want->count;
    unsigned char *to = out;
    for (uint32_t i = range_of(c, (uint32_t)(t - c->tensors), at); at < end && !st; i++) {
        const ckpt_range *r = &c->ranges.at[i]; /* in order and without a hole: ckpt_cover() */
        uint64_t skip = at - r->first;
        uint64_t n = r->count - skip < end - at ? r->count - skip : end - at;
        st = read_shard(c, r->shard, r->at + skip * width, n * width, to);
        to += n * width;
        at += n;
    }
    return st;
}
