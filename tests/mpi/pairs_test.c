/* Do the pairs of the plugin mpi keep the contract of a link? mpirun starts two ranks, which both
 * run every case. A rank knows the other's address, since both make the same links in turn. */
#include "rig.h"
#include <test.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 3 << 20 };

static uint32_t me;
static char *in, *out;

typedef struct side {
    node own, peer;
    weft_conn *c;
} side;

static void connect_to(side *s, uint32_t channel)
{
    s->c = node_connect(&s->own, &s->peer, channel);
    conn_ready(s->c);
}

static void make(side *s)
{
    memset(s, 0, sizeof *s);
    node_init(&s->own, me, 2);
    assert_int_equal(node_open(&s->own), WEFT_OK);
    s->peer = s->own;
    s->peer.rank = 1 - me;
}

static void up(side *s, uint32_t channel)
{
    make(s);
    connect_to(s, channel);
}

static void down(side *s)
{
    rig_table->disconnect(s->c);
    node_close(&s->own);
}

TEST(test_sizes_in_order)
{
    static const uint64_t sizes[] = {0, 1, 7, 4096, 0, 65537, LONGEST, 3};
    enum { N = sizeof sizes / sizeof *sizes };
    side s;
    up(&s, 0);
    for (uint64_t i = 0; i < N; i++) {
        pattern_fill(out, sizes[i], i * 2 + me);
        memset(in, 0xA5, sizes[i] + 1);
        conn_recv(&s.own, s.c, in, sizes[i]);
        conn_send(&s.own, s.c, out, sizes[i]);
        conn_finish(&s.own, s.c, i + 1, i + 1);
        assert_true(pattern_holds(in, sizes[i], i * 2 + 1 - me));
        assert_int_equal((uint8_t)in[sizes[i]], 0xA5);
    }
    down(&s);
}

/* The queue takes 64 at least, and then says that it is full; nothing is lost or counted twice. */
TEST(test_full_queue)
{
    side s;
    uint64_t n[2] = {0, 0}, sent, received;
    up(&s, 1);
    uint32_t *from = (uint32_t *)(void *)out, *to = (uint32_t *)(void *)in;
    for (uint32_t i = 0; i < 1000; i++)
        from[i] = i * 7 + me;
    for (weft_status st = WEFT_OK; st == WEFT_OK && n[0] < 1000; n[0] += st == WEFT_OK)
        st = rig_table->recv(s.c, to + n[0], 4, NULL, 0);
    assert_in_range(n[0], 64, 999);
    while (n[1] < n[0]) {
        const weft_status st = rig_table->send(s.c, from + n[1], 4, NULL, 0);
        assert_true(st == WEFT_OK || st == WEFT_BUSY);
        n[1] += st == WEFT_OK;
        assert_int_equal(rig_table->progress(s.c, 0, &sent, &received), WEFT_OK);
        assert_true(sent <= n[1] && received <= n[0]);
    }
    conn_finish(&s.own, s.c, n[1], n[0]);
    for (uint32_t i = 0; i < n[0]; i++)
        assert_int_equal(to[i], i * 7 + 1 - me);
    down(&s);
}

/* Channels are apart, and a pair may connect again. */
TEST(test_channels_and_again)
{
    side s;
    uint64_t got[2];
    make(&s);
    for (uint64_t round = 0; round < 3; round++) {
        connect_to(&s, 7);
        weft_conn *seven = s.c;
        connect_to(&s, 4095);
        const uint64_t first = 100 + round, second = 200 + round;
        conn_recv(&s.own, seven, &got[0], 8);
        conn_recv(&s.own, s.c, &got[1], 8);
        conn_send(&s.own, s.c, &second, 8);
        conn_send(&s.own, seven, &first, 8);
        conn_finish(&s.own, s.c, 1, 1);
        conn_finish(&s.own, seven, 1, 1);
        assert_int_equal(got[0], first);
        assert_int_equal(got[1], second);
        rig_table->disconnect(seven);
        rig_table->disconnect(s.c);
    }
    node_close(&s.own);
}

static void *stream(void *arg)
{
    side *s = arg;
    for (uint64_t i = 0; i < 500; i++) {
        const uint64_t mine = i * 2 + me;
        uint64_t theirs = 0;
        conn_recv(&s->own, s->c, &theirs, 8);
        conn_send(&s->own, s->c, &mine, 8);
        conn_finish(&s->own, s->c, i + 1, i + 1);
        must(theirs == i * 2 + 1 - me);
    }
    return NULL;
}

/* Two links of a process are in two threads at once. */
TEST(test_two_threads)
{
    side a, b;
    pthread_t other;
    up(&a, 0);
    up(&b, 0);
    assert_int_equal(pthread_create(&other, NULL, stream, &b), 0);
    stream(&a);
    pthread_join(other, NULL);
    down(&a);
    down(&b);
}

/* A receive that nothing will match does not keep disconnect(). */
TEST(test_left_receive)
{
    side s;
    up(&s, 2);
    assert_int_equal(rig_table->recv(s.c, in, 8, NULL, 0), WEFT_OK);
    const double began = rig_now();
    down(&s);
    assert_true(rig_now() - began < 1.5);
}

TEST(test_refusals)
{
    side s;
    weft_conn *c;
    uint64_t n;
    up(&s, 3);
    assert_int_equal(rig_table->send(s.c, out, 8, NULL, 1), WEFT_UNSUPPORTED);
    assert_int_equal(rig_table->progress(s.c, 1, &n, &n), WEFT_UNSUPPORTED);
    assert_int_equal(rig_table->wait(s.own.link, 0, 10, 1), WEFT_UNSUPPORTED);
    weft_conn_args args = {sizeof args, 0, 1 - me, 4, s.own.address, 5};
    assert_int_equal(rig_table->connect(s.own.link, &args, &c), WEFT_DATA);
    args = (weft_conn_args){sizeof args, 0, 1 - me, 4096, s.own.address, 4};
    assert_int_equal(rig_table->connect(s.own.link, &args, &c), WEFT_DATA);
    assert_non_null(strstr(fake_why(), "4096 channels"));
    down(&s);
}

/* --- failures: the last cases, since MPI is not finalized after them --- */

static void unequal(uint64_t sends, uint64_t expects, const char *words)
{
    side s;
    up(&s, (uint32_t)sends);
    if (me == 0) {
        conn_send(&s.own, s.c, out, sends);
        conn_finish(&s.own, s.c, 1, 0); /* disconnect() cancels what is still on its way */
    } else {
        conn_recv(&s.own, s.c, in, expects);
        assert_int_equal(conn_fate(&s.own, s.c, 20), WEFT_PEER);
        assert_non_null(strstr(fake_why(), words));
    }
    down(&s);
}

TEST(test_unequal_bytes)
{
    unequal(100, 200, "rank 0 has sent 100 bytes where 200 are expected");
    unequal(300, 200, "could not receive 200 bytes from rank 0: ");
}

TEST(test_abort)
{
    side s;
    uint64_t n;
    up(&s, 5);
    assert_int_equal(rig_table->recv(s.c, in, 8, NULL, 0), WEFT_OK);
    rig_table->abort(s.own.link);
    assert_int_equal(rig_table->progress(s.c, 0, &n, &n), WEFT_PEER);
    assert_int_equal(rig_table->send(s.c, out, 8, NULL, 0), WEFT_PEER);
    down(&s);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    me = rank ? (uint32_t)strtoul(rank, NULL, 10) : 2;
    if (me > 1) {
        fprintf(stderr, "start it as mpirun -n 2 %s PLUGIN.so\n", argv[0]);
        return 2;
    }
    in = malloc(LONGEST + 1);
    out = malloc(LONGEST);
    const int failed = rig_main(argc, argv);
    free(in);
    free(out);
    return failed;
}
