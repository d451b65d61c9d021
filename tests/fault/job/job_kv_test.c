/* The table "weft.host.kv/1" among real processes, in a job of one rank and while planning: what is
 * put is got, groups gather, and a wrong call or a rank that fails ends in words. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <test.h>

#include <weft/host.h>

#include "job/kv.h"
#include "ranks.h"

#define N 4
#define BIG 65536u

static const weft_host_kv *open_table(job *j, uint32_t kind, job_kv **out)
{
    *out = job_kv_create(j, kind);
    return job_kv_table(*out, "acme.one");
}

static void broken(int line, const char *what)
{
    fprintf(stderr, "line %d: %s does not hold (%s)\n", line, what, err_text());
    _exit(1);
}

/* What does not hold ends the rank. */
#define MUST(holds) ((holds) ? (void)0 : broken(__LINE__, #holds))

static weft_status gather(const weft_host_kv *t, const char *key, const uint32_t *members,
                          uint32_t n, const void *in, uint64_t bytes, void *out)
{
    const weft_kv_gather a = {sizeof a, 0, key, members, n, 0, in, bytes, out};
    return t->all_gather(t->ctx, &a);
}

/* Every rank gets what one has put; keys of another plugin are others. */
static weft_status exchange_values(const weft_host_kv *t, const weft_host_kv *other, uint32_t me,
                                   uint32_t n)
{
    char text[8] = "";
    uint64_t bytes = sizeof text;
    MUST(t->rank == me && t->ranks == n && t->struct_size == sizeof *t);
    if (!me) {
        MUST(t->get(t->ctx, "id", text, &bytes) == WEFT_BUSY && bytes == sizeof text);
        MUST(!*err_text());
        MUST(t->put(t->ctx, "id", "seven", 5) == WEFT_OK);
        MUST(t->put(t->ctx, "id", "other", 5) == WEFT_USAGE && strstr(err_text(), "set once"));
        err_clear();
        MUST(other->put(other->ctx, "id", "8", 1) == WEFT_OK);
    }
    MUST(gather(t, "barrier", NULL, 0, NULL, 0, NULL) == WEFT_OK);
    MUST(t->get(t->ctx, "id", text, &bytes) == WEFT_OK && bytes == 5 && !memcmp(text, "seven", 5));
    bytes = 4;
    MUST(t->get(t->ctx, "id", text, &bytes) == WEFT_USAGE && bytes == 4);
    MUST(strstr(err_text(), "has 5 bytes; the room is 4"));
    err_clear();
    bytes = sizeof text;
    MUST(other->get(other->ctx, "id", text, &bytes) == WEFT_OK && bytes == 1 && *text == '8');
    return WEFT_OK;
}

/* Pairs under one key at the same time, then all with the largest value, in place. */
static weft_status exchange_groups(const weft_host_kv *t, uint32_t me, uint32_t n)
{
    const uint32_t pair[2] = {me & ~1u, me | 1u};
    uint32_t got[2] = {0};
    MUST(gather(t, "pair", pair, 2, &me, 4, got) == WEFT_OK);
    MUST(got[0] == pair[0] && got[1] == pair[1]);
    MUST(gather(t, "pair", pair, 2, &me, 4, got) == WEFT_USAGE);
    MUST(strstr(err_text(), "'pair' already"));
    err_clear();
    uint8_t *all = malloc((size_t)n * BIG);
    for (uint32_t i = 0; i < BIG; i++)
        all[me * BIG + i] = (uint8_t)(i * 31 + me);
    MUST(gather(t, "big", NULL, n, all + me * BIG, BIG, all) == WEFT_OK);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < BIG; i++)
            MUST(all[r * BIG + i] == (uint8_t)(i * 31 + r));
    free(all);
    return WEFT_OK;
}

static weft_status refuse_calls(const weft_host_kv *t, uint32_t me)
{
    static const char *const bad[] = {
        "",         "a\nb", "\x7f",
        "\xc3\xa4", NULL,   "0123456789012345678901234567890123456789012345678901234567890123"};
    const uint32_t not_me[] = {(me + 1) % N}, twice[] = {me, me}, far[] = {me, N};
    char *big = calloc(1, BIG + 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 0;
        MUST(t->put(t->ctx, bad[i], "", 0) == WEFT_USAGE);
        MUST(t->get(t->ctx, bad[i], NULL, &bytes) == WEFT_USAGE);
        MUST(gather(t, bad[i], NULL, 0, NULL, 0, NULL) == WEFT_USAGE);
    }
    MUST(t->put(t->ctx, "long", big, BIG + 1) == WEFT_USAGE && strstr(err_text(), "65537 bytes"));
    MUST(t->put(t->ctx, "null", NULL, 1) == WEFT_USAGE);
    MUST(t->get(t->ctx, "null", big, NULL) == WEFT_USAGE);
    MUST(gather(t, "m", not_me, 1, &me, 4, big) == WEFT_USAGE && strstr(err_text(), "no member"));
    MUST(gather(t, "m", twice, 2, &me, 4, big) == WEFT_USAGE);
    MUST(gather(t, "m", far, 2, &me, 4, big) == WEFT_USAGE && strstr(err_text(), "ascending"));
    MUST(gather(t, "m", NULL, 3, &me, 4, big) == WEFT_USAGE && strstr(err_text(), "3 members"));
    MUST(gather(t, "m", NULL, 0, &me, BIG + 1, big) == WEFT_USAGE);
    MUST(gather(t, "m", NULL, 0, &me, 4, NULL) == WEFT_USAGE);
    weft_kv_gather a = {sizeof a, 1, "m", NULL, 0, 0, NULL, 0, NULL};
    MUST(t->all_gather(t->ctx, &a) == WEFT_UNSUPPORTED);
    MUST(t->all_gather(t->ctx, NULL) == WEFT_USAGE);
    free(big);
    err_clear();
    return WEFT_OK;
}

static weft_status all_calls(job *j, uint32_t me, uint32_t n)
{
    job_kv *kv;
    const weft_host_kv *t = open_table(j, JOB_KV_JOB, &kv);
    const weft_host_kv *other = job_kv_table(kv, "acme.two");
    MUST(t != other && t == job_kv_table(kv, "acme.one"));
    weft_status st = exchange_values(t, other, me, n);
    if (st == WEFT_OK)
        st = exchange_groups(t, me, n);
    if (st == WEFT_OK)
        st = refuse_calls(t, me);
    job_kv_end(kv);
    if (st == WEFT_OK)
        MUST(t->put(t->ctx, "late", "", 0) == WEFT_UNSUPPORTED && strstr(err_text(), "has ended"));
    err_clear();
    job_kv_free(kv);
    return st;
}

TEST(ranks_exchange)
{
    ranks r;
    ranks_prepare(&r, N);
    ranks_start(&r, all_calls);
    ranks_expect_well(&r);
    ranks_end(&r);
}

/* --- ranks that fail --- */

static weft_status in_gather(job *j, uint32_t me, uint32_t n)
{
    job_kv *kv;
    const weft_host_kv *t = open_table(j, JOB_KV_JOB, &kv);
    uint32_t all[N];
    (void)n;
    weft_status st = ranks_at_work(j);
    if (me == 2) /* never gathers */
        for (;;)
            pause();
    return st == WEFT_OK ? gather(t, "all", NULL, 0, &me, 4, all) : st;
}

/* All but rank 2 end with WEFT_PEER, and one of the words. */
static void others_name(ranks *r, const char *word)
{
    for (uint32_t i = 0; i < N; i++) {
        if (i == 2)
            continue;
        assert_int_equal(ranks_wait(r, i, RANKS_WAIT_MS), 0);
        assert_int_equal(r->report[i].body, WEFT_PEER);
        if (!strstr(r->report[i].text, word))
            fail_msg("rank %u says '%s', without '%s'", i, r->report[i].text, word);
    }
}

TEST(killed_member_is_named)
{
    ranks r;
    ranks_prepare(&r, N);
    ranks_start(&r, in_gather);
    ranks_wait_ready(&r, N);
    kill(r.pid[2], SIGKILL);
    others_name(&r, "rank 2 is gone");
    ranks_end(&r);
}

TEST(missing_member_is_named)
{
    ranks r;
    ranks_prepare(&r, N);
    r.join_timeout = 5;
    ranks_start(&r, in_gather);
    ranks_wait_ready(&r, N);
    others_name(&r, "rank 2");
    ranks_end(&r);
}

static weft_status other_length(job *j, uint32_t me, uint32_t n)
{
    job_kv *kv;
    const weft_host_kv *t = open_table(j, JOB_KV_JOB, &kv);
    uint64_t mine = me, all[N];
    (void)n;
    return gather(t, "all", NULL, 0, &mine, me == 1 ? 8 : 4, all);
}

static weft_status other_members(job *j, uint32_t me, uint32_t n)
{
    job_kv *kv;
    const weft_host_kv *t = open_table(j, JOB_KV_JOB, &kv);
    static const uint32_t three[] = {0, 1, 3};
    uint32_t all[N];
    (void)n;
    return me == 1 ? gather(t, "all", three, 3, &me, 4, all)
                   : gather(t, "all", NULL, 0, &me, 4, all);
}

TEST(members_must_agree)
{
    static const rank_body bodies[] = {other_length, other_members};
    for (int k = 0; k < 2; k++) {
        ranks r;
        uint32_t named = 0;
        ranks_prepare(&r, N);
        ranks_start(&r, bodies[k]);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(ranks_wait(&r, i, RANKS_WAIT_MS), 0);
            assert_int_equal(r.report[i].body, WEFT_PEER);
            named += strstr(r.report[i].text, "do not run the same configuration") != NULL;
        }
        assert_true(named >= 2);
        ranks_end(&r);
    }
}

/* --- without other ranks --- */

TEST(one_rank)
{
    job_kv *kv;
    const weft_host_kv *t = open_table(NULL, JOB_KV_JOB, &kv);
    uint32_t in = 7, out = 0;
    uint64_t bytes = sizeof out;
    static const uint32_t me[] = {0};
    assert_int_equal(t->rank, 0);
    assert_int_equal(t->ranks, 1);
    assert_int_equal(t->get(t->ctx, "k", &out, &bytes), WEFT_BUSY);
    assert_int_equal(t->put(t->ctx, "k", &in, sizeof in), WEFT_OK);
    assert_int_equal(t->put(t->ctx, "k", &in, sizeof in), WEFT_USAGE);
    assert_int_equal(t->get(t->ctx, "k", &out, &bytes), WEFT_OK);
    assert_int_equal(out, 7);
    in = 9;
    assert_int_equal(gather(t, "g", me, 1, &in, sizeof in, &out), WEFT_OK);
    assert_int_equal(out, 9);
    assert_int_equal(gather(t, "g", me, 1, &in, sizeof in, &out), WEFT_USAGE);
    job_kv_free(kv);
}

TEST(planning)
{
    job_kv *kv;
    const weft_host_kv *t = open_table(NULL, JOB_KV_PLANNING, &kv);
    uint64_t bytes = 0;
    assert_int_equal(t->put(t->ctx, "k", "", 0), WEFT_UNSUPPORTED);
    assert_int_equal(t->get(t->ctx, "k", NULL, &bytes), WEFT_UNSUPPORTED);
    assert_int_equal(gather(t, "k", NULL, 0, NULL, 0, NULL), WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "while planning"));
    job_kv_free(kv);
}
