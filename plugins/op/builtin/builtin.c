/* plugins/op/builtin: the ops that models, rules and the core's own passes are made of. Every job
 * has them, without naming the file. */
#include "builtin.h"

#define ROW(family, i) &op_##family[i]
#define ROWS_2(family, i) ROW(family, i), ROW(family, (i) + 1)
#define ROWS_3(family, i) ROWS_2(family, i), ROW(family, (i) + 2)
#define ROWS_4(family, i) ROWS_2(family, i), ROWS_2(family, (i) + 2)
#define ROWS_20(family, i)                                                                         \
    ROWS_4(family, i), ROWS_4(family, (i) + 4), ROWS_4(family, (i) + 8), ROWS_4(family, (i) + 12), \
        ROWS_4(family, (i) + 16)

static const weft_component *const components[] = {
    ROWS_4(linear, 0),     ROWS_3(linear, 4),    ROWS_3(norm, 0),
    ROWS_3(rmsnorm, 0),    ROWS_2(attention, 0), ROW(rope, 0),
    ROWS_2(embedding, 0),  ROWS_2(loss, 0),      ROWS_20(elementwise, 0),
    ROWS_3(misc, 0),       ROWS_3(misc, 3),      ROWS_2(swiglu, 0),
    ROWS_4(vocab_loss, 0), ROWS_3(rename, 0),    ROWS_4(axis, 0),
    ROWS_2(random, 0),     ROWS_2(cached, 0),    NULL,
};

WEFT_PLUGIN("weft.builtin", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
