/* stream_test.c: text that is written as it is made: whole characters, and nothing from a text to
 * stop at on. */
#include "saved/stream.h"

#include <stdlib.h>
#include <string.h>

#include <test.h>

#include "base/number/rng.h"

/* The text of `bytes` in pieces of `each`; *stopped: a text to stop at was found. */
static char *streamed(const char *bytes, size_t n, size_t each, const char *const *stop,
                      uint32_t nstop, bool *stopped)
{
    saved_stream s = {.stop = stop, .nstop = nstop, .keep = true};
    *stopped = false;
    for (size_t at = 0; at < n && !*stopped; at += each) {
        *stopped = saved_stream_add(&s, bytes + at, n - at < each ? n - at : each);
        for (size_t i = 0; i < s.text.n;) { /* never half a character */
            const int length = saved_stream_character(s.text.at + i, s.text.n - i);
            assert_true(length > 0);
            i += (size_t)length;
        }
    }
    saved_stream_end(&s);
    char *text = malloc(s.text.n + 1);
    memcpy(text, s.text.at ? s.text.at : "", s.text.n);
    text[s.text.n] = 0;
    saved_stream_free(&s);
    return text;
}

static void expect(const char *bytes, const char *text)
{
    for (size_t each = 1; each <= strlen(bytes); each++) {
        bool stopped;
        char *got = streamed(bytes, strlen(bytes), each, NULL, 0, &stopped);
        assert_string_equal(got, text);
        assert_false(stopped);
        free(got);
    }
}

/* The replacements are those of Unicode's "maximal subparts", as Python's errors="replace". */
TEST(test_characters)
{
    expect("plain", "plain");
    expect("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
    expect("a\xff"
           "b",
           "a\xef\xbf\xbd"
           "b");
    expect("\xe2\x82", "\xef\xbf\xbd");
    expect("\xe2\x82 x", "\xef\xbf\xbd x");
    expect("\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd");
    expect("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    expect("\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    expect("\xf0\x9f\x98z", "\xef\xbf\xbdz");
}

TEST(test_stops)
{
    static const char *const stops[] = {"END", "\n\n", "ENOUGH"};
    static const struct {
        const char *bytes, *text;
        bool stops;
    } cases[] = {
        {"one END two", "one ", true}, {"one EN", "one EN", false},
        {"one ENE", "one ENE", false}, {"EENEND", "EEN", true},
        {"a\nb\n\nc", "a\nb", true},   {"ENOUGH", "", true},
        {"\n", "\n", false},           {"\xe2\x82\n\n", "\xef\xbf\xbd", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t each = 1; each < 8; each++) {
            bool stopped;
            char *got = streamed(cases[i].bytes, strlen(cases[i].bytes), each, stops, 3, &stopped);
            assert_string_equal(got, cases[i].text);
            assert_int_equal(stopped, cases[i].stops);
            free(got);
        }
}

/* Any bytes, in any pieces, give the same text. */
TEST(test_any_bytes)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        char bytes[64];
        bool stopped;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)("\xe2\x82\xac\xf0\x9f\x98\x80 a\xff\xc3\xed\xa0"[(
                size_t)(rng_uniform(rng_key(seed, "bytes"), i) * 13)]);
        char *whole = streamed(bytes, sizeof bytes, sizeof bytes, NULL, 0, &stopped);
        for (size_t each = 1; each < 9; each++) {
            char *parts = streamed(bytes, sizeof bytes, each, NULL, 0, &stopped);
            assert_string_equal(parts, whole);
            free(parts);
        }
        free(whole);
    }
}
