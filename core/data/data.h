/* data/data.h: memory-mapped token files, and the order of samples.
 *
 * A file is a header of 256 int32 and then 16-bit tokens, little endian. Magic 20240520 is the
 * public GPT-2 token format (vocabulary 50257); ours, 20261121, is the same with the vocabulary in
 * word 3 and, for files of 2^32 tokens and more, the upper half of their number in word 4. There
 * are no epochs: sample s is a window of sequence + 1 tokens whose start depends on (seed, s)
 * alone, so the order is the same on every layout and after every resume. */
#ifndef DATA_DATA_H
#define DATA_DATA_H

#include <weft/data.h>

#define DATA_MAGIC_GPT2 20240520u /* words: magic, version 1, tokens */
#define DATA_MAGIC 20261121u      /* magic, version 1, tokens, vocabulary, upper half of tokens   */
#define DATA_VERSION 1u /* the highest that is read; both kinds are written with it       */
#define DATA_VOCAB_GPT2 50257u
#define DATA_HEADER_WORDS 256u
#define DATA_HEADER_BYTES 1024u
#define DATA_BLOCK 4096u     /* bytes of text in a block                   */
#define DATA_VALID_EVERY 20u /* of so many blocks the last is for `valid` */

typedef struct data_file {
    const char *path;       /* borrowed                                   */
    const uint16_t *tokens; /* mapped, read-only                          */
    uint64_t count;         /* tokens                                     */
    uint32_t vocab;         /* tokens are below it, or not handed out     */
    void *map;
    uint64_t map_bytes;
} data_file;

/* Map the file and check its header and length; no token is read. Missing, truncated or foreign
 * files fail with a message. [setup] */
weft_status data_open(const char *path, data_file *out);
void data_close(data_file *f);

/* What a token file has for training: the fields tokens and targets, and its vocabulary. [any] */
void data_describe(uint32_t vocab, weft_data_info *out);

/* WEFT_USAGE, naming file and numbers, unless the file has a window of `sequence` + 1 tokens. */
weft_status data_require(const data_file *f, uint64_t sequence);

/* Fill tokens and targets [count, sequence] with samples first .. first + count - 1. Targets are
 * the tokens shifted by one. The file must have more than `sequence` tokens. A token outside the
 * vocabulary is WEFT_DATA and named with its place. [any] */
weft_status data_samples(const data_file *f, uint64_t seed, uint64_t first, uint64_t count,
                         uint64_t sequence, int32_t *tokens, int32_t *targets);

/* The evaluation window number w, w < data_windows(): fixed, not shuffled, not overlapping. Fails
 * as data_samples() does. [any] */
uint64_t data_windows(const data_file *f, uint64_t sequence);
weft_status data_window(const data_file *f, uint64_t w, uint64_t sequence, int32_t *tokens,
                        int32_t *targets);

/* Write byte-level token files from `n` texts: every 20th block of 4 KiB goes to `valid_path` when
 * it is not NULL. Written to temporary names beside the outputs, synced and renamed; on failure
 * nothing is left. Too little text for two tokens in each output is WEFT_USAGE. [setup] */
weft_status data_write_bytes(const char *const *texts, uint32_t n, const char *train_path,
                             const char *valid_path, uint64_t *train_tokens,
                             uint64_t *valid_tokens);

#endif
