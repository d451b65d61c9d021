/* check/data/data.c: sources of samples and tokenizers: the table of the group. */
#include "check/data/data.h"

#define DATA "weft.data/1"
#define TOKENIZER "weft.tokenizer/1"

static const check checks[] = {
    {185, DATA, 0, "A sample depends on its number and the seed alone",
     "other values when it is read in another order, by itself, or from a set that is opened again",
     check_data_samples},
    {186, DATA, 0,
     "read() writes the fields that are asked for, no more, and ids below the "
     "vocabulary",
     "memory behind a field is written, a field depends on whether others are asked for, or an id "
     "is too large",
     check_data_fields},
    {187, TOKENIZER, 20,
     "Any bytes can be encoded, and decode(encode(text)) is the text unless it normalizes",
     "a failure, other bytes, or an id outside the vocabulary", check_tokenizer_round},
    {188, TOKENIZER, 20, "Pieces of a text joined give the ids of the whole",
     "other ids: without WEFT_TEXT_LAST a call uses text whose ids may still change",
     check_tokenizer_pieces},
    {189, TOKENIZER, 20, "Room for one id is enough, and an id outside the vocabulary is refused",
     "a call that uses nothing, or decodes what no text gives", check_tokenizer_limits},
    {0},
};
const check_group check_group_data = {"data", "Data", checks};
