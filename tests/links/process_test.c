/* Is a rank that dies noticed soon, and one that has died before it was connected? */
#include "rig.h"
#include <test.h>

#include "../patience.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int victim_rank(int fd, uint32_t rank, void *arg)
{
    static node n, parent;
    (void)arg;
    node_init(&n, rank, 2);
    must(node_open(&n) == WEFT_OK);
    swap_address(&n, &parent, fd);
    conn_ready(node_connect(&n, &parent, 1));
    tell(fd, "r", 1);
    return pause();
}

TEST(test_a_death_is_known_soon)
{
    static uint8_t bytes[1 << 20];
    node n, child = {0};
    int fd;
    char ready;
    if (rig_alone())
        skip();
    int pid = child_start(victim_rank, 1, NULL, &fd);
    node_init(&n, 0, 2);
    assert_int_equal(node_open(&n), WEFT_OK);
    swap_address(&n, &child, fd);
    weft_conn *c = node_connect(&n, &child, 1);
    conn_ready(c);
    hear(fd, &ready, 1);
    assert_int_equal(rig_table->recv(c, bytes, sizeof bytes, NULL, 0), WEFT_OK);
    kill(pid, SIGKILL);
    double start = rig_now();
    assert_int_equal(conn_fate(&n, c, rig_patience()), WEFT_PEER);
    assert_true((rig_now() - start) * 1000 < (double)patience(2000)); /* a few 100 ms */
    assert_non_null(strstr(rig_why(), "rank 1"));
    assert_int_equal(rig_table->send(c, bytes, 1, NULL, 0), WEFT_PEER); /* and it stays so */
    child_end(pid);
    close(fd);
    node_close(&n);
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
TEST(test_peer_gone_before_connect)
{
    node n, peer = {0};
    int fd;
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
    assert_non_null(strstr(rig_why(), "rank 0"));
    node_close(&n);
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
