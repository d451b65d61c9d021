/* What our transports promise beyond weft/link.h, whose questions sdk/check/link asks of them as of
 * anybody's. */
#include "rig.h"
#include <test.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TEST(test_wrong_peers_are_refused)
{
    node n[2];
    weft_conn *c = NULL;
    if (rig_alone())
        skip();
    nodes_up(n, 2);
    assert_int_equal(rig_table->connect(n[0].link,
                                        &(weft_conn_args){sizeof(weft_conn_args), 0, 0, 0,
                                                          n[1].address, n[1].address_bytes},
                                        &c),
                     WEFT_USAGE);
    assert_int_equal(rig_table->connect(n[0].link,
                                        &(weft_conn_args){sizeof(weft_conn_args), 0, 2, 0,
                                                          n[1].address, n[1].address_bytes},
                                        &c),
                     WEFT_USAGE);
    node_close(&n[0]);
    node_close(&n[1]);
}

/* What was sent before a good end arrives, though its sender has left already. */
TEST(test_last_words_arrive)
{
    static uint8_t out[3][1000], in[3][1000];
    node n[2];
    uint64_t sent = 0, received = 0;
    if (rig_alone())
        skip();
    nodes_up(n, 2);
    pair p = pair_up(&n[0], &n[1], 0);
    check_pattern(out, sizeof out, 1);
    for (int i = 0; i < 3; i++)
        conn_send(&n[0], p.a, out[i], sizeof out[i]);
    conn_finish(&n[0], p.a, 3, 0);
    rig_table->disconnect(p.a);
    node_close(&n[0]);
    for (int i = 0; i < 3; i++)
        conn_recv(&n[1], p.b, in[i], sizeof in[i]);
    conn_finish(&n[1], p.b, 0, 3);
    assert_memory_equal(in, out, sizeof out);
    assert_int_equal(rig_table->progress(p.b, 0, &sent, &received), WEFT_OK);
    assert_int_equal(rig_table->recv(p.b, in, 1, NULL, 0), WEFT_OK); /* one more is too many */
    assert_int_equal(conn_fate(&n[1], p.b, rig_patience()), WEFT_PEER);
    assert_non_null(strstr(rig_why(), "rank 0"));
    rig_table->disconnect(p.b);
    node_close(&n[1]);
}

/* The same of a rank that computes for a while between two looks, of which the first finds that the
 * peer has left, and each finds a few messages. */
TEST(test_last_words_keep)
{
    enum { WORDS = 20 };
    static uint64_t out[WORDS], in[WORDS];
    node n[2];
    if (rig_alone())
        skip();
    nodes_up(n, 2);
    pair p = pair_up(&n[0], &n[1], 0);
    check_pattern(out, sizeof out, 1);
    for (int i = 0; i < WORDS; i++)
        conn_recv(&n[1], p.b, &in[i], sizeof in[i]);
    for (int i = 0; i < WORDS; i++)
        conn_send(&n[0], p.a, &out[i], sizeof out[i]);
    conn_finish(&n[0], p.a, WORDS, 0);
    rig_table->disconnect(p.a);
    node_close(&n[0]);
    assert_int_equal(rig_table->wait(n[1].link, 0, 0, 0), WEFT_OK);
    usleep(300000);
    conn_finish(&n[1], p.b, 0, WORDS);
    assert_memory_equal(in, out, sizeof out);
    rig_table->disconnect(p.b);
    node_close(&n[1]);
}

typedef struct arena {
    int fd;
    uint8_t *base;
    weft_region *region;
    uint8_t key[4096];
    uint64_t key_bytes;
} arena;

static void arena_up(arena *a, node *n, uint64_t bytes)
{
    a->fd = memfd_create("arena", MFD_CLOEXEC);
    assert_int_equal(ftruncate(a->fd, (off_t)bytes), 0);
    a->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
    assert_int_equal(node_register(n, a->base, bytes, a->fd, &a->region), WEFT_OK);
    a->key_bytes = sizeof a->key;
    assert_int_equal(rig_table->key(a->region, a->key, &a->key_bytes), WEFT_OK);
}

static void arena_down(arena *a, uint64_t bytes)
{
    rig_table->deregister_memory(a->region);
    munmap(a->base, bytes);
    close(a->fd);
}

/* A key tells the number of a file of its owner. It opens no other file under that number, and none
 * of another rank. */
TEST(test_a_key_opens_its_own_file)
{
    enum { BYTES = 1 << 20 };
    node n[2];
    arena a, other;
    void *seen = NULL;
    if ((rig_table->caps & WEFT_LINK_MAP) == 0)
        skip();
    nodes_up(n, 2);
    arena_up(&a, &n[0], BYTES);
    arena_up(&other, &n[0], BYTES);
    assert_int_not_equal(rig_table->map(n[1].link, 1, a.key, a.key_bytes, 0, &seen), WEFT_OK);
    assert_int_equal(rig_table->map(n[1].link, 0, a.key, a.key_bytes, 0, &seen), WEFT_OK);
    close(a.fd);
    a.fd = dup(other.fd);
    assert_int_not_equal(rig_table->map(n[1].link, 0, a.key, a.key_bytes, 0, &seen), WEFT_OK);
    node_close(&n[1]);
    arena_down(&other, BYTES);
    arena_down(&a, BYTES);
    node_close(&n[0]);
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
