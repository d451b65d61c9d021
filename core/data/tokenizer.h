/* data/tokenizer.h: a tokenizer (weft.tokenizer/1) that is open. What it says of itself is checked.
 */
#ifndef DATA_TOKENIZER_H
#define DATA_TOKENIZER_H

#include <weft/data.h>

#include "host/host.h"

typedef struct data_tokenizer {
    const host_component *c;
    weft_tokenizer *t; /* NULL: not open */
    weft_tokenizer_info info;
} data_tokenizer;

/* The module of the plugin is open. [setup] */
weft_status data_tokenizer_open(const host_component *c, const weft_conf *conf,
                                data_tokenizer *out);
void data_tokenizer_close(data_tokenizer *d); /* a zeroed one is allowed [setup] */

#endif
