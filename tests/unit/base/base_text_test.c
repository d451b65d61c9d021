/* Numbers as text: what is read, where reading ends, and what is refused. */
#include <string.h>

#include "base/number/check.h"
#include "base/number/hex.h"

#include <test.h>

static void reads(const char *text, uint64_t max, uint64_t wanted, const char *rest)
{
    uint64_t v = 0;
    assert_true(check_number(&text, max, &v));
    assert_true(v == wanted);
    assert_string_equal(text, rest);
}

TEST(numbers)
{
    reads("0", 0, 0, "");
    reads("007,8", 7, 7, ",8");
    reads("65535:", 65535, 65535, ":");
    reads("18446744073709551615", UINT64_MAX, UINT64_MAX, "");
    static const char *const bad[] = {"", " 1", "+1", "-1", "x", "65536", "18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *at = bad[i];
        uint64_t v;
        assert_false(check_number(&at, 65535, &v));
        assert_ptr_equal(at, bad[i]);
    }
}

TEST(bytes_as_digits)
{
    const uint8_t bytes[] = {0x00, 0x0f, 0xf0, 0x9a, 0xff};
    uint8_t back[sizeof bytes], kept[sizeof bytes];
    char text[2 * sizeof bytes + 1];
    hex_write(bytes, sizeof bytes, text);
    assert_string_equal(text, "000ff09aff");
    assert_true(hex_parse(text, sizeof bytes, back));
    assert_memory_equal(back, bytes, sizeof bytes);
    assert_true(hex_parse("000FF09aFf and more", sizeof bytes, back));
    assert_memory_equal(back, bytes, sizeof bytes);
    static const char *const bad[] = {"", "000ff09af", "000ff09afg", "0x0ff09aff", "000ff 9aff"};
    memset(kept, 7, sizeof kept);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(back, 7, sizeof back);
        assert_false(hex_parse(bad[i], sizeof bytes, back));
        assert_memory_equal(back, kept, sizeof kept);
    }
}
