/* tests/unit/ckpt_model.h: a few tensors whose every byte is known, saved in pieces cut at random
 * over any number of shards, and compared after reading; and files and folders for the tests. */
#ifndef CKPT_MODEL_H
#define CKPT_MODEL_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ckpt/ckpt.h"

#include <cmocka.h>

static const ckpt_piece model[] = {
    {"block.0.attn.qkv.w", WEFT_F32, 2, {12, 21}, {0}, {0}, 0, 252, NULL},
    {"block.0.attn.qkv.w.m", WEFT_F32, 2, {12, 21}, {0}, {0}, 0, 252, NULL},
    {"block.0.ln.b", WEFT_BF16, 1, {33}, {0}, {0}, 0, 33, NULL},
    {"cube", WEFT_F16, 6, {2, 1, 3, 1, 2, 2}, {0}, {0}, 0, 24, NULL},
    {"one", WEFT_F64, 1, {1}, {0}, {0}, 0, 1, NULL},
    {"scale", WEFT_I32, 1, {5}, {0}, {0}, 0, 5, NULL},
    {"steps", WEFT_I64, 0, {0}, {0}, {0}, 0, 1, NULL},
    {"text", WEFT_U8, 3, {5, 3, 3}, {0}, {0}, 0, 45, NULL},
};
enum { MODEL = sizeof model / sizeof *model, MODEL_BYTES = 2048, PIECES = 64 };

static char work[64]; /* the test's own folder, which is also OUT */

static inline int make_work(void **state)
{
    (void)state;
    snprintf(work, sizeof work, "%s/weft-ckpt-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm"); /* thousands of small files */
    return mkdtemp(work) ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline int remove_work(void **state)
{
    (void)state;
    return nftw(work, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void empty_work(void)
{
    remove_work(NULL);
    assert_int_equal(mkdir(work, 0777), 0);
}

static uint32_t dice_state = 1;

static inline uint32_t dice(uint32_t n) /* in [0, n) */
{
    dice_state = dice_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(dice_state >> 4) * n >> 28);
}

/* All bytes of tensor `t` as saved at `step`. */
static inline const unsigned char *content(int t, uint64_t step)
{
    static unsigned char bytes[MODEL][MODEL_BYTES];
    for (uint32_t i = 0; i < MODEL_BYTES; i++)
        bytes[t][i] = (unsigned char)(((i + 1) * 2654435761u + (uint32_t)t * 40503u +
                                       (uint32_t)step * 977u) >>
                                      (i % 3 * 8));
    return bytes[t];
}

typedef struct shard_pieces {
    ckpt_piece at[PIECES];
    uint32_t n;
} shard_pieces;

/* Every tensor cut into one to five pieces, some empty, each given to a random shard. */
static inline void deal(shard_pieces *shard, uint32_t shards, uint64_t step)
{
    memset(shard, 0, shards * sizeof *shard);
    for (int t = 0; t < MODEL; t++) {
        uint64_t from = 0, left = dice(5) + 1;
        while (from < model[t].count || left) {
            ckpt_piece p = model[t];
            uint64_t rest = model[t].count - from;
            p.first = from;
            p.count = left > 1 ? dice((uint32_t)rest + 1) : rest;
            p.data = content(t, step) + from * weft_dtype_size(p.dtype);
            shard_pieces *s = &shard[dice(shards)];
            assert_true(s->n < PIECES);
            s->at[s->n++] = p;
            from += p.count;
            left -= left > 0;
        }
    }
}

/* What the ranks of a job do, one after the other. */
static inline weft_status save(uint64_t step, uint32_t shards, uint32_t keep)
{
    ckpt_save s;
    shard_pieces *shard = malloc(shards * sizeof *shard);
    ckpt_shard_sum *sums = calloc(shards, sizeof *sums);
    assert_true(shard && sums);
    deal(shard, shards, step);
    err_clear();
    weft_status st = ckpt_begin(-1, work, step, &s);
    if (st == WEFT_OK) {
        for (uint32_t i = 0; i < shards && st == WEFT_OK; i++)
            st = ckpt_write_shard(&s, i, shards, shard[i].at, shard[i].n, NULL, &sums[i]);
        if (st != WEFT_OK)
            ckpt_abandon(&s);
        else
            st = ckpt_commit(&s, "[run]\nname = \xc3\xa9t\xc3\xa9\n", sums, shards,
                             (ckpt_keep){keep, 0});
    }
    free(shard);
    free(sums);
    return st;
}

/* Any range of any tensor has the bytes that were saved at `step`. */
static inline void check_content(const ckpt *c, uint64_t step)
{
    unsigned char out[MODEL_BYTES];
    assert_int_equal(ckpt_step(c), step);
    assert_string_equal(ckpt_job_text(c), "[run]\nname = \xc3\xa9t\xc3\xa9\n");
    const ckpt_piece *list;
    assert_int_equal(ckpt_tensors(c, &list), MODEL);
    for (int t = 0; t < MODEL; t++) {
        assert_string_equal(list[t].name, model[t].name);
        assert_int_equal(list[t].dtype, model[t].dtype);
        assert_int_equal(list[t].rank, model[t].rank);
        assert_int_equal(list[t].count, model[t].count);
        for (int turn = 0; turn < 6; turn++) {
            ckpt_piece p = model[t];
            uint64_t width = weft_dtype_size(p.dtype);
            p.first = turn ? dice((uint32_t)model[t].count + 1) : 0;
            p.count = turn ? dice((uint32_t)(model[t].count - p.first) + 1) : model[t].count;
            memset(out, 0xee, sizeof out);
            assert_int_equal(ckpt_read(c, &p, out), WEFT_OK);
            assert_memory_equal(out, content(t, step) + p.first * width, p.count * width);
            assert_int_equal(out[p.count * width], 0xee); /* and not a byte more */
        }
    }
}

static const ckpt_team alone = {.ranks = 1};

static inline void check_newest(uint64_t step)
{
    ckpt *c;
    weft_status st = ckpt_open_newest(work, &alone, &c);
    if (st != WEFT_OK)
        fail_msg("%s", err_text());
    check_content(c, step);
    ckpt_close(c);
}

/* --- files of a checkpoint --- */

static inline const char *file_of(uint64_t step, const char *name)
{
    static char path[4][4096];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof *path, "%s/checkpoints/step-%08" PRIu64 "/%s", work, step, name);
    return path[turn];
}

static inline const char *shard_of(uint64_t step, uint32_t shard, uint32_t shards)
{
    char name[64];
    snprintf(name, sizeof name, "shard-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", shard, shards);
    return file_of(step, name);
}

static inline size_t get_file(const char *path, unsigned char *out, size_t cap)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, cap, f);
    assert_true(n < cap);
    fclose(f);
    return n;
}

static inline void put_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Entries of OUT/checkpoints that begin with `prefix`. */
static inline int count_entries(const char *prefix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/checkpoints", work);
    DIR *d = opendir(path);
    if (!d)
        return 0;
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));)
        n += !strncmp(e->d_name, prefix, strlen(prefix));
    closedir(d);
    return n;
}

static inline bool has_step(uint64_t step)
{
    return access(file_of(step, "manifest.json"), F_OK) == 0;
}

/* Refused with this status, in a sentence that has the folder and `word`. */
static inline void refused_as(weft_status want, uint64_t step, const char *word)
{
    char dir[4096];
    ckpt *c = NULL;
    snprintf(dir, sizeof dir, "%s", file_of(step, ""));
    err_clear();
    weft_status st = ckpt_open(dir, &c);
    if (st != want || c || !strstr(err_text(), dir) || !strstr(err_text(), word))
        fail_msg("status %d, '%s' (wanted '%s')", st, err_text(), word);
}

/* Refused as damaged data. */
static inline void refused(uint64_t step, const char *word)
{
    refused_as(WEFT_DATA, step, word);
}

#endif
