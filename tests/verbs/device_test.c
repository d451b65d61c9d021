/* What does a real device do with mistakes? For the lab; elsewhere skipped. */
#include "rig.h"
#include <test.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BYTES = 8 << 20 };

static void up(node n[2], uint8_t *memory[2], weft_region *r[2], pair *p)
{
    nodes_up(n, 2);
    for (int i = 0; i < 2; i++) {
        memory[i] = calloc(1, BYTES);
        assert_int_equal(node_register(&n[i], memory[i], BYTES, -1, &r[i]), WEFT_OK);
    }
    *p = pair_up(&n[0], &n[1], 6);
}

static void down(node n[2], uint8_t *memory[2])
{
    for (int i = 0; i < 2; i++) {
        node_close(&n[i]);
        free(memory[i]);
    }
}

/* The receiver takes its memory back while the sender writes: the queue pairs of both ends go into
 * their error state, and each end says so. */
TEST(test_queue_pairs_that_fail)
{
    node n[2];
    uint8_t *memory[2];
    weft_region *r[2];
    pair p;
    uint64_t x, y;
    weft_status a = WEFT_OK, b = WEFT_OK;
    up(n, memory, r, &p);
    assert_int_equal(rig_table->recv(p.b, memory[1], BYTES, r[1], 0), WEFT_OK);
    for (double until = rig_now() + 0.2; rig_now() < until;) /* the credit arrives */
        assert_int_equal(rig_table->progress(p.a, 0, &x, &y), WEFT_OK);
    rig_table->deregister_memory(r[1]);
    assert_int_equal(rig_table->send(p.a, memory[0], BYTES, r[0], 0), WEFT_OK);
    for (double until = rig_now() + rig_patience(); a == WEFT_OK && rig_now() < until;)
        a = rig_table->progress(p.a, 0, &x, &y);
    assert_int_equal(a, WEFT_PEER);
    printf("%s\n", rig_why());
    assert_non_null(strstr(rig_why(), "writing a message to rank 1 on channel 6"));
    assert_non_null(strstr(rig_why(), "remote access error"));
    rig_table->abort(n[0].link); /* as the core does with a rank that has failed */
    for (double until = rig_now() + rig_patience(); b == WEFT_OK && rig_now() < until;)
        b = rig_table->progress(p.b, 0, &x, &y);
    assert_true(b == WEFT_PEER || b == WEFT_IO);
    printf("%s\n", rig_why());
    assert_non_null(strstr(rig_why(), "rank 0"));
    down(n, memory);
}

static int poor_child(int fd, uint32_t rank, void *arg)
{
    struct rlimit little = {.rlim_cur = BYTES / 2, .rlim_max = BYTES / 2};
    node n;
    weft_region *r;
    uint8_t *memory = calloc(1, BYTES);
    (void)fd, (void)rank, (void)arg;
    if (setrlimit(RLIMIT_MEMLOCK, &little) != 0 || (geteuid() == 0 && setuid(65534) != 0))
        return 1;
    node_init(&n, 0, 2);
    must(node_open(&n) == WEFT_OK);
    must(node_register(&n, memory, BYTES, -1, &r) == WEFT_NO_MEMORY);
    printf("%s\n", rig_why());
    must(strstr(rig_why(), "8388608 bytes") != NULL);
    must(strstr(rig_why(), "ulimit -l") != NULL);
    node_close(&n);
    free(memory);
    return 0;
}

TEST(test_memory_lock_limit)
{
    int fd;
    int pid = child_start(poor_child, 0, NULL, &fd);
    assert_int_equal(child_end(pid), 0);
    close(fd);
}

/* Hundreds of messages, then none is lost when the sender disconnects at once. */
TEST(test_last_words)
{
    for (uint32_t life = 0; life < 5; life++) {
        node n[2];
        uint8_t *memory[2];
        weft_region *r[2];
        pair p;
        uint64_t x = 0, y = 0;
        up(n, memory, r, &p);
        for (uint64_t i = 0; i < 20; i++) {
            check_pattern(memory[0], 64, i);
            assert_int_equal(rig_table->send(p.a, memory[0], 64, r[0], 0), WEFT_OK);
        }
        rig_table->disconnect(p.a);
        for (uint64_t i = 0; i < 20; i++)
            assert_int_equal(rig_table->recv(p.b, memory[1] + 64 * i, 64, r[1], 0), WEFT_OK);
        for (double until = rig_now() + rig_patience(); y < 20 && rig_now() < until;)
            assert_int_equal(rig_table->progress(p.b, 0, &x, &y), WEFT_OK);
        for (uint64_t i = 0; i < 20; i++)
            assert_true(check_pattern_holds(memory[1] + 64 * i, 64, i));
        down(n, memory);
    }
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
