/* ckpt/internal.h: functions and types shared by the files of core/ckpt.
 *
 *   tensor.c    names, types and shapes, checked
 *   header.c    the JSON in front of a shard
 *   shard.c     a shard file: written, and read back with its sum
 *   sum.c       the SHA-256 of what is written or read
 *   index.c     all ranges of a checkpoint: sorted, and covering each tensor exactly once
 *   manifest.c  manifest.json and its own sum
 *   folder.c    the folder OUT/checkpoints: names, steps, lock, removal
 *   newest.c    which checkpoint all ranks resume from
 *   confirm.c   the sums of a checkpoint that was opened without them
 *   save.c, load.c   the other calls of ckpt.h
 *
 * Functions that parse name the fault alone; their callers put file and folder before it with
 * err_context(). */
#ifndef CKPT_INTERNAL_H
#define CKPT_INTERNAL_H

#include <sys/stat.h>

#include "base/mem.h"
#include "base/number/box.h"
#include "ckpt/ckpt.h"

#define CKPT_JSON_MAX 100000000u /* bytes of a header or manifest; the cap of the shard format */
#define CKPT_SHARDS_MAX 99999u
#define CKPT_NAME_MAX (2 * WEFT_MAX_NAME) /* a graph's name and a suffix, with the zero */
#define CKPT_PATH_MAX 4096
#define CKPT_FILE_MAX 64                     /* bytes of any name that folder.c makes */
#define CKPT_SHAPE_TEXT (WEFT_MAX_AXES * 22) /* bytes of a shape as text, with the zero */
#define CKPT_BLOCK_TEXT (WEFT_MAX_AXES * 42) /* of a block */

/* Elements [first, first + count) of a block of a tensor, stored in `shard` from byte `at` on.
 * `block` is NULL for the whole tensor (the only representation of it). */
typedef struct ckpt_range {
    const char *name;             /* in the pool of its parser         */
    uint32_t dtype, rank;         /* of the tensor                    */
    int64_t shape[WEFT_MAX_AXES]; /* of the whole tensor              */
    const box *block;             /* in the same pool, or NULL        */
    uint64_t first, count;
    uint64_t at; /* from the beginning of the shard file; 0 when a manifest gave the range */
    uint32_t shard;
} ckpt_range;
typedef VEC(ckpt_range) ckpt_ranges;

/* --- tensor.c --- */
const char *ckpt_dtype_name(uint32_t dtype); /* "F32"; NULL for an unknown type */
uint32_t ckpt_dtype_from(const char *name);  /* 0 for an unknown name           */
bool ckpt_name_ok(const char *name);         /* printable, no '@', short enough */
void ckpt_shape_text(uint32_t rank, const int64_t *shape, char out[CKPT_SHAPE_TEXT]);
bool ckpt_shape_same(uint32_t rank_a, const int64_t *a, uint32_t rank_b, const int64_t *b);

/* Elements of a shape whose sizes are all positive and whose bytes fit in 63 bits. */
bool ckpt_elements(uint32_t rank, const int64_t *shape, uint32_t dtype, uint64_t *out);

/* Elements of a non-empty block inside a valid shape that is not the whole tensor. */
bool ckpt_block_ok(const box *b, const int64_t *shape, uint64_t *out);
int ckpt_block_order(const box *a, const box *b); /* NULL, the whole tensor, comes first */
box ckpt_range_box(const ckpt_range *r);          /* the whole tensor's where block is NULL */
/* The block of a piece into *out: true when it is a part, false when it is the whole tensor. */
bool ckpt_piece_block(const ckpt_piece *p, box *out);
/* "0:768,384:768", from and to on every axis. */
void ckpt_block_text(const box *b, char out[CKPT_BLOCK_TEXT]);

/* --- header.c, whose first comment has the keys of a header --- */

/* Length word, JSON and padding for pieces in the order of their bytes; the caller frees *text. */
weft_status ckpt_header_build(const ckpt_piece *const *pieces, uint32_t n, char **text,
                              uint64_t *bytes);
/* The JSON alone, of a shard with `data_bytes` behind it; ranges are appended with `at` counted
 * from the first byte of data. */
weft_status ckpt_header_parse(const char *text, uint64_t bytes, uint64_t data_bytes, uint32_t shard,
                              pool *p, ckpt_ranges *out);

/* --- shard.c --- */

/* ckpt_write_shard() into an open folder; with `values` pieces have no data. */
weft_status ckpt_shard_write(int folder, uint32_t shard, uint32_t shards, const ckpt_piece *pieces,
                             uint32_t n, const ckpt_halt *halt, const ckpt_values *values,
                             ckpt_shard_sum *sum);

/* Read and check the shard `shard` of `shards` in the folder: length as in `sum`, then the sum
 * if `hash`, then the header, whose ranges are appended. `st` gets the file's identity. `stop`, if
 * not NULL, ends it early once it is true, with a failure. */
weft_status ckpt_shard_check(int folder, uint32_t shard, uint32_t shards, const ckpt_shard_sum *sum,
                             bool hash, const atomic_bool *stop, pool *p, ckpt_ranges *out,
                             struct stat *st);

/* `n` bytes of an open file from `at` on; WEFT_DATA: it is shorter. */
weft_status ckpt_read_part(int fd, void *out, uint64_t n, uint64_t at);

/* --- sum.c --- */
typedef struct ckpt_sum ckpt_sum;

/* `beside`: formed on a thread, if there can be one. Then `data` must stay as it is until the next
 * call for the sum has returned. */
ckpt_sum *ckpt_sum_begin(bool beside);
void ckpt_sum_add(ckpt_sum *s, const void *data, uint64_t n);
bool ckpt_sum_end(ckpt_sum *s, uint8_t out[32]); /* frees `s`; false: no memory */

/* --- index.c --- */
void ckpt_ranges_sort(ckpt_ranges *r); /* by name, block, first, shard */

/* One entry a tensor from sorted ranges, which must agree on type and shape and cover it exactly
 * once. tensors [n]; ranges of tensor i are starts[i] .. starts[i + 1] - 1. */
weft_status ckpt_cover(const ckpt_ranges *r, pool *p, ckpt_piece **tensors, uint32_t **starts,
                       uint32_t *n);
/* Compares the manifest's ranges with those of the shards' headers; both sorted. */
weft_status ckpt_ranges_agree(const ckpt_ranges *manifest, const ckpt_ranges *headers);

/* --- manifest.c --- */
typedef struct ckpt_manifest {
    uint64_t step;
    const char *job; /* in the pool */
    uint32_t shards;
    const ckpt_shard_sum *sums; /* [shards], in the pool */
    ckpt_ranges ranges;         /* in the file's order; `at` is 0 */
} ckpt_manifest;

/* `m` with sorted ranges as text, its own sum included; the caller frees it. */
weft_status ckpt_manifest_build(const ckpt_manifest *m, char **text, uint64_t *bytes);
/* The caller frees m->ranges.at, on failure too. */
weft_status ckpt_manifest_parse(const char *text, uint64_t bytes, pool *p, ckpt_manifest *m);

/* Sizes as an array of JSON, and back: at most WEFT_MAX_AXES. */
struct json_t *ckpt_sizes_json(uint32_t rank, const int64_t *sizes); /* NULL: no memory */
bool ckpt_sizes_parse(const struct json_t *list, uint32_t *rank, int64_t *out);
/* The end of a manifest: the sum of the text before it, the last brace and a newline. */
#define CKPT_TRAILER (sizeof ",\"sha256\":\"\"}\n" - 1 + 64)
weft_status ckpt_trailer(const char *body, uint64_t bytes, char out[CKPT_TRAILER + 1]);

/* --- load.c --- */
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

/* The checkpoint in `folder`, which is taken over; `dir` is its name in messages. Checks everything
 * except the checksums of shards that belong to other parts: of `parts` calls with part 0, 1, ...
 * each hashes its share, and together they hash every byte once. */
weft_status ckpt_open_part(int folder, const char *dir, uint32_t part, uint32_t parts, ckpt **out);
uint64_t ckpt_digest(const ckpt *c); /* of step and sums, to tell two checkpoints apart */

/* --- confirm.c --- */
bool ckpt_same_file(const struct stat *a, const struct stat *b);

/* --- folder.c: names are made from numbers and never taken from a file --- */
void ckpt_shard_name(uint32_t shard, uint32_t shards, char out[CKPT_FILE_MAX]);
void ckpt_step_name(uint64_t step, const char *prefix, const char *suffix, char out[CKPT_FILE_MAX]);

typedef VEC(uint64_t) ckpt_steps;
/* Steps of the checkpoints in an open folder, newest first; the caller frees out->at. */
weft_status ckpt_list(int folder, ckpt_steps *out);

/* Open, or with `make` create, OUT/checkpoints, in the open folder `out` (-1: by the name); and
 * take its lock. *fd: a descriptor. */
weft_status ckpt_folder_open(int out, const char *out_dir, bool make, int *fd);
weft_status ckpt_folder_lock(int folder, const char *out_dir, int *fd);

/* The first name in the folder of a checkpoint that weft does not write there; false: there is
 * none, or no such folder. */
bool ckpt_folder_foreign(int parent, const char *name, char out[CKPT_FILE_MAX]);

void ckpt_sweep(int folder); /* leftovers of runs that were killed */

#endif
