/* tokens/text/spool.h: the ids of a run of weft data until all are there, and where the run stands.
 *
 * A short run keeps them in memory. A long one has the folder FILE.part beside its output: ids of
 * 32 bits, and a small file that says how many of them belong to which place of the texts. It is
 * written and renamed after the ids are synced, so a run that is killed at any moment goes on at
 * the last such place, and what comes out has the same bytes. */
#ifndef TOKENS_TEXT_SPOOL_H
#define TOKENS_TEXT_SPOOL_H

#include "tokens/text/reader.h"

typedef struct tokens_spool tokens_spool;

#define DATA_SPOOL_END (-1) /* stands among the ids where a document ends */

/* For the output `path`. `digest` says what the run is made of: a folder that an equal run has left
 * is gone on with, and *place is where. What another command has stored is WEFT_USAGE unless it is
 * to be replaced, and so is a folder that another run works on. From when a place is stored, SIGINT
 * says so before it ends the process. [setup] */
weft_status tokens_spool_open(const char *path, uint64_t digest, bool replace, tokens_place *place,
                              tokens_spool **out);

weft_status tokens_spool_add(tokens_spool *s, bool valid, const int32_t *ids, uint64_t n);

/* All that has been added belongs to the text in front of `place`. Now and then it is stored. */
weft_status tokens_spool_mark(tokens_spool *s, const tokens_place *place);

/* Give all ids of an output, in order, to `put`, which gets no ends; `end` is called for those. */
weft_status tokens_spool_each(tokens_spool *s, bool valid,
                              weft_status (*put)(void *ctx, const int32_t *ids, uint64_t n),
                              weft_status (*end)(void *ctx), void *ctx);

/* `keep`: the folder stays, for the next run. NULL is allowed. */
void tokens_spool_close(tokens_spool *s, bool keep);

#endif
