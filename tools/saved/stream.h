/* saved/stream.h: text that is written as it is made.
 *
 * Bytes of tokens go in, text comes out as soon as it is certain: never half of a character, since
 * a token may end within one, and nothing that may turn out to be the beginning of a text at which
 * generation stops. Bytes that are no UTF-8 come out as U+FFFD, one for each run that could have
 * begun a character. [any] */
#ifndef SAVED_STREAM_H
#define SAVED_STREAM_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct saved_stream {
    FILE *to;                /* NULL: nothing is written */
    int error;               /* of the first write that failed, after which there is none; 0 */
    const char *const *stop; /* [nstop] texts, none empty */
    uint32_t nstop;
    VEC(char) wait; /* bytes that are not certain yet */
    VEC(char) text; /* all text so far, valid UTF-8, if `keep` */
    bool keep;
} saved_stream;

/* True: the bytes complete one of the texts to stop at. What comes before it has been written, and
 * nothing else will be. */
bool saved_stream_add(saved_stream *s, const char *bytes, uint64_t n);

/* Write what has waited: there is no more. */
void saved_stream_end(saved_stream *s);
void saved_stream_free(saved_stream *s);

/* Length of the character at the beginning of `n` bytes; 0: it may be the beginning of one; below
 * 0: minus the number of bytes that are none. */
int saved_stream_character(const char *bytes, uint64_t n);

#endif
