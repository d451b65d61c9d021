/* token_file.h: reads token files by the layout in docs/DATA.md, without the code that is tested.
 */
#ifndef UNIT_TOKEN_FILE_H
#define UNIT_TOKEN_FILE_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tokens/inspect.h"
#include "tokens/write.h"

static inline int files_in(const char *folder)
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = -2; /* . and .. */
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* A file that was written: its header, and its tokens as 32 bits. */
typedef struct contents {
    uint32_t word[DATA_HEADER_WORDS];
    uint64_t count;
    uint32_t *token;
} contents;

static inline contents read_file(const char *path)
{
    contents c = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(c.word, sizeof c.word, 1, f), 1);
    assert_int_equal(c.word[0], DATA_MAGIC);
    c.count = (uint64_t)c.word[4] << 32 | c.word[2];
    c.token = calloc(c.count + 1, sizeof *c.token);
    assert_non_null(c.token);
    for (uint64_t i = 0; i < c.count; i++)
        assert_int_equal(fread(&c.token[i], c.word[1] == 2 ? 4 : 2, 1, f), 1);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    return c;
}

/* Whether the index of a file of `f.count` tokens is `ends`, by the layout in docs/DATA.md. */
static inline void check_index(const char *path, const uint64_t *ends, uint64_t n)
{
    uint32_t head[DATA_HEADER_WORDS];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, sizeof head, 1, f), 1);
    assert_int_equal(head[1], 3);
    assert_int_equal(head[6], n);
    const long ids = (long)head[2] * head[5] / 8, at = 1024 + (ids + 7) / 8 * 8;
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t end;
        assert_int_equal(fread(&end, 8, 1, f), 1);
        assert_int_equal(end, ends[i]);
    }
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    tokens_facts facts;
    assert_int_equal(tokens_inspect(path, true, &facts), WEFT_OK);
    assert_int_equal(facts.documents, n);
    assert_int_equal(facts.header.tokens, ends[n - 1]);
    assert_int_equal(facts.header.bits, head[5]);
}

#endif
