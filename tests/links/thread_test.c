/* Does a link work with a thread a rank, and keep to what it says of threads: wake() and abort()
 * from anywhere, sleeping without losing a wake-up? */
#include "rig.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct side {
    node *n;
    weft_conn *c;
    bool first;
    weft_status fate;
} side;

typedef struct two {
    node n[2];
    pair p;
    side s[2];
} two;

static void up(two *t)
{
    if (rig_alone())
        skip();
    memset(t, 0, sizeof *t);
    nodes_up(t->n, 2);
    t->p = pair_up(&t->n[0], &t->n[1], 0);
    t->s[0] = (side){&t->n[0], t->p.a, true, WEFT_OK};
    t->s[1] = (side){&t->n[1], t->p.b, false, WEFT_OK};
}

static void down(two *t)
{
    pair_down(t->p);
    node_close(&t->n[0]);
    node_close(&t->n[1]);
    assert_int_equal(fake_allocated(), 0);
}

static void both(two *t, void *(*fn)(void *))
{
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, fn, &t->s[1]), 0);
    fn(&t->s[0]);
    pthread_join(other, NULL);
}

static void *ping_pong(void *arg)
{
    side *s = arg;
    for (uint64_t i = 0; i < rig_share(3000); i++) {
        uint64_t out = i * 3 + s->first, in = 0;
        conn_recv(s->n, s->c, &in, 8);
        if (s->first)
            conn_send(s->n, s->c, &out, 8);
        conn_finish(s->n, s->c, i + (s->first ? 1 : 0), i + 1);
        must(in == i * 3 + (s->first ? 0 : 1));
        if (!s->first)
            conn_send(s->n, s->c, &out, 8);
        conn_finish(s->n, s->c, i + 1, i + 1);
    }
    return NULL;
}

static void test_ping_pong_with_sleep(void **state)
{
    two t;
    (void)state;
    up(&t);
    both(&t, ping_pong);
    down(&t);
}

/* Both stream messages of all sizes at the same time, as many posted as the queue takes. */
static void *stream(void *arg)
{
    enum { SLOTS = 32, MOST = 100000 };
    const uint64_t n = rig_share(400);
    side *s = arg;
    uint8_t *out = malloc(MOST), *in = malloc((size_t)SLOTS * MOST);
    uint64_t checked = 0, posted = 0;
    pattern_fill(out, MOST, 5);
    while (checked < n) {
        for (; posted < n && posted - checked < SLOTS; posted++) {
            uint64_t bytes = posted * posted * 131 % MOST;
            conn_recv(s->n, s->c, in + posted % SLOTS * MOST, bytes);
            conn_send(s->n, s->c, out, bytes);
        }
        conn_finish(s->n, s->c, 0, checked + 1);
        must(pattern_holds(in + checked % SLOTS * MOST, checked * checked * 131 % MOST / 8 * 8, 5));
        checked++;
    }
    conn_finish(s->n, s->c, n, n);
    free(out);
    free(in);
    return NULL;
}

static void test_streams_both_ways(void **state)
{
    two t;
    (void)state;
    up(&t);
    both(&t, stream);
    down(&t);
}

static void *wake_later(void *arg)
{
    node *n = arg;
    usleep(50000);
    rig_table->wake(n->link);
    return NULL;
}

static void test_wake_ends_a_wait(void **state)
{
    two t;
    pthread_t other;
    uint8_t byte = 0;
    uint64_t sent, received;
    (void)state;
    up(&t);
    assert_int_equal(rig_table->recv(t.p.a, &byte, 1, NULL, 0), WEFT_OK);
    assert_int_equal(rig_table->progress(t.p.a, 0, &sent, &received), WEFT_OK);
    assert_int_equal(pthread_create(&other, NULL, wake_later, &t.n[0]), 0);
    double start = rig_now();
    assert_int_equal(rig_table->wait(t.n[0].link, 0, 30000000, 0), WEFT_OK);
    assert_true(rig_now() - start < 20);
    pthread_join(other, NULL);
    rig_table->wake(t.n[0].link); /* before the wait: not lost either */
    start = rig_now();
    assert_int_equal(rig_table->wait(t.n[0].link, 0, 30000000, 0), WEFT_OK);
    assert_true(rig_now() - start < 20);
    down(&t);
}

static void test_wait_ends_by_itself(void **state)
{
    two t;
    uint8_t byte = 0;
    uint64_t sent, received;
    (void)state;
    up(&t);
    assert_int_equal(rig_table->recv(t.p.a, &byte, 1, NULL, 0), WEFT_OK);
    assert_int_equal(rig_table->progress(t.p.a, 0, &sent, &received), WEFT_OK);
    double start = rig_now();
    for (int i = 0; i < 5; i++)
        assert_int_equal(rig_table->wait(t.n[0].link, 1000, 20000, 0), WEFT_OK);
    assert_true(rig_now() - start < 20);
    down(&t);
}

static void *abort_later(void *arg)
{
    node *n = arg;
    usleep(50000);
    rig_table->abort(n->link);
    return NULL;
}

static void *wait_for_failure(void *arg)
{
    side *s = arg;
    uint8_t byte = 0;
    if (rig_table->recv(s->c, &byte, 1, NULL, 0) == WEFT_OK)
        s->fate = conn_fate(s->n, s->c, rig_patience());
    return NULL;
}

static void test_abort_fails_both_ends(void **state)
{
    two t;
    pthread_t other;
    uint8_t byte = 0;
    uint64_t sent, received;
    (void)state;
    up(&t);
    assert_int_equal(pthread_create(&other, NULL, abort_later, &t.n[0]), 0);
    double start = rig_now();
    both(&t, wait_for_failure);
    assert_true(rig_now() - start < 20);
    pthread_join(other, NULL);
    assert_int_equal(t.s[0].fate, WEFT_PEER);
    assert_int_equal(t.s[1].fate, WEFT_PEER);
    assert_int_equal(rig_table->send(t.p.a, &byte, 1, NULL, 0), WEFT_PEER);
    assert_int_equal(rig_table->recv(t.p.a, &byte, 1, NULL, 0), WEFT_PEER);
    assert_int_equal(rig_table->progress(t.p.a, 0, &sent, &received), WEFT_PEER);
    assert_int_equal(rig_table->wait(t.n[0].link, 0, 1000, 0), WEFT_PEER);
    assert_int_equal(rig_table->ready(t.p.a), WEFT_PEER);
    down(&t);
}

/* What was sent before a good end arrives, though its sender has left already. */
static void test_last_words_arrive(void **state)
{
    static uint8_t out[3][1000], in[3][1000];
    two t;
    uint64_t sent = 0, received = 0;
    (void)state;
    up(&t);
    pattern_fill(out, sizeof out, 1);
    for (int i = 0; i < 3; i++)
        conn_send(&t.n[0], t.p.a, out[i], sizeof out[i]);
    conn_finish(&t.n[0], t.p.a, 3, 0);
    rig_table->disconnect(t.p.a);
    node_close(&t.n[0]);
    for (int i = 0; i < 3; i++)
        conn_recv(&t.n[1], t.p.b, in[i], sizeof in[i]);
    conn_finish(&t.n[1], t.p.b, 0, 3);
    assert_memory_equal(in, out, sizeof out);
    assert_int_equal(rig_table->progress(t.p.b, 0, &sent, &received), WEFT_OK);
    assert_int_equal(rig_table->recv(t.p.b, in, 1, NULL, 0), WEFT_OK); /* one more is too many */
    assert_int_equal(conn_fate(&t.n[1], t.p.b, rig_patience()), WEFT_PEER);
    assert_non_null(strstr(fake_why(), "rank 0"));
    rig_table->disconnect(t.p.b);
    node_close(&t.n[1]);
    assert_int_equal(fake_allocated(), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ping_pong_with_sleep),  cmocka_unit_test(test_streams_both_ways),
        cmocka_unit_test(test_wake_ends_a_wait),      cmocka_unit_test(test_wait_ends_by_itself),
        cmocka_unit_test(test_abort_fails_both_ends), cmocka_unit_test(test_last_words_arrive),
    };
    return rig_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
