/* What a tokenizer promises that was opened from foreign bytes: every text gives ids below the
 * vocabulary, and these become bytes again; or it fails in words. */
#ifndef ENCODE_H
#define ENCODE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft/data.h>

#include "../data/lone.h"
#include "must.h"

static const char encode_texts[] =
    "The loom's 12 threads,\n  \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82\r\n"
    "<s> e\xcc\x81\xcc\xa7 \xff\xfe\xe2\x82 A_b \xc2\xa0 \xe2\x96\x81x 3.14";

static inline void encode_use(const weft_tokenizer_table *table, weft_tokenizer *t)
{
    int32_t ids[4096];
    char back[1024];
    weft_tokenizer_info info = {.struct_size = sizeof info};
    must(table->info(t, &info) == WEFT_OK && info.vocab && info.identity);
    for (uint64_t at = 0; at < sizeof encode_texts - 1;) {
        uint64_t used = 0, n = 0, made, done;
        const weft_encode_args a = {.struct_size = sizeof a,
                                    .flags = WEFT_TEXT_LAST | WEFT_TEXT_SPECIAL |
                                             (at ? 0 : WEFT_TEXT_FIRST),
                                    .text = encode_texts + at,
                                    .bytes = sizeof encode_texts - 1 - at,
                                    .out = ids,
                                    .room = 4096};
        lone_clear();
        if (table->encode(t, &a, &used, &n) != WEFT_OK) { /* a pattern that takes too long */
            must(*lone_why);
            return;
        }
        must(used && used <= a.bytes && n <= a.room);
        for (uint64_t i = 0; i < n; i++) {
            const weft_decode_args d = {
                .struct_size = sizeof d, .ids = ids + i, .n = 1, .out = back, .room = sizeof back};
            must(ids[i] >= 0 && (uint32_t)ids[i] < info.vocab);
            must(table->decode(t, &d, &done, &made) == WEFT_OK && done == 1 && made <= 1024);
        }
        at += used;
    }
}

/* Opens a file of these bytes by the plugin that is linked in. */
static inline void encode_open(const char *text, size_t bytes)
{
    char path[64];
    void *module;
    const weft_component *c = lone_open(&module);
    const int fd = memfd_create("tokenizer", MFD_CLOEXEC);
    must(c && fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const char *pairs[] = {"file", path, "begin", "auto", "end", "auto", NULL};
    const weft_conf conf = lone_conf(pairs);
    const weft_tokenizer_table *table = c->table;
    weft_tokenizer *t = NULL;
    lone_clear();
    if (table->open(module, &conf, &t) == WEFT_OK) {
        encode_use(table, t);
        table->close(t);
    } else {
        must(*lone_why);
    }
    must(!lone_blocks);
    close(fd);
}

#endif
