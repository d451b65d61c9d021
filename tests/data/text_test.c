/* Are samples of text those of encoding it from their place on, however they are asked for, and is
 * a tokenizer that answers nonsense refused?
 *
 * The tokenizer is the test's own: two equal bytes in a row are one id, any other byte is one. The
 * referee joins the files and encodes them in one loop. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <test.h>

#include "files.h"
#include "lone.h"
#include <weft/host.h>

#define VOCAB 513u
#define END 512
#define SEED 11u
#define LIMIT 400000u

static char folder[] = "/tmp/weft-text-XXXXXX";
static char one[256], two[256], both[520];

/* --- the tokenizer --- */

static enum { RIGHT, BYTES, TOO_MANY, OUTSIDE, NOTHING } manner;
static uint32_t calls, closed;

static weft_status pairs_open(void *module, const weft_conf *conf, weft_tokenizer **out)
{
    (void)module, (void)conf;
    *out = (weft_tokenizer *)(uintptr_t)&manner;
    return WEFT_OK;
}

static void pairs_close(weft_tokenizer *t)
{
    closed += t != NULL;
}

static weft_status pairs_info(weft_tokenizer *t, weft_tokenizer_info *out)
{
    const weft_tokenizer_info info = {.struct_size = sizeof info,
                                      .vocab = VOCAB,
                                      .end = manner == BYTES ? 0 : END + 1,
                                      .identity = "pairs"};
    (void)t;
    weft_give(out, &info);
    return WEFT_OK;
}

/* The id at the head of the text, and its bytes; 0 bytes: more text could change it. */
static uint64_t one_id(const unsigned char *text, uint64_t n, bool last, int32_t *id)
{
    if (n == 1 && !last && manner != BYTES)
        return 0;
    const bool pair = n > 1 && text[0] == text[1] && manner != BYTES;
    *id = text[0] + (pair ? 256 : 0);
    return pair ? 2 : 1;
}

static weft_status pairs_encode(weft_tokenizer *t, const weft_encode_args *a, uint64_t *used,
                                uint64_t *n)
{
    uint64_t bytes = 1;
    (void)t;
    calls++;
    *used = *n = 0;
    assert_true(a->flags == WEFT_TEXT_LAST || !a->flags);
    while (manner != NOTHING && *n < a->room && *used < a->bytes && bytes) {
        bytes = one_id((const unsigned char *)a->text + *used, a->bytes - *used,
                       a->flags & WEFT_TEXT_LAST, &a->out[*n]);
        *used += bytes;
        *n += bytes > 0;
    }
    if (manner == TOO_MANY)
        *n = a->room + 1;
    if (manner == OUTSIDE && *n > 3)
        a->out[3] = (int32_t)VOCAB;
    return WEFT_OK;
}

static const weft_tokenizer_table pairs = {.struct_size = sizeof pairs,
                                           .open = pairs_open,
                                           .close = pairs_close,
                                           .info = pairs_info,
                                           .encode = pairs_encode};

static weft_status open_component(void *ctx, const weft_component_args *args,
                                  weft_component_ref *out)
{
    const weft_component_ref ref = {.struct_size = sizeof ref, .table = &pairs};
    (void)ctx;
    assert_string_equal(args->iface, "weft.tokenizer/1");
    assert_string_equal(args->name, "pairs");
    weft_give(out, &ref);
    return WEFT_OK;
}

static const weft_host_component opener = {.struct_size = sizeof opener, .open = open_component};

static const void *serve(const char *id)
{
    return strcmp(id, "weft.host.component/1") ? NULL : &opener;
}

/* --- files, and the referee --- */

static unsigned char text[2][LIMIT];
static uint64_t lengths[2];

static void put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_files(uint64_t first, uint64_t second)
{
    uint32_t x = 1;
    const uint64_t n[] = {first, second};
    for (int k = 0; k < 2; k++) {
        for (uint64_t i = 0; i < n[k]; i++) {
            x = x * 1664525u + 1013904223u;
            text[k][i] = (unsigned char)(x >> 27 == 3 ? '\n' : 'a' + (x >> 29));
        }
        lengths[k] = n[k];
        put(k ? two : one, text[k], n[k]);
    }
}

/* ids from place `at` on: to the end of the file, the next file, and the beginning again. */
static void referee(uint64_t at, uint64_t want, int32_t *out)
{
    uint64_t n = 0;
    while (n < want) {
        const int k = at < lengths[0] ? 0 : 1;
        const uint64_t begin = k ? lengths[0] : 0;
        const uint64_t bytes =
            one_id(text[k] + (at - begin), begin + lengths[k] - at, true, &out[n++]);
        at += bytes;
        if (at == begin + lengths[k] && n < want && manner != BYTES)
            out[n++] = END;
        at = at == lengths[0] + lengths[1] ? 0 : at;
    }
}

static int make_folder(void **state)
{
    (void)state;
    lone_iface = serve;
    if (!mkdtemp(folder))
        return -1;
    snprintf(one, sizeof one, "%s/one.txt", folder);
    snprintf(two, sizeof two, "%s/two.txt", folder);
    snprintf(both, sizeof both, " %s ,%s", one, two);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(one);
    unlink(two);
    return rmdir(folder);
}

/* --- sets --- */

static weft_status try_open(uint32_t use, const char *list, const char *begin, weft_dataset **out)
{
    static const char *keep[9];
    static weft_conf conf;
    const char *const now[] = {"train", list,        "valid", list, "begin",
                               begin,   "tokenizer", "pairs", NULL};
    void *module;
    const weft_data_table *t = lone_open(&module)->table;
    memcpy(keep, now, sizeof now);
    conf = lone_conf(keep);
    const weft_data_args args = {
        .struct_size = sizeof args, .use = use, .seed = SEED, .conf = &conf};
    lone_clear();
    return t->open(module, &args, out);
}

static weft_dataset *open_set(uint32_t use, const char *begin)
{
    weft_dataset *d = NULL;
    assert_int_equal(try_open(use, both, begin, &d), WEFT_OK);
    assert_non_null(d);
    return d;
}

static weft_data_info info_of(weft_dataset *d, uint64_t sequence)
{
    weft_data_info info = {.struct_size = sizeof info};
    assert_int_equal(lone_source()->info(d, sequence, &info), WEFT_OK);
    return info;
}

/* Where in the stream the referee gives these ids; `from` is the place to begin to look at. */
static uint64_t place_of(const int32_t *tokens, const int32_t *targets, uint64_t n, uint64_t from)
{
    int32_t *ids = calloc(n + 1, sizeof *ids);
    for (uint64_t at = from; at < lengths[0] + lengths[1]; at++) {
        referee(at, n + 1, ids);
        if (!memcmp(ids, tokens, n * sizeof *ids) && !memcmp(ids + 1, targets, n * sizeof *ids)) {
            free(ids);
            return at;
        }
    }
    fail_msg("no place of the text has these ids");
    return 0;
}

static unsigned char byte_at(uint64_t at)
{
    return at < lengths[0] ? text[0][at] : text[1][at - lengths[0]];
}

/* --- tests --- */

TEST(training)
{
    enum { N = 30, SAMPLES = 60 };
    int32_t all[SAMPLES][N], next[SAMPLES][N], again[N];
    uint64_t late = 0;
    write_files(1500, 700);
    weft_dataset *d = open_set(WEFT_DATA_TRAIN, "byte");
    const weft_data_info info = info_of(d, N);
    assert_int_equal(info.vocab, VOCAB);
    assert_int_equal(info.nfields, 2);
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(lone_read(d, (uint64_t)i, 1, N, all[i], next[i]), WEFT_OK);
        late += place_of(all[i], next[i], N, 0) > 1100;
    }
    assert_in_range(late, 15, 45); /* of 60: places are all over the stream */
    assert_int_equal(lone_read(d, 0, SAMPLES, N, all[0], NULL), WEFT_OK);
    assert_int_equal(lone_read(d, 41, 1, N, NULL, again), WEFT_OK);
    assert_memory_equal(again, next[41], sizeof again);
    assert_int_equal(lone_read(d, (uint64_t)1 << 60, 1, N, again, NULL), WEFT_OK);
    lone_source()->close(d);
    assert_int_equal(lone_blocks, 0);
}

TEST(lines)
{
    enum { N = 12 };
    int32_t tokens[N], targets[N];
    write_files(3000, 500);
    weft_dataset *d = open_set(WEFT_DATA_TRAIN, "line");
    info_of(d, N);
    for (uint64_t i = 0; i < 200; i++) {
        bool begins = false;
        uint64_t at = 0;
        assert_int_equal(lone_read(d, i, 1, N, tokens, targets), WEFT_OK);
        for (; !begins; at++) { /* the same ids may be at several places */
            at = place_of(tokens, targets, N, at);
            begins = !at || at == lengths[0] || byte_at(at - 1) == '\n';
        }
    }
    lone_source()->close(d);
}

/* Every sample is cut at span bytes; where one byte is one id these are the windows of a token
 * file. */
TEST(validation)
{
    enum { N = 25 };
    int32_t tokens[100][N], targets[100][N], ids[N + 1];
    write_files(1003, 900);
    manner = BYTES;
    weft_dataset *d = open_set(WEFT_DATA_VALID, "byte");
    uint64_t n = info_of(d, N).samples;
    assert_int_equal(n, (1903 - 1) / N);
    assert_int_equal(lone_read(d, 0, n, N, tokens[0], targets[0]), WEFT_OK);
    for (uint64_t i = 0; i < n; i++) {
        referee(i * N, N + 1, ids);
        assert_memory_equal(tokens[i], ids, N * sizeof *ids);
        assert_memory_equal(targets[i], ids + 1, N * sizeof *ids);
    }
    assert_int_equal(lone_read(d, n, 1, N, tokens[0], NULL), WEFT_USAGE);
    assert_int_equal(lone_read(d, UINT64_MAX, 2, N, tokens[0], NULL), WEFT_USAGE);
    assert_int_equal(lone_read(d, 0, 1, N + 1, tokens[0], NULL), WEFT_USAGE);
    assert_non_null(strstr(lone_why, "info() was asked for 25 rows"));
    lone_source()->close(d);
    manner = RIGHT;
    d = open_set(WEFT_DATA_VALID, "byte");
    n = info_of(d, N).samples;
    assert_in_range(n, 1903 / N / 2, 1903 / N); /* a pair in eight or so */
    assert_int_equal(lone_read(d, n - 1, 1, N, tokens[0], targets[0]), WEFT_OK);
    lone_source()->close(d);
}

/* A sample that is longer than a piece, so that the tokenizer leaves a rest. */
TEST(long_samples)
{
    enum { N = 300000 };
    int32_t *tokens = calloc(N, sizeof *tokens), *ids = calloc(N + 1, sizeof *ids);
    write_files(LIMIT, LIMIT);
    weft_dataset *d = open_set(WEFT_DATA_VALID, "byte");
    info_of(d, N);
    assert_int_equal(lone_read(d, 0, 1, N, tokens, NULL), WEFT_OK);
    referee(0, N, ids);
    assert_memory_equal(tokens, ids, N * sizeof *ids);
    assert_int_equal(info_of(d, 0).samples > info_of(d, 7).samples, true);
    lone_source()->close(d);
    free(tokens);
    free(ids);
}

TEST(identity)
{
    char before[1024];
    write_files(200000, 300);
    weft_dataset *d = open_set(WEFT_DATA_TRAIN, "line");
    snprintf(before, sizeof before, "%s", info_of(d, 5).identity);
    assert_non_null(strstr(before, "200300 bytes"));
    assert_null(strstr(before, folder));
    assert_string_equal(before, info_of(d, 90).identity);
    lone_source()->close(d);
    d = open_set(WEFT_DATA_TRAIN, "byte");
    assert_string_not_equal(before, info_of(d, 5).identity);
    lone_source()->close(d);
    text[1][299]++; /* the last byte */
    put(two, text[1], 300);
    d = open_set(WEFT_DATA_TRAIN, "line");
    assert_string_not_equal(before, info_of(d, 5).identity);
    lone_source()->close(d);
}

static void refused(const char *list, const char *word)
{
    weft_dataset *d = NULL;
    assert_int_not_equal(try_open(WEFT_DATA_TRAIN, list, "line", &d), WEFT_OK);
    assert_null(d);
    if (!strstr(lone_why, word) || !strstr(lone_why, "data.train"))
        fail_msg("'%s' does not speak of '%s' and the key", lone_why, word);
    assert_int_equal(lone_blocks, 0);
}

TEST(refusals)
{
    char list[600];
    weft_dataset *d = (weft_dataset *)(uintptr_t)&calls;
    weft_data_info info = {.struct_size = sizeof info};
    write_files(100, 100);
    assert_int_equal(try_open(WEFT_DATA_TRAIN, "", "line", &d), WEFT_OK);
    assert_null(d);
    refused("/nowhere/a.txt", "/nowhere/a.txt");
    snprintf(list, sizeof list, "%s,,%s", one, two);
    refused(list, "is empty, or longer");
    snprintf(list, sizeof list, "%s,", one);
    refused(list, "is empty, or longer");
    refused(folder, folder);
    put(two, "", 0);
    refused(both, "is empty");
    put(two, "b", 1);
    d = open_set(WEFT_DATA_TRAIN, "line");
    lone_clear();
    assert_int_equal(lone_source()->info(d, 1000, &info), WEFT_USAGE);
    assert_non_null(strstr(lone_why, "the text has 101 bytes"));
    assert_int_equal(lone_read(d, 0, 1, 0, NULL, NULL), WEFT_USAGE);
    lone_source()->close(d);
    lone_source()->close(NULL);
}

TEST(tokenizers)
{
    const struct {
        int manner;
        const char *says;
    } wrong[] = {{TOO_MANY, "ids in room for"}, {OUTSIDE, "the id 513"}, {NOTHING, "answers 0 of"}};
    write_files(5000, 100);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_data_info info = {.struct_size = sizeof info};
        manner = RIGHT;
        weft_dataset *d = open_set(WEFT_DATA_TRAIN, "line");
        int32_t tokens[10];
        info_of(d, 10);
        manner = wrong[i].manner;
        assert_int_equal(lone_read(d, 3, 1, 10, tokens, NULL), WEFT_USAGE);
        assert_non_null(strstr(lone_why, wrong[i].says));
        lone_clear();
        assert_int_equal(lone_source()->info(d, 10, &info), WEFT_USAGE);
        closed = 0;
        lone_source()->close(d);
        assert_int_equal(closed, 1);
    }
    manner = RIGHT;
    lone_iface = NULL;
    refused(one, "this host opens none");
    lone_iface = serve;
    assert_int_equal(lone_blocks, 0);
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
