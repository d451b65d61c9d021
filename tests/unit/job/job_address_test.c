/* Are places read as a user writes them, and is a name that does not resolve tried until the
 * deadline, and no longer? tests/kubernetes has a name that comes late. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "base/clock.h"
#include "base/err.h"
#include "job/wire/endpoint.h"
#include "job/wire/resolve.h"
#include "patience.h"

#include <cmocka.h> /* last: it has a macro called fail */

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage out = {.ss_family = AF_UNSPEC};
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *list = NULL;
    assert_int_equal(getaddrinfo(text, NULL, &hints, &list), 0);
    memcpy(&out, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return out;
}

TEST(kinds)
{
    static const struct {
        const char *text, *printed;
        bool wildcard, loopback;
    } rows[] = {{"0.0.0.0", "0.0.0.0", true, false},
                {"::", "::", true, false},
                {"127.0.0.1", "127.0.0.1", false, true},
                {"127.9.9.9", "127.9.9.9", false, true},
                {"::1", "::1", false, true},
                {"10.0.0.1", "10.0.0.1", false, false},
                {"::ffff:10.0.0.1", "10.0.0.1", false, false},
                {"::ffff:127.0.0.1", "127.0.0.1", false, true},
                {"fd00::1", "fd00::1", false, false}};
    char text[80];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sockaddr_storage a = address(rows[i].text);
        assert_int_equal(job_endpoint_is_wildcard((const void *)&a), rows[i].wildcard);
        assert_int_equal(job_endpoint_is_loopback((const void *)&a), rows[i].loopback);
        assert_true(job_endpoint_print((const void *)&a, text, sizeof text));
        assert_string_equal(text, rows[i].printed);
    }
}

TEST(lengths)
{
    char name[8];
    uint16_t port;
    assert_true(job_endpoint_split("seven77:1", name, sizeof name, &port));
    assert_string_equal(name, "seven77");
    assert_false(job_endpoint_split("eight888:1", name, sizeof name, &port));
    assert_false(job_endpoint_split("[1:2:3:4:5]", name, sizeof name, &port));
    assert_true(job_endpoint_is_name("a-b.c_d.e"));
    assert_true(job_endpoint_is_name("m\xc3\xbcnchen"));
    assert_false(job_endpoint_is_name("a b"));
    assert_false(job_endpoint_is_name("a/b"));
    assert_false(job_endpoint_is_name(""));
}

TEST(own)
{
    static const char *const right[] = {"127.0.0.1", "lo", "127.0.0.0/8", "127.0.0.1/32",
                                        "126.0.0.0/7"};
    static const char *const wrong[] = {"127.0.0.0/32", "128.0.0.0/8", "l", "lo0",      "::/129",
                                        "127.0.0.0/",   "/8",          "",  "localhost"};
    char out[80];
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        if (job_endpoint_find_own(right[i], out, sizeof out) != WEFT_OK)
            fail_msg("'%s': %s", right[i], err_text());
        assert_string_equal(out, "127.0.0.1");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(job_endpoint_find_own(wrong[i], out, sizeof out), WEFT_USAGE);
}

/* --- resolving --- */

static weft_status wait_plain(void *ctx, int fd, uint64_t until)
{
    uint32_t *calls = ctx;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    const uint64_t now = clock_ms();
    ++*calls;
    return poll(&p, 1, until > now ? (int)(until - now) : 0) > 0 ? WEFT_OK : WEFT_BUSY;
}

static weft_status wait_ends(void *ctx, int fd, uint64_t until)
{
    (void)ctx;
    (void)fd;
    (void)until;
    return err_fail(WEFT_PEER, "a signal");
}

static weft_status resolve(const char *name, job_resolve_wait wait, uint32_t *calls,
                           uint64_t timeout_ms, uint64_t *took)
{
    job_identity who = {.rank = 1, .ranks = 2, .port = 29500};
    const uint64_t began = clock_ms();
    snprintf(who.addr, sizeof who.addr, "%s", name);
    job_resolver r = {.who = &who, .deadline = began + timeout_ms, .wait = wait, .ctx = calls};
    err_clear();
    weft_status st = job_resolver_start(&r);
    if (st == WEFT_OK) {
        const struct sockaddr_in *a = (const void *)r.list->ai_addr;
        assert_int_equal(ntohs(a->sin_port), 29500); /* at the same place in both versions */
    }
    job_resolver_end(&r);
    *took = clock_ms() - began;
    return st;
}

TEST(resolving)
{
    uint64_t took;
    uint32_t calls = 0;
    assert_int_equal(resolve("127.0.0.1", wait_plain, &calls, 60000, &took), WEFT_OK);
    assert_int_equal(resolve("::1", wait_plain, &calls, 60000, &took), WEFT_OK);
    assert_int_equal(resolve("localhost", wait_plain, &calls, 60000, &took), WEFT_OK);
    assert_int_equal(resolve("no such name", wait_plain, &calls, 60000, &took), WEFT_USAGE);
    assert_true(took < patience(1000));
    /* Whether the answer is "no such name" or there is none: it ends with the time. */
    assert_int_equal(resolve("weft-test.invalid", wait_plain, &calls, 700, &took), WEFT_PEER);
    assert_in_range(took, 700, patience(2000));
    assert_non_null(strstr(err_text(), "MASTER_ADDR=weft-test.invalid did not lead to an address"));
    assert_non_null(strstr(err_text(), "within 1 s"));
    assert_int_equal(resolve("weft-test.invalid", wait_ends, NULL, 60000, &took), WEFT_PEER);
    assert_true(took < patience(1000));
    assert_non_null(strstr(err_text(), "a signal"));
}

/* All addresses in turn, then a pause and the first again; resolved anew after a second. */
TEST(rounds)
{
    job_identity who = {.rank = 1, .ranks = 2, .port = 9, .addr = "127.0.0.1"};
    uint32_t calls = 0, n = 0;
    const uint64_t began = clock_ms();
    job_resolver r = {.who = &who, .deadline = began + 600000, .wait = wait_plain, .ctx = &calls};
    const struct addrinfo *a = NULL, *first;
    assert_int_equal(job_resolver_next(&r, &a), WEFT_OK);
    first = a;
    for (; a == first && clock_ms() - began < patience(10000); n++)
        assert_int_equal(job_resolver_next(&r, &a), WEFT_OK);
    assert_ptr_not_equal(a, first); /* a new list, while the old one was still there */
    const uint64_t took = clock_ms() - began;
    assert_in_range(n, patience_is_timed() ? 2 : 1, took / 50 + 2); /* 50 ms is the pause */
    assert_in_range(took, 1000, patience(5000));
    job_resolver_end(&r);
}
