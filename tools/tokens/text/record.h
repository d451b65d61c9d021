/* tokens/text/record.h: one field of a record, a line of JSON. */
#ifndef TOKENS_TEXT_RECORD_H
#define TOKENS_TEXT_RECORD_H

#include <jansson.h>
#include <stdint.h>

/* The text of the record's field; of several of this name the last. The caller owns it. What else
 * the record has is passed over, so that it takes no memory, and only its brackets, strings and
 * commas are looked at. NULL: `why` says what is wrong. */
json_t *tokens_record_text(const char *line, uint64_t n, const char *field, char why[256]);

#endif
