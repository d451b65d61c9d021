/* Any bytes as a job: refused with words, or read, checked, dumped and read again the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config/config.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void round_trip(config *c)
{
    config *again = NULL;
    char *first = config_dump(c);
    must(config_load_text(first, "dump", &again) == WEFT_OK);
    must(config_check(again) == WEFT_OK);
    char *second = config_dump(again);
    must(!strcmp(first, second));
    free(first);
    free(second);
    config_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    config *c = NULL;
    char *text = malloc(bytes + 1);
    must(text != NULL);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    err_clear();
    weft_status st = config_load_text(text, "job.ini", &c);
    must((st == WEFT_OK) == (c != NULL));
    if (c) {
        st = config_check(c);
        if (st == WEFT_OK)
            round_trip(c);
        config_destroy(c);
    }
    must(st == WEFT_OK || err_text()[0]);

    const char *override = text; /* the same bytes as a word of the command line */
    if (config_load(NULL, &override, 1, &c) == WEFT_OK) {
        if (config_check(c) == WEFT_OK)
            round_trip(c);
        config_destroy(c);
    }
    free(text);
    return 0;
}
