/* data/text/input.h: the bytes of a file, unpacked if its name says that it is compressed. */
#ifndef DATA_TEXT_INPUT_H
#define DATA_TEXT_INPUT_H

#include "data/text/list.h"

typedef struct data_input data_input;

/* `file` is borrowed. [setup] */
weft_status data_input_open(const data_text_file *file, data_input **out);
void data_input_close(data_input *in); /* NULL allowed */

/* At most `room` bytes; *n is 0 at the end alone. A plain file ends after as many bytes as it had
 * when it was opened; one that has become shorter, and damaged compressed data, are WEFT_DATA with
 * the file's name. [setup] */
weft_status data_input_read(data_input *in, char *out, uint64_t room, uint64_t *n);

/* Pass over bytes; fewer than that are left: WEFT_DATA. [setup] */
weft_status data_input_skip(data_input *in, uint64_t bytes);

/* Bytes of the file itself that have been read. */
uint64_t data_input_place(const data_input *in);

#endif
