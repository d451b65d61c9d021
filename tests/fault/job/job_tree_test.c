/* Heartbeats by a tree of depth 3: 15 ranks with two children each. Who is named when a rank of any
 * kind freezes or dies, and how soon? And what becomes of the job when a connection of the tree
 * breaks though nobody is dead? */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <test.h>

#define RANKS_MAX 15
#include "job/decide/tree.h"
#include "ranks.h"
/* after ranks.h */
#include "marks.h"

#define N 15
#define AFTER 2.5 /* frozen_after: a rank is frozen after 2.25 s of silence ... */
#define LATE 8    /* ... and here after 7.2 s: nobody is to be named */

/* --- bodies --- */

/* At rank 0: every rank whose parent is another one is watched by it. */
static bool is_delegated(job *j)
{
    bool all = true;
    pthread_mutex_lock(&j->lock);
    for (uint32_t r = 1; r < j->who.ranks; r++)
        all = all &&
              j->server->members[r].guard.relies == (job_tree_parent(&j->server->tree, r) != 0);
    pthread_mutex_unlock(&j->lock);
    return all;
}

static weft_status await_tree(job *j)
{
    const uint64_t until = clock_ms() + patience(10000);
    while (!is_delegated(j))
        if (clock_ms() > until)
            return (err_fail)(WEFT_INTERNAL, "the tree was not made");
        else
            usleep(1000);
    return WEFT_OK;
}

static weft_status begin(job *j, uint32_t me)
{
    job_mark(j, 17, 34 + me);
    weft_status st = me ? WEFT_OK : await_tree(j);
    if (st == WEFT_OK)
        st = ranks_marked(j);
    return st == WEFT_OK ? ranks_at_work(j) : st;
}

static weft_status at_work(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = begin(j, me);
    while (st == WEFT_OK && (st = job_failure(j)) == WEFT_OK)
        usleep(1000);
    return st;
}

/* --- tests --- */

static void start_with(ranks *r, rank_body body, double frozen_after)
{
    job_tree_fanout = 2;
    ranks_prepare(r, N);
    ranks_prepare_to_tell();
    r->frozen_after = frozen_after;
    ranks_start(r, body);
    ranks_wait_ready(r, N);
}

static void start(ranks *r, rank_body body)
{
    start_with(r, body, AFTER);
}

static void end(ranks *r)
{
    ranks_end(r);
    ranks_end_telling();
}

/* What rank 0 hears in a second over the connections of the store: beats of its children alone. */
static weft_status count_beats(job *j, uint32_t me, uint32_t n)
{
    uint64_t before[N] = {0}, after[N] = {0};
    weft_status st = begin(j, me);
    if (st == WEFT_OK && me)
        st = ranks_until_told(j); /* the next request of the others comes later */
    usleep(me ? 0 : 500000);
    for (uint32_t round = 0; round < 2 && !me && st == WEFT_OK; round++) {
        pthread_mutex_lock(&j->lock);
        for (uint32_t r = 1; r < n; r++)
            (round ? after : before)[r] = job_tls_received(j->server->members[r].p->w.tls);
        pthread_mutex_unlock(&j->lock);
        usleep(round ? 0 : 1000000);
    }
    for (uint32_t r = 1; r < n && !me && st == WEFT_OK; r++)
        if ((after[r] != before[r]) != (r < 3))
            st = (err_fail)(WEFT_INTERNAL, "rank 0 heard %d bytes of rank %u",
                            (int)(after[r] - before[r]), r);
    if (!me)
        ranks_tell();
    return st == WEFT_OK ? job_exchange(j, "end", NULL, 0, NULL) : st;
}

TEST(rank_0_hears_its_children_alone)
{
    ranks r;
    start_with(&r, count_beats, LATE);
    ranks_expect_well(&r);
    end(&r);
}

static const char *frozen_for(void)
{
    return patience_is_timed() ? "is frozen: no sign of life for 2." : "is frozen: no sign of life";
}

/* Root, inner ranks of both levels, and a leaf. */
static const uint32_t kinds[] = {0, 1, 5, 14};

TEST(frozen)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ranks r;
        start(&r, at_work);
        kill(r.pid[kinds[i]], SIGSTOP);
        ranks_name_victim(&r, kinds[i], frozen_for(), (uint64_t)(AFTER * 1000));
        ranks_expect_text(&r, kinds[i] == 2 ? 3 : 2, kinds[i], "last seen at step 17, place ");
        end(&r);
    }
}

/* Rank 0 with an inner one that hides it from those below; a parent with its child; two leaves. */
TEST(two_frozen)
{
    static const uint32_t pairs[][2] = {{0, 2}, {0, 6}, {1, 4}, {5, 11}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ranks r;
        start(&r, at_work);
        kill(r.pid[pairs[i][0]], SIGSTOP);
        kill(r.pid[pairs[i][1]], SIGSTOP);
        ranks_name_one_of_two(&r, pairs[i][0], pairs[i][1], frozen_for(), (uint64_t)(AFTER * 1000));
        end(&r);
    }
}

TEST(killed)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char place[64];
        ranks r;
        start(&r, at_work);
        usleep(patience_is_timed() ? 500000 : 0); /* for rank 0's mark to come to the leaves */
        kill(r.pid[kinds[i]], SIGKILL);
        ranks_name_victim(&r, kinds[i], "is gone", 1000);
        snprintf(place, sizeof place, "last seen at step 17, place %u", 34 + kinds[i]);
        ranks_expect_text(&r, patience_is_timed() ? 3 : 2, kinds[i], place);
        end(&r);
    }
}

/* --- nobody is dead --- */

static weft_status work_until_told(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = begin(j, me);
    if (st == WEFT_OK)
        st = ranks_until_told(j);
    if (st == WEFT_OK && !me)
        st = await_tree(j);
    return st == WEFT_OK ? job_exchange(j, "end", NULL, 0, NULL) : st;
}

/* Longer than the time after which a parent returns a child, shorter than that of a frozen one:
 * nobody is named, and the parents take their children over again. On a busy machine both times are
 * longer. */
TEST(a_pause_is_no_failure)
{
    ranks r;
    const double after = patience_is_timed() ? AFTER : LATE;
    start_with(&r, work_until_told, after);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kill(r.pid[kinds[i]], SIGSTOP);
        usleep((useconds_t)(after * 560000));
        kill(r.pid[kinds[i]], SIGCONT);
        usleep(100000);
    }
    ranks_tell();
    ranks_expect_well(&r);
    end(&r);
}

/* Shut down all sockets of this process but those of the store. */
static uint32_t cut_tree(uint16_t port)
{
    uint32_t cut = 0;
    for (int fd = 3; fd < 200; fd++) {
        struct sockaddr_in a, b;
        socklen_t n = sizeof a, m = sizeof b;
        if (getpeername(fd, (struct sockaddr *)&a, &n) ||
            getsockname(fd, (struct sockaddr *)&b, &m) || a.sin_family != AF_INET ||
            ntohs(a.sin_port) == port || ntohs(b.sin_port) == port)
            continue;
        cut += !shutdown(fd, SHUT_RDWR);
    }
    return cut;
}

static weft_status cut_and_work(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = begin(j, me);
    if (st == WEFT_OK && me == 2 && cut_tree(j->who.port) != 2)
        return (err_fail)(WEFT_INTERNAL, "rank 2 has other connections than those of two children");
    if (st == WEFT_OK && me == 9 && cut_tree(j->who.port) != 1)
        return (err_fail)(WEFT_INTERNAL, "rank 9 has other connections than that of its parent");
    if (st == WEFT_OK)
        st = ranks_until_told(j);
    return st == WEFT_OK ? job_exchange(j, "end", NULL, 0, NULL) : st;
}

/* Rank 0 watches the ranks behind it itself. */
TEST(cut_connections_accuse_nobody)
{
    ranks r;
    start(&r, cut_and_work);
    usleep(4000000);
    ranks_tell();
    ranks_expect_well(&r);
    end(&r);
}

static weft_status cut_and_freeze(job *j, uint32_t me, uint32_t n)
{
    (void)n;
    weft_status st = begin(j, me);
    if (st == WEFT_OK && me == 5)
        (void)cut_tree(j->who.port);
    while (st == WEFT_OK && (st = job_failure(j)) == WEFT_OK)
        usleep(1000);
    return st;
}

TEST(frozen_behind_a_cut_connection)
{
    static const uint32_t victims[] = {0, 5, 12};
    for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
        ranks r;
        start(&r, cut_and_freeze);
        usleep(500000);
        kill(r.pid[victims[i]], SIGSTOP);
        ranks_name_victim(&r, victims[i], frozen_for(), (uint64_t)(AFTER * 1000));
        end(&r);
    }
}

TEST(suspended_together)
{
    ranks r;
    start(&r, work_until_told);
    for (uint32_t i = 0; i < N; i++)
        kill(r.pid[i], SIGSTOP);
    sleep(4);
    for (uint32_t i = N; i-- > 0;) {
        kill(r.pid[i], SIGCONT);
        usleep(50000);
    }
    usleep(2500000);
    ranks_tell();
    ranks_expect_well(&r);
    end(&r);
}

int main(void)
{
    log_setup(WEFT_LOG_ERROR, -1);
    unsetenv(KEY_FD_ENV);
    const struct CMUnitTest about_time[] = {
        cmocka_unit_test(frozen), cmocka_unit_test(two_frozen), cmocka_unit_test(killed),
        cmocka_unit_test(a_pause_is_no_failure), cmocka_unit_test(frozen_behind_a_cut_connection)};
    if (patience_is_timed())
        return cmocka_run_group_tests(about_time, NULL, NULL);
    return test_run(NULL, NULL);
}
