/* Any bytes as a tokenizer.json: refused with words, or every text gives ids below the vocabulary,
 * and these become bytes again. The file is as the input, and once more a lawful file with the
 * input as one of its stages, so that few bytes lead far. */
#define _GNU_SOURCE
#include <string.h>

#include "encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const stages[] = {"normalizer", "pre_tokenizer", "decoder",
                                         "post_processor"};
    static const char model[] =
        "\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],"
        "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,"
        "\"e\":1,\"h\":2,\"he\":3},\"merges\":[\"h e\"]}}";
    encode_open((const char *)data, bytes);
    for (size_t i = 0; bytes < 65536 && i < sizeof stages / sizeof *stages; i++) {
        char *text = malloc(bytes + sizeof model + 32);
        must(text != NULL);
        int n = snprintf(text, 32, "{\"%s\":", stages[i]);
        memcpy(text + n, data, bytes);
        text[(size_t)n + bytes] = ',';
        memcpy(text + (size_t)n + bytes + 1, model, sizeof model - 1);
        encode_open(text, (size_t)n + bytes + sizeof model);
        free(text);
    }
    return 0;
}
