/* Are several files one data set, and is every sample drawn exactly once an epoch of each set? */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <test.h>

#include "file.h"
#include "patience.h"
#include "sets.h"

enum { SEQUENCE = 7 };

/* A number below n of a stream of its own. */
static uint64_t state_of = 1234567;
static uint64_t number(uint64_t below)
{
    state_of = state_of * 6364136223846793005ull + 1442695040888963407ull;
    return (state_of >> 33) % below;
}

/* 3 epochs of all samples, asked for in batches as a job of any number of data-parallel ranks does,
 * which is stopped and resumed with another number: each sample once an epoch. */
TEST(every_sample_once_an_epoch)
{
    for (int turn = 0; turn < 30; turn++) {
        const uint64_t tokens = 2 + SEQUENCE + number(900), windows = (tokens - 1) / SEQUENCE;
        const uint64_t all = 3 * windows;
        uint8_t *seen = calloc(all, 1);
        sets_count("one.bin", SETS_16, 0, tokens);
        for (uint64_t at = 0; at < all;) { /* a run, up to where it is stopped */
            const uint64_t ranks = 1 + number(5), micro = 1 + number(4), until = 1 + number(all);
            weft_dataset *d[5];
            for (uint64_t r = 0; r < ranks; r++) {
                d[r] = sets_must((sets_open){.train = "one.bin", .seed = 21});
                assert_int_equal(sets_info(d[r], SEQUENCE).samples, windows);
            }
            for (; at < until && at < all; at += ranks * micro)
                for (uint64_t r = 0; r < ranks; r++)
                    for (uint64_t k = 0; k < micro; k++) {
                        const uint64_t sample = at + r * micro + k;
                        const int32_t start = sets_start(d[r], sample, SEQUENCE);
                        assert_int_equal(start % SEQUENCE, 0);
                        if (sample < all)
                            assert_int_equal(
                                seen[sample / windows * windows + (uint64_t)start / SEQUENCE]++, 0);
                    }
            for (uint64_t r = 0; r < ranks; r++)
                lone_source()->close(d[r]);
        }
        for (uint64_t i = 0; i < all; i++)
            assert_int_equal(seen[i], 1);
        free(seen);
    }
}

TEST(epochs_and_seeds_differ)
{
    int same_epoch = 0, same_seed = 0;
    sets_count("one.bin", SETS_16, 0, 50 * SEQUENCE + 1);
    weft_dataset *a = sets_must((sets_open){.train = "one.bin", .seed = 1}),
                 *b = sets_must((sets_open){.train = "one.bin", .seed = 2});
    (void)sets_info(a, SEQUENCE);
    (void)sets_info(b, SEQUENCE);
    for (uint64_t s = 0; s < 50; s++) {
        same_epoch += sets_start(a, s, SEQUENCE) == sets_start(a, s + 50, SEQUENCE);
        same_seed += sets_start(a, s, SEQUENCE) == sets_start(b, s, SEQUENCE);
    }
    assert_in_range(same_epoch, 0, 6); /* 1 of 50 on average */
    assert_in_range(same_seed, 0, 6);
    lone_source()->close(a);
    lone_source()->close(b);
}

/* What two sets say and hand out. */
static void must_be_equal(sets_open one, sets_open other)
{
    weft_dataset *a = sets_must(one), *b = sets_must(other);
    for (uint64_t sequence = 1; sequence <= 40; sequence += 13) {
        const weft_data_info x = sets_info(a, sequence), y = sets_info(b, sequence);
        assert_int_equal(x.samples, y.samples);
        assert_string_equal(x.identity, y.identity);
        for (uint64_t s = 0; s < x.samples; s++)
            assert_int_equal(sets_start(a, s, sequence), sets_start(b, s, sequence));
    }
    lone_source()->close(a);
    lone_source()->close(b);
}

/* Shards by list, folder and pattern; windows lie over the ends of files. */
TEST(shards_are_one_file)
{
    assert_int_equal(mkdir("shards", 0777), 0);
    for (int wide = 0; wide < 2; wide++) {
        const sets_file how = wide ? SETS_32 : SETS_16;
        sets_count("whole.bin", how, 0, 500);
        sets_count("shards/part_01.bin", how, 0, 100);
        sets_count("shards/part_02.bin", how, 100, 1);
        sets_count("shards/part_10.tokens", how, 101, 2);
        sets_count("shards/part_11.bin", how, 103, 397);
        FILE *f = fopen("shards/README", "w");
        assert_non_null(f);
        fclose(f);
        static const char *const names[] = {
            "shards",
            "shards/",
            "shards/*.bin, shards/none.bin",
            "shards/part_*",
            "shards/part_01.bin,shards/part_02.bin , shards/part_1?.*",
            "./shards/part_[01]*"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (i == 2)
                continue;
            must_be_equal((sets_open){.train = "whole.bin"}, (sets_open){.train = names[i]});
            must_be_equal((sets_open){.valid = "whole.bin"}, (sets_open){.valid = names[i]});
        }
        sets_refused((sets_open){.train = names[2]}, WEFT_USAGE, "shards/none.bin");
    }
}

/* llm.c's files, of both versions, next to ours with the same tokens. */
TEST(files_of_llm_c_are_equal)
{
    sets_file ours = SETS_16, wide = SETS_32;
    ours.vocab = 50257;
    wide.vocab = 128256;
    sets_count("ours.bin", ours, 0, 3000);
    sets_count("gpt2.bin", SETS_GPT2, 0, 3000);
    must_be_equal((sets_open){.train = "ours.bin"}, (sets_open){.train = "gpt2.bin"});
    sets_count("ours32.bin", wide, 100000, 3000);
    sets_count("llama3.bin", SETS_LLAMA3, 100000, 3000);
    must_be_equal((sets_open){.train = "ours32.bin"}, (sets_open){.train = "llama3.bin"});
    int32_t x[9], y[9]; /* an id of 32 bits that is outside */
    sets_count("high.bin", SETS_32, 200000 - 99, 100);
    weft_dataset *d = sets_must((sets_open){.valid = "high.bin"});
    assert_int_equal(sets_info(d, 9).samples, 11);
    assert_int_equal(sets_read(d, 9, 9, x, y, NULL, 2), WEFT_OK);
    assert_int_equal(y[8], 200000 - 9);
    assert_int_equal(sets_read(d, 10, 9, x, y, NULL, 2), WEFT_DATA);
    assert_non_null(strstr(lone_why, "high.bin: token number 99 is 200000"));
    lone_source()->close(d);
    sets_refused((sets_open){.train = "gpt2.bin, llama3.bin"}, WEFT_USAGE,
                 "llama3.bin has a vocabulary of 128256, and gpt2.bin one of 50257");
}

/* A name that holds a comma, a colon or a star is a name, if it is one. */
TEST(strange_names_are_files)
{
    static const char *const names[] = {"a,b.bin", "c:3", "d*.bin", "e:0.5"};
    sets_count("whole.bin", SETS_16, 0, 100);
    for (size_t i = 0; i < 4; i++) {
        sets_count(names[i], SETS_16, 0, 100);
        must_be_equal((sets_open){.train = "whole.bin"}, (sets_open){.train = names[i]});
    }
}

/* Each set of a mixture has its share, and its own epochs. */
TEST(mixtures_have_epochs_of_their_own)
{
    enum { A = 40, B = 17, C = 5, SAMPLES = 4000 };
    static const double share[] = {0.5, 0.3, 0.2};
    static const uint64_t windows[] = {A, B, C};
    int32_t *seen = calloc(3 * SAMPLES, sizeof *seen);
    uint64_t had[3] = {0};
    sets_count("a.bin", SETS_16, 0, A * SEQUENCE + 3);
    sets_count("b.bin", SETS_16, 10000, B * SEQUENCE + 1);
    sets_count("c.bin", SETS_16, 20000, C * SEQUENCE + 6);
    weft_dataset *d = sets_must((sets_open){.train = "a.bin:0.5, b.bin:0.3,c.bin : .2"});
    const weft_data_info info = sets_info(d, SEQUENCE);
    assert_int_equal(info.samples, A + B + C);
    assert_non_null(strstr(info.identity, "a mixture of 3 sets, 444 tokens of 60000 kinds, "));
    for (uint64_t s = 0; s < SAMPLES; s++) {
        const int32_t start = sets_start(d, s, SEQUENCE), set = start / 10000;
        const uint64_t epoch = had[set] / windows[set],
                       window = (uint64_t)(start % 10000) / SEQUENCE;
        assert_int_equal(seen[(uint64_t)set * SAMPLES + epoch * windows[set] + window]++, 0);
        had[set]++;
        for (int k = 0; k < 3; k++) {
            const double off = (double)had[k] - share[k] * (double)(s + 1);
            assert_true(off < 1 && off > -1);
        }
    }
    /* the order of names and the scale of weights: the first alone is the same mixture */
    weft_dataset *e = sets_must((sets_open){.train = "a.bin:5, b.bin:3, c.bin:2"}),
                 *f = sets_must((sets_open){.train = "a.bin:5, b.bin:2, c.bin:3"});
    assert_string_equal(sets_info(e, SEQUENCE).identity, info.identity);
    assert_string_not_equal(sets_info(f, SEQUENCE).identity, sets_info(e, SEQUENCE).identity);
    lone_source()->close(d);
    lone_source()->close(e);
    lone_source()->close(f);
    free(seen);
    assert_int_equal(lone_blocks, 0);
}

TEST(wrong_lists_are_refused)
{
    char list[9000];
    sets_count("a.bin", SETS_16, 0, 100);
    sets_count("b.bin", SETS_16, 0, 100);
    sets_count("short.bin", SETS_16, 0, SEQUENCE);
    mkdir("empty", 0777);
    sets_refused((sets_open){.train = "a.bin:0.5, b.bin"}, WEFT_USAGE, "some have none");
    sets_refused((sets_open){.train = "a.bin, b.bin:1"}, WEFT_USAGE, "some have none");
    sets_refused((sets_open){.train = "a.bin:0, b.bin:1"}, WEFT_USAGE, "weights are above 0");
    sets_refused((sets_open){.train = "a.bin:0.1234567, b.bin:1"}, WEFT_USAGE, "at most 6 digits");
    sets_refused((sets_open){.train = "a.bin:1000001, b.bin:1"}, WEFT_USAGE, "at most 1000000");
    sets_refused((sets_open){.train = "a.bin:999999, b.bin:999998"}, WEFT_USAGE, "fewer digits");
    sets_refused((sets_open){.train = "a.bin:-1, b.bin:1"}, WEFT_USAGE, "some have none");
    sets_refused((sets_open){.train = "a.bin,,b.bin"}, WEFT_USAGE, "is empty");
    sets_refused((sets_open){.train = "a.bin,"}, WEFT_USAGE, "is empty");
    sets_refused((sets_open){.train = ":0.5, a.bin:0.5"}, WEFT_USAGE, "is empty");
    sets_refused((sets_open){.train = "empty"}, WEFT_USAGE, "has no file NAME.bin");
    sets_refused((sets_open){.train = "none*.bin"}, WEFT_USAGE,
                 "no file has a name like none*.bin");
    sets_refused((sets_open){.train = "none.bin"}, WEFT_USAGE,
                 "none.bin cannot be read: No such file");
    sets_refused((sets_open){.valid = "a.bin:0.5, b.bin:0.5"}, WEFT_USAGE,
                 "weights are for training");
    sets_refused((sets_open){.train = "a.bin:1, b.bin:1", .order = "starts"}, WEFT_USAGE,
                 "had no mixtures");
    memset(list, 'x', sizeof list);
    list[sizeof list - 1] = 0;
    sets_refused((sets_open){.train = list}, WEFT_USAGE, "longer than 4095 bytes");
    size_t n = 0;
    for (int i = 0; i < 65; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%sa.bin:1", i ? "," : "");
    sets_refused((sets_open){.train = list}, WEFT_USAGE, "more than 64 data sets");
    weft_dataset *d = sets_must((sets_open){.train = "a.bin:1, short.bin:1"});
    weft_data_info info = {.struct_size = sizeof info};
    assert_int_equal(lone_source()->info(d, SEQUENCE, &info), WEFT_USAGE);
    assert_non_null(strstr(lone_why, "short.bin has 7 tokens; a sequence needs 8"));
    lone_source()->close(d);
}

/* A job of 0.1 goes on with its order, and says what it is by its identity. */
TEST(old_checkpoints_keep_their_order)
{
    char before[300], now[300];
    sets_count("one.bin", SETS_16, 0, 400);
    weft_dataset *d = sets_must((sets_open){.train = "one.bin", .order = "starts", .seed = 4}),
                 *e = sets_must((sets_open){.train = "one.bin", .seed = 4});
    snprintf(before, sizeof before, "%s", sets_info(d, SEQUENCE).identity);
    snprintf(now, sizeof now, "%s", sets_info(e, SEQUENCE).identity);
    assert_int_equal(strncmp(now, "epochs of ", 10), 0);
    assert_string_equal(now + 10, before);
    weft_dataset *f = sets_must((sets_open){.train = "one.bin", .seed = 4, .resumes = before}),
                 *g = sets_must((sets_open){.train = "one.bin", .seed = 4, .resumes = now});
    assert_string_equal(sets_info(f, SEQUENCE).identity, before);
    assert_string_equal(sets_info(g, SEQUENCE).identity, now);
    weft_dataset *h =
        sets_must((sets_open){.train = "one.bin", .seed = 4, .order = "epochs", .resumes = before});
    assert_string_equal(sets_info(h, SEQUENCE).identity, now); /* the job asks for another */
    lone_source()->close(h);
    h = sets_must((sets_open){.train = "one.bin", .seed = 4, .resumes = ""}); /* of the first 0.1 */
    assert_string_equal(sets_info(h, SEQUENCE).identity, before);
    lone_source()->close(h);
    h = sets_must((sets_open){.train = "one.bin:1", .seed = 4, .resumes = before});
    assert_non_null(strstr(sets_info(h, SEQUENCE).identity, "epochs of a mixture of 1 sets"));
    lone_source()->close(h);
    int differ = 0;
    for (uint64_t s = 0; s < 50; s++) {
        assert_int_equal(sets_start(f, s, SEQUENCE), sets_start(d, s, SEQUENCE));
        assert_int_equal(sets_start(g, s, SEQUENCE), sets_start(e, s, SEQUENCE));
        differ += sets_start(d, s, SEQUENCE) != sets_start(e, s, SEQUENCE);
    }
    assert_in_range(differ, 40, 50);
    lone_source()->close(d);
    lone_source()->close(e);
    lone_source()->close(f);
    lone_source()->close(g);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* 10 GiB in two files without content: opened, described and read from everywhere at once. */
TEST(large_files_open_at_once)
{
    static const uint64_t tokens = (uint64_t)5 << 29;
    int32_t x[32], y[32];
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "large_2.bin" : "large_1.bin";
        sets_count(name, SETS_16, 0, 1);
        const int fd = open(name, O_WRONLY);
        const uint32_t n = (uint32_t)tokens;
        assert_true(fd >= 0 && pwrite(fd, &n, 4, 8) == 4);
        assert_int_equal(ftruncate(fd, (off_t)(1024 + 2 * tokens)), 0);
        close(fd);
    }
    const double begin = seconds();
    weft_dataset *d = sets_must((sets_open){.train = "large_*.bin"});
    assert_int_equal(sets_info(d, 32).samples, (2 * tokens - 1) / 32);
    for (uint64_t s = 0; s < 20; s++)
        assert_int_equal(sets_read(d, s * 9999991, 32, x, y, NULL, 2), WEFT_OK);
    lone_source()->close(d);
    assert_true((seconds() - begin) * 1000 < (double)patience(5000));
    unlink("large_1.bin");
    unlink("large_2.bin");
}

int main(void)
{
    return test_run(sets_begin, sets_end);
}
