/* Does a sample say where its documents begin, by an index and by a token, and what becomes of an
 * index that is wrong? */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <test.h>

#include "file.h"
#include "sets.h"

enum { TOKENS = 997, MARK = 7, SEQUENCE = 31 };

static uint64_t state_of = 42;
static uint64_t number(uint64_t below)
{
    state_of = state_of * 6364136223846793005ull + 1442695040888963407ull;
    return (state_of >> 33) % below;
}

/* A text of documents: their ends, and tokens in which MARK is only where `where` says. */
typedef struct text {
    uint32_t token[TOKENS];
    uint64_t end[TOKENS], documents;
} text;

enum { NOWHERE, AT_BEGIN, AT_END };

static text make_text(int where)
{
    text t = {.documents = 0};
    for (uint64_t at = 0; at < TOKENS;) {
        const uint64_t n = 1 + number(number(3) ? 20 : 150);
        t.end[t.documents++] = at + n < TOKENS ? at + n : TOKENS;
        for (uint64_t i = at; i < t.end[t.documents - 1]; i++)
            t.token[i] = 8 + (uint32_t)number(1000);
        if (where == AT_BEGIN)
            t.token[at] = MARK;
        at = t.end[t.documents - 1];
        if (where == AT_END)
            t.token[at - 1] = MARK;
    }
    return t;
}

/* The referee: token by token over the whole text. */
static void must_be(weft_dataset *d, const text *t)
{
    int32_t tokens[SEQUENCE], targets[SEQUENCE], places[SEQUENCE], alone[SEQUENCE];
    const weft_data_info info = sets_info(d, SEQUENCE);
    assert_int_equal(info.nfields, 3);
    assert_string_equal(info.fields[2].name, "document_positions");
    assert_int_equal(info.samples, (TOKENS - 1) / SEQUENCE);
    for (uint64_t w = 0; w < info.samples; w++) {
        assert_int_equal(sets_read(d, w, SEQUENCE, tokens, targets, places, 3), WEFT_OK);
        assert_int_equal(sets_read(d, w, SEQUENCE, NULL, NULL, alone, 3), WEFT_OK);
        assert_memory_equal(places, alone, sizeof places);
        for (uint64_t i = 0; i < SEQUENCE; i++) {
            const uint64_t at = w * SEQUENCE + i;
            uint64_t k = 0, begin;
            while (t->end[k] <= at)
                k++;
            begin = k ? t->end[k - 1] : 0;
            begin = begin > w * SEQUENCE ? begin : w * SEQUENCE;
            assert_int_equal(places[i], at - begin);
            assert_int_equal(tokens[i], t->token[at]);
            assert_int_equal(targets[i], t->token[at + 1]); /* also of the next document */
        }
    }
    lone_source()->close(d);
}

TEST(documents_by_index_and_by_token)
{
    for (int turn = 0; turn < 20; turn++)
        for (int wide = 0; wide < 2; wide++) {
            sets_file how = wide ? SETS_32 : SETS_16;
            text t = make_text(NOWHERE);
            how.ends = t.end;
            how.documents = t.documents;
            sets_put("index.bin", how, t.token, TOKENS);
            must_be(sets_must((sets_open){.valid = "index.bin", .documents = "separate"}), &t);
            how.ends = NULL;
            t = make_text(AT_BEGIN);
            sets_put("begin.bin", how, t.token, TOKENS);
            must_be(sets_must((sets_open){
                        .valid = "begin.bin", .documents = "separate", .boundary = "begin:7"}),
                    &t);
            t = make_text(AT_END);
            sets_put("end.bin", how, t.token, TOKENS);
            must_be(sets_must((sets_open){
                        .valid = "end.bin", .documents = "separate", .boundary = "end:7"}),
                    &t);
        }
}

/* An index in each of three shards, whose documents end with their files. */
TEST(documents_of_shards)
{
    for (int turn = 0; turn < 20; turn++) {
        const uint64_t cut[] = {0, 100 + number(300), 500 + number(300), TOKENS};
        text t = make_text(NOWHERE), all = t;
        all.documents = 0;
        for (uint64_t s = 0, k = 0; s < 3; s++) {
            uint64_t ends[TOKENS], n = 0;
            char name[32];
            for (; k < t.documents && t.end[k] < cut[s + 1]; k++)
                if (t.end[k] > cut[s])
                    ends[n++] = t.end[k] - cut[s];
            ends[n++] = cut[s + 1] - cut[s];
            for (uint64_t i = 0; i < n; i++)
                all.end[all.documents++] = cut[s] + ends[i];
            sets_file how = SETS_16;
            how.ends = ends;
            how.documents = n;
            snprintf(name, sizeof name, "shard_%d.bin", (int)s);
            sets_put(name, how, t.token + cut[s], cut[s + 1] - cut[s]);
        }
        must_be(sets_must((sets_open){.valid = "shard_*.bin", .documents = "separate"}), &all);
    }
}

/* llm.c begins each document with a token of its own. */
TEST(llm_c_files_need_no_key)
{
    text t = make_text(AT_BEGIN);
    for (uint64_t i = 0; i < TOKENS; i++)
        t.token[i] = t.token[i] == MARK ? 50256 : t.token[i];
    sets_put("gpt2.bin", SETS_GPT2, t.token, TOKENS);
    must_be(sets_must((sets_open){.valid = "gpt2.bin", .documents = "separate"}), &t);
    for (uint64_t i = 0; i < TOKENS; i++)
        t.token[i] = t.token[i] == 50256 ? 128000 : t.token[i];
    sets_put("llama3.bin", SETS_LLAMA3, t.token, TOKENS);
    must_be(sets_must((sets_open){.valid = "llama3.bin", .documents = "separate"}), &t);
}

TEST(wrong_boundaries_are_refused)
{
    static const char *const wrong[] = {"end",      "end:", "begin:x",         "end:60000",
                                        "begin:-1", "7",    "end:99999999999", "begin:7 "};
    const uint64_t ends[] = {50, 100};
    sets_file how = SETS_16;
    sets_count("plain.bin", SETS_16, 0, 100);
    how.ends = ends;
    how.documents = 2;
    sets_count("index.bin", how, 0, 100);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        sets_refused(
            (sets_open){.train = "plain.bin", .documents = "separate", .boundary = wrong[i]},
            WEFT_USAGE, "auto, index, begin:ID and end:ID are possible");
    sets_refused((sets_open){.train = "plain.bin", .documents = "separate"}, WEFT_USAGE,
                 "plain.bin does not say where its documents end");
    sets_refused((sets_open){.train = "index.bin, plain.bin", .documents = "separate"}, WEFT_USAGE,
                 "plain.bin does not say where its documents end");
    weft_dataset *d = sets_must((sets_open){.train = "index.bin", .documents = "separate"}),
                 *e = sets_must((sets_open){.train = "index.bin"});
    assert_non_null(strstr(sets_info(d, 9).identity, "documents by index "));
    assert_null(strstr(sets_info(e, 9).identity, "documents"));
    lone_source()->close(d);
    lone_source()->close(e);
}

/* Numbers that do not rise, or point outside, wherever they are: an error that names the file, or
 * lawful places. */
TEST(wrong_indices_are_named)
{
    enum { DOCUMENTS = 10, COUNT = 200 };
    for (int turn = 0; turn < 2000; turn++) {
        uint64_t ends[DOCUMENTS];
        int errors = 0, lawful = 1;
        sets_file how = SETS_16;
        how.ends = ends;
        how.documents = DOCUMENTS;
        for (uint64_t i = 0; i < DOCUMENTS; i++)
            ends[i] = (i + 1) * COUNT / DOCUMENTS;
        for (uint64_t i = number(3); i < 3; i++)
            ends[number(DOCUMENTS - 1)] = number(2) ? number(3 * COUNT) : ~number(100);
        for (uint64_t i = 1; i < DOCUMENTS; i++)
            lawful &= ends[i] > ends[i - 1] && ends[0] > 0;
        sets_count("wrong.bin", how, 0, COUNT);
        weft_dataset *d = sets_must((sets_open){.valid = "wrong.bin", .documents = "separate"});
        const uint64_t n = sets_info(d, 9).samples;
        for (uint64_t w = 0; w < n; w++) {
            int32_t tokens[9], targets[9], places[9];
            const weft_status st = sets_read(d, w, 9, tokens, targets, places, 3);
            errors += st != WEFT_OK;
            if (st != WEFT_OK) {
                assert_int_equal(st, WEFT_DATA);
                assert_non_null(strstr(lone_why, "wrong.bin: document number "));
            }
            for (int i = 0; st == WEFT_OK && i < 9; i++)
                assert_in_range(places[i], 0, i);
        }
        assert_int_equal(lawful && errors, 0);
        lone_source()->close(d);
    }
}

static void spoil(uint32_t word, uint32_t value, const char *words)
{
    const uint64_t ends[] = {50, 101};
    sets_file how = SETS_16;
    how.ends = ends;
    how.documents = 2;
    sets_count("wrong.bin", how, 0, 101);
    const int fd = open("wrong.bin", O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, &value, 4, 4 * word) == 4);
    close(fd);
    sets_refused((sets_open){.train = "wrong.bin"}, WEFT_DATA, words);
}

TEST(wrong_headers_are_refused)
{
    spoil(5, 24, "has ids of 24 bits");
    spoil(5, 0, "has ids of 0 bits");
    spoil(5, 32, "truncated or damaged");
    spoil(6, 0, "counts 0 documents");
    spoil(6, 3, "truncated or damaged");
    spoil(6, 102, "counts 102 documents in 101 tokens");
    spoil(7, 1, "counts 4294967298 documents");
    spoil(4, 0x80000000u, "truncated or damaged");
    spoil(2, 102, "the index of documents ends at token 101, but the file has 102 tokens");
    spoil(1, 1, "truncated or damaged");
}

int main(void)
{
    return test_run(sets_begin, sets_end);
}
