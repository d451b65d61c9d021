/* data/inspect.h: what a token file (weft/tokens.h) says of itself, and whether it is true. */
#ifndef DATA_INSPECT_H
#define DATA_INSPECT_H

#include <stdbool.h>
#include <weft/tokens.h>

typedef struct data_facts {
    weft_tokens header;
    uint64_t bytes; /* of the file */
    uint64_t
        documents; /* by the index; after a scan also by the token with which llm.c begins each */
    bool counted;  /* `documents` is known */
    uint32_t largest; /* id; after a scan */
} data_facts;

/* Read the header and the end of the index. With `scan` read all: an id outside the vocabulary, and
 * an index that does not rise, are WEFT_DATA with their place; long scans log their progress.
 * [setup] */
weft_status data_inspect(const char *path, bool scan, data_facts *out);

#endif
