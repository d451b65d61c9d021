/* tokens/text/encode.h: texts become ids, on several threads.
 *
 * One thread reads the texts and forms units of whole parts (reader.h); the others encode them, and
 * the results are taken in order. So the ids do not depend on the number of threads. Memory is some
 * units a thread, however long the texts are. */
#ifndef TOKENS_TEXT_ENCODE_H
#define TOKENS_TEXT_ENCODE_H

#include "tokens/text/spool.h"

typedef struct tokens_text_options {
    const char *field; /* of records that is the text */
    bool special;      /* names of special tokens in a text are these tokens */
    bool plain;        /* no ids that begin or end a document are added */
    uint32_t threads;  /* 0: as many as there are processors */
} tokens_text_options;

/* Encode all of the list. *out has the ids, each document with the tokenizer's id for its beginning
 * in front of it and that for its end behind it, where it has them; where both are the same id only
 * the end has one. `output` is the file that is being made: a run that was interrupted goes on, and
 * `replace` allows to drop what another one has left (spool.h). *text is the number of bytes of
 * text. [setup] */
weft_status tokens_text_encode(const tokens_text_list *list, const data_tokenizer *t,
                               const tokens_text_options *o, const char *output, bool replace,
                               bool valid, tokens_spool **out, uint64_t *text);

#endif
