/* tokens/inspect.h: what a token file (weft/tokens.h) says of itself, and whether it is true. */
#ifndef TOKENS_INSPECT_H
#define TOKENS_INSPECT_H

#include <stdbool.h>
#include <weft/tokens.h>

typedef struct tokens_facts {
    weft_tokens header;
    uint64_t bytes; /* of the file */
    uint64_t
        documents; /* by the index; after a scan also by the token with which llm.c begins each */
    bool counted;  /* `documents` is known */
    uint32_t largest; /* id; after a scan */
} tokens_facts;

/* Read the header and the end of the index. With `scan` read all: an id outside the vocabulary, and
 * an index that does not rise, are WEFT_DATA with their place; long scans log their progress.
 * [setup] */
weft_status tokens_inspect(const char *path, bool scan, tokens_facts *out);

#endif
