/* With a process a rank: do messages go round, and is a rank that dies noticed by the others? */
#include "rig.h"

#include "../patience.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, ROUNDS = 20, BYTES = 200000 };

/* The parent passes every rank's address to all of them. */
static void gather_addresses(const int fd[RANKS])
{
    static uint8_t address[RANKS][4096];
    uint64_t bytes[RANKS];
    for (int r = 0; r < RANKS; r++) {
        hear(fd[r], &bytes[r], sizeof bytes[r]);
        hear(fd[r], address[r], sizeof address[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        tell(fd[r], bytes, sizeof bytes);
        tell(fd[r], address, sizeof address);
    }
}

static void meet(int fd, node *n, node all[RANKS])
{
    static uint8_t address[RANKS][4096];
    uint64_t bytes[RANKS];
    tell(fd, &n->address_bytes, sizeof n->address_bytes);
    tell(fd, n->address, sizeof n->address);
    hear(fd, bytes, sizeof bytes);
    hear(fd, address, sizeof address);
    for (uint32_t r = 0; r < RANKS; r++) {
        all[r].rank = r;
        all[r].address_bytes = bytes[r];
        memcpy(all[r].address, address[r], sizeof address[r]);
    }
}

static void finish_both(node *n, weft_conn *next, weft_conn *last, uint64_t i)
{
    uint64_t sent = 0, received = 0, unused;
    for (double until = rig_now() + rig_patience(); sent < i || received < i;) {
        must(rig_table->progress(next, 0, &sent, &unused) == WEFT_OK);
        must(rig_table->progress(last, 0, &unused, &received) == WEFT_OK);
        if (sent < i || received < i)
            must(rig_table->wait(n->link, 10, 100000, 0) == WEFT_OK);
        must(rig_now() < until);
    }
}

/* Every rank sends what it got to the next; after RANKS rounds everybody's data is home again. */
static int ring_rank(int fd, uint32_t rank, void *arg)
{
    static node n, all[RANKS];
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);
    (void)arg;
    node_init(&n, rank, RANKS);
    must(node_open(&n) == WEFT_OK);
    meet(fd, &n, all);
    weft_conn *next = node_connect(&n, &all[(rank + 1) % RANKS], 5);
    weft_conn *last = node_connect(&n, &all[(rank + RANKS - 1) % RANKS], 5);
    conn_ready(next);
    conn_ready(last);
    pattern_fill(out, BYTES, rank);
    for (uint64_t i = 1; i <= rig_share(ROUNDS) * RANKS; i++) {
        conn_recv(&n, last, in, BYTES);
        conn_send(&n, next, out, BYTES);
        finish_both(&n, next, last, i);
        if (!pattern_holds(in, BYTES, (rank + RANKS * i - i) % RANKS))
            return 3;
        uint8_t *t = out;
        out = in;
        in = t;
    }
    node_close(&n);
    return 0;
}

static void test_ring_of_four(void **state)
{
    int fd[RANKS], pid[RANKS];
    (void)state;
    if (rig_alone())
        skip();
    for (uint32_t r = 0; r < RANKS; r++)
        pid[r] = child_start(ring_rank, r, NULL, &fd[r]);
    gather_addresses(fd);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(child_end(pid[r]), 0);
        close(fd[r]);
    }
}

/* --- one parent (rank 0) and one child (rank 1) that dies --- */

typedef struct victim {
    bool sends; /* it dies with a long message under way, else silent */
    bool stays; /* it stays alive until it is killed, else it leaves by _exit() at once */
} victim;

static int victim_rank(int fd, uint32_t rank, void *arg)
{
    static node n, parent;
    static uint8_t bytes[1 << 20];
    victim *v = arg;
    node_init(&n, rank, 2);
    must(node_open(&n) == WEFT_OK);
    swap_address(&n, &parent, fd);
    weft_conn *c = node_connect(&n, &parent, 1);
    conn_ready(c);
    uint64_t sent, received;
    if (v->sends)
        for (int i = 0; i < 16; i++)
            must(rig_table->send(c, bytes, sizeof bytes, NULL, 0) == WEFT_OK);
    must(rig_table->progress(c, 0, &sent, &received) == WEFT_OK);
    tell(fd, "r", 1);
    while (v->stays)
        pause();
    _exit(0); /* without a word: nothing is disconnected */
}

static void die(victim v, bool parent_sends)
{
    node n, child = {0};
    int fd;
    char ready;
    static uint8_t bytes[4 << 20];
    if (rig_alone())
        skip();
    int pid = child_start(victim_rank, 1, &v, &fd);
    node_init(&n, 0, 2);
    assert_int_equal(node_open(&n), WEFT_OK);
    swap_address(&n, &child, fd);
    weft_conn *c = node_connect(&n, &child, 1);
    conn_ready(c);
    hear(fd, &ready, 1);
    for (int i = 0; i < 20; i++) {
        if (parent_sends)
            assert_int_equal(rig_table->send(c, bytes, sizeof bytes, NULL, 0), WEFT_OK);
        else
            assert_int_equal(rig_table->recv(c, bytes, 1 << 20, NULL, 0), WEFT_OK);
    }
    if (v.stays)
        kill(pid, SIGKILL);
    double start = rig_now();
    assert_int_equal(conn_fate(&n, c, rig_patience()), WEFT_PEER);
    assert_true((rig_now() - start) * 1000 < (double)patience(2000)); /* a few 100 ms */
    assert_non_null(strstr(fake_why(), "rank 1"));
    assert_int_equal(rig_table->send(c, bytes, 1, NULL, 0), WEFT_PEER); /* and it stays so */
    child_end(pid);
    close(fd);
    node_close(&n);
    assert_int_equal(fake_allocated(), 0);
}

static void test_killed_while_we_receive(void **state)
{
    (void)state;
    die((victim){.stays = true}, false);
}

static void test_killed_while_we_send(void **state)
{
    (void)state;
    die((victim){.stays = true}, true);
}

static void test_killed_in_the_middle_of_messages(void **state)
{
    (void)state;
    die((victim){.stays = true, .sends = true}, false);
}

static void test_left_without_a_word(void **state)
{
    (void)state;
    die((victim){.stays = false}, false);
}

static int short_rank(int fd, uint32_t rank, void *arg)
{
    node n;
    (void)arg;
    node_init(&n, rank, 2);
    must(node_open(&n) == WEFT_OK);
    tell(fd, &n.address_bytes, sizeof n.address_bytes);
    tell(fd, n.address, sizeof n.address);
    _exit(0);
}

/* A peer that died before the connection was set up is a failure, not an endless wait. */
static void test_peer_gone_before_connect(void **state)
{
    node n, peer = {0};
    int fd;
    (void)state;
    if (rig_alone())
        skip();
    int pid = child_start(short_rank, 0, NULL, &fd);
    hear(fd, &peer.address_bytes, sizeof peer.address_bytes);
    hear(fd, peer.address, sizeof peer.address);
    child_end(pid);
    close(fd);
    node_init(&n, 1, 2);
    assert_int_equal(node_open(&n), WEFT_OK);
    weft_conn *c = NULL;
    double until = rig_now() + rig_patience();
    weft_status st = rig_table->connect(
        n.link,
        &(weft_conn_args){sizeof(weft_conn_args), 0, 0, 0, peer.address, peer.address_bytes}, &c);
    while ((st == WEFT_OK || st == WEFT_BUSY) && rig_now() < until)
        st = rig_table->ready(c);
    assert_int_equal(st, WEFT_PEER);
    assert_non_null(strstr(fake_why(), "rank 0"));
    node_close(&n);
    assert_int_equal(fake_allocated(), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_of_four),
        cmocka_unit_test(test_killed_while_we_receive),
        cmocka_unit_test(test_killed_while_we_send),
        cmocka_unit_test(test_killed_in_the_middle_of_messages),
        cmocka_unit_test(test_left_without_a_word),
        cmocka_unit_test(test_peer_gone_before_connect),
    };
    return rig_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
