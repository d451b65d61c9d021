/* Where rank 0 listens, where the others look for it, and what address each rank tells of itself.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <test.h>

#include "ranks.h"

/* Each rank says its own address, which its transports would listen at. */
static weft_status tell_address(job *j, uint32_t me, uint32_t n)
{
    char mine[80] = "", all[RANKS_MAX * 80];
    weft_status st = job_address(j, mine, sizeof mine);
    if (st == WEFT_OK)
        st = job_exchange(j, "address", mine, sizeof mine, all);
    const char *expected = getenv("WEFT_TEST_ADDRESS");
    for (uint32_t r = 0; st == WEFT_OK && r < n; r++)
        if (strcmp(all + 80 * r, expected) != 0)
            st = (err_fail)(WEFT_INTERNAL, "rank %u has %s, not %s", r, all + 80 * r, expected);
    (void)me;
    return st;
}

static bool has_version_6(void)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool has = fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a);
    if (fd >= 0)
        close(fd);
    return has;
}

/* Rank 0 listens elsewhere than the others look for it. */
TEST(listens)
{
    static const struct {
        const char *listen, *addr, *address, *own;
    } rows[] = {{"0.0.0.0", "127.0.0.1", NULL, "127.0.0.1"},
                {"::", "127.0.0.1", NULL, "127.0.0.1"}, /* of version 4, too */
                {"[::]", "::1", NULL, "::1"},
                {"::1", "::1", "::1", "::1"},
                {"127.0.0.1:%u", "127.0.0.1", "lo", "127.0.0.1"},
                {NULL, "::1", NULL, "::1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ranks r;
        char listen[40];
        snprintf(listen, sizeof listen, "%s", rows[i].listen ? rows[i].listen : "");
        if ((strstr(rows[i].addr, "::") || strstr(listen, "::")) && !has_version_6())
            continue;
        ranks_prepare(&r, 3);
        snprintf(r.addr, sizeof r.addr, "%s", rows[i].addr);
        if (strchr(listen, '%')) /* a port of its own, here the same */
            snprintf(listen, sizeof listen, "127.0.0.1:%u", r.port);
        r.listen = listen;
        r.address = rows[i].address;
        setenv("WEFT_TEST_ADDRESS", rows[i].own, 1);
        ranks_start(&r, tell_address);
        ranks_expect_well(&r);
        ranks_end(&r);
    }
}

TEST(wrong_places)
{
    ranks r;
    ranks_prepare(&r, 2);
    static const struct {
        const char *listen, *address, *word;
    } rows[] = {{"nowhere", NULL, "'nowhere' is not an address"},
                {"127.0.0.1:x", NULL, "is not ADDRESS or ADDRESS:PORT"},
                {"192.0.2.1", NULL, "[run] listen =192.0.2.1 is not an address of this machine"},
                {NULL, "198.51.100.1", "this machine has no such address"},
                {NULL, "eth77", "no interface of that name"},
                {NULL, "198.51.100.0/24", "no address in such a network"},
                {NULL, "10.0.0.0/33", "is not a network"},
                {NULL, "10.0.0/8", "is not a network"},
                {NULL, "127.0.0.1:80", "chooses a port by itself"},
                {NULL, "0.0.0.0", "means every address"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_identity who = {.ranks = 2, .local_ranks = 2, .port = r.port, .addr = "127.0.0.1"};
        job_options opt = {.key_file = r.key,
                           .join_timeout = 20,
                           .listen = rows[i].listen,
                           .address = rows[i].address};
        job *j = NULL;
        const weft_status st = job_join(&who, &opt, &j);
        if (st != WEFT_USAGE || !strstr(err_text(), rows[i].word))
            fail_msg("status %d, '%s' lacks '%s'", st, err_text(), rows[i].word);
    }
    unlink(r.key);
    unlink(r.other_key);
}
