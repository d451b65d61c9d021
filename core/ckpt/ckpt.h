/* ckpt/ckpt.h: checkpoints that are complete or not there.
 *
 * A checkpoint is a folder OUT/checkpoints/step-00000100 with safetensors shards, one a writing
 * rank, and manifest.json, which has the step, the job's INI text, the ranks, and for each shard
 * its length and SHA-256, and for each tensor where its bytes are. It is written into a folder with
 * a temporary name: shards, fsync, manifest, fsync, rename, fsync of the parent. A reader trusts
 * nothing: lengths, offsets, names and sums are checked before use.
 *
 * Tensors are named as the graph names them ("block.0.attn.qkv.w", with ".m" and ".v" for moments)
 * and are whole in logical shape. What a shard holds of one is a piece: a block of the tensor, or a
 * contiguous range of a flattened block. The pieces of a tensor cover it exactly once, in whatever
 * way the job that wrote it was laid out; a reader asks for the piece that its own layout wants. */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

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

/* The paths of a save: `temp` is OUT/checkpoints/.step-00000100.tmp, `final` its name after the
 * rename. Touches nothing. [any] */
weft_status ckpt_paths(const char *out_dir, uint64_t step, char temp[4096], char final[4096]);

/* Rank 0 alone, before others write: the same paths; makes OUT/checkpoints and the temporary
 * folder, removes what killed jobs left there, and holds the lock of OUT/checkpoints until
 * ckpt_commit() or ckpt_abandon(). A second job that writes there is WEFT_USAGE, and so is a step
 * whose checkpoint is there already. One save at a time a process. [setup] */
weft_status ckpt_begin(const char *out_dir, uint64_t step, char temp[4096], char final[4096]);

/* Write this rank's shard, pieces in any order, those without elements left out. fsynced on return.
 * The full disk, a vanished folder, a short write: a sentence, and the file is removed. [setup] */
weft_status ckpt_write_shard(const char *temp, uint32_t shard, uint32_t shards,
                             const ckpt_piece *pieces, uint32_t n, ckpt_shard_sum *sum);

/* Rank 0, after all shards are written and their sums gathered: the shards' headers are read and
 * held against each other, then manifest, rename, sync. Nothing is ever replaced. Once the
 * new one is durable, those of earlier steps are removed until `keep` are left (0 keeps all). On
 * failure the temporary folder is removed; either way the save is over. [setup] */
weft_status ckpt_commit(const char *temp, const char *final, uint64_t step, const char *job_text,
                        const ckpt_shard_sum *sums, uint32_t shards, uint32_t keep);
void ckpt_abandon(const char *temp); /* rank 0: removes a temporary folder; NULL allowed */

typedef struct ckpt ckpt; /* opaque: an opened, verified checkpoint */

/* Open the folder `dir` and verify all of it: manifest, sums, headers, that the pieces of each
 * tensor cover it exactly once. [setup] */
weft_status ckpt_open(const char *dir, ckpt **out);
void ckpt_close(ckpt *c);

typedef struct ckpt_team { /* who opens a checkpoint together */
    struct job *job;       /* NULL: one rank */
    uint32_t rank, ranks;
    double timeout; /* seconds that a rank waits for the others */
} ckpt_team;

/* The newest checkpoint under OUT/checkpoints that verifies, the same on all ranks. Each rank
 * hashes its share of the shards, and they tell each other what they found. One that is damaged
 * (WEFT_DATA on any rank) is passed over and the log says why; nothing else is: a file that could
 * not be read may be intact, so the call fails and says what happened. WEFT_USAGE when there is
 * none. Changes nothing on the disk. [setup] [collective] */
weft_status ckpt_open_newest(const char *out_dir, const ckpt_team *team, ckpt **out);

/* Rank 0, once the job goes on from `step`: those of later steps, which were passed over, are set
 * aside under the name step-N.damaged (.1, .2, ...), which nothing here ever reads, replaces or
 * removes. On failure the job must not go on, for it would meet their names again. [setup] */
weft_status ckpt_set_aside(const char *out_dir, uint64_t step);

/* Is there a checkpoint under OUT/checkpoints, be it damaged or set aside? What a killed job was
 * writing is none. A folder that cannot be read is an error, not an absence. [setup] */
weft_status ckpt_there(const char *out_dir, bool *there);

uint64_t ckpt_step(const ckpt *c);
const char *ckpt_job_text(const ckpt *c);
const char *ckpt_dir(const ckpt *c);

/* Copy elements [first, first + count) of a block of a tensor into `out`, whatever pieces they are
 * stored in. Name, dtype and shape must be those stored, or the difference is named. [setup] */
weft_status ckpt_read(const ckpt *c, const ckpt_piece *want, void *out);

/* Every tensor, for `weft ckpt info`; whole shapes, data NULL. */
uint32_t ckpt_tensors(const ckpt *c, const ckpt_piece **out);
bool ckpt_has(const ckpt *c, const char *name); /* is there such a tensor? [any] */

#endif
