/* data/text/unit.h: a piece of work for one thread: parts of texts, then their ids. */
#ifndef DATA_TEXT_UNIT_H
#define DATA_TEXT_UNIT_H

#include "base/mem.h"
#include "data/text/encode.h"

typedef VEC(int32_t) data_ids;

typedef struct data_unit {
    VEC(data_part) parts;
    char *text; /* of the parts, one after the other */
    uint64_t n, room;
    data_ids ids[2];  /* of the outputs, with DATA_SPOOL_END */
    data_place place; /* behind it */
    bool marks;       /* a run may begin there */
    uint64_t done;    /* bytes of the files that are read behind it */
    weft_status st;
    char why[512]; /* of a failure */
    bool ready;
} data_unit;

/* The parts that come next, as many as a unit has; none at the end. Where the tokenizer has no
 * cut() they are encoded at once. */
weft_status data_unit_read(data_unit *u, data_reader *r, const data_tokenizer *t,
                           const data_text_options *o);

/* Encode the parts. A failure is kept in u->st and u->why. [any] */
void data_unit_encode(data_unit *u, const data_tokenizer *t, const data_text_options *o);

void data_unit_free(data_unit *u);

#endif
