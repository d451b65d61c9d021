/* Whatever goes wrong, is it a sentence with the peer, the operation and the likely cause, and is
 * everything given back? */
#include "double.h"
#include "rig.h"
#include <test.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 300000 };

typedef struct two {
    node n[2];
    weft_region *r[2];
    pair p;
} two;

static uint8_t out[BYTES], in[BYTES];

static void up(two *t)
{
    memset(t, 0, sizeof *t);
    for (uint32_t i = 0; i < 2; i++) {
        node_init(&t->n[i], i, 2);
        assert_int_equal(node_open(&t->n[i]), WEFT_OK);
        assert_int_equal(node_register(&t->n[i], i ? in : out, BYTES, -1, &t->r[i]), WEFT_OK);
    }
    t->p = pair_up(&t->n[0], &t->n[1], 4);
}

static void all_given_back(void)
{
    assert_int_equal(double_objects(), 0);
    if (double_offences() != 0)
        fprintf(stderr, "%s\n", double_offence());
    assert_int_equal(double_offences(), 0);
}

static void down(two *t)
{
    pair_down(t->p);
    node_close(&t->n[0]);
    node_close(&t->n[1]);
    all_given_back();
    double_reset();
}

static void said(const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!strstr(rig_why(), words[i])) {
            fprintf(stderr, "'%s' is not in: %s\n", words[i], rig_why());
            assert_true(false);
        }
}
#define SAID(...) said((const char *[]){__VA_ARGS__, NULL})

/* One message of `bytes` from a to b, until a fails; its status. */
static weft_status fate(two *t, uint64_t bytes)
{
    uint64_t x, y;
    weft_status st = rig_table->send(t->p.a, out, bytes, t->r[0], 0);
    assert_int_equal(st, WEFT_OK);
    assert_int_equal(rig_table->recv(t->p.b, in, bytes, t->r[1], 0), WEFT_OK);
    for (double until = rig_now() + rig_patience(); st == WEFT_OK && rig_now() < until;) {
        (void)!rig_table->progress(t->p.b, 0, &x, &y);
        st = rig_table->progress(t->p.a, 0, &x, &y);
        if (st == WEFT_OK)
            assert_int_equal(rig_table->wait(t->n[0].link, 0, 2000, 0), WEFT_OK);
    }
    return st;
}

/* Each status, met by a short message and by a long one. */
TEST(test_every_status_is_a_sentence)
{
    for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR + 5; status++)
        for (int size = 0; size < 2; size++) {
            two t;
            char first[1024];
            up(&t);
            double_fail_sends(IBV_WR_RDMA_WRITE_WITH_IMM, (enum ibv_wc_status)status);
            weft_status st = fate(&t, size ? BYTES : 3);
            assert_true(st == WEFT_PEER || st == WEFT_IO || st == WEFT_USAGE ||
                        st == WEFT_INTERNAL);
            SAID("rank 1", "channel 4", "double0 port 1", "failed", "; ",
                 size ? "writing a message to" : "sending a short message to");
            snprintf(first, sizeof first, "%s", rig_why());
            if (status != IBV_WC_WR_FLUSH_ERR)
                SAID("0x81");
            if (status <= IBV_WC_GENERAL_ERR && status != IBV_WC_GENERAL_ERR)
                assert_null(strstr(first, "has no name"));
            /* and it stays so, in the same words */
            assert_int_equal(rig_table->send(t.p.a, out, 1, t.r[0], 0), st);
            assert_string_equal(rig_why(), first);
            down(&t);
        }
}

TEST(test_some_causes)
{
    static const struct {
        enum ibv_wc_status status;
        weft_status code;
        const char *words;
    } causes[] = {{IBV_WC_RETRY_EXC_ERR, WEFT_PEER, "after 7 tries"},
                  {IBV_WC_RETRY_EXC_ERR, WEFT_PEER, "gone, or a link between the two is down"},
                  {IBV_WC_RNR_RETRY_EXC_ERR, WEFT_PEER, "no receive request"},
                  {IBV_WC_REM_ACCESS_ERR, WEFT_PEER, "peer's memory is not registered"},
                  {IBV_WC_LOC_PROT_ERR, WEFT_USAGE, "memory of this rank"},
                  {IBV_WC_FATAL_ERR, WEFT_IO, "device has failed"}};
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        two t;
        up(&t);
        double_fail_sends(IBV_WR_RDMA_WRITE_WITH_IMM, causes[i].status);
        assert_int_equal(fate(&t, 3), causes[i].code);
        SAID(causes[i].words);
        down(&t);
    }
}

TEST(test_credits_that_fail)
{
    two t;
    uint64_t x, y;
    weft_status st = WEFT_OK;
    up(&t);
    double_fail_sends(IBV_WR_SEND, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(rig_table->recv(t.p.b, in, BYTES, t.r[1], 0), WEFT_OK);
    for (double until = rig_now() + rig_patience(); st == WEFT_OK && rig_now() < until;)
        st = rig_table->progress(t.p.b, 0, &x, &y);
    assert_int_equal(st, WEFT_PEER);
    SAID("rank 0", "sending a credit to", "tries");
    down(&t);
}

/* Memory that was withdrawn too early: both NICs refuse. */
TEST(test_withdrawn_memory)
{
    for (int end = 0; end < 2; end++) {
        two t;
        uint64_t x, y;
        weft_status st = WEFT_OK;
        up(&t);
        assert_int_equal(rig_table->recv(t.p.b, in, BYTES, t.r[1], 0), WEFT_OK);
        for (int i = 0; i < 100; i++) /* the credit arrives */
            assert_int_equal(rig_table->progress(t.p.a, 0, &x, &y), WEFT_OK);
        double_unplug(1); /* so that the message is posted and stays */
        assert_int_equal(rig_table->send(t.p.a, out, BYTES, t.r[0], 0), WEFT_OK);
        rig_table->deregister_memory(t.r[end]);
        double_unplug(0);
        for (double until = rig_now() + rig_patience(); st == WEFT_OK && rig_now() < until;)
            st = rig_table->progress(t.p.a, 0, &x, &y);
        assert_int_equal(st, end ? WEFT_PEER : WEFT_USAGE);
        SAID("rank 1", end ? "remote access error" : "local protection error");
        down(&t);
    }
}

TEST(test_unplugged)
{
    two t;
    up(&t);
    double_unplug(1);
    assert_int_equal(fate(&t, 3), WEFT_PEER);
    SAID("rank 1", "retries exceeded", "after 7 tries in 3.8 s or more");
    down(&t);
}

TEST(test_events_of_the_device)
{
    static const struct {
        enum ibv_event_type type;
        const char *words;
    } events[] = {{IBV_EVENT_DEVICE_FATAL, "failed or was removed"},
                  {IBV_EVENT_QP_FATAL, "its queue pair failed"},
                  {IBV_EVENT_QP_REQ_ERR, "an invalid request"},
                  {IBV_EVENT_QP_ACCESS_ERR, "outside the memory"},
                  {IBV_EVENT_CQ_ERR, "completion queue overflowed"}};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        two t;
        uint64_t x, y;
        up(&t);
        double_event(events[i].type);
        weft_status a = WEFT_OK, b = WEFT_OK;
        assert_int_equal(rig_table->recv(t.p.b, in, BYTES, t.r[1], 0), WEFT_OK);
        assert_int_equal(rig_table->recv(t.p.a, out, BYTES, t.r[0], 0), WEFT_OK);
        for (double until = rig_now() + rig_patience();
             a == WEFT_OK && b == WEFT_OK && rig_now() < until;) {
            a = rig_table->progress(t.p.a, 0, &x, &y);
            b = a == WEFT_OK ? rig_table->progress(t.p.b, 0, &x, &y) : WEFT_OK;
        }
        assert_int_equal(a == WEFT_OK ? b : a, WEFT_IO);
        SAID("double0", "channel 4", events[i].words);
        down(&t);
    }
}

/* A port that is down for a moment is waited for; one that stays down is named. */
TEST(test_port_down)
{
    two t;
    uint64_t want[4] = {1, 0, 0, 1};
    memset(&t, 0, sizeof t);
    for (uint32_t i = 0; i < 2; i++) {
        node_init(&t.n[i], i, 2);
        t.n[i].options[0][0] = "timeout";
        t.n[i].options[0][1] = "0.05";
        assert_int_equal(node_open(&t.n[i]), WEFT_OK);
    }
    t.p = pair_up(&t.n[0], &t.n[1], 4); /* events go to the device that was opened last: b's */
    assert_int_equal(rig_table->recv(t.p.b, in, 5, NULL, 0), WEFT_OK);
    double_event(IBV_EVENT_PORT_ERR);
    assert_int_equal(conn_fate(&t.n[1], t.p.b, 0.2), WEFT_OK);
    double_event(IBV_EVENT_PORT_ACTIVE);
    assert_int_equal(conn_fate(&t.n[1], t.p.b, 1.5), WEFT_OK);
    assert_int_equal(rig_table->send(t.p.a, out, 5, NULL, 0), WEFT_OK);
    pair_finish(t.p, want);
    assert_int_equal(rig_table->recv(t.p.b, in, 5, NULL, 0), WEFT_OK);
    double_event(IBV_EVENT_PORT_ERR);
    double start = rig_now();
    assert_int_equal(conn_fate(&t.n[1], t.p.b, 10), WEFT_IO);
    assert_true(rig_now() - start < 5);
    SAID("port 1", "double0", "has been down", "rank 0");
    down(&t);
}

TEST(test_registration_limit)
{
    node n;
    weft_region *r;
    double_limit(BYTES - 1);
    node_init(&n, 0, 2);
    assert_int_equal(node_open(&n), WEFT_OK);
    assert_int_equal(node_register(&n, out, BYTES, -1, &r), WEFT_NO_MEMORY);
    SAID("double0", "300000 bytes", "ulimit -l");
    weft_conn *c = NULL;
    double_limit(1000);
    assert_int_equal(rig_table->connect(n.link,
                                        &(weft_conn_args){sizeof(weft_conn_args), 0, 1, 0,
                                                          n.address, n.address_bytes},
                                        &c),
                     WEFT_NO_MEMORY);
    SAID("double0", "rank 1", "ulimit -l");
    node_close(&n);
    all_given_back();
    double_reset();
}

/* Both ends from nothing to a connection, or until something fails. */
static weft_status whole_life(void)
{
    node n[2];
    weft_region *r = NULL;
    weft_conn *c[2] = {NULL, NULL};
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < 2; i++) {
        node_init(&n[i], i, 2);
        if (st == WEFT_OK)
            st = node_open(&n[i]);
        if (st == WEFT_OK)
            st = node_register(&n[i], i ? in : out, BYTES, -1, &r);
    }
    for (uint32_t i = 0; i < 2 && st == WEFT_OK; i++)
        st = rig_table->connect(
            n[i].link,
            &(weft_conn_args){sizeof(weft_conn_args), 0, !i, 0, n[!i].address, n[!i].address_bytes},
            &c[i]);
    for (weft_status a = WEFT_BUSY, b = WEFT_BUSY;
         st == WEFT_OK && (a != WEFT_OK || b != WEFT_OK);) {
        a = rig_table->ready(c[0]);
        b = rig_table->ready(c[1]);
        st = a > WEFT_BUSY ? a : b > WEFT_BUSY ? b : WEFT_OK;
    }
    node_close(&n[0]);
    node_close(&n[1]);
    return st;
}

TEST(test_every_call_fails_once)
{
    static const char *const calls[] = {"get_device_list",     "open_device", "alloc_pd",
                                        "create_comp_channel", "reg_mr",      "create_cq",
                                        "create_qp",           "modify_qp"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int failed = 0;
        for (int n = 1; n < 12; n++) {
            double_fail_call(calls[i], n, EIO);
            weft_status st = whole_life();
            if (st != WEFT_OK)
                assert_true(strlen(rig_why()) > 20);
            failed += st != WEFT_OK;
            all_given_back();
        }
        double_reset();
        assert_true(failed >= 1);
    }
    assert_int_equal(whole_life(), WEFT_OK);
}

/* --- memory of a device --- */

static void device_memory(bool dmabuf)
{
    static const uint64_t sizes[] = {1, 64, 4096, 70001, BYTES};
    two t;
    int pipes[2];
    uint64_t want[4] = {0, 0, 0, 0};
    memset(&t, 0, sizeof t);
    assert_int_equal(pipe(pipes), 0); /* a descriptor that is no file: what a dmabuf is, too */
    double_dmabuf(dmabuf);
    for (uint32_t i = 0; i < 2; i++) {
        node_init(&t.n[i], i, 2);
        assert_int_equal(node_open(&t.n[i]), WEFT_OK);
        assert_int_equal(node_register(&t.n[i], i ? in : out, BYTES, pipes[0], &t.r[i]), WEFT_OK);
    }
    t.p = pair_up(&t.n[0], &t.n[1], 4);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t reads = double_requests(IBV_WR_RDMA_READ);
        check_pattern(out, BYTES - 8, i);
        memset(in, 0, BYTES);
        assert_int_equal(rig_table->send(t.p.a, out, sizes[i], t.r[0], 0), WEFT_OK);
        assert_int_equal(rig_table->recv(t.p.b, in, sizes[i], t.r[1], 0), WEFT_OK);
        want[0]++;
        want[3]++;
        pair_finish(t.p, want);
        assert_memory_equal(in, out, sizes[i]);
        assert_int_equal(double_requests(IBV_WR_RDMA_READ) - reads, 1); /* the flush */
    }
    down(&t);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(test_device_memory)
{
    device_memory(true);
    device_memory(false); /* by way of a peer-memory driver */
}

TEST(test_device_memory_that_nobody_registers)
{
    node n;
    weft_region *r;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    node_init(&n, 0, 2);
    assert_int_equal(node_open(&n), WEFT_OK);
    double_fail_call("reg_mr", 1, EFAULT);
    assert_int_equal(node_register(&n, out, BYTES, pipes[0], &r), WEFT_UNSUPPORTED);
    SAID("double0", "dmabuf", "nvidia_peermem", "host memory");
    double_fail_call("reg_mr", 1, EFAULT); /* memory that the host cannot read, without one */
    assert_int_equal(node_register(&n, (void *)4096, BYTES, -1, &r), WEFT_UNSUPPORTED);
    SAID("dmabuf");
    node_close(&n);
    close(pipes[0]);
    close(pipes[1]);
    all_given_back();
    double_reset();
}

/* Nothing that strangers say reaches a queue pair. */
TEST(test_no_queue_pair_for_strangers)
{
    node n[2];
    int before, after;
    const char *on;
    (void)double_joined(&before, &on);
    for (uint32_t i = 0; i < 2; i++) {
        node_init(&n[i], i, 2);
        n[i].key = (uint8_t)(i + 1);
        assert_int_equal(node_open(&n[i]), WEFT_OK);
    }
    weft_conn *a = node_connect(&n[0], &n[1], 0), *b = node_connect(&n[1], &n[0], 0);
    weft_status st = WEFT_BUSY;
    for (double until = rig_now() + rig_patience(); st == WEFT_BUSY && rig_now() < until;) {
        assert_int_equal(rig_table->ready(a), WEFT_BUSY);
        st = rig_table->ready(b);
    }
    assert_int_equal(st, WEFT_PEER);
    (void)double_joined(&after, &on);
    assert_int_equal(before, after);
    node_close(&n[0]);
    node_close(&n[1]);
    all_given_back();
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
