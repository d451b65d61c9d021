/* Are token files checked before use, and are samples the same however they are asked for? */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <test.h>

#include "file.h"
#include "lone.h"

#define FILE_MAGIC WEFT_TOKENS_MAGIC
#define FILE_MAGIC_GPT2 WEFT_TOKENS_MAGIC_GPT2
#define FILE_HEADER_WORDS WEFT_TOKENS_HEADER_WORDS
#define FILE_HEADER_BYTES WEFT_TOKENS_HEADER_BYTES
#define FILE_VOCAB_GPT2 50257u

static char folder[] = "/tmp/weft-data-XXXXXX";
static char path[256];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/tokens.bin", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void put(const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

/* A lawful file of `count` tokens i * 7 mod vocab; returned so that a test can spoil it. */
typedef struct image {
    uint32_t word[FILE_HEADER_WORDS];
    uint16_t token[1000];
} image;

static image lawful(uint32_t magic, uint32_t count, uint32_t vocab)
{
    image m = {.word = {magic, 1, count, magic == FILE_MAGIC ? vocab : 0}};
    for (uint32_t i = 0; i < count; i++)
        m.token[i] = (uint16_t)(i * 7 % vocab);
    return m;
}

static void put_image(const image *m, uint32_t tokens)
{
    put(m, sizeof m->word + tokens * sizeof *m->token);
}

static weft_status open_file(file_tokens *f)
{
    lone_clear();
    return file_open(&lone_host, "data.train", path, f);
}

static void refused(weft_status want, const char *word)
{
    file_tokens f = {.count = 12345};
    assert_int_equal(open_file(&f), want);
    assert_int_equal(f.count, 12345); /* results are written on success alone */
    if (!strstr(lone_why, word) || !strstr(lone_why, folder) || !strstr(lone_why, "data.train"))
        fail_msg("'%s' does not speak of '%s', the key and the file", lone_why, word);
}

/* The set that the plugin opens for these options; NULL: there is none. */
static const char *order = "starts"; /* as in 0.1; sets_test.c has the other */
static weft_dataset *open_set(uint32_t use, uint64_t seed, const char *train, const char *valid)
{
    static const char *pairs[7];
    static weft_conf conf;
    const char *const now[] = {"train", train, "valid", valid, "order", order, NULL};
    void *module;
    const weft_data_table *t = lone_open(&module)->table;
    weft_dataset *d = NULL;
    memcpy(pairs, now, sizeof now);
    conf = lone_conf(pairs);
    const weft_data_args args = {
        .struct_size = sizeof args, .use = use, .seed = seed, .conf = &conf};
    lone_clear();
    assert_int_equal(t->open(module, &args, &d), WEFT_OK);
    return d;
}

static uint64_t samples_of(weft_dataset *d, uint64_t sequence)
{
    weft_data_info info = {.struct_size = sizeof info};
    return lone_source()->info(d, sequence, &info) == WEFT_OK ? info.samples : 0;
}

TEST(reads_the_formats)
{
    file_tokens f;
    image m = lawful(FILE_MAGIC_GPT2, 900, FILE_VOCAB_GPT2);
    m.token[899] = 50256;
    put_image(&m, 900);
    assert_int_equal(open_file(&f), WEFT_OK);
    assert_int_equal(f.vocab, 50257);
    assert_int_equal(f.count, 900);
    assert_int_equal(f.begin, 50257);
    assert_memory_equal(f.map.at + FILE_HEADER_BYTES, m.token, 1800);
    file_close(&f);
    file_close(&f); /* closing twice is harmless */

    m = lawful(WEFT_TOKENS_MAGIC_LLAMA3, 300, 60000); /* 600 halves */
    m.word[1] = 7;
    for (uint32_t i = 0; i < 300; i++) {
        m.token[2 * i] = (uint16_t)(i * 211 % 60000);
        m.token[2 * i + 1] = i % 2;
    }
    put_image(&m, 600);
    assert_int_equal(open_file(&f), WEFT_OK);
    assert_int_equal(f.vocab, 128256);
    assert_int_equal(f.count, 300);
    assert_int_equal(f.wide, 1);
    assert_int_equal(f.begin, 128001);
    int32_t ids[300];
    assert_int_equal(file_copy(&f, 0, 300, ids), WEFT_OK);
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(ids[i], i * 211 % 60000 + (i % 2 << 16));
    file_close(&f);

    m = lawful(FILE_MAGIC, 1, 1);
    put_image(&m, 1);
    assert_int_equal(open_file(&f), WEFT_OK);
    assert_int_equal(f.vocab, 1);
    assert_int_equal(f.count, 1);
    file_close(&f);
}

TEST(refuses_what_is_no_file)
{
    unlink(path);
    refused(WEFT_USAGE, "No such file");
    assert_int_equal(mkdir(path, 0777), 0);
    refused(WEFT_USAGE, "directory");
    rmdir(path);
    assert_int_equal(mkfifo(path, 0666), 0);
    refused(WEFT_USAGE, "device"); /* and does not wait for a writer */
    unlink(path);
    put("", 0);
    refused(WEFT_DATA, "shorter than the header");
    put("just a text", 11);
    refused(WEFT_DATA, "shorter than the header");
}

TEST(refuses_foreign_headers)
{
    image m = lawful(FILE_MAGIC, 100, 256);
    m.word[0] = __builtin_bswap32(FILE_MAGIC);
    put_image(&m, 100);
    refused(WEFT_DATA, "big-endian");
    m.word[0] = __builtin_bswap32(FILE_MAGIC_GPT2);
    put_image(&m, 100);
    refused(WEFT_DATA, "big-endian");
    m.word[0] = __builtin_bswap32(WEFT_TOKENS_MAGIC_LLAMA3);
    put_image(&m, 100);
    refused(WEFT_DATA, "big-endian");
    m.word[0] = 20240802;
    put_image(&m, 100);
    refused(WEFT_DATA, "not a token file");
    m.word[0] = WEFT_TOKENS_MAGIC_LLAMA3; /* whose only version is 7 */
    put_image(&m, 100);
    refused(WEFT_DATA, "version 1");
    m.word[1] = 8;
    put_image(&m, 100);
    refused(WEFT_UNSUPPORTED, "version 8");
    m = lawful(FILE_MAGIC, 100, 256);
    m.word[1] = 4;
    put_image(&m, 100);
    refused(WEFT_UNSUPPORTED, "version 4");
    m.word[1] = 0;
    put_image(&m, 100);
    refused(WEFT_DATA, "version 0");
    m = lawful(FILE_MAGIC_GPT2, 100, 256); /* of which there is one version */
    m.word[1] = 2;
    put_image(&m, 100);
    refused(WEFT_UNSUPPORTED, "version 2");
    m = lawful(FILE_MAGIC, 50, 256); /* 100 halves */
    m.word[1] = 2;
    m.word[3] = (1u << 30) + 1;
    put_image(&m, 100);
    refused(WEFT_DATA, "vocabulary of 1073741825");
    m.word[3] = 70000;
    put_image(&m, 99);
    refused(WEFT_DATA, "tokens of 4 bytes");
    m = lawful(FILE_MAGIC, 100, 256);
    m.word[3] = 0;
    put_image(&m, 100);
    refused(WEFT_DATA, "vocabulary of 0");
    m.word[3] = 65537;
    put_image(&m, 100);
    refused(WEFT_DATA, "vocabulary of 65537");
    m = lawful(FILE_MAGIC, 0, 256);
    put_image(&m, 0);
    refused(WEFT_DATA, "no tokens");
}

TEST(refuses_wrong_lengths)
{
    image m = lawful(FILE_MAGIC, 100, 256);
    for (size_t n = 0; n < sizeof m.word + 200; n++) { /* cut at every length */
        put(&m, n);
        refused(WEFT_DATA, "bytes long");
    }
    put(&m, sizeof m.word + 201);
    refused(WEFT_DATA, "truncated or damaged");
    static const uint32_t counts[] = {99, 101, 0x80000064u, 0xffffffffu};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        m.word[2] = counts[i];
        put_image(&m, 100);
        refused(WEFT_DATA, "truncated or damaged");
    }
    m.word[2] = 100;
    m.word[4] = 1; /* 2^32 more */
    put_image(&m, 100);
    refused(WEFT_DATA, "4294967396 tokens");
    m.word[4] = 0x80000000u; /* twice the count wraps round to the true length */
    put_image(&m, 100);
    refused(WEFT_DATA, "truncated or damaged");
}

/* Whichever window has it, at whatever place in it, and no other. */
TEST(tokens_out_of_range_are_not_handed_out)
{
    enum { LENGTH = 9, COUNT = 100 };
    int32_t tokens[LENGTH], targets[LENGTH];
    char where[64];
    for (uint32_t at = 0; at < COUNT; at++) {
        image m = lawful(FILE_MAGIC, COUNT, 200);
        m.token[(at + 50) % COUNT] = 199;
        m.token[at] = at % 2 ? 200 : 65535;
        put_image(&m, COUNT);
        snprintf(where, sizeof where,
                 "token number %" PRIu32 " is %d, outside its vocabulary of 200", at, m.token[at]);
        weft_dataset *d = open_set(WEFT_DATA_VALID, 3, "", path);
        for (uint64_t w = 0; w < samples_of(d, LENGTH); w++) {
            bool in = at >= w * LENGTH && at <= (w + 1) * LENGTH;
            weft_status st = lone_read(d, w, 1, LENGTH, tokens, targets);
            assert_int_equal(st, in ? WEFT_DATA : WEFT_OK);
            if (in && (!strstr(lone_why, where) || !strstr(lone_why, folder)))
                fail_msg("'%s' does not say '%s'", lone_why, where);
        }
        lone_source()->close(d);
        d = open_set(WEFT_DATA_TRAIN, 3, path, "");
        for (uint64_t s = 0; s < 50; s++) {
            uint64_t start = source_order_below(source_order_key(3), s, COUNT - LENGTH);
            bool in = at >= start && at <= start + LENGTH;
            assert_int_equal(lone_read(d, s, 1, LENGTH, tokens, targets), in ? WEFT_DATA : WEFT_OK);
        }
        lone_source()->close(d);
    }
}

/* A file of 64 MiB, none of which was in memory: only its beginning comes. */
TEST(opening_reads_the_header_alone)
{
    enum { COUNT = 32 << 20 };
    image m = lawful(FILE_MAGIC, 1, 256);
    m.word[2] = COUNT;
    put(&m, sizeof m.word);
    assert_int_equal(truncate(path, sizeof m.word + 2 * (off_t)COUNT), 0);
    file_tokens f;
    assert_int_equal(open_file(&f), WEFT_OK);
    uint64_t pages = (f.map.bytes + 4095) / 4096, there = 0;
    unsigned char *in = malloc(pages);
    assert_non_null(in);
    assert_int_equal(mincore((void *)(uintptr_t)f.map.at, f.map.bytes, in), 0);
    for (uint64_t i = 0; i < pages; i++)
        there += in[i] & 1;
    assert_true(there < pages / 4);
    free(in);
    file_close(&f);
    unlink(path);
}

/* Puts a file in which token i is i, so that a window shows where it began. */
static void put_counting(uint32_t count)
{
    image m = {.word = {FILE_MAGIC, 1, count, 65536}};
    for (uint32_t i = 0; i < count; i++)
        m.token[i] = (uint16_t)i;
    put_image(&m, count);
}

enum { SEQUENCE = 13, SAMPLES = 60 };

TEST(order_is_that_of_the_sample_number)
{
    put_counting(1000);
    int32_t all[2][SAMPLES][SEQUENCE], part[2][SAMPLES][SEQUENCE];
    weft_dataset *d = open_set(WEFT_DATA_TRAIN, 5, path, "");
    assert_int_equal(lone_read(d, 1000, SAMPLES, SEQUENCE, all[0][0], all[1][0]), WEFT_OK);
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < SEQUENCE; i++) {
            assert_int_equal(all[0][s][i], all[0][s][0] + i); /* a window, in order    */
            assert_int_equal(all[1][s][i], all[0][s][i] + 1); /* targets one further on */
        }
    for (int chunk = 1; chunk <= SAMPLES; chunk++) {
        memset(part, 0xff, sizeof part);
        for (int s = SAMPLES; s > 0;) { /* from the end, as a resume may not ask in order */
            int n = s < chunk ? s : chunk;
            s -= n;
            assert_int_equal(
                lone_read(d, 1000 + (uint64_t)s, (uint64_t)n, SEQUENCE, part[0][s], part[1][s]),
                WEFT_OK);
        }
        assert_memory_equal(part, all, sizeof all);
    }
    memset(part, 0, sizeof part); /* one field alone is the same */
    assert_int_equal(lone_read(d, 1000, SAMPLES, SEQUENCE, NULL, part[1][0]), WEFT_OK);
    assert_int_equal(lone_read(d, 1000, SAMPLES, SEQUENCE, part[0][0], NULL), WEFT_OK);
    assert_memory_equal(part, all, sizeof all);
    lone_source()->close(d);
    d = open_set(WEFT_DATA_TRAIN, 6, path, "");
    assert_int_equal(lone_read(d, 1000, SAMPLES, SEQUENCE, part[0][0], part[1][0]), WEFT_OK);
    assert_memory_not_equal(part, all, sizeof all); /* another seed, another order */
    lone_source()->close(d);
}

/* Numbers that checkpoints of 0.1 depend on: samples 0 to 7 under seed 11 among 987 starts. */
TEST(order_is_that_of_0_1)
{
    static const uint64_t starts[] = {16, 901, 589, 23, 55, 518, 316, 411};
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(source_order_below(source_order_key(11), i, 987), starts[i]);
}

TEST(every_start_occurs)
{
    put_counting(SEQUENCE + 4);
    weft_dataset *d = open_set(WEFT_DATA_TRAIN, 1, path, "");
    int seen[8] = {0};
    for (uint64_t s = 0; s < 400; s++) {
        int32_t tokens[SEQUENCE], targets[SEQUENCE];
        assert_int_equal(lone_read(d, s, 1, SEQUENCE, tokens, targets), WEFT_OK);
        assert_in_range(tokens[0], 0, 3);
        seen[tokens[0]]++;
        assert_true(targets[SEQUENCE - 1] < SEQUENCE + 4);
    }
    for (int i = 0; i < 4; i++) /* 400 draws of 4: each about 100 */
        assert_in_range(seen[i], 60, 140);
    lone_source()->close(d);
}

TEST(windows_are_fixed_and_apart)
{
    for (uint32_t count = 2; count < 60; count++) {
        put_counting(count);
        weft_dataset *d = open_set(WEFT_DATA_VALID, 1, "", path);
        uint64_t n = samples_of(d, SEQUENCE);
        int32_t tokens[SEQUENCE], targets[SEQUENCE];
        assert_int_equal(n, (count - 1) / SEQUENCE);
        for (uint64_t w = 0; w < n; w++) {
            assert_int_equal(lone_read(d, w, 1, SEQUENCE, tokens, targets), WEFT_OK);
            for (int i = 0; i < SEQUENCE; i++) {
                assert_int_equal(tokens[i], (int)w * SEQUENCE + i);
                assert_int_equal(targets[i], tokens[i] + 1);
            }
        }
        assert_int_equal(lone_read(d, n, 1, SEQUENCE, tokens, targets), WEFT_USAGE);
        assert_int_equal(lone_read(d, n - 1, 2, SEQUENCE, tokens, targets), WEFT_USAGE);
        assert_non_null(strstr(lone_why, "data.valid"));
        lone_source()->close(d);
    }
}

TEST(nothing_named_is_no_set)
{
    put_counting(100);
    assert_null(open_set(WEFT_DATA_TRAIN, 1, "", path));
    assert_null(open_set(WEFT_DATA_VALID, 1, path, ""));
    lone_source()->close(NULL);
}

/* One token another, wherever it is in a short file, gives another identity. */
TEST(identity_is_that_of_the_content)
{
    char first[200];
    for (int at = -1; at < 1000; at += 37) {
        image m = lawful(FILE_MAGIC, 1000, 256);
        if (at >= 0)
            m.token[at] ^= 1;
        put_image(&m, 1000);
        weft_dataset *d = open_set(WEFT_DATA_TRAIN, 1, path, "");
        weft_data_info info = {.struct_size = sizeof info};
        assert_int_equal(lone_source()->info(d, 0, &info), WEFT_OK);
        assert_int_equal(info.vocab, 256);
        assert_int_equal(info.samples, 999);
        if (at < 0)
            snprintf(first, sizeof first, "%s", info.identity);
        assert_int_equal(strcmp(first, info.identity) != 0, at >= 0);
        lone_source()->close(d);
    }
    assert_non_null(strstr(first, "1000 tokens of 256 kinds, digest "));
}

TEST(what_is_unknown_is_refused)
{
    put_counting(100);
    weft_dataset *d = open_set(WEFT_DATA_TRAIN, 1, path, ""), *none = NULL;
    int32_t x[10];
    void *const out[] = {x, x}, *module;
    const weft_data_table *t = lone_open(&module)->table;
    weft_read_args args = {
        .struct_size = sizeof args, .count = 1, .sequence = 5, .nfields = 3, .out = out};
    assert_int_equal(t->read(d, &args), WEFT_UNSUPPORTED);
    args.nfields = 2;
    args.flags = 1;
    assert_int_equal(t->read(d, &args), WEFT_UNSUPPORTED);
    args.flags = 0;
    args.sequence = 100;
    lone_clear();
    assert_int_equal(t->read(d, &args), WEFT_USAGE);
    assert_non_null(strstr(lone_why, "a sequence needs 101"));
    const weft_conf conf = lone_conf(NULL);
    weft_data_args how = {.struct_size = sizeof how, .use = 3, .conf = &conf};
    assert_int_equal(t->open(module, &how, &none), WEFT_UNSUPPORTED);
    t->close(d);
    assert_int_equal(lone_blocks, 0);
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
