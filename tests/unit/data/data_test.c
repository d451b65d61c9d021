/* Are token files checked before use, and are samples the same however they are asked for? */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#include <cmocka.h>

#include "base/number/rng.h"
#include "data/data.h"

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
    uint32_t word[DATA_HEADER_WORDS];
    uint16_t token[1000];
} image;

static image lawful(uint32_t magic, uint32_t count, uint32_t vocab)
{
    image m = {.word = {magic, 1, count, magic == DATA_MAGIC ? vocab : 0}};
    for (uint32_t i = 0; i < count; i++)
        m.token[i] = (uint16_t)(i * 7 % vocab);
    return m;
}

static void put_image(const image *m, uint32_t tokens)
{
    put(m, sizeof m->word + tokens * sizeof *m->token);
}

static void refused(weft_status want, const char *word)
{
    data_file f = {.count = 12345};
    err_clear();
    assert_int_equal(data_open(path, &f), want);
    assert_int_equal(err_exit_code(want), 2);
    assert_int_equal(f.count, 12345); /* results are written on success alone */
    if (!strstr(err_text(), word) || !strstr(err_text(), folder))
        fail_msg("'%s' does not speak of '%s' and the file", err_text(), word);
}

static void reads_both_formats(void **state)
{
    (void)state;
    data_file f;
    image m = lawful(DATA_MAGIC_GPT2, 900, DATA_VOCAB_GPT2);
    m.token[899] = 50256;
    put_image(&m, 900);
    assert_int_equal(data_open(path, &f), WEFT_OK);
    assert_int_equal(f.vocab, 50257);
    assert_int_equal(f.count, 900);
    assert_memory_equal(f.tokens, m.token, 1800);
    data_close(&f);
    data_close(&f); /* closing twice is harmless */

    m = lawful(DATA_MAGIC, 1, 1);
    put_image(&m, 1);
    assert_int_equal(data_open(path, &f), WEFT_OK);
    assert_int_equal(f.vocab, 1);
    assert_int_equal(f.count, 1);
    data_close(&f);
}

static void refuses_what_is_no_file(void **state)
{
    (void)state;
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

static void refuses_foreign_headers(void **state)
{
    (void)state;
    image m = lawful(DATA_MAGIC, 100, 256);
    m.word[0] = __builtin_bswap32(DATA_MAGIC);
    put_image(&m, 100);
    refused(WEFT_DATA, "big-endian");
    m.word[0] = __builtin_bswap32(DATA_MAGIC_GPT2);
    put_image(&m, 100);
    refused(WEFT_DATA, "big-endian");
    m.word[0] = 20240801; /* another public format, of 32-bit tokens */
    put_image(&m, 100);
    refused(WEFT_DATA, "not a token file");
    m = lawful(DATA_MAGIC, 100, 256);
    m.word[1] = 2;
    put_image(&m, 100);
    refused(WEFT_UNSUPPORTED, "version 2");
    m = lawful(DATA_MAGIC, 100, 256);
    m.word[3] = 0;
    put_image(&m, 100);
    refused(WEFT_DATA, "vocabulary of 0");
    m.word[3] = 65537;
    put_image(&m, 100);
    refused(WEFT_DATA, "vocabulary of 65537");
    m = lawful(DATA_MAGIC, 0, 256);
    put_image(&m, 0);
    refused(WEFT_DATA, "no tokens");
}

static void refuses_wrong_lengths(void **state)
{
    (void)state;
    image m = lawful(DATA_MAGIC, 100, 256);
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
static void tokens_out_of_range_are_not_handed_out(void **state)
{
    (void)state;
    enum { LENGTH = 9, COUNT = 100 };
    int32_t tokens[LENGTH], targets[LENGTH];
    char where[64];
    for (uint32_t at = 0; at < COUNT; at++) {
        image m = lawful(DATA_MAGIC, COUNT, 200);
        data_file f;
        m.token[(at + 50) % COUNT] = 199;
        m.token[at] = at % 2 ? 200 : 65535;
        put_image(&m, COUNT);
        assert_int_equal(data_open(path, &f), WEFT_OK);
        snprintf(where, sizeof where,
                 "token number %" PRIu32 " is %d, outside its vocabulary of 200", at, m.token[at]);
        for (uint64_t w = 0; w < data_windows(&f, LENGTH); w++) {
            bool in = at >= w * LENGTH && at <= (w + 1) * LENGTH;
            weft_status st = data_window(&f, w, LENGTH, tokens, targets);
            assert_int_equal(st, in ? WEFT_DATA : WEFT_OK);
            if (in && (!strstr(err_text(), where) || !strstr(err_text(), folder)))
                fail_msg("'%s' does not say '%s'", err_text(), where);
        }
        for (uint64_t s = 0; s < 50; s++) {
            uint64_t start = rng_below(rng_key(3, "data.order"), s, COUNT - LENGTH);
            bool in = at >= start && at <= start + LENGTH;
            assert_int_equal(data_samples(&f, 3, s, 1, LENGTH, tokens, targets),
                             in ? WEFT_DATA : WEFT_OK);
        }
        data_close(&f);
    }
}

/* A file of 64 MiB, none of which was in memory: only its beginning comes. */
static void opening_reads_the_header_alone(void **state)
{
    (void)state;
    enum { COUNT = 32 << 20 };
    image m = lawful(DATA_MAGIC, 1, 256);
    m.word[2] = COUNT;
    put(&m, sizeof m.word);
    assert_int_equal(truncate(path, sizeof m.word + 2 * (off_t)COUNT), 0);
    data_file f;
    assert_int_equal(data_open(path, &f), WEFT_OK);
    uint64_t pages = (f.map_bytes + 4095) / 4096, there = 0;
    unsigned char *in = malloc(pages);
    assert_non_null(in);
    assert_int_equal(mincore(f.map, f.map_bytes, in), 0);
    for (uint64_t i = 0; i < pages; i++)
        there += in[i] & 1;
    assert_true(there < pages / 4);
    free(in);
    data_close(&f);
    unlink(path);
}

/* A file in which token i is i, so that a window shows where it began. */
static data_file counting(uint32_t count)
{
    image m = {.word = {DATA_MAGIC, 1, count, 65536}};
    for (uint32_t i = 0; i < count; i++)
        m.token[i] = (uint16_t)i;
    put_image(&m, count);
    data_file f;
    assert_int_equal(data_open(path, &f), WEFT_OK);
    return f;
}

enum { SEQUENCE = 13, SAMPLES = 60 };

static void order_is_that_of_the_sample_number(void **state)
{
    (void)state;
    data_file f = counting(1000);
    int32_t all[2][SAMPLES][SEQUENCE], part[2][SAMPLES][SEQUENCE];
    assert_int_equal(data_samples(&f, 5, 1000, SAMPLES, SEQUENCE, all[0][0], all[1][0]), WEFT_OK);
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
            assert_int_equal(data_samples(&f, 5, 1000 + (uint64_t)s, (uint64_t)n, SEQUENCE,
                                          part[0][s], part[1][s]),
                             WEFT_OK);
        }
        assert_memory_equal(part, all, sizeof all);
    }
    assert_int_equal(data_samples(&f, 6, 1000, SAMPLES, SEQUENCE, part[0][0], part[1][0]), WEFT_OK);
    assert_memory_not_equal(part, all, sizeof all); /* another seed, another order */
    data_close(&f);
}

static void every_start_occurs(void **state)
{
    (void)state;
    data_file f = counting(SEQUENCE + 4);
    int seen[8] = {0};
    for (uint64_t s = 0; s < 400; s++) {
        int32_t tokens[SEQUENCE], targets[SEQUENCE];
        assert_int_equal(data_samples(&f, 1, s, 1, SEQUENCE, tokens, targets), WEFT_OK);
        assert_in_range(tokens[0], 0, 3);
        seen[tokens[0]]++;
        assert_true(targets[SEQUENCE - 1] < SEQUENCE + 4);
    }
    for (int i = 0; i < 4; i++) /* 400 draws of 4: each about 100 */
        assert_in_range(seen[i], 60, 140);
    data_close(&f);
}

static void windows_are_fixed_and_apart(void **state)
{
    (void)state;
    for (uint32_t count = 1; count < 60; count++) {
        data_file f = counting(count);
        uint64_t n = data_windows(&f, SEQUENCE);
        assert_int_equal(n, (count - 1) / SEQUENCE);
        for (uint64_t w = 0; w < n; w++) {
            int32_t tokens[SEQUENCE], targets[SEQUENCE];
            assert_int_equal(data_window(&f, w, SEQUENCE, tokens, targets), WEFT_OK);
            for (int i = 0; i < SEQUENCE; i++) {
                assert_int_equal(tokens[i], (int)w * SEQUENCE + i);
                assert_int_equal(targets[i], tokens[i] + 1);
            }
        }
        weft_status st = data_require(&f, SEQUENCE);
        assert_int_equal(st, count > SEQUENCE ? WEFT_OK : WEFT_USAGE);
        data_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_both_formats),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(refuses_foreign_headers),
        cmocka_unit_test(refuses_wrong_lengths),
        cmocka_unit_test(tokens_out_of_range_are_not_handed_out),
        cmocka_unit_test(opening_reads_the_header_alone),
        cmocka_unit_test(order_is_that_of_the_sample_number),
        cmocka_unit_test(every_start_occurs),
        cmocka_unit_test(windows_are_fixed_and_apart),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
