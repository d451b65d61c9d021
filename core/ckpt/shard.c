/* ckpt/shard.c: writes one shard file of one rank, and reads it back with its checksum.
 *
 * The SHA-256 is computed on each block on its way to the file, so the state is read from memory
 * once. Small tensors are gathered into a block first; large ones are written without a copy. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/lengthy.h"
#include "base/number/check.h"
#include "ckpt/internal.h"
#include "data/file.h"

#define BLOCK ((uint64_t)1 << 20) /* fits a second-level cache: written while it is still there */

/* --- writing --- */

typedef struct sink {
    int fd;
    EVP_MD_CTX *hash;
    unsigned char *block; /* [BLOCK] */
    uint64_t held, bytes; /* in the block; in the file */
    lengthy progress;
} sink;

static int sink_put(sink *s, const void *data, uint64_t n)
{
    if (!EVP_DigestUpdate(s->hash, data, n)) {
        errno = ENOMEM;
        return -1;
    }
    if (data_file_write(s->fd, data, n))
        return -1;
    s->bytes += n;
    lengthy_add(&s->progress, n);
    return 0;
}

static int sink_flush(sink *s)
{
    uint64_t n = s->held;
    s->held = 0;
    return n ? sink_put(s, s->block, n) : 0;
}

static int sink_add(sink *s, const void *data, uint64_t n)
{
    const unsigned char *at = data;
    while (n) {
        uint64_t some = BLOCK - s->held < n ? BLOCK - s->held : n;
        int rc = 0;
        if (some == BLOCK) {
            rc = sink_put(s, at, some);
        } else {
            memcpy(s->block + s->held, at, some);
            s->held += some;
            rc = s->held == BLOCK ? sink_flush(s) : 0;
        }
        if (rc)
            return rc;
        at += some;
        n -= some;
    }
    return 0;
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
                                uint32_t *kept)
{
    *kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        weft_status st = check_piece(&pieces[i]);
        if (st != WEFT_OK)
            return st;
        if (pieces[i].count)
            order[(*kept)++] = &pieces[i];
    }
    if (*kept)
        qsort(order, *kept, sizeof *order, by_width);
    for (uint32_t i = 1; i < *kept; i++)
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
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = sink_add(s, order[i]->data, order[i]->count * weft_dtype_size(order[i]->dtype));
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
    if (write_pieces(s, order, n, head, head_bytes) || data_file_sync(s->fd))
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
                                  uint32_t n, ckpt_shard_sum *sum)
{
    char *head;
    uint64_t head_bytes;
    weft_status st = ckpt_header_build(order, n, &head, &head_bytes);
    if (st != WEFT_OK)
        return st;
    sink s = {.fd = -1, .hash = EVP_MD_CTX_new(), .block = mem_alloc(BLOCK)};
    uint8_t digest[32];
    uint64_t all = head_bytes;
    for (uint32_t i = 0; i < n; i++)
        all += order[i]->count * weft_dtype_size(order[i]->dtype);
    lengthy_begin(&s.progress, "a shard of the checkpoint is written", all);
    if (!s.hash || !EVP_DigestInit_ex(s.hash, EVP_sha256(), NULL))
        st = err_fail(WEFT_NO_MEMORY, "no memory for the sum of checkpoint shard %s", name);
    if (st == WEFT_OK)
        st = write_file(folder, name, order, n, head, head_bytes, &s);
    if (st == WEFT_OK && !EVP_DigestFinal_ex(s.hash, digest, NULL)) {
        st = err_fail(WEFT_INTERNAL, "cannot form the sum of checkpoint shard %s", name);
        unlinkat(folder, name, 0);
    }
    if (st == WEFT_OK) {
        sum->bytes = s.bytes;
        memcpy(sum->sha256, digest, sizeof digest);
    }
    EVP_MD_CTX_free(s.hash);
    free(s.block);
    free(head);
    return st;
}

weft_status ckpt_write_shard(const char *temp, uint32_t shard, uint32_t shards,
                             const ckpt_piece *pieces, uint32_t n, ckpt_shard_sum *sum)
{
    if (!shards || shards > CKPT_SHARDS_MAX || shard >= shards)
        return err_fail(WEFT_UNSUPPORTED,
                        "shard %" PRIu32 " of %" PRIu32 ": at most %u are possible", shard, shards,
                        CKPT_SHARDS_MAX);
    int folder = open(temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return err_fail_errno(WEFT_IO, "cannot write a checkpoint into %s", temp);
    const ckpt_piece **order = mem_alloc((uint64_t)n * sizeof *order);
    uint32_t kept;
    char name[CKPT_FILE_MAX];
    ckpt_shard_name(shard, shards, name);
    weft_status st = order_pieces(pieces, n, order, &kept);
    if (st == WEFT_OK)
        st = hash_and_write(folder, name, order, kept, sum);
    free(order);
    close(folder);
    if (st != WEFT_OK)
        err_context("%s", temp);
    return st;
}

/* --- reading back --- */

typedef struct source {
    int fd;
    uint64_t bytes, head_bytes; /* of the file; of its JSON */
    char *head;                 /* the length word and the JSON */
} source;

static weft_status read_part(const source *s, void *out, uint64_t n, uint64_t at)
{
    int rc = data_file_read(s->fd, out, n, at);
    if (rc < 0)
        return err_fail_errno(WEFT_IO, "cannot read it");
    return rc ? err_fail(WEFT_DATA, "it became shorter while it was read") : WEFT_OK;
}

static weft_status read_head(source *s)
{
    uint64_t n = 0;
    weft_status st =
        s->bytes < 8 ? err_fail(WEFT_DATA, "it is too short for a shard") : read_part(s, &n, 8, 0);
    if (st != WEFT_OK)
        return st;
    if (n < 2 || n > CKPT_JSON_MAX || !check_range(8, n, s->bytes))
        return err_fail(WEFT_DATA,
                        "its header is given as %" PRIu64 " bytes long, which is not possible", n);
    s->head_bytes = n;
    s->head = mem_alloc(8 + n);
    return read_part(s, s->head, 8 + n, 0);
}

static weft_status hash_rest(const source *s, EVP_MD_CTX *hash, unsigned char *block)
{
    lengthy progress;
    lengthy_begin(&progress, "a shard of the checkpoint is verified", s->bytes);
    for (uint64_t at = 8 + s->head_bytes, n; at < s->bytes; at += n) {
        n = s->bytes - at < BLOCK ? s->bytes - at : BLOCK;
        weft_status st = read_part(s, block, n, at);
        if (st != WEFT_OK)
            return st;
        if (!EVP_DigestUpdate(hash, block, n))
            return err_fail(WEFT_INTERNAL, "cannot form its sum");
        lengthy_add(&progress, n);
    }
    return WEFT_OK;
}

static weft_status check_sum(const source *s, const ckpt_shard_sum *sum)
{
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    unsigned char *block = mem_alloc(s->bytes < BLOCK ? s->bytes : BLOCK);
    uint8_t digest[32];
    weft_status st = WEFT_OK;
    posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* advice: it may be refused */
    if (!hash || !EVP_DigestInit_ex(hash, EVP_sha256(), NULL) ||
        !EVP_DigestUpdate(hash, s->head, 8 + s->head_bytes))
        st = err_fail(WEFT_NO_MEMORY, "no memory for its sum");
    if (st == WEFT_OK)
        st = hash_rest(s, hash, block);
    if (st == WEFT_OK && !EVP_DigestFinal_ex(hash, digest, NULL))
        st = err_fail(WEFT_INTERNAL, "cannot form its sum");
    if (st == WEFT_OK && memcmp(digest, sum->sha256, sizeof digest))
        st = err_fail(WEFT_DATA, "its SHA-256 is not the one that was recorded: it is damaged");
    EVP_MD_CTX_free(hash);
    free(block);
    return st;
}

static weft_status check_source(source *s, uint32_t shard, const ckpt_shard_sum *sum, bool hash,
                                pool *p, ckpt_ranges *out)
{
    if (s->bytes != sum->bytes)
        return err_fail(WEFT_DATA, "it is %" PRIu64 " bytes long where %" PRIu64 " were recorded",
                        s->bytes, sum->bytes);
    weft_status st = read_head(s);
    if (st == WEFT_OK && hash)
        st = check_sum(s, sum);
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
                             bool hash, pool *p, ckpt_ranges *out, struct stat *info)
{
    char name[CKPT_FILE_MAX];
    ckpt_shard_name(shard, shards, name);
    source s = {.fd = data_file_open_regular(folder, name, false, info)};
    if (s.fd < 0)
        return err_fail_errno(data_file_damage(errno), "cannot read shard %s", name);
    s.bytes = (uint64_t)info->st_size;
    weft_status st = check_source(&s, shard, sum, hash, p, out);
    free(s.head);
    close(s.fd);
    if (st != WEFT_OK)
        err_context("shard %s", name);
    return st;
}
