/* Gathers of groups and exchanges, request by request and without a network: who is answered, when,
 * with what; requests that are damaged; and the limits of what plugins put into the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "job/store/gather.h"
#include "job/store/parts.h"
#include "job/wire/wire.h"

#include "replies.h"

#include <cmocka.h> /* last: it has a macro called fail */

static job_gathers *fresh(void)
{
    memset(reply, 0, sizeof reply);
    return job_gathers_open(RANKS, on_reply, reply);
}

static void join(job_gathers *g, uint32_t rank, const char *key, const uint32_t *members,
                 uint32_t n, const char *text, uint64_t due)
{
    const job_gather_request r = {.total = strlen(text),
                                  .n = n,
                                  .member = members,
                                  .fragment = (const uint8_t *)text,
                                  .bytes = strlen(text)};
    uint64_t bytes;
    uint8_t *request = job_gather_pack(&r, &bytes);
    job_gathers_join(g, rank, key, request, bytes, due);
    free(request);
}

static void expect_parts(uint32_t rank, uint32_t n, const char *all)
{
    char out[64] = "";
    assert_int_equal(reply[rank].times, 1);
    assert_int_equal(reply[rank].status, WEFT_OK);
    const uint64_t each = strlen(all) / n;
    assert_int_equal(job_parts_spread((const uint8_t *)reply[rank].bytes, reply[rank].n, n, each,
                                      (uint8_t *)out, each),
                     WEFT_OK);
    assert_string_equal(out, all);
}

TEST(groups_are_apart)
{
    static const uint32_t even[] = {0, 2}, odd[] = {1, 3};
    job_gathers *g = fresh();
    join(g, 0, "k", even, 2, "a0", 10);
    join(g, 1, "k", odd, 2, "b1", 10);
    join(g, 3, "k", odd, 2, "b3", 10);
    assert_int_equal(reply[0].times, 0);
    expect_parts(1, 2, "b1b3");
    expect_parts(3, 2, "b1b3");
    join(g, 2, "k", even, 2, "a2", 10);
    expect_parts(0, 2, "a0a2");
    expect_parts(2, 2, "a0a2");
    job_gathers_close(g);
}

TEST(all_ranks_with_or_without_a_list)
{
    static const uint32_t all[] = {0, 1, 2, 3};
    job_gathers *g = fresh();
    join(g, 3, "k", NULL, RANKS, "d", 10);
    join(g, 1, "k", all, RANKS, "b", 10);
    join(g, 0, "other", NULL, RANKS, "x", 10); /* another key is another gather */
    assert_int_equal(reply[0].times, 0);
    join(g, 2, "k", NULL, RANKS, "c", 10);
    job_gathers_tick(g, 10);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(reply[r].status, WEFT_PEER);
    assert_non_null(strstr(reply[1].bytes, "'k' still waits for rank 0,"));
    assert_non_null(strstr(reply[0].bytes, "'other' still waits for rank 1, rank 2, rank"));
    job_gathers_close(g);
}

TEST(disagreement)
{
    static const uint32_t pair[] = {0, 1}, three[] = {0, 1, 2};
    job_gathers *g = fresh();
    join(g, 0, "k", pair, 2, "aa", 10);
    join(g, 1, "k", pair, 2, "a", 10);
    assert_int_equal(reply[0].status, WEFT_PEER);
    assert_int_equal(reply[1].status, WEFT_PEER);
    assert_non_null(strstr(reply[0].bytes, "rank 1 gathers 'k' over 2 ranks (1 bytes"));
    memset(reply, 0, sizeof reply);
    join(g, 0, "k", pair, 2, "a", 10);
    join(g, 2, "k", three, 3, "a", 10); /* shares members with the first */
    assert_int_equal(reply[0].status, WEFT_PEER);
    assert_int_equal(reply[2].status, WEFT_PEER);
    assert_int_equal(reply[0].times, 1);
    job_gathers_close(g);
}

TEST(damaged_requests)
{
    static const uint32_t pair[] = {0, 1};
    const job_gather_request good = {
        .total = 2, .n = 2, .member = pair, .fragment = (const uint8_t *)"ab", .bytes = 2};
    uint64_t bytes;
    uint8_t *request = job_gather_pack(&good, &bytes);
    static const struct {
        uint32_t at;
        uint8_t to;
    } damage[] = {{0, 1},  {2, 2},  {7, 1},  {8, 3},  {8, 0},
                  {11, 1}, {12, 1}, {16, 1}, {20, 4}, {23, 1}};
    job_gathers *g = fresh();
    for (uint64_t cut = 0; cut < 24; cut++)
        job_gathers_join(g, 0, "k", request, cut, 10);
    assert_int_equal(reply[0].times, 24);
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        const uint8_t old = request[damage[i].at];
        request[damage[i].at] = damage[i].to;
        reply[0].status = WEFT_OK;
        job_gathers_join(g, 0, "k", request, bytes, 10);
        if (reply[0].status != WEFT_USAGE)
            fail_msg("byte %u = %u is accepted", damage[i].at, damage[i].to);
        request[damage[i].at] = old;
    }
    job_gathers_join(g, 2, "k", request, bytes, 10);
    assert_int_equal(reply[2].status, WEFT_USAGE);
    assert_non_null(strstr(reply[2].bytes, "not among its members"));
    free(request);
    job_gathers_close(g);
}

TEST(values_of_plugins)
{
    memset(reply, 0, sizeof reply);
    job_store *s = job_store_open(RANKS, on_reply, reply);
    job_store_find(s, 1, "k");
    assert_int_equal(reply[1].status, WEFT_BUSY);
    job_store_get(s, 3, "k", 100);
    job_store_add(s, 0, "k", "v", 1);
    assert_int_equal(reply[0].status, WEFT_OK);
    assert_int_equal(reply[3].times, 1);
    job_store_add(s, 2, "k", "w", 1);
    assert_int_equal(reply[2].status, WEFT_USAGE);
    job_store_find(s, 1, "k");
    assert_int_equal(reply[1].status, WEFT_OK);
    assert_int_equal(reply[1].bytes[0], 'v');
    char *big = calloc(1, GATHER_VALUE_MAX);
    uint32_t added = 0;
    for (; added < 2000; added++) {
        char key[16];
        snprintf(key, sizeof key, "n%u", added);
        job_store_add(s, 0, key, big, GATHER_VALUE_MAX);
        if (reply[0].status != WEFT_OK)
            break;
    }
    assert_int_equal(added, STORE_ADDED_MAX / GATHER_VALUE_MAX - 1); /* keys take room too */
    assert_int_equal(reply[0].status, WEFT_NO_MEMORY);
    job_store_put(s, 0, "core", big, GATHER_VALUE_MAX); /* the core has room of its own */
    assert_int_equal(reply[0].status, WEFT_OK);
    free(big);
    job_store_close(s);
}

TEST(exchange)
{
    job_gathers *g = fresh();
    static const uint32_t order[RANKS] = {2, 0, 3, 1};
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < RANKS; i++) {
            char part[2] = {(char)('a' + order[i]), (char)('0' + round)};
            assert_int_equal(reply[order[i]].times, round);
            job_gathers_exchange(g, order[i], "x", part, 2, 10);
        }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(reply[r].times, 3);
        char all[RANKS * 2 + 1] = "";
        assert_int_equal(job_parts_spread((const uint8_t *)reply[r].bytes, reply[r].n, RANKS, 2,
                                          (uint8_t *)all, 2),
                         WEFT_OK);
        assert_string_equal(all, "a2b2c2d2");
    }
    job_gathers_close(g);
}

TEST(exchange_fails)
{
    job_gathers *g = fresh();
    job_gathers_exchange(g, 2, "x", "ab", 2, 10);
    job_gathers_exchange(g, 0, "x", "ab", 2, 10);
    job_gathers_tick(g, 9);
    assert_int_equal(reply[0].times, 0);
    job_gathers_tick(g, 10);
    assert_int_equal(reply[0].status, WEFT_PEER);
    assert_string_equal(reply[2].bytes,
                        "the exchange 'x' still waits for rank 1, rank 3, and its time is over");
    job_gathers_exchange(g, 1, "x", "ab", 2, 10);
    job_gathers_exchange(g, 3, "x", "abc", 3, 10);
    assert_int_equal(reply[1].status, WEFT_PEER);
    assert_non_null(strstr(reply[3].bytes, "rank 3 exchanges 'x' (3 bytes) while rank 1"));
    job_gathers_exchange(g, 0, "y", NULL, UINT64_MAX / 2, 10);
    assert_int_equal(reply[0].status, WEFT_USAGE);
    job_gathers_close(g);
}
