/* Meeting and working together: 1 to 5 processes, and everything that makes a meeting fail. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <test.h>

#include <weft/host.h>

#include "ranks.h"
/* after ranks.h */
#include "pair.h"

#define BIG (1u << 20)

static weft_status expect(bool truth, const char *what)
{
    return truth ? WEFT_OK : (err_fail)(WEFT_INTERNAL, "%s", what);
}

static weft_status put_and_get(job *j, uint32_t me, uint32_t n)
{
    char key[32];
    uint64_t bytes;
    uint8_t *big = malloc(BIG);
    memset(big, (int)me + 1, BIG);
    snprintf(key, sizeof key, "big/%u", me);
    weft_status st = job_put(j, key, big, BIG);
    if (st == WEFT_OK && job_put(j, key, big, BIG + 1) != WEFT_USAGE)
        st = expect(false, "a value above the limit was taken");
    for (uint32_t r = 0; st == WEFT_OK && r < n; r++) {
        void *value = NULL;
        snprintf(key, sizeof key, "big/%u", r);
        st = job_get(j, key, 120, &value, &bytes);
        if (st == WEFT_OK) {
            memset(big, (int)r + 1, BIG);
            st = expect(bytes == BIG && !memcmp(value, big, BIG), "another value came back");
            free(value);
        }
    }
    free(big);
    return st;
}

static weft_status exchanges(job *j, uint32_t me, uint32_t n)
{
    static const uint64_t sizes[] = {0, 1, 8, 1000, 700000};
    weft_status st = WEFT_OK;
    for (size_t s = 0; st == WEFT_OK && s < sizeof sizes / sizeof *sizes; s++) {
        uint8_t *mine = malloc(sizes[s] + 1), *all = calloc(n, sizes[s] + 1);
        for (uint64_t i = 0; i < sizes[s]; i++)
            mine[i] = (uint8_t)(i * 31 + me * 7 + s);
        st = job_exchange(j, "x", mine, sizes[s], all);
        for (uint32_t r = 0; r < n; r++)
            for (uint64_t i = 0; st == WEFT_OK && i < sizes[s]; i++)
                st = expect(all[r * sizes[s] + i] == (uint8_t)(i * 31 + r * 7 + s),
                            "a part of an exchange is another one's");
        free(mine);
        free(all);
    }
    return st;
}

static weft_status keys(job *j, uint32_t me, uint32_t n)
{
    uint8_t mine[64], all[RANKS_MAX * 64], other[32];
    weft_status st = job_subkey(j, "a", mine);
    if (st == WEFT_OK)
        st = job_subkey(j, "b", mine + 32);
    if (st == WEFT_OK)
        st = job_exchange(j, "keys", mine, sizeof mine, all);
    for (uint32_t r = 0; st == WEFT_OK && r < n; r++)
        st = expect(!memcmp(all + r * 64, mine, 64), "ranks derive different keys");
    if (st == WEFT_OK)
        st = expect(memcmp(mine, mine + 32, 32) != 0, "labels do not matter");
    if (st == WEFT_OK && job_subkey(j, "a", other) != WEFT_OK)
        st = expect(false, "a sub-key was refused");
    (void)me;
    return st;
}

/* A get that comes long before its put; a get that nobody answers. */
static weft_status waits(job *j, uint32_t me, uint32_t n)
{
    void *value = NULL;
    uint64_t bytes = 0;
    weft_status st;
    if (me == n - 1) {
        usleep(300000);
        st = job_put(j, "late", "now", 3);
    } else {
        st = job_get(j, "late", 120, &value, &bytes);
        if (st == WEFT_OK)
            st = expect(bytes == 3 && !memcmp(value, "now", 3), "the late value is another");
        free(value);
    }
    if (st == WEFT_OK) {
        uint64_t before = clock_ms();
        st = expect(job_get(j, "never", 0.3, &value, &bytes) == WEFT_PEER &&
                        clock_ms() - before < patience(5000) && strstr(err_text(), "'never'"),
                    "a get that nobody answers did not end in words");
    }
    err_clear();
    return st != WEFT_OK ? st : job_failure(j);
}

static weft_status work(job *j, uint32_t me, uint32_t n)
{
    weft_status st = put_and_get(j, me, n);
    if (st == WEFT_OK)
        st = exchanges(j, me, n);
    if (st == WEFT_OK)
        st = keys(j, me, n);
    return st != WEFT_OK ? st : waits(j, me, n);
}

TEST(one_to_five)
{
    for (uint32_t n = 1; n <= 5; n++) {
        ranks r;
        ranks_prepare(&r, n);
        ranks_start(&r, work);
        ranks_expect_well(&r);
        ranks_end(&r);
    }
}

TEST(by_name)
{
    ranks r;
    ranks_prepare(&r, 2);
    snprintf(r.addr, sizeof r.addr, "localhost");
    ranks_start(&r, work);
    ranks_expect_well(&r);
    ranks_end(&r);
}

/* --- the table that transports authenticate their sockets with --- */

/* Under one label: bytes through the session, or, for the second connection, past its end. Under
 * two labels: refused. */
static weft_status use_table(job *j, uint32_t me, const char *label, int32_t how)
{
    const weft_host_tls *tls = job_tls_table(j);
    weft_tls *t = NULL;
    int fd = -1;
    char key[32], got[8] = "", mine[8] = "from .";
    snprintf(key, sizeof key, "addr %d", how);
    mine[5] = (char)('0' + me);
    weft_status st = pair_connect(j, me, key, &fd);
    if (st == WEFT_OK)
        st = tls->start(tls->ctx, fd, me == 0, label, &t);
    if (st == WEFT_OK)
        st = pair_shake(tls, t, fd);
    if (st != WEFT_OK && how == 2)
        shutdown(fd, SHUT_RDWR);
    uint64_t done = 0, until = clock_ms() + RANKS_WAIT_MS;
    if (st == WEFT_OK && how == 0)
        st = tls->write(t, mine, 7, &done);
    while (st == WEFT_OK && how == 0 && (st = tls->read(t, got, 7, &done)) == WEFT_BUSY &&
           clock_ms() < until)
        st = WEFT_OK;
    tls->end(t);
    if (st == WEFT_OK && how == 1) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        st = expect(send(fd, mine, 7, 0) == 7 && poll(&p, 1, RANKS_WAIT_MS) == 1 &&
                        recv(fd, got, 8, 0) == 7,
                    "the bare socket was not clean");
    }
    close(fd);
    mine[5] = (char)('1' - me);
    return st != WEFT_OK ? st : expect(how == 2 || !strcmp(got, mine), "other bytes came");
}

static weft_status use_tables(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = use_table(j, me, "tcp data", 0);
    if (st == WEFT_OK)
        st = use_table(j, me, "tcp bare", 1);
    if (st == WEFT_OK)
        st = expect(use_table(j, me, me ? "label a" : "label b", 2) == WEFT_PEER,
                    "different labels were accepted");
    return st;
}

TEST(tls_table)
{
    ranks r;
    ranks_prepare(&r, 2);
    ranks_start(&r, use_tables);
    ranks_expect_well(&r);
    ranks_end(&r);
}

static weft_status nothing(job *j, uint32_t me, uint32_t n)
{
    (void)j, (void)me, (void)n;
    return WEFT_OK;
}

static void says(const ranks *r, uint32_t i, const char *word)
{
    if (!strstr(r->report[i].text, word))
        fail_msg("rank %u says '%s' without '%s'", i, r->report[i].text, word);
}

/* A process with another key is sent away, and the others wait for the right one until their time
 * is over. Rank 0 says early who is missing and why that may be. */
TEST(wrong_key)
{
    ranks r;
    char said[4096] = "";
    FILE *log = tmpfile();
    int before = dup(STDERR_FILENO);
    ranks_prepare(&r, 3);
    r.join_timeout = 6;
    r.liar = 2;
    r.level = WEFT_LOG_WARN;
    dup2(fileno(log), STDERR_FILENO);
    ranks_start(&r, nothing);
    dup2(before, STDERR_FILENO);
    close(before);
    assert_int_equal(ranks_wait(&r, 2, RANKS_WAIT_MS), 0);
    assert_int_equal(r.report[2].join, WEFT_PEER);
    says(&r, 2, "does not hold the key");
    static const char waits_for[] =
        "the job still waits for rank 2 (1 connections were turned away because they did not show "
        "this job's key, the last from 127.0.0.1)";
    struct pollfd ended = {.fd = r.out[0], .events = POLLIN};
    while (!strstr(said, waits_for) && !poll(&ended, 1, 10))
        if (pread(fileno(log), said, sizeof said - 1, 0) < 0)
            abort();
    if (!strstr(said, waits_for))
        fail_msg("rank 0 says '%s'", said);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        assert_int_equal(r.report[i].join, WEFT_PEER);
    }
    says(&r, 0, "not joined: rank 2");
    says(&r, 0, "did not show this job's key");
    fclose(log);
    ranks_end(&r);
}

/* Rank 2 is refused: all end at once with the reason, rank 3, which comes later, among them. */
static void refused(ranks *r, const char *word)
{
    uint64_t began = clock_ms();
    for (uint32_t i = 0; i < 3; i++)
        ranks_start_one(r, i, nothing);
    assert_int_equal(ranks_wait(r, 2, RANKS_WAIT_MS), 0);
    ranks_start_one(r, 3, nothing);
    for (uint32_t i = 0; i < 4; i++) {
        if (i != 2)
            assert_int_equal(ranks_wait(r, i, RANKS_WAIT_MS), 0);
        assert_true(r->report[i].join == WEFT_PEER || r->report[i].join == WEFT_USAGE);
        says(r, i, word);
        if (r->report[i].ended_ms > began + patience(5000))
            fail_msg("rank %u ended after %llu ms", i,
                     (unsigned long long)(r->report[i].ended_ms - began));
    }
    assert_int_equal(r->report[0].join, WEFT_PEER);
    assert_int_equal(r->report[3].join, WEFT_PEER);
    ranks_end(r);
}

TEST(wrong_world)
{
    ranks r;
    ranks_prepare(&r, 4);
    r.world[2] = 5;
    refused(&r, "rank 2 was started for a job of 5 ranks, rank 0 for one of 4");
}

TEST(same_rank_twice)
{
    ranks r;
    ranks_prepare(&r, 4);
    r.claim[2] = 1;
    refused(&r, "rank 1 is in the job already: two processes were started with the same rank");
}

/* A process of an earlier run is sent away, and this run begins. */
TEST(left_over)
{
    ranks r;
    ranks_prepare(&r, 3);
    r.launch[0] = r.launch[1] = 5;
    r.launch[2] = 4;
    r.claim[2] = 1; /* it has the rank of another */
    r.world[0] = r.world[1] = r.world[2] = 2;
    ranks_start_one(&r, 0, nothing);
    ranks_start_one(&r, 2, nothing);
    assert_int_equal(ranks_wait(&r, 2, RANKS_WAIT_MS), 0);
    assert_int_equal(r.report[2].join, WEFT_USAGE);
    says(&r, 2, "was started for another run of the job than rank 0");
    ranks_start_one(&r, 1, nothing);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        assert_true(r.report[i].left_well);
    }
    ranks_end(&r);
}

/* What one rank asks for is not what the others ask for. */
static weft_status disagree(job *j, uint32_t me, uint32_t n)
{
    uint8_t all[RANKS_MAX * 16], mine[16] = {0};
    (void)n;
    return job_exchange(j, "digest", mine, me == 1 ? 16 : 8, all);
}

TEST(different_programs)
{
    ranks r;
    ranks_prepare(&r, 2);
    ranks_start(&r, disagree);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
        assert_int_equal(r.report[i].body, WEFT_PEER);
        assert_non_null(strstr(r.report[i].text, "do not run the same configuration"));
    }
    ranks_end(&r);
}

/* Last: their threads are of this process, and the thread sanitizer lets no child of a process with
 * threads start one. */

/* One rank opens no descriptor and starts no thread. */
TEST(alone)
{
    job_identity who = {.ranks = 1, .local_ranks = 1};
    job *j = NULL;
    int before = dup(0);
    close(before);
    assert_int_equal(job_join(&who, NULL, &j), WEFT_OK);
    int after = dup(0);
    close(after);
    assert_int_equal(before, after);
    assert_int_equal(job_failure(j), WEFT_OK);
    assert_int_equal(work(j, 0, 1), WEFT_OK);
    assert_non_null(job_tls_table(j));
    assert_true(job_leave(j, WEFT_OK, NULL));
    job_free(j);
    job_free(NULL);
    assert_true(job_leave(NULL, WEFT_OK, NULL));
    assert_int_equal(job_failure(NULL), WEFT_OK);
}

TEST(no_key)
{
    job_identity who = {.rank = 1, .ranks = 2, .local_ranks = 2, .addr = "127.0.0.1", .port = 9};
    job *j = NULL;
    assert_int_equal(job_join(&who, NULL, &j), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "weft key -o FILE"));
    assert_non_null(strstr(err_text(), "[run] key"));
    assert_null(j);
}

TEST(nobody_there)
{
    ranks r;
    ranks_prepare(&r, 2);
    job_identity who = {
        .rank = 1, .ranks = 2, .local_ranks = 2, .addr = "127.0.0.1", .port = r.port};
    job_options opt = {.key_file = r.key, .join_timeout = 0.5};
    job *j = NULL;
    assert_int_equal(job_join(&who, &opt, &j), WEFT_PEER);
    assert_non_null(strstr(err_text(), "did not reach rank 0 at 127.0.0.1 port"));
    who.rank = 0;
    assert_int_equal(job_join(&who, &opt, &j), WEFT_PEER);
    assert_non_null(strstr(err_text(), "not joined: rank 1"));
    unlink(r.key);
    unlink(r.other_key);
}

static void bad_address(job_identity who, const char *addr, const char *word, const char *key)
{
    job_options opt = {.key_file = key, .join_timeout = 20};
    job *j = NULL;
    snprintf(who.addr, sizeof who.addr, "%s", addr);
    assert_int_equal(job_join(&who, &opt, &j), WEFT_USAGE);
    if (!strstr(err_text(), word))
        fail_msg("'%s' lacks '%s'", err_text(), word);
}

TEST(addresses)
{
    ranks r;
    ranks_prepare(&r, 2);
    job_identity who = {.ranks = 2, .local_ranks = 2, .port = r.port};
    bad_address(who, "0.0.0.0", "every address", r.key);
    bad_address(who, "::", "every address", r.key);
    bad_address(who, "192.0.2.1", "not an address of this machine", r.key);
    bad_address(who, "no such name", "does not lead to an address", r.key);
    who.local_ranks = 1;
    job_options opt = {.key_file = r.key, .join_timeout = 2};
    job *j = NULL;
    snprintf(who.addr, sizeof who.addr, "localhost"); /* as a host's own name often leads there */
    assert_int_equal(job_join(&who, &opt, &j), WEFT_PEER);
    assert_non_null(strstr(err_text(), "MASTER_ADDR=localhost leads there on its machine"));
    who.local_ranks_said = true;
    bad_address(who, "127.0.0.1", "other machines cannot reach", r.key);
    who.local_ranks = 2;
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons(r.port)};
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(taken, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(taken, 1), 0);
    bad_address(who, "127.0.0.1", "taken by another program", r.key);
    close(taken);
    unlink(r.key);
    unlink(r.other_key);
}

int main(void)
{
    log_setup(WEFT_LOG_ERROR, -1);
    unsetenv(KEY_FD_ENV);
    const struct CMUnitTest about_time[] = {cmocka_unit_test(one_to_five),
                                            cmocka_unit_test(wrong_world),
                                            cmocka_unit_test(same_rank_twice)};
    if (patience_is_timed())
        return cmocka_run_group_tests(about_time, NULL, NULL);
    return test_run(NULL, NULL);
}
