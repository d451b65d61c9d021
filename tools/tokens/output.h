/* tokens/output.h: a token file while it is written (weft/tokens.h has the layout).
 *
 * The file is written under a temporary name beside its own, synced and renamed, and a file that it
 * replaces keeps a second name until all is in place. So several files change together or not at
 * all:
 *
 *   open, add and end_document, finish of each; rename of each; close of each
 *
 * After a failure, or without rename, close() leaves what was there before. */
#ifndef TOKENS_OUTPUT_H
#define TOKENS_OUTPUT_H

#include <stdbool.h>
#include <weft/base.h>

typedef struct tokens_output tokens_output;

/* Begin the file `path` (borrowed until close). Ids are below `vocab` and have 32 bits where that
 * needs them. With `index` the file says where documents end (version 3). [setup] */
weft_status tokens_output_open(const char *path, uint32_t vocab, bool index, tokens_output **out);

/* Append ids, which are below the vocabulary. [setup] */
weft_status tokens_output_add(tokens_output *o, const int32_t *ids, uint64_t n);

/* A document ends behind the last id. Nothing without an index, and where no id came since the last
 * document's end: a document has at least one token. [setup] */
weft_status tokens_output_end_document(tokens_output *o);

uint64_t tokens_output_tokens(const tokens_output *o);

/* End the last document, write index and header, and sync. A file without tokens is WEFT_USAGE.
 * [setup] */
weft_status tokens_output_finish(tokens_output *o);

/* Put the finished file in place. [setup] */
weft_status tokens_output_rename(tokens_output *o);

/* `keep`: the new file stays, and the one it replaced goes; otherwise the other way round. NULL is
 * allowed. [setup] */
void tokens_output_close(tokens_output *o, bool keep);

#endif
