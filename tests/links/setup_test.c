/* Is everything that a link takes given back, is what it publishes checked by whoever reads it, and
 * does the table keep to the header? */
#include "rig.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/device.h>

static int entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    if (!d)
        return 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void test_table_is_complete(void **state)
{
    const weft_link_table *t = rig_table;
    (void)state;
    assert_int_equal(rig_manifest->magic, WEFT_MAGIC);
    assert_int_equal(rig_manifest->abi_tag, WEFT_ABI_TAG);
    assert_int_equal(t->struct_size, sizeof *t);
    assert_true(t->probe && t->create && t->destroy && t->address && t->connect && t->ready);
    assert_true(t->disconnect && t->send && t->recv && t->progress && t->wait && t->wake);
    assert_non_null(t->abort);
    if (t->caps & (WEFT_LINK_REGISTER | WEFT_LINK_MAP))
        assert_true(t->register_memory && t->deregister_memory);
    assert_int_equal(t->key != NULL, (t->caps & WEFT_LINK_MAP) != 0);
    assert_int_equal(t->map != NULL, (t->caps & WEFT_LINK_MAP) != 0);
    assert_null(t->reserved);
    for (const weft_option *const *o = rig_plugin->options; o && *o; o++) {
        assert_int_equal((*o)->struct_size, sizeof **o);
        assert_true((*o)->key != NULL && (*o)->help != NULL && (*o)->dflt != NULL);
        assert_true((*o)->help[strlen((*o)->help) - 1] != '.');
    }
}

static void test_probe(void **state)
{
    node n;
    int32_t here = -1, apart = -1, other_memory = -1;
    weft_link_group group = {
        .struct_size = sizeof group, .same_machine = 1, .device_caps = WEFT_DEV_HOST_MEMORY};
    void *module = NULL;
    (void)state;
    node_init(&n, 0, 2);
    if (rig_manifest->open)
        assert_int_equal(rig_manifest->open(&n.host, &module), WEFT_OK);
    assert_int_equal(rig_table->probe(module, &n.conf, &group, &here), WEFT_OK);
    group.same_machine = 0;
    assert_int_equal(rig_table->probe(module, &n.conf, &group, &apart), WEFT_OK);
    if ((rig_table->caps & WEFT_LINK_LOCAL) != 0)
        assert_int_equal(apart, 0);
    group.same_machine = 1;
    group.device_caps = 0;
    assert_int_equal(rig_table->probe(module, &n.conf, &group, &other_memory), WEFT_OK);
    if ((rig_table->caps & WEFT_LINK_CUDA) == 0)
        assert_int_equal(other_memory, 0);
    if (here == 0 || other_memory == 0)
        assert_true(strlen(fake_why()) > 10); /* the reason */
    if (rig_manifest->close)
        rig_manifest->close(module);
}

/* Two links, two connections and a message over each, from the start to the end. */
static void live(bool alone)
{
    static uint8_t out[40000], in[40000];
    node n[2];
    nodes_up(n, alone ? 1 : 2);
    for (uint32_t c = 0; c < 2; c++) {
        pair p = pair_up(&n[0], &n[alone ? 0 : 1], c);
        uint64_t apart[4] = {1, 0, 0, 1}, both[4] = {1, 1, 1, 1};
        assert_int_equal(rig_table->send(p.a, out, sizeof out, NULL, 0), WEFT_OK);
        assert_int_equal(rig_table->recv(p.b, in, sizeof in, NULL, 0), WEFT_OK);
        pair_finish(p, alone ? both : apart);
        if (c == 0) /* the other is left to destroy() */
            pair_down(p);
        else if (alone)
            pair_down(p);
    }
    node_close(&n[0]);
    if (!alone)
        node_close(&n[1]);
}

/* A hundred lives: no descriptor, file, mapping or block more. */
static void test_a_hundred_lives(void **state)
{
    bool alone = rig_alone();
    int fds = 0, lives = (int)rig_share(100);
    (void)state;
    for (int life = 0; life < lives; life++) {
        live(alone);
        if (life == 0) /* what libraries open once is not ours */
            fds = entries("/proc/self/fd");
    }
    assert_int_equal(entries("/proc/self/fd"), fds);
    assert_int_equal(fake_allocated(), 0);
    /* Tests beside this one add and remove entries of their own, but not in each of these lives. */
    int more = 1;
    for (int i = 0; more != 0 && i < lives; i++) {
        int before = entries("/dev/shm");
        live(alone);
        more = entries("/dev/shm") - before;
    }
    assert_int_equal(more, 0);
}

/* A connection may be ended and begun again on the same link and channel. */
static void test_connect_again(void **state)
{
    static uint8_t out[3000], in[3000];
    bool alone = rig_alone();
    node n[2];
    (void)state;
    nodes_up(n, alone ? 1 : 2);
    for (uint64_t i = 0; i < 10; i++) {
        pair p = pair_up(&n[0], &n[alone ? 0 : 1], 9);
        uint64_t apart[4] = {1, 0, 0, 1}, both[4] = {1, 1, 1, 1};
        pattern_fill(out, sizeof out, i);
        assert_int_equal(rig_table->send(p.a, out, sizeof out, NULL, 0), WEFT_OK);
        assert_int_equal(rig_table->recv(p.b, in, sizeof in, NULL, 0), WEFT_OK);
        pair_finish(p, alone ? both : apart);
        assert_memory_equal(in, out, sizeof in);
        pair_down(p);
    }
    node_close(&n[0]);
    if (!alone)
        node_close(&n[1]);
    assert_int_equal(fake_allocated(), 0);
}

/* Ends that come at different times, in a process each time alone: neither blocks. */
static void test_connect_before_the_peer_does(void **state)
{
    node n[2];
    (void)state;
    if (rig_alone())
        skip();
    for (int late = 0; late < 2; late++) {
        nodes_up(n, 2);
        pair p = {NULL, NULL};
        weft_conn **first = late ? &p.a : &p.b, **second = late ? &p.b : &p.a;
        *first = node_connect(&n[late ? 0 : 1], &n[late ? 1 : 0], 4);
        for (int i = 0; i < 50; i++) {
            assert_int_equal(rig_table->ready(*first), WEFT_BUSY);
            assert_int_equal(rig_table->wait(n[late ? 0 : 1].link, 0, 1000, 0), WEFT_OK);
        }
        *second = node_connect(&n[late ? 1 : 0], &n[late ? 0 : 1], 4);
        weft_status a = WEFT_BUSY, b = WEFT_BUSY;
        for (double until = rig_now() + rig_patience(); a != WEFT_OK || b != WEFT_OK;) {
            a = rig_table->ready(p.a);
            b = rig_table->ready(p.b);
            assert_true(rig_now() < until);
        }
        pair_down(p);
        node_close(&n[0]);
        node_close(&n[1]);
    }
    assert_int_equal(fake_allocated(), 0);
}

/* Addresses come from other ranks. Whatever a byte is changed to, connect() or ready() refuses it
 * or waits; it never connects and never crashes. */
static void test_damaged_addresses(void **state)
{
    node n[2];
    uint8_t good[4096];
    (void)state;
    if (rig_alone())
        skip();
    nodes_up(n, 2);
    memcpy(good, n[0].address, sizeof good);
    weft_conn *listener = node_connect(&n[0], &n[1], 0);
    uint64_t lengths[] = {0, 1, n[0].address_bytes - 1, n[0].address_bytes + 1, 4096};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        weft_conn *c = NULL;
        assert_int_not_equal(
            rig_table->connect(n[1].link,
                               &(weft_conn_args){sizeof(weft_conn_args), 0, 0, 0, good, lengths[i]},
                               &c),
            WEFT_OK);
    }
    for (uint64_t at = 0; at < n[0].address_bytes; at++)
        for (int bit = 0; bit < 8; bit += 3) {
            uint8_t bad[4096];
            weft_conn *c = NULL;
            memcpy(bad, good, sizeof bad);
            bad[at] ^= (uint8_t)(1 << bit);
            if (rig_table->connect(
                    n[1].link,
                    &(weft_conn_args){sizeof(weft_conn_args), 0, 0, 0, bad, n[0].address_bytes},
                    &c) != WEFT_OK)
                continue;
            for (int i = 0; i < 3 && !rig_listens(); i++) {
                (void)!rig_table->ready(listener);
                assert_int_not_equal(rig_table->ready(c), WEFT_OK);
            }
            rig_table->disconnect(c);
        }
    node_close(&n[0]);
    node_close(&n[1]);
    assert_int_equal(fake_allocated(), 0);
}

static void test_wrong_peers_are_refused(void **state)
{
    node n[2];
    weft_conn *c = NULL;
    (void)state;
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

/* --- regions that peers map --- */

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
    assert_int_equal(
        rig_table->register_memory(
            n->link, &(weft_memory){sizeof(weft_memory), 0, a->base, bytes, a->fd, 0}, &a->region),
        WEFT_OK);
    a->key_bytes = sizeof a->key;
    assert_int_equal(rig_table->key(a->region, a->key, &a->key_bytes), WEFT_OK);
}

static void arena_down(arena *a, uint64_t bytes)
{
    rig_table->deregister_memory(a->region);
    munmap(a->base, bytes);
    close(a->fd);
}

static void test_mapped_arenas(void **state)
{
    enum { BYTES = 3 << 20 };
    node n[2];
    arena a;
    void *seen = NULL;
    uint64_t done[4] = {1, 0, 0, 1};
    (void)state;
    if ((rig_table->caps & WEFT_LINK_MAP) == 0)
        skip();
    nodes_up(n, 2);
    arena_up(&a, &n[0], BYTES);
    weft_region *left = NULL; /* to destroy() */
    assert_int_equal(
        rig_table->register_memory(
            n[0].link, &(weft_memory){sizeof(weft_memory), 0, a.base, BYTES, a.fd, 0}, &left),
        WEFT_OK);
    rig_table->deregister_memory(NULL);
    pair p = pair_up(&n[0], &n[1], 0);
    assert_int_equal(rig_table->map(n[1].link, 0, a.key, a.key_bytes, 0, &seen), WEFT_OK);
    assert_ptr_not_equal(seen, a.base);
    pattern_fill(a.base, BYTES, 21);
    assert_int_equal(rig_table->send(p.a, NULL, 0, NULL, 0), WEFT_OK);
    assert_int_equal(rig_table->recv(p.b, NULL, 0, NULL, 0), WEFT_OK);
    pair_finish(p, done);
    assert_true(pattern_holds(seen, BYTES, 21));
    pattern_fill(seen, BYTES, 22); /* and back */
    assert_true(pattern_holds(a.base, BYTES, 22));
    pair_down(p);
    node_close(&n[1]);
    arena_down(&a, BYTES);
    node_close(&n[0]);
    assert_int_equal(fake_allocated(), 0);
}

/* Half of a key is the number that proves the owner: changed anywhere, it opens nothing. */
static void test_wrong_keys_map_nothing(void **state)
{
    enum { BYTES = 1 << 20 };
    node n[2];
    arena a, other;
    void *seen = NULL;
    uint64_t mapped = 0, tried = 0;
    (void)state;
    if ((rig_table->caps & WEFT_LINK_MAP) == 0)
        skip();
    nodes_up(n, 2);
    arena_up(&a, &n[0], BYTES);
    arena_up(&other, &n[0], BYTES);
    assert_int_not_equal(rig_table->map(n[1].link, 0, a.key, a.key_bytes - 1, 0, &seen), WEFT_OK);
    assert_int_not_equal(rig_table->map(n[1].link, 1, a.key, a.key_bytes, 0, &seen), WEFT_OK);
    for (uint64_t at = 0; at < a.key_bytes; at++) {
        uint8_t bad[4096];
        memcpy(bad, a.key, sizeof bad);
        bad[at] ^= 0x10;
        tried++;
        mapped += rig_table->map(n[1].link, 0, bad, a.key_bytes, 0, &seen) == WEFT_OK;
    }
    assert_true(mapped <= 3); /* a smaller byte count is a lawful request */
    assert_true(tried > 64);
    close(a.fd); /* another file stands under the number that the key tells */
    a.fd = dup(other.fd);
    assert_int_not_equal(rig_table->map(n[1].link, 0, a.key, a.key_bytes, 0, &seen), WEFT_OK);
    assert_int_equal(
        rig_table->register_memory(
            n[0].link, &(weft_memory){sizeof(weft_memory), 0, a.base, BYTES, -1, 0}, &a.region),
        WEFT_UNSUPPORTED);
    node_close(&n[1]);
    arena_down(&other, BYTES);
    rig_table->deregister_memory(a.region);
    munmap(a.base, BYTES);
    close(a.fd);
    node_close(&n[0]);
    assert_int_equal(fake_allocated(), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_a_hundred_lives),
        cmocka_unit_test(test_connect_again),
        cmocka_unit_test(test_connect_before_the_peer_does),
        cmocka_unit_test(test_damaged_addresses),
        cmocka_unit_test(test_wrong_peers_are_refused),
        cmocka_unit_test(test_mapped_arenas),
        cmocka_unit_test(test_wrong_keys_map_nothing),
    };
    return rig_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
