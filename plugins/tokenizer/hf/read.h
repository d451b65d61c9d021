/* read.h: the parts of a tokenizer.json. A failure names the field: "model.merges[17]". */
#ifndef HF_READ_H
#define HF_READ_H

#include <jansson.h>

#include "hf.h"

typedef struct reader {
    weft_tokenizer *t;
    char where[200]; /* the field that is being read; "" at the top */
} reader;

/* A failure of a field below the one that is being read; `field` may be "". [setup] */
weft_status read_bad(const reader *r, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
weft_status read_no_memory(const reader *r);

/* The reader of a field, and of an element of it. */
reader read_field(const reader *r, const char *field);
reader read_element(const reader *r, const char *field, size_t i);

/* Every member of the object has a name of the list, whose last is NULL, or is null. */
weft_status read_known(const reader *r, const json_t *object, const char *const *names);

/* A member: *out keeps its value where it is absent or null. */
weft_status read_bool(const reader *r, const json_t *object, const char *name, bool *out);
weft_status read_text(const reader *r, const json_t *object, const char *name, char **out,
                      uint32_t *n);
weft_status read_char(const reader *r, const json_t *object, const char *name, char out[8],
                      uint32_t *n);

/* The "type" of an object; NULL with *st: it has none. */
const char *read_type(const reader *r, const json_t *object, weft_status *st);

/* A copy that ends with a byte 0. NULL: no memory. */
char *read_copy(const char *s, uint64_t n);

/* {"String": s} or {"Regex": s} (pattern.c); and a regular expression by itself. */
weft_status read_pattern(const reader *r, const json_t *object, const char *name, hf_pattern *out);
weft_status read_regex(const reader *r, const char *field, const char *regex, hf_pattern *out);

weft_status read_normalizers(const reader *r, const json_t *value);
weft_status read_splitters(const reader *r, const json_t *value);
weft_status read_decoders(const reader *r, const json_t *value);
weft_status read_model(const reader *r, const json_t *value);
weft_status read_added(const reader *r, const json_t *value);
weft_status read_ends(const reader *r, const json_t *value, const weft_conf *conf);

/* The id of a token, as the file writes it; -1: there is none. */
int32_t read_id(const weft_tokenizer *t, const char *name, uint64_t n);

/* Ids from t->vocab up to `to` are there, without names so far. */
weft_status read_grow(const reader *r, uint32_t to);
weft_status read_name(const reader *r, uint32_t id, const char *name, uint32_t n);

extern const char gpt2_pattern[];

#endif
