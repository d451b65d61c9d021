/* Are messages delivered whole, in order, and none too many? */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Ranks 0 and 1, or rank 0 with itself where the transport carries one rank. `posted` counts what a
 * sent and received, b sent and received. */
typedef struct two {
    node n[2];
    pair p;
    bool alone;
    uint64_t posted[4];
} two;

static void up_with(two *t, const char *key, const char *value)
{
    memset(t, 0, sizeof *t);
    t->alone = rig_alone();
    for (uint32_t r = 0; r < (t->alone ? 1 : 2); r++) {
        node_init(&t->n[r], r, t->alone ? 1 : 2);
        t->n[r].options[0][0] = key;
        t->n[r].options[0][1] = value;
        assert_int_equal(node_open(&t->n[r]), WEFT_OK);
    }
    t->p = pair_up(&t->n[0], &t->n[t->alone ? 0 : 1], 3);
}

static void up(two *t)
{
    up_with(t, NULL, NULL);
}

static void down(two *t)
{
    pair_down(t->p);
    node_close(&t->n[0]);
    if (!t->alone)
        node_close(&t->n[1]);
    assert_int_equal(fake_allocated(), 0);
}

/* One message from a to b, or back. */
static void post(two *t, bool back, const void *from, void *to, uint64_t bytes)
{
    weft_conn *source = back ? t->p.b : t->p.a, *sink = back ? t->p.a : t->p.b;
    assert_int_equal(rig_table->send(source, from, bytes, NULL, 0), WEFT_OK);
    assert_int_equal(rig_table->recv(sink, to, bytes, NULL, 0), WEFT_OK);
    t->posted[back ? 2 : 0]++;
    t->posted[back ? 1 : 3]++;
}

static void finish(two *t)
{
    uint64_t want[4];
    memcpy(want, t->posted, sizeof want);
    if (t->alone) { /* one connection counts both ends */
        want[0] = want[2] = t->posted[0] + t->posted[2];
        want[1] = want[3] = t->posted[1] + t->posted[3];
    }
    pair_finish(t->p, want);
}

static void test_ping_pong(void **state)
{
    two t;
    (void)state;
    up(&t);
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t out = i * 7 + 1, in = 0;
        post(&t, i % 2 != 0, &out, &in, sizeof out);
        finish(&t);
        assert_int_equal(in, out);
    }
    down(&t);
}

static void test_zero_bytes(void **state)
{
    two t;
    uint8_t a = 1, b = 0;
    (void)state;
    up(&t);
    for (int i = 0; i < 100; i++)
        post(&t, false, NULL, NULL, 0), finish(&t);
    post(&t, false, NULL, NULL, 0); /* between others */
    post(&t, false, &a, &b, 1);
    post(&t, false, NULL, NULL, 0);
    finish(&t);
    assert_int_equal(b, 1);
    down(&t);
}

/* Sizes around every border that a transport may have, in one order, in rounds that are posted
 * before anything moves. */
static void test_order_of_many_sizes(void **state)
{
    enum { N = 48 };
    static const uint64_t borders[] = {
        0,   1,    7,    8,    47,    48,    49,    56,    57,    63,    64,     65,    127,
        128, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65537, 262144, 300001};
    enum { BORDERS = sizeof borders / sizeof borders[0] };
    two t;
    uint8_t *out[N], *in[N];
    uint64_t bytes[N];
    (void)state;
    up(&t);
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < N; i++) {
            bytes[i] = borders[(i * (round + 3) + round) % BORDERS];
            out[i] = malloc(bytes[i] + 1);
            in[i] = calloc(1, bytes[i] + 1);
            pattern_fill(out[i], bytes[i], (uint64_t)(i + 100 * round));
            post(&t, i % 3 == 0, out[i], in[i], bytes[i]);
            if (t.alone) /* one queue both ways: k-th send meets k-th receive all the same */
                finish(&t);
        }
        finish(&t);
        for (int i = 0; i < N; i++) {
            assert_true(pattern_holds(in[i], bytes[i], (uint64_t)(i + 100 * round)));
            assert_int_equal(in[i][bytes[i]], 0); /* not a byte more */
            free(out[i]);
            free(in[i]);
        }
    }
    down(&t);
}

static void test_queue_holds_64_both_ways(void **state)
{
    enum { N = 64, BYTES = 3000 };
    two t;
    static uint8_t out[2][N][BYTES], in[2][N][BYTES];
    (void)state;
    up(&t);
    for (int round = 0; round < 3; round++) {
        pattern_fill(out, sizeof out, (uint64_t)round);
        memset(in, 0, sizeof in);
        for (int back = 0; back < (t.alone ? 1 : 2); back++)
            for (int i = 0; i < N; i++)
                post(&t, back, out[back][i], in[back][i], BYTES);
        finish(&t);
        assert_memory_equal(in, out, t.alone ? sizeof in[0] : sizeof in);
    }
    down(&t);
}

/* A queue that is full says so, and takes more after progress. */
static void test_full_queue_is_busy(void **state)
{
    static uint8_t bytes[1 << 16];
    two t;
    uint64_t n = 0, got[4];
    (void)state;
    up(&t);
    weft_status st;
    while ((st = rig_table->recv(t.p.b, bytes, sizeof bytes, NULL, 0)) == WEFT_OK && n < 1000000)
        n++;
    assert_int_equal(st, WEFT_BUSY);
    assert_true(n >= 64);
    for (uint64_t sent = 0; sent < n; sent++)
        while (rig_table->send(t.p.a, bytes, sizeof bytes, NULL, 0) == WEFT_BUSY) {
            assert_int_equal(rig_table->progress(t.p.a, 0, &got[0], &got[1]), WEFT_OK);
            assert_int_equal(rig_table->progress(t.p.b, 0, &got[2], &got[3]), WEFT_OK);
        }
    t.posted[0] = t.posted[3] = n;
    finish(&t);
    post(&t, false, bytes, bytes, 5);
    finish(&t);
    down(&t);
}

/* Both ends send much more than any buffer between them holds before either receives. */
static void long_messages(const char *key, const char *value)
{
    const uint64_t bytes = rig_share(24 << 20) + 5;
    two t;
    uint8_t *out = malloc(bytes), *in[2] = {calloc(1, bytes), calloc(1, bytes)};
    up_with(&t, key, value);
    pattern_fill(out, bytes, 9);
    for (int i = 0; i < 2; i++) {
        post(&t, false, out, in[0], bytes);
        post(&t, true, out, in[1], bytes);
        finish(&t);
    }
    assert_true(pattern_holds(in[0], bytes, 9));
    assert_true(pattern_holds(in[1], bytes, 9));
    down(&t);
    free(out);
    free(in[0]);
    free(in[1]);
}

static void test_long_messages_both_ways(void **state)
{
    (void)state;
    long_messages(NULL, NULL);
}

static void test_long_messages_through_small_buffers(void **state)
{
    static const char *const keys[] = {"sndbuf", "rcvbuf", "ring"};
    int tried = 0;
    (void)state;
    for (int i = 0; i < 3; i++)
        if (rig_has_option(keys[i])) {
            long_messages(keys[i], "64K");
            tried++;
        }
    if (tried == 0)
        skip();
}

/* 2 MiB of memory, seen again and again over more than 2^31 bytes of addresses. */
static uint8_t *folded(uint64_t bytes)
{
    enum { FOLD = 2 << 20 };
    int fd = memfd_create("folded", MFD_CLOEXEC);
    uint8_t *base =
        mmap(NULL, bytes + FOLD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(fd >= 0 && base != MAP_FAILED);
    assert_int_equal(ftruncate(fd, FOLD), 0);
    for (uint64_t at = 0; at < bytes; at += FOLD)
        assert_ptr_equal(
            mmap(base + at, FOLD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
            base + at);
    close(fd);
    return base;
}

static void test_counts_beyond_32_bits(void **state)
{
    const uint64_t bytes = (4ull << 30) + 4099;
    two t;
    (void)state;
    if (SANITIZED)
        skip(); /* shadow memory for 8 GiB of addresses */
    up(&t);
    uint8_t *out = folded(bytes), *in = folded(bytes);
    pattern_fill(out, 2 << 20, 77);
    post(&t, false, out, in, bytes);
    finish(&t);
    /* the last 4099 bytes fell on the fold's beginning, which is the same pattern again */
    assert_true(pattern_holds(in, 2 << 20, 77));
    munmap(out, bytes + (2 << 20));
    munmap(in, bytes + (2 << 20));
    down(&t);
}

static void test_counts_that_differ_are_refused(void **state)
{
    static const uint64_t cases[][2] = {{100, 200}, {200, 100},     {0, 8},
                                        {8, 0},     {70001, 70000}, {3, 900000}};
    static uint8_t out[1 << 20], in[1 << 20];
    char sent[24], expected[24];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        two t;
        up(&t);
        assert_int_equal(rig_table->send(t.p.a, out, cases[i][0], NULL, 0), WEFT_OK);
        assert_int_equal(rig_table->recv(t.p.b, in, cases[i][1], NULL, 0), WEFT_OK);
        weft_status st = WEFT_OK;
        uint64_t a, b;
        for (double until = rig_now() + rig_patience(); st == WEFT_OK && rig_now() < until;) {
            if (!t.alone)
                assert_int_equal(rig_table->progress(t.p.a, 0, &a, &b), WEFT_OK);
            st = rig_table->progress(t.p.b, 0, &a, &b);
        }
        assert_int_equal(st, WEFT_PEER);
        snprintf(sent, sizeof sent, "%d bytes", (int)cases[i][0]);
        snprintf(expected, sizeof expected, "%d", (int)cases[i][1]);
        assert_non_null(strstr(fake_why(), sent));
        assert_non_null(strstr(fake_why(), expected));
        down(&t);
    }
}

/* Connections do not mix, and each gets its share while others are busy. */
static void test_channels_apart(void **state)
{
    enum { CHANNELS = 5 };
    const uint64_t bytes = rig_share(3 << 20);
    node n[2];
    pair p[CHANNELS];
    uint8_t *out[CHANNELS], *in[CHANNELS];
    bool alone = rig_alone();
    (void)state;
    nodes_up(n, alone ? 1 : 2);
    for (uint32_t c = 0; c < CHANNELS; c++) {
        p[c] = pair_up(&n[0], &n[alone ? 0 : 1], 1000 * c);
        out[c] = malloc(bytes);
        in[c] = calloc(1, bytes);
        pattern_fill(out[c], bytes, c);
        assert_int_equal(rig_table->send(p[c].a, out[c], bytes, NULL, 0), WEFT_OK);
        assert_int_equal(rig_table->recv(p[c].b, in[c], bytes, NULL, 0), WEFT_OK);
    }
    for (uint32_t c = CHANNELS; c-- > 0;) {
        uint64_t apart[4] = {1, 0, 0, 1}, both[4] = {1, 1, 1, 1};
        pair_finish(p[c], alone ? both : apart);
        assert_true(pattern_holds(in[c], bytes, c));
        pair_down(p[c]);
        free(out[c]);
        free(in[c]);
    }
    node_close(&n[0]);
    if (!alone)
        node_close(&n[1]);
    assert_int_equal(fake_allocated(), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_order_of_many_sizes),
        cmocka_unit_test(test_queue_holds_64_both_ways),
        cmocka_unit_test(test_full_queue_is_busy),
        cmocka_unit_test(test_long_messages_both_ways),
        cmocka_unit_test(test_long_messages_through_small_buffers),
        cmocka_unit_test(test_counts_beyond_32_bits),
        cmocka_unit_test(test_counts_that_differ_are_refused),
        cmocka_unit_test(test_channels_apart),
    };
    return rig_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
