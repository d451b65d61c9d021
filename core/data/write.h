/* data/write.h: writes token files.
 *
 * A token file is a header of 256 int32 and then the ids of tokens, little endian. Words of the
 * header: magic, version, tokens, vocabulary (ids are below it), upper half of the number of
 * tokens; the rest is 0. Ids have 16 bits in version 1 and 32 bits in version 2, which is written
 * where the vocabulary needs it. */
#ifndef DATA_WRITE_H
#define DATA_WRITE_H

#include "data/tokenizer.h"

#define DATA_MAGIC 20261121u
#define DATA_VERSION_16 1u
#define DATA_VERSION_32 2u
#define DATA_HEADER_WORDS 256u
#define DATA_HEADER_BYTES 1024u
#define DATA_BLOCK 4096u     /* bytes of text in a block                   */
#define DATA_VALID_EVERY 20u /* of so many blocks the last is for `valid` */

typedef struct data_request {
    const char *const *texts; /* [n] files */
    uint32_t n;
    const char *train, *valid; /* valid NULL: everything is for training */
    const data_tokenizer *tokenizer;
} data_request;

/* Write token files from the texts: every 20th block of 4 KiB of their bytes goes to `valid`. Where
 * the text of an output is interrupted, encoding begins anew. Each text is followed by the
 * tokenizer's id for the end of a text, if it has one. The outputs are written to temporary names
 * beside them, synced and renamed; on failure nothing is left. Too little text for two tokens in
 * each output is WEFT_USAGE. [setup] */
weft_status data_write(const data_request *r, uint64_t *train_tokens, uint64_t *valid_tokens);

#endif
