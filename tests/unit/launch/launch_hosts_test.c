/* Are files of hosts read as their header says, are ranks assigned in order, and do frames arrive
 * as they were sent, however the bytes are cut? */

#include <test.h>

#include "base/err.h"
#include "launch/hosts/frame.h"
#include "launch/hosts/list.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static launch_host_list parse(const char *text)
{
    launch_host_list l;
    assert_int_equal(launch_host_list_parse("f", text, strlen(text), &l), WEFT_OK);
    return l;
}

TEST(test_lines)
{
    launch_host_list l = parse("# all\n a\n\n\tme@b-1.net slots=4#c\nc addr=10.0.0.3 slots=1024\r\n"
                               "[fe80::1%eth0] slots=2");
    assert_int_equal(l.n, 4);
    assert_string_equal(l.at[0].name, "a");
    assert_int_equal(l.at[0].slots, 1);
    assert_int_equal(l.at[0].line, 2);
    assert_string_equal(l.at[1].name, "me@b-1.net");
    assert_int_equal(l.at[1].slots, 4);
    assert_string_equal(l.at[1].addr, "");
    assert_string_equal(l.at[2].addr, "10.0.0.3");
    assert_int_equal(l.at[2].slots, 1024);
    assert_int_equal(l.at[3].line, 6);
    assert_string_equal(l.at[3].name, "fe80::1%eth0");
    assert_int_equal(launch_host_list_slots(&l), 1 + 4 + 1024 + 2);
    launch_host_list_free(&l);
    l = parse("me@[fd00::5] addr=[fd00::6]\na addr=[b]");
    assert_string_equal(l.at[0].name, "me@fd00::5");
    assert_string_equal(l.at[0].addr, "fd00::6");
    assert_string_equal(l.at[1].addr, "[b]");
    launch_host_list_free(&l);
}

TEST(test_refusals)
{
    static const char *const wrong[][2] = {
        {"", "names no host"},
        {"# nothing\n", "names no host"},
        {"a\nb\na slots=2\n", "f:3: a is in line 1"},
        {"-v", "f:1: '-v'"},
        {"a;b", "'a;b'"},
        {"a$(x)", "is not the name"},
        {"a slots=", "'slots='"},
        {"a slots=0", "1 to 1024"},
        {"a slots=1025", "1 to 1024"},
        {"a slots=99999999999999999999", "1 to 1024"},
        {"a slots=-1", "1 to 1024"},
        {"a slots=1x", "1 to 1024"},
        {"a 4", "'4' is neither"},
        {"a addr=", "is not an address"},
        {"a addr=-x", "is not an address"},
    };
    launch_host_list l;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(launch_host_list_parse("f", wrong[i][0], strlen(wrong[i][0]), &l),
                         WEFT_USAGE);
        assert_non_null(strstr(err_text(), wrong[i][1]));
        assert_null(l.at);
    }
    assert_int_equal(launch_host_list_parse("f", "a\0b", 3, &l), WEFT_USAGE);
    char longest[HOST_NAME_MAX_BYTES + 1];
    memset(longest, 'a', sizeof longest);
    assert_int_equal(launch_host_list_parse("f", longest, sizeof longest - 1, &l), WEFT_USAGE);
    assert_int_equal(launch_host_list_parse("f", longest, sizeof longest - 2, &l), WEFT_OK);
    launch_host_list_free(&l);
}

TEST(test_many)
{
    const size_t capacity = 16 * (HOSTS_MAX + 1);
    char *text = malloc(capacity), *at = text;
    launch_host_list l;
    for (uint32_t i = 0; i < HOSTS_MAX; i++)
        at += snprintf(at, capacity - (size_t)(at - text), "h%u\n", i);
    assert_int_equal(launch_host_list_parse("f", text, (size_t)(at - text), &l), WEFT_OK);
    assert_int_equal(l.n, HOSTS_MAX);
    launch_host_list_free(&l);
    at += snprintf(at, capacity - (size_t)(at - text), "more\n");
    assert_int_equal(launch_host_list_parse("f", text, (size_t)(at - text), &l), WEFT_USAGE);
    free(text);
}

TEST(test_assign)
{
    launch_host_list l = parse("a slots=2\nb slots=3\nc slots=2\n");
    launch_host_list_assign(&l, 4);
    assert_int_equal(l.at[0].count, 2);
    assert_int_equal(l.at[1].first, 2);
    assert_int_equal(l.at[1].count, 2);
    assert_int_equal(l.at[2].count, 0);
    l.at[0].lost = true;
    assert_int_equal(launch_host_list_slots(&l), 5);
    launch_host_list_assign(&l, 4);
    assert_int_equal(l.at[0].count, 0);
    assert_int_equal(l.at[1].first, 0);
    assert_int_equal(l.at[1].count, 3);
    assert_int_equal(l.at[2].first, 3);
    assert_int_equal(l.at[2].count, 1);
    launch_host_list_free(&l);
}

/* --- frames --- */

typedef struct pair {
    launch_frame_link one, two;
    int raw; /* bytes written here arrive at `two` */
} pair;

static void open_pair(pair *p)
{
    int ab[2], ba[2];
    assert_int_equal(pipe(ab) | pipe(ba), 0);
    launch_frame_open(&p->one, ba[0], ab[1]);
    launch_frame_open(&p->two, ab[0], ba[1]);
    p->raw = ab[1];
}

static void close_pair(pair *p)
{
    launch_frame_close(&p->one);
    launch_frame_close(&p->two);
}

TEST(test_frames)
{
    pair p;
    launch_frame f;
    char text[FRAME_TEXT];
    memset(text, 'x', sizeof text);
    open_pair(&p);
    assert_false(launch_frame_receive(&p.two, &f));
    launch_frame_send(&p.one, FRAME_TELL, 1, 2, 3, "abc", 3);
    for (uint32_t i = 0; i < 100; i++) /* more than a pipe holds */
        launch_frame_send(&p.one, FRAME_OUTPUT, i, 0, 0, text, sizeof text);
    launch_frame_send(&p.one, FRAME_OUTPUT, 0, 0, 0, text, sizeof text + 1); /* too long: dropped */
    assert_true(launch_frame_receive(&p.two, &f));
    assert_int_equal(f.kind, FRAME_TELL);
    assert_int_equal(f.from + 10 * f.rank + 100 * f.code, 321);
    assert_string_equal(f.text, "abc");
    for (uint32_t i = 0; i < 100; launch_frame_flush(&p.one)) {
        if (!launch_frame_receive(&p.two, &f))
            continue;
        assert_int_equal(f.from, i++);
        assert_int_equal(f.bytes, sizeof text);
        assert_memory_equal(f.text, text, sizeof text);
    }
    assert_false(launch_frame_receive(&p.two, &f));
    assert_false(p.two.broken);
    close_pair(&p);
}

TEST(test_cut_frames)
{
    pair p;
    launch_frame f;
    const uint32_t header[] = {FRAME_HERE, 0, 0, 1, 2, FRAME_MAGIC};
    char bytes[sizeof header + 2];
    memcpy(bytes, header, sizeof header);
    memcpy(bytes + sizeof header, "hi", 2);
    open_pair(&p);
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_false(launch_frame_receive(&p.two, &f));
        assert_int_equal(write(p.raw, bytes + i, 1), 1);
    }
    assert_true(launch_frame_receive(&p.two, &f));
    assert_string_equal(f.text, "hi");
    launch_frame_close(&p.one); /* the end, in the middle of nothing */
    assert_false(launch_frame_receive(&p.two, &f));
    assert_true(p.two.broken);
    close_pair(&p);
}

TEST(test_foreign_frames)
{
    static const uint32_t wrong[][6] = {
        {FRAME_HERE, 0, 0, 1, 0, FRAME_MAGIC + 1},
        {0, 0, 0, 0, 0, FRAME_MAGIC},
        {FRAME_KINDS, 0, 0, 0, 0, FRAME_MAGIC},
        {FRAME_HERE, 0, 0, 1, FRAME_TEXT + 1, FRAME_MAGIC},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pair p;
        launch_frame f;
        open_pair(&p);
        assert_int_equal(write(p.raw, wrong[i], sizeof wrong[i]), sizeof wrong[i]);
        assert_false(launch_frame_receive(&p.two, &f));
        assert_true(p.two.broken);
        close_pair(&p);
    }
}
