/* saved/sample.h: text with a model from a checkpoint.
 *
 * The prompt runs through the model in chunks, which fill a cache of keys and values; then each
 * token is one row. A model, device or layout for which the plan cannot have caches
 * (graph/cached.h) is run over its whole context for each token instead, and the log says why. When
 * the context is full the older half of it is forgotten, and what is left runs through the model
 * anew.
 *
 * Every rank of a job computes the same logits and draws the same tokens; rank 0 writes them. */
#ifndef SAVED_SAMPLE_H
#define SAVED_SAMPLE_H

#include "saved/draw.h"
#include "saved/saved.h"

#include <stdio.h>

typedef struct saved_sample_options {
    saved_args saved;
    const char *prompt; /* text where the job has a tokenizer for its model, else token numbers */
    bool ids;           /* the prompt is token numbers in any case */
    uint64_t tokens;    /* the most to generate */
    saved_draw draw;
    const char *const *stop; /* [nstop] texts at which generation ends; none is empty */
    uint32_t nstop;
    bool past_end; /* the tokenizer's end of text is a token like others */
    bool uncached; /* the whole context for each token, even where caches are possible */
    bool json;     /* one object instead of text */
} saved_sample_options;

/* Returns the exit status, and prints or passes on the record of a failure. [setup] [collective] */
int saved_sample(const saved_sample_options *o, FILE *to);

#endif
