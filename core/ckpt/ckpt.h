/* ckpt/ckpt.h: atomic checkpoints: save, verify and load.
 *
 * A checkpoint is a folder OUT/checkpoints/step-00000100 with safetensors shards, one per writing
 * rank, and manifest.json, which has the step, the job's INI text, the ranks, the length and
 * SHA-256 of each shard, and the location of each tensor's bytes. It is written into a folder with
 * a temporary name: shards, fsync, manifest, fsync, rename, fsync of the parent. A reader validates
 * lengths, offsets, names and checksums before use.
 *
 * Tensors have the graph's names ("block.0.attn.qkv.w", with ".m" and ".v" for moments) and their
 * whole logical shape. A shard holds pieces of them: a block of the tensor, or a contiguous range
 * of a flattened block. The pieces of a tensor cover it exactly once, for any layout of the job
 * that wrote it; a reader asks for the piece that its own layout needs (resharding on load). */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <weft/base.h>

typedef struct ckpt_piece { /* elements [first, first + count) of a flattened block of a tensor */
    const char *name;
    uint32_t dtype, rank;
    int64_t shape[WEFT_MAX_AXES];                      /* of the whole tensor */
    int64_t start[WEFT_MAX_AXES], size[WEFT_MAX_AXES]; /* the block; all sizes 0: the tensor */
    uint64_t first, count;
    const void *data; /* count elements, borrowed */
} ckpt_piece;

struct job;

typedef struct ckpt_shard_sum {
    uint64_t bytes;
    uint8_t sha256[32];
} ckpt_shard_sum;

/* A save under way. OUT/checkpoints is opened once, so that all files of the save are in it,
 * whatever is renamed meanwhile. */
typedef struct ckpt_save {
    uint64_t step;
    int folder;           /* OUT/checkpoints; -1: the save is over */
    int lock;             /* holds its flock; -1: another rank does */
    char temp[4096 + 64]; /* OUT/checkpoints/.step-00000100.tmp */
} ckpt_save;

/* Rank 0 alone, before others write: creates OUT/checkpoints and the temporary folder, removes
 * leftovers of killed jobs, and holds the lock of OUT/checkpoints until ckpt_commit() or
 * ckpt_abandon(). A second save that writes there is WEFT_USAGE, and so is a step whose checkpoint
 * exists. `out` is OUT, open: it is written to however it is called by now, so that a folder which
 * got its name meanwhile stays as it is, and `out_dir` is for messages; -1: OUT by its name.
 * [setup] */
weft_status ckpt_begin(int out, const char *out_dir, uint64_t step, ckpt_save *s);

/* Another rank, after ckpt_begin() of rank 0: ckpt_write_shard() writes into the folder that is
 * below `out` now, until ckpt_part(), which is idempotent. [setup] */
weft_status ckpt_join(int out, const char *out_dir, uint64_t step, ckpt_save *s);
void ckpt_part(ckpt_save *s);

/* Asked about once a MiB whether to go on: a status with its record ends the write. NULL: always.
 */
typedef struct ckpt_halt {
    weft_status (*ask)(void *ctx);
    void *ctx;
} ckpt_halt;

/* Write this rank's shard, pieces in any order, empty ones left out. fsynced on return. A full
 * disk, a removed folder or a short write fails with a message, and the file is removed. [setup] */
weft_status ckpt_write_shard(const ckpt_save *s, uint32_t shard, uint32_t shards,
                             const ckpt_piece *pieces, uint32_t n, const ckpt_halt *halt,
                             ckpt_shard_sum *sum);

/* Which earlier checkpoints a new one leaves: the `newest` with it (0: all), and those of steps up
 * to `spared`. */
typedef struct ckpt_keep {
    uint32_t newest;
    uint64_t spared;
} ckpt_keep;

/* Rank 0, after all shards are written and their checksums gathered: reads and compares the shards'
 * headers, then manifest, rename, sync. Never replaces a checkpoint. Once the new one is durable,
 * those of earlier steps that `keep` does not leave are removed. On failure the temporary
 * folder is removed; either way the save is over. [setup] */
weft_status ckpt_commit(ckpt_save *s, const char *job_text, const ckpt_shard_sum *sums,
                        uint32_t shards, ckpt_keep keep);
void ckpt_abandon(ckpt_save *s); /* rank 0: removes the temporary folder; idempotent */

/* Values that are made while they are written: elements [first, first + count) of a piece, counted
 * from its first, into `out`. The calls for a piece go forwards. */
typedef struct ckpt_values {
    weft_status (*read)(void *ctx, const ckpt_piece *p, uint64_t first, uint64_t count, void *out);
    void *ctx;
} ckpt_values;

/* Write a checkpoint of step 0 and one shard, with pieces without data, into the open folder. For
 * weights that come from elsewhere, not for a run: neither locks nor looks at other checkpoints.
 * [setup] */
weft_status ckpt_write_alone(int folder, const char *job_text, const ckpt_piece *pieces, uint32_t n,
                             const ckpt_values *values);

typedef struct ckpt ckpt; /* opaque: an opened, verified checkpoint */

/* Open the folder `dir` and verify all of it: manifest, checksums, headers, and that the pieces of
 * each tensor cover it exactly once. [setup] */
weft_status ckpt_open(const char *dir, ckpt **out);
void ckpt_close(ckpt *c);

/* The same before the checksums of the shards are known: ckpt_confirm() compares them, by a thread
 * while tensors are read, which saves one pass over the files. Nothing that was read may be kept
 * before it has succeeded. It ends early once *stop is set. [setup] */
weft_status ckpt_open_ahead(const char *dir, ckpt **out);
weft_status ckpt_confirm(const ckpt *c, const atomic_bool *stop);

typedef struct ckpt_team { /* the ranks that open a checkpoint together */
    struct job *job;       /* NULL: one rank */
    uint32_t rank, ranks;
    double timeout; /* seconds that a rank waits for the others */
} ckpt_team;

/* The newest checkpoint under OUT/checkpoints that verifies, the same on all ranks. Each rank
 * hashes its share of the shards, and the ranks exchange their results. A damaged one (WEFT_DATA on
 * any rank) is skipped and logged; other failures are not skipped: a file that could not be read
 * may be intact, so the call fails with the reason. WEFT_USAGE when there is none. Changes nothing
 * on the disk. [setup] [collective] */
weft_status ckpt_open_newest(const char *out_dir, const ckpt_team *team, ckpt **out);

/* Rank 0, once the job resumes from `step`: renames the skipped later checkpoints to step-N.damaged
 * (.1, .2, ...), which this module never reads, replaces or removes. On failure the job must stop,
 * because its later saves would collide with their names. `out` as in ckpt_begin(). [setup] */
weft_status ckpt_set_aside(int out, const char *out_dir, uint64_t step);

/* All ranks open the checkpoint `dir` as above, each hashing its share of the shards. The same on
 * all ranks, or a failure on all: WEFT_USAGE if one sees another checkpoint there. [setup]
 * [collective] */
weft_status ckpt_open_shared(const char *dir, const ckpt_team *team, ckpt **out);

/* Whether a checkpoint exists under OUT/checkpoints, including damaged ones and those set aside,
 * but not unfinished ones of killed jobs. An unreadable folder is an error. [setup] */
weft_status ckpt_there(const char *out_dir, bool *there);

uint64_t ckpt_step(const ckpt *c);
const char *ckpt_job_text(const ckpt *c);
const char *ckpt_dir(const ckpt *c);

/* Copy elements [first, first + count) of a block of a tensor into `out`, from whatever pieces
 * store them. Name, dtype and shape must match the stored ones; a mismatch is reported. [setup] */
weft_status ckpt_read(const ckpt *c, const ckpt_piece *want, void *out);

/* Every tensor, for `weft ckpt info`; whole shapes, data NULL. */
uint32_t ckpt_tensors(const ckpt *c, const ckpt_piece **out);
bool ckpt_has(const ckpt *c, const char *name); /* is there such a tensor? [any] */

#endif
