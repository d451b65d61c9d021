/* tokens/write.h: makes token files of texts (their layout: weft/tokens.h; one file at a time:
 * output.h). */
#ifndef TOKENS_WRITE_H
#define TOKENS_WRITE_H

#include <weft/tokens.h>

#include "tokens/text/encode.h"

#define DATA_MAGIC WEFT_TOKENS_MAGIC
#define DATA_VERSION_16 1u
#define DATA_VERSION_32 2u
#define DATA_HEADER_WORDS WEFT_TOKENS_HEADER_WORDS
#define DATA_HEADER_BYTES WEFT_TOKENS_HEADER_BYTES

typedef struct tokens_request {
    const char *const *texts; /* [n] files and folders */
    uint32_t n;
    const char *train, *valid; /* valid NULL: everything is for training */
    const data_tokenizer *tokenizer;
    const tokens_text_options *options; /* NULL: as by default */
    sigset_t ends;  /* signals that wait while files are half written, and end the writing */
    bool replace;   /* an output may be there, or a part of one, and is replaced */
    bool documents; /* the files say where documents end: each text or record is one, and where the
                       text of an output is interrupted, one ends, too */
} tokens_request;

/* Write token files from the texts, which may be folders: every 20th block of 4 KiB of their bytes
 * goes to `valid`. Where the text of an output is interrupted, encoding begins anew. A document is
 * framed by the tokenizer's ids for its beginning and end (text/encode.h). The outputs are written
 * to temporary names beside them, synced and renamed; on failure nothing is left. One that exists
 * is WEFT_USAGE unless it is to be replaced. Too little text for two tokens in each output is
 * WEFT_USAGE. [setup] */
weft_status tokens_write(const tokens_request *r, uint64_t *train_tokens, uint64_t *valid_tokens);

#endif
