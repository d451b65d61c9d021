/* Token files for tests, and sets that the linked plugin opens. cmocka.h comes first. */
#ifndef SETS_H
#define SETS_H

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/tokens.h>

#include "lone.h"

static char sets_folder[] = "/tmp/weft-sets-XXXXXX";

static inline int sets_begin(void **state)
{
    (void)state;
    return mkdtemp(sets_folder) && chdir(sets_folder) == 0 ? 0 : -1;
}

static inline int sets_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline int sets_end(void **state)
{
    (void)state;
    return chdir("/") || nftw(sets_folder, sets_remove, 8, FTW_DEPTH | FTW_PHYS) ? -1 : 0;
}

/* How a file is written. */
typedef struct sets_file {
    uint32_t magic, version, vocab, bits;
    const uint64_t *ends; /* [documents] an index; NULL: none */
    uint64_t documents;
} sets_file;
#define SETS_16                                                                                    \
    (sets_file)                                                                                    \
    {                                                                                              \
        WEFT_TOKENS_MAGIC, 1, 60000, 16, NULL, 0                                                   \
    }
#define SETS_32                                                                                    \
    (sets_file)                                                                                    \
    {                                                                                              \
        WEFT_TOKENS_MAGIC, 2, 200000, 32, NULL, 0                                                  \
    }
#define SETS_GPT2                                                                                  \
    (sets_file)                                                                                    \
    {                                                                                              \
        WEFT_TOKENS_MAGIC_GPT2, 1, 0, 16, NULL, 0                                                  \
    }
#define SETS_LLAMA3                                                                                \
    (sets_file)                                                                                    \
    {                                                                                              \
        WEFT_TOKENS_MAGIC_LLAMA3, 7, 0, 32, NULL, 0                                                \
    }

/* Write `n` tokens to `name`, in the layout that docs/DATA.md has, without weft/tokens.h's help. */
static inline void sets_put(const char *name, sets_file how, const uint32_t *tokens, uint64_t n)
{
    uint32_t head[256] = {how.magic, how.version, (uint32_t)n, how.vocab, (uint32_t)(n >> 32)};
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    if (how.ends) {
        head[1] = 3;
        head[5] = how.bits;
        head[6] = (uint32_t)how.documents;
        head[7] = (uint32_t)(how.documents >> 32);
    }
    assert_int_equal(fwrite(head, sizeof head, 1, f), 1);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(fwrite(&tokens[i], how.bits / 8, 1, f), 1);
    while (how.ends && ftell(f) % 8)
        fputc(0, f);
    if (how.ends)
        assert_int_equal(fwrite(how.ends, 8, how.documents, f), how.documents);
    assert_int_equal(fclose(f), 0);
}

/* Tokens first, first + 1, ...: a window shows where it began. */
static inline void sets_count(const char *name, sets_file how, uint32_t first, uint64_t n)
{
    uint32_t *tokens = calloc(n + 1, sizeof *tokens);
    assert_non_null(tokens);
    for (uint64_t i = 0; i < n; i++)
        tokens[i] = first + (uint32_t)i;
    sets_put(name, how, tokens, n);
    free(tokens);
}

typedef struct sets_open {
    const char *train, *valid, *order, *documents, *boundary, *resumes;
    uint64_t seed;
} sets_open;

static inline weft_status sets_try(sets_open o, weft_dataset **out)
{
    const char *pairs[] = {"train",     o.train ? o.train : "",
                           "valid",     o.valid ? o.valid : "",
                           "order",     o.order ? o.order : "auto",
                           "documents", o.documents ? o.documents : "joined",
                           "boundary",  o.boundary ? o.boundary : "auto",
                           NULL};
    const weft_conf conf = lone_conf(pairs);
    void *module;
    const weft_data_table *t = lone_open(&module)->table;
    const weft_data_args args = {.struct_size = sizeof args,
                                 .use = o.train ? WEFT_DATA_TRAIN : WEFT_DATA_VALID,
                                 .seed = o.seed,
                                 .conf = &conf,
                                 .resumes = o.resumes};
    lone_clear();
    *out = NULL;
    return t->open(module, &args, out);
}

static inline weft_dataset *sets_must(sets_open o)
{
    weft_dataset *d;
    if (sets_try(o, &d) != WEFT_OK)
        fail_msg("%s", lone_why);
    return d;
}

static inline void sets_refused(sets_open o, weft_status want, const char *words)
{
    weft_dataset *d;
    assert_int_equal(sets_try(o, &d), want);
    assert_null(d);
    if (!strstr(lone_why, words))
        fail_msg("'%s' does not say '%s'", lone_why, words);
    assert_int_equal(lone_blocks, 0);
}

static inline weft_data_info sets_info(weft_dataset *d, uint64_t sequence)
{
    weft_data_info info = {.struct_size = sizeof info};
    if (lone_source()->info(d, sequence, &info) != WEFT_OK)
        fail_msg("%s", lone_why);
    return info;
}

/* One sample; places NULL where documents are joined. */
static inline weft_status sets_read(weft_dataset *d, uint64_t sample, uint64_t sequence,
                                    int32_t *tokens, int32_t *targets, int32_t *places, uint32_t n)
{
    void *const out[] = {tokens, targets, places};
    const weft_read_args args = {.struct_size = sizeof args,
                                 .first = sample,
                                 .count = 1,
                                 .sequence = sequence,
                                 .nfields = n,
                                 .out = out};
    lone_clear();
    return lone_source()->read(d, &args);
}

/* Where a sample of a counting file begins; its tokens and targets must be a window. */
static inline int32_t sets_start(weft_dataset *d, uint64_t sample, uint64_t sequence)
{
    int32_t tokens[64], targets[64];
    assert_in_range(sequence, 1, 64);
    if (sets_read(d, sample, sequence, tokens, targets, NULL, 2) != WEFT_OK)
        fail_msg("%s", lone_why);
    for (uint64_t i = 0; i < sequence; i++) {
        assert_int_equal(tokens[i], tokens[0] + (int32_t)i);
        assert_int_equal(targets[i], tokens[i] + 1);
    }
    return tokens[0];
}

#endif
