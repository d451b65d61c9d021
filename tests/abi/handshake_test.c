/* handshake_test.c: messages of weft/handshake.h, lawful and hostile, and its times. */
#include <string.h>

#include <test.h>

#include <weft/handshake.h>

static const char magic[] = "tstH";

/* Message and bytes are each other's inverse, at known places. */
TEST(messages_have_one_form)
{
    static const uint8_t form[WEFT_HANDSHAKE_BYTES] = {
        't', 's', 't', 'H', 1, 0, 0, 0, 0x04, 0x03, 0x02, 0x01, 7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    const weft_handshake h = {1, 0x01020304, 7, UINT32_MAX};
    uint8_t bytes[WEFT_HANDSHAKE_BYTES];
    weft_handshake got;
    memset(bytes, 0xaa, sizeof bytes);
    weft_handshake_write(bytes, magic, &h);
    assert_memory_equal(bytes, form, sizeof form);
    assert_int_equal(weft_handshake_read(bytes, magic, &got), WEFT_OK);
    assert_memory_equal(&got, &h, sizeof h);
}

/* A wrong magic, whichever bit it is, is no message, and nothing is written. */
TEST(strangers_are_seen)
{
    const weft_handshake h = {0, 3, 1, 2}, before = {9, 9, 9, 9};
    uint8_t bytes[WEFT_HANDSHAKE_BYTES];
    for (uint32_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        weft_handshake got = before;
        weft_handshake_write(bytes, magic, &h);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const weft_status st = weft_handshake_read(bytes, magic, &got);
        assert_int_equal(st, bit < 32 ? WEFT_DATA : WEFT_OK);
        if (st != WEFT_OK)
            assert_memory_equal(&got, &before, sizeof got);
    }
}

/* Only ranks above the listener's dial it, and only ranks of the job. */
TEST(only_higher_ranks_dial)
{
    static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, UINT32_MAX};
    for (size_t i = 0; i < 7; i++)
        for (size_t k = 0; k < 7; k++) {
            const weft_handshake h = {0, ranks[i], ranks[k], 0};
            assert_int_equal(weft_handshake_expected(&h, 1, 4),
                             ranks[k] == 1 && (ranks[i] == 2 || ranks[i] == 3));
        }
}

TEST(labels_differ)
{
    char label[32], small[32];
    volatile size_t room = 8;
    weft_handshake_label(label, sizeof label, "tcp", "job", 12);
    assert_string_equal(label, "weft.tcp job 12");
    weft_handshake_label(small, room, "tcp", "job", 12); /* cut, and ended */
    assert_string_equal(small, "weft.tc");
}

TEST(times_are_bounded)
{
    assert_int_equal(weft_handshake_pause_us(0), 5000);
    assert_int_equal(weft_handshake_pause_us(3), 40000);
    assert_int_equal(weft_handshake_pause_us(UINT32_MAX), 640000);
    assert_int_equal(weft_handshake_answer_us(0), 1000000);
    assert_int_equal(weft_handshake_answer_us(UINT32_MAX), 8000000);
    static const struct {
        uint64_t age;
        int heard, crowded, evictable;
    } row[] = {{24, 0, 0, 0},  {25, 0, 0, 1},  {24, 0, 1, 0}, {25, 0, 1, 1},
               {249, 1, 0, 0}, {250, 1, 0, 1}, {24, 1, 1, 0}, {25, 1, 1, 1}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(weft_handshake_evictable(row[i].age, row[i].heard, row[i].crowded),
                         row[i].evictable);
}
