/* tokens/text/unit.h: a piece of work for one thread: parts of texts, then their ids. */
#ifndef TOKENS_TEXT_UNIT_H
#define TOKENS_TEXT_UNIT_H

#include "base/mem.h"
#include "tokens/text/encode.h"

typedef VEC(int32_t) tokens_ids;

typedef struct tokens_unit {
    VEC(tokens_part) parts;
    char *text; /* of the parts, one after the other */
    uint64_t n, capacity;
    tokens_ids ids[2];  /* of the outputs, with DATA_SPOOL_END */
    tokens_place place; /* behind it */
    bool marks;         /* a run may begin there */
    uint64_t done;      /* bytes of the files that are read behind it */
    weft_status st;
    char why[512]; /* of a failure */
    bool ready;
} tokens_unit;

/* The parts that come next, as many as a unit has; none at the end. Where the tokenizer has no
 * cut() they are encoded at once. */
weft_status tokens_unit_read(tokens_unit *u, tokens_reader *r, const data_tokenizer *t,
                             const tokens_text_options *o);

/* Encode the parts. A failure is kept in u->st and u->why. [any] */
void tokens_unit_encode(tokens_unit *u, const data_tokenizer *t, const tokens_text_options *o);

void tokens_unit_free(tokens_unit *u);

#endif
