/* ckpt/shard.c: writes one shard file of one rank, and reads it back with its checksum.
 *
 * The SHA-256 is computed on each block on its way to the file, so the state is read from memory
 * once. Small tensors are gathered into a block first; large ones are written without a copy.
 * Values that are made while they are written are made in one of two blocks, while a thread forms
 * the sum of the other. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/lengthy.h"
#include "base/number/check.h"
#include "ckpt/internal.h"
#include "data/file.h"

#define BLOCK ((uint64_t)1 << 20)  /* fits a second-level cache: written while it is still there */
#define VALUES ((uint64_t)4 << 20) /* bytes of values that are made at once */

/* --- writing --- */

typedef struct sink {
    int fd;
    ckpt_sum *sum;
    unsigned char *block, *other;   /* [room]; `other` is with the thread of the sum, NULL: none */
    uint64_t capacity, held, bytes; /* of the block; in it; in the file */
    uint64_t handed;                /* of the file, that the disk was told to write */
    lengthy progress;
    const ckpt_halt *halt;     /* NULL: nothing ends it */
    const ckpt_values *values; /* NULL: pieces have data */
    weft_status halted;
} sink;

static int sink_put(sink *s, const void *data, uint64_t n)
{
    if (s->halt && (s->halted = s->halt->ask(s->halt->ctx)) != WEFT_OK) {
        errno = ECANCELED;
        return -1;
    }
    ckpt_sum_add(s->sum, data, n);
    if (data_file_write(s->fd, data, n))
        return -1;
    s->bytes += n;
    data_file_hand_on(s->fd, &s->handed, s->bytes);
    lengthy_add(&s->progress, n);
    return 0;
}

static int sink_flush(sink *s)
{
    const uint64_t n = s->held;
    const int rc = n ? sink_put(s, s->block, n) : 0;
    s->held = 0;
    if (s->other) { /* which is free, since the thread takes one after the other */
        unsigned char *block = s->block;
        s->block = s->other;
        s->other = block;
    }
    return rc;
}

static int sink_add(sink *s, const void *data, uint64_t n)
{
    const unsigned char *at = data;
    while (n) {
        uint64_t some = s->capacity - s->held < n ? s->capacity - s->held : n;
        int rc = 0;
        if (some == s->capacity) {
            rc = sink_put(s, at, some);
        } else {
            memcpy(s->block + s->held, at, some);
            s->held += some;
            rc = s->held == s->capacity ? sink_flush(s) : 0;
        }
        if (rc)
            return rc;
        at += some;
        n -= some;
    }
    return 0;
}

/* The values of a piece that are made block by block. They are aligned in it, since wide types come
 * first and the head is padded. */
static int sink_make(sink *s, const ckpt_piece *p)
{
    const uint64_t width = weft_dtype_size(p->dtype);
    int rc = 0;
    for (uint64_t first = 0, n; first < p->count && !rc; first += n) {
        const uint64_t free = (s->capacity - s->held) / width;
        n = p->count - first < free ? p->count - first : free;
        s->halted = s->values->read(s->values->ctx, p, first, n, s->block + s->held);
        if (s->halted != WEFT_OK)
            return -1;
        s->held += n * width;
        rc = s->capacity - s->held < 8 ? sink_flush(s) : 0;
    }
    return rc;
}

static int block_order(const ckpt_piece *x, const ckpt_piece *y)
{
    box a, b;
    bool part_a = ckpt_piece_block(x, &a), part_b = ckpt_piece_block(y, &b);
    return ckpt_block_order(part_a ? &a : NULL, part_b ? &b : NULL);
}

/* Wide types first, so that each tensor is aligned to its element size. */
static int by_width(const void *a, const void *b)
{
    const ckpt_piece *x = *(const ckpt_piece *const *)a, *y = *(const ckpt_piece *const *)b;
    uint64_t wx = weft_dtype_size(x->dtype), wy = weft_dtype_size(y->dtype);
    if (wx != wy)
        return wx > wy ? -1 : 1;
    int order = strcmp(x->name, y->name);
    if (!order)
        order = block_order(x, y);
    if (order)
        return order;
    return x->first < y->first ? -1 : x->first > y->first;
}

static weft_status check_piece(const ckpt_piece *p)
{
    uint64_t held;
    box block;
    if (!p->name || !ckpt_name_ok(p->name))
        return err_fail(WEFT_INTERNAL, "a tensor name of the checkpoint is invalid");
    if (!ckpt_elements(p->rank, p->shape, p->dtype, &held) ||
        (ckpt_piece_block(p, &block) && !ckpt_block_ok(&block, p->shape, &held)) ||
        !check_range(p->first, p->count, held))
        return err_fail(WEFT_INTERNAL, "tensor %s: the piece to be saved is invalid", p->name);
    return WEFT_OK;
}

/* Pointers to the pieces that have elements, in the order of their bytes. Pieces of one block in
 * one shard must not overlap; across blocks and shards the manifest sees to it. */
static weft_status order_pieces(const ckpt_piece *pieces, uint32_t n, const ckpt_piece **order,
                                uint32_t *n_ordered)
{
    *n_ordered = 0;
    for (uint32_t i = 0; i < n; i++) {
        weft_status st = check_piece(&pieces[i]);
        if (st != WEFT_OK)
            return st;
        if (pieces[i].count)
            order[(*n_ordered)++] = &pieces[i];
    }
    if (*n_ordered)
        qsort(order, *n_ordered, sizeof *order, by_width);
    for (uint32_t i = 1; i < *n_ordered; i++)
        if (!strcmp(order[i]->name, order[i - 1]->name) && !block_order(order[i], order[i - 1]) &&
            order[i]->first < order[i - 1]->first + order[i - 1]->count)
            return err_fail(WEFT_INTERNAL, "tensor %s: two pieces to be saved overlap",
                            order[i]->name);
    return WEFT_OK;
}

static int write_pieces(sink *s, const ckpt_piece *const *order, uint32_t n, const char *head,
                        uint64_t head_bytes)
{
    int rc = sink_add(s, head, head_bytes);
    for (uint32_t i = 0; i < n && !rc; i++) {
        const ckpt_piece *p = order[i];
        rc = s->values ? sink_make(s, p)
                       : sink_add(s, p->data, p->count * weft_dtype_size(p->dtype));
    }
    return rc ? rc : sink_flush(s);
}

/* Writes the complete, synced file and syncs its folder entry; on failure the file is removed. */
static weft_status write_file(int folder, const char *name, const ckpt_piece *const *order,
                              uint32_t n, const char *head, uint64_t head_bytes, sink *s)
{
    s->fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->fd < 0)
        return err_fail_errno(WEFT_IO, "cannot create checkpoint shard %s", name);
    weft_status st = WEFT_OK;
    const int bad = write_pieces(s, order, n, head, head_bytes);
    if (s->halted != WEFT_OK)
        st = s->halted;
    else if (bad || data_file_sync(s->fd))
        st = err_fail_errno(WEFT_IO, "cannot write checkpoint shard %s (after %" PRIu64 " bytes)",
                            name, s->bytes);
    if (close(s->fd) < 0 && st == WEFT_OK)
        st = err_fail_errno(WEFT_IO, "cannot close checkpoint shard %s", name);
    if (st == WEFT_OK && data_file_sync_folder(folder))
        st = err_fail_errno(WEFT_IO, "cannot sync the folder of checkpoint shard %s", name);
    if (st != WEFT_OK)
        unlinkat(folder, name, 0);
    return st;
}

static weft_status hash_and_write(int folder, const char *name, const ckpt_piece *const *order,
                                  uint32_t n, const ckpt_halt *halt, const ckpt_values *values,
                                  ckpt_shard_sum *sum)
{
    char *head;
    uint64_t head_bytes;
    weft_status st = ckpt_header_build(order, n, &head, &head_bytes);
    if (st != WEFT_OK)
        return st;
    sink s = {.fd = -1, .halt = halt, .values = values, .capacity = values ? VALUES : BLOCK};
    s.sum = ckpt_sum_begin(values);
    s.block = mem_alloc(s.capacity);
    s.other = values ? mem_alloc(s.capacity) : NULL;
    uint64_t all = head_bytes;
    for (uint32_t i = 0; i < n; i++)
        all += order[i]->count * weft_dtype_size(order[i]->dtype);
    lengthy_begin(&s.progress, "a shard of the checkpoint is written", all);
    st = write_file(folder, name, order, n, head, head_bytes, &s);
    if (!ckpt_sum_end(s.sum, sum->sha256) && st == WEFT_OK) {
        st = err_fail(WEFT_NO_MEMORY, "cannot form the sum of checkpoint shard %s", name);
        unlinkat(folder, name, 0);
    }
    sum->bytes = s.bytes;
    free(s.block);
    free(s.other);
    free(head);
    return st;
}

weft_status ckpt_shard_write(int folder, uint32_t shard, uint32_t shards, const ckpt_piece *pieces,
                             uint32_t n, const ckpt_halt *halt, const ckpt_values *values,
                             ckpt_shard_sum *sum)
{
    if (!shards || shards > CKPT_SHARDS_MAX || shard >= shards)
        return err_fail(WEFT_UNSUPPORTED,
                        "shard %" PRIu32 " of %" PRIu32 ": at most %u are possible", shard, shards,
                        CKPT_SHARDS_MAX);
    const ckpt_piece **order = mem_alloc((uint64_t)n * sizeof *order);
    uint32_t n_ordered;
    char name[CKPT_FILE_MAX];
    ckpt_shard_name(shard, shards, name);
    weft_status st = order_pieces(pieces, n, order, &n_ordered);
    if (st == WEFT_OK)
        st = hash_and_write(folder, name, order, n_ordered, halt, values, sum);
    free(order);
    return st;
}

/* --- reading back --- */

typedef struct source {
    int fd;
    uint64_t bytes, head_bytes; /* of the file; of its JSON */
    char *head;                 /* the length word and the JSON */
} source;

weft_status ckpt_read_part(int fd, void *out, uint64_t n, uint64_t at)
{
    int rc = data_file_read(fd, out, n, at);
    if (rc < 0)
        return err_fail_errno(WEFT_IO, "cannot read it");
    return rc ? err_fail(WEFT_DATA, "it became shorter while it was read") : WEFT_OK;
}

static weft_status read_head(source *s)
{
    uint64_t n = 0;
    weft_status st = s->bytes < 8 ? err_fail(WEFT_DATA, "it is too short for a shard")
                                  : ckpt_read_part(s->fd, &n, 8, 0);
    if (st != WEFT_OK)
        return st;
    if (n < 2 || n > CKPT_JSON_MAX || !check_range(8, n, s->bytes))
        return err_fail(WEFT_DATA,
                        "its header is given as %" PRIu64 " bytes long, which is not possible", n);
    s->head_bytes = n;
    s->head = mem_alloc(8 + n);
    return ckpt_read_part(s->fd, s->head, 8 + n, 0);
}

static weft_status hash_rest(const source *s, ckpt_sum *sum, const atomic_bool *stop,
                             unsigned char *block)
{
    lengthy progress;
    lengthy_begin(&progress, "a shard of the checkpoint is verified", s->bytes);
    for (uint64_t at = 8 + s->head_bytes, n; at < s->bytes; at += n) {
        n = s->bytes - at < BLOCK ? s->bytes - at : BLOCK;
        if (stop && atomic_load_explicit(stop, memory_order_relaxed))
            return err_fail(WEFT_INTERNAL, "nobody waits for its sum");
        weft_status st = ckpt_read_part(s->fd, block, n, at);
        if (st != WEFT_OK)
            return st;
        ckpt_sum_add(sum, block, n);
        lengthy_add(&progress, n);
    }
    return WEFT_OK;
}

static weft_status check_sum(const source *s, const ckpt_shard_sum *sum, const atomic_bool *stop)
{
    ckpt_sum *own = ckpt_sum_begin(false);
    unsigned char *block = mem_alloc(s->bytes < BLOCK ? s->bytes : BLOCK);
    uint8_t digest[32];
    posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* advice: it may be refused */
    ckpt_sum_add(own, s->head, 8 + s->head_bytes);
    weft_status st = hash_rest(s, own, stop, block);
    if (!ckpt_sum_end(own, digest) && st == WEFT_OK)
        st = err_fail(WEFT_NO_MEMORY, "no memory for its sum");
    if (st == WEFT_OK && memcmp(digest, sum->sha256, sizeof digest))
        st = err_fail(WEFT_DATA, "its SHA-256 is not the one that was recorded: it is damaged");
    free(block);
    return st;
}

static weft_status check_source(source *s, uint32_t shard, const ckpt_shard_sum *sum, bool hash,
                                const atomic_bool *stop, pool *p, ckpt_ranges *out)
{
    if (s->bytes != sum->bytes)
        return err_fail(WEFT_DATA, "it is %" PRIu64 " bytes long where %" PRIu64 " were recorded",
                        s->bytes, sum->bytes);
    weft_status st = read_head(s);
    if (st == WEFT_OK && hash)
        st = check_sum(s, sum, stop);
    if (st != WEFT_OK)
        return st;
    uint64_t data = 8 + s->head_bytes;
    uint32_t before = out->n;
    st = ckpt_header_parse(s->head + 8, s->head_bytes, s->bytes - data, shard, p, out);
    for (uint32_t i = before; i < out->n && st == WEFT_OK; i++)
        out->at[i].at += data;
    return st;
}

weft_status ckpt_shard_check(int folder, uint32_t shard, uint32_t shards, const ckpt_shard_sum *sum,
                             bool hash, const atomic_bool *stop, pool *p, ckpt_ranges *out,
                             struct stat *info)
{
    char name[CKPT_FILE_MAX];
    ckpt_shard_name(shard, shards, name);
    source s = {.fd = data_file_open_regular(folder, name, false, info)};
    if (s.fd < 0)
        return err_fail_errno(data_file_damage(errno), "cannot read shard %s", name);
    s.bytes = (uint64_t)info->st_size;
    weft_status st = check_source(&s, shard, sum, hash, stop, p, out);
    free(s.head);
    close(s.fd);
    if (st != WEFT_OK)
        err_context("shard %s", name);
    return st;
}
