/* files.h: text files as one stream of bytes, in the order in which they are named. */
#ifndef FILES_H
#define FILES_H

#include "source.h"

#define FILES_MAX 4096u

typedef struct files {
    const weft_host *host;
    source_map *maps; /* [n] */
    uint64_t *ends;   /* [n] place of the stream where the file ends */
    uint32_t n;
    uint64_t bytes; /* of all */
} files;

/* Map the files of a list, separated by commas; blanks around a name are dropped, and a
 * comma of a name has a backslash before it, as has a backslash before a comma or backslash. `key`
 * is that of the list, for messages. An empty file is an error that names it. [setup] */
weft_status files_open(const weft_host *host, const char *key, const char *list, files *out);
void files_close(files *f); /* a zeroed one is allowed [setup] */

/* The bytes from place `at` of the stream, which is below f->bytes, to the end of their file. [any]
 */
const char *files_rest(const files *f, uint64_t at, uint64_t *bytes);

/* A digest of where files end and of 64 runs of 1 KiB, evenly spaced. [setup] */
uint64_t files_digest(const files *f);

#endif
