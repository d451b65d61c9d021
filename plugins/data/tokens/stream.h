/* stream.h: the files of a data set as one stream of tokens, in order, as if they were one file. */
#ifndef STREAM_H
#define STREAM_H

#include "file.h"
#include "list.h"

/* How a stream tells its documents apart. */
#define STREAM_INDEX 1u /* the index of each file; a document ends with its file */
#define STREAM_BEGIN 2u /* a token with the id begins one */
#define STREAM_END 3u   /* a token with the id ends one */

typedef struct stream {
    const weft_host *host;
    const char *key;
    file_tokens *files; /* [n] */
    uint64_t *ends;     /* [n] token of the stream where the file ends */
    uint32_t n;
    uint64_t count;        /* tokens of all */
    uint32_t vocab;        /* the same in all */
    uint32_t boundary, id; /* STREAM_..., 0: documents are not told apart; of BEGIN and END */
} stream;

/* Map the files, whose paths are the list's. Files with different vocabularies are refused with
 * both names. [setup] */
weft_status stream_open(const weft_host *host, const char *key, const list_part *part, stream *out);
void stream_close(stream *s); /* a zeroed one is allowed [setup] */

/* Take the key data.boundary: "auto", "index", "begin:ID" or "end:ID". auto: the index where every
 * file has one, and the custom of llm.c's formats where every file is of one. [setup] */
weft_status stream_set_boundary(stream *s, const char *value);

/* tokens [n] from token `start` of the stream on, which it has. [any] */
weft_status stream_copy(const stream *s, uint64_t start, uint64_t n, int32_t *out);

/* places [n]: of each token of the window from `start` on, the number of tokens of its document
 * that come before it in the window. `tokens` are those of the window. [any] */
weft_status stream_places(const stream *s, uint64_t start, uint64_t n, const int32_t *tokens,
                          int32_t *places);

/* "4000 tokens of 251 kinds, digest 0123456789abcdef, content 0123456789abcdef": the same for one
 * file and for the same tokens in several. What tells documents apart: "documents by end:7, ", or
 * "". [setup] */
#define STREAM_IDENTITY 256u
void stream_identify(const stream *s, char out[STREAM_IDENTITY]);
void stream_identify_documents(const stream *s, char out[STREAM_IDENTITY]);

/* "data file A", or "data file A and 3 more". [any] */
#define STREAM_NAME (LIST_PATH + 64u)
const char *stream_name(const stream *s, char out[STREAM_NAME]);

#endif
