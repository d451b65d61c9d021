/* Any bytes as a text file that is compressed, or has records: refused with words, or its parts are
 * cut and counted as they should be. The first byte says what kind of file it is. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "must.h"
#include "tokens/text/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Cuts a text anywhere. */
static weft_status cut(weft_tokenizer *t, const char *text, uint64_t bytes, uint64_t *at)
{
    (void)t, (void)text;
    *at = bytes / 2 + 1;
    return WEFT_OK;
}

static uint64_t read_all(const tokens_text_list *list, const data_tokenizer *t, bool valid,
                         tokens_place from, tokens_place *middle)
{
    tokens_reader *r;
    uint64_t all = from.text;
    if (tokens_reader_open(list, t, valid, "text", &from, &r) != WEFT_OK) {
        must(*err_text());
        return UINT64_MAX;
    }
    for (uint64_t parts = 0;; parts++) {
        tokens_part p;
        const char *text;
        if (tokens_reader_next(r, &p, &text) != WEFT_OK) {
            must(*err_text());
            all = UINT64_MAX;
            break;
        }
        if (!text)
            break;
        must(p.n && p.n <= DATA_RECORD_MAX);
        all += p.n;
        tokens_reader_take(r, &p, p.n);
        must(tokens_reader_text(r) == all);
        if (middle && parts == 2 && !tokens_reader_place(r, middle))
            *middle = (tokens_place){0};
    }
    tokens_reader_close(r);
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const weft_tokenizer_table table = {.struct_size = sizeof table, .cut = cut};
    static const host_component c = {.name = "fuzz", .table = &table};
    const data_tokenizer t = {.c = &c, .info = {.struct_size = sizeof t.info, .vocab = 256}};
    char path[64];
    if (!bytes)
        return 0;
    const int fd = memfd_create("texts", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data + 1, bytes - 1) == (ssize_t)bytes - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    tokens_text_file file = {
        .path = path, .bytes = bytes - 1, .packing = data[0] % 3, .records = data[0] / 3 % 2 != 0};
    const tokens_text_list list = {.at = &file, .n = 1, .bytes = bytes - 1};
    const bool valid = data[0] & 64;
    tokens_place middle = {0};
    err_clear();
    const uint64_t all = read_all(&list, &t, valid, (tokens_place){0}, &middle);
    err_clear();
    if (all != UINT64_MAX && middle.text) /* what is left is the same from a place that was given */
        must(read_all(&list, &t, valid, middle, NULL) == all);
    close(fd);
    return 0;
}
