/* Any bytes as a model of SentencePiece (tokenizer.model): refused with words, or every text gives
 * ids below the vocabulary. The library, whose code may throw or end the process over such a file,
 * tries each in a child first. */
#define _GNU_SOURCE
#include "encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    encode_open((const char *)data, bytes);
    return 0;
}
