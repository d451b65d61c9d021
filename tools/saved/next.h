/* saved/next.h: the logits of the token that follows a sequence.
 *
 * With caches a call computes the rows that are new since the last one: chunks of a prompt, then
 * one row. Without, it computes the whole context. A step allocates nothing. */
#ifndef SAVED_NEXT_H
#define SAVED_NEXT_H

#include "saved/saved.h"

typedef struct saved_next {
    saved_job *s;
    uint64_t context, vocab;
    int32_t *tokens;    /* [context] */
    int32_t *positions; /* [context] 0, 1, ... */
    uint64_t n;         /* tokens so far, at most context */
    uint64_t have;      /* of them, in the caches */
    uint64_t forgotten; /* tokens that are no longer part of the context */
    float *logits;      /* [vocab] of the last saved_next_logits() */
    void *raw;          /* the same in the compute type, where that has 16 bits */
    int32_t *rows;      /* [chunk] positions of a chunk; -1: padding */
} saved_next;

/* After saved_load(). [setup] */
void saved_next_open(saved_job *s, saved_next *out);
void saved_next_close(saved_next *x);

/* Append a token. When the context is full, forget the older half first. [compute] */
void saved_next_append(saved_next *x, int32_t token);

/* n is at least 1. [compute] [collective] */
weft_status saved_next_logits(saved_next *x);

#endif
