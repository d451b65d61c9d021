/* check/data/data.h: checks of sources of samples and of tokenizers; private to this folder. */
#ifndef CHECK_DATA_DATA_H
#define CHECK_DATA_DATA_H

#include "check/exercise/exercise.h"

#include <weft/data.h>

/* A tokenizer of the file, which is open. */
typedef struct check_tokenizer {
    check_run *run;
    const host_component *c;
    const weft_tokenizer_table *table;
    weft_tokenizer *t;
    weft_tokenizer_info info;
} check_tokenizer;

/* Call `fn` for each tokenizer of the file that opens with its options; one that does not is noted
 * by check_absent(). */
void check_tokenizer_each(check_run *r, void (*fn)(check_tokenizer *k));

/* Encode all of a text with room for `capacity` ids a call: into out[max], returns their number.
 * Fails the check where a call makes no progress or leaves its room. */
uint64_t check_tokenizer_encode(check_tokenizer *k, const char *text, uint64_t bytes,
                                uint64_t capacity, int32_t *out, uint64_t max);

/* Text number `i` of the check, all of it made from the seed: words, UTF-8 of several scripts,
 * arbitrary bytes, one byte many times. Returns its bytes, at most CHECK_TEXT_BYTES; 0: there are
 * no more. */
#define CHECK_TEXT_BYTES 70000u
uint64_t check_tokenizer_text(const check_run *r, uint32_t i, char *out);

/* --- checks --- */
void check_data_samples(check_run *r);     /* source.c */
void check_data_fields(check_run *r);      /* source.c */
void check_tokenizer_round(check_run *r);  /* tokenizer.c */
void check_tokenizer_pieces(check_run *r); /* tokenizer.c */
void check_tokenizer_limits(check_run *r); /* tokenizer.c */

#endif
