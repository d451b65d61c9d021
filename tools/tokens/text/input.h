/* tokens/text/input.h: the bytes of a file, unpacked if its name says that it is compressed. */
#ifndef TOKENS_TEXT_INPUT_H
#define TOKENS_TEXT_INPUT_H

#include "tokens/text/list.h"

typedef struct tokens_input tokens_input;

/* `file` is borrowed. [setup] */
weft_status tokens_input_open(const tokens_text_file *file, tokens_input **out);
void tokens_input_close(tokens_input *in); /* NULL allowed */

/* At most `capacity` bytes; *n is 0 at the end alone. A plain file ends after as many bytes as it
 * had when it was opened; one that has become shorter, and damaged compressed data, are WEFT_DATA
 * with the file's name. [setup] */
weft_status tokens_input_read(tokens_input *in, char *out, uint64_t capacity, uint64_t *n);

/* Pass over bytes; fewer than that are left: WEFT_DATA. [setup] */
weft_status tokens_input_skip(tokens_input *in, uint64_t bytes);

/* Bytes of the file itself that have been read. */
uint64_t tokens_input_place(const tokens_input *in);

#endif
