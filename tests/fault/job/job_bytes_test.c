/* How many bytes does a start cost, per rank and at rank 0, for 16, 64 and 256 ranks? The exchanges
 * are those of a training job: sites, the probes of all transports, the comparison of jobs, the
 * checkpoint to resume from. What crossed the sockets is asked of the kernel. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <test.h>
/* after netinet/in.h */
#include <linux/tcp.h>

#define RANKS_MAX 256
#include "job/host_map.h"
#include "ranks.h"

#define PROBES 10240 /* what plan/carrier.c asks all ranks */
#define RESUME 4096
#define CHILDREN 32u /* of a rank in the tree of heartbeats, from 34 ranks on */
#define CHILD 1536u  /* the handshake of one of them */
#define BEATS 8u  /* heartbeats a second over a connection, both directions: one in 250 ms each */
#define BEAT 160u /* bytes of one, with the TLS record around it */

static uint64_t *counted; /* [RANKS_MAX], shared with the ranks */

/* Bytes that all TCP sockets of this process have sent and received. */
static uint64_t count_bytes(void)
{
    uint64_t sum = 0;
    for (int fd = 3; fd < 1024; fd++) {
        struct tcp_info t = {0};
        socklen_t n = sizeof t;
        if (!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &t, &n))
            sum += t.tcpi_bytes_acked + t.tcpi_bytes_received;
    }
    return sum;
}

static weft_status start(job *j, uint32_t me, uint32_t n)
{
    uint8_t *all = malloc((size_t)n * PROBES), mine[PROBES];
    job_identity who = {.rank = me, .ranks = n, .local_ranks = n, .addr = "127.0.0.1"};
    job_hosts hosts = {0};
    weft_status st = job_find_hosts(j, &who, &hosts);
    if (st == WEFT_OK && hosts.machines != 1)
        st = (err_fail)(WEFT_INTERNAL, "%u machines were found", hosts.machines);
    memset(mine, 7, sizeof mine);
    if (st == WEFT_OK)
        st = job_exchange(j, "probes", mine, PROBES, all);
    for (size_t i = 0; st == WEFT_OK && i < (size_t)n * PROBES; i++)
        if (all[i] != 7)
            st = (err_fail)(WEFT_INTERNAL, "byte %zu of all parts is another", i);
    if (st == WEFT_OK)
        st = job_exchange(j, "agree", mine, 40, all);
    memset(mine, me ? 0 : 'x', RESUME);
    if (st == WEFT_OK)
        st = job_exchange(j, "resume", mine, RESUME, all);
    for (size_t i = 0; st == WEFT_OK && i < (size_t)n * RESUME; i++)
        if (all[i] != (i < RESUME ? 'x' : 0))
            st = (err_fail)(WEFT_INTERNAL, "byte %zu of what to resume from is another", i);
    counted[me] = count_bytes();
    free(all);
    job_free_hosts(&hosts);
    return st;
}

typedef struct cost {
    uint64_t zero, max; /* at rank 0; at the other rank that has most */
    uint64_t beats;     /* bytes of heartbeats over one connection, at most: they grow with time */
} cost;

static cost play(uint32_t n)
{
    static ranks r;
    cost c = {0};
    ranks_prepare(&r, n);
    r.join_timeout = 90;
    const uint64_t since = clock_ms();
    ranks_start(&r, start);
    ranks_expect_well(&r);
    ranks_end(&r);
    c.beats = BEAT * BEATS * ((clock_ms() - since) / 1000 + 1);
    c.zero = counted[0];
    for (uint32_t i = 1; i < n; i++)
        c.max = counted[i] > c.max ? counted[i] : c.max;
    print_message("%3u ranks: %7llu bytes a rank, %9llu at rank 0, at most %llu of heartbeats\n", n,
                  (unsigned long long)c.max, (unsigned long long)c.zero,
                  (unsigned long long)c.beats);
    return c;
}

TEST(linear)
{
    cost first = play(16);
    for (uint32_t n = 64; n <= 256; n *= 4) {
        cost c = play(n);
        if (c.max > 2 * first.max + CHILDREN * (CHILD + c.beats))
            fail_msg("a rank of %u costs more than twice as much as one of 16 and its children", n);
        if (c.zero > 2 * first.zero * n / 16 + n * c.beats)
            fail_msg("rank 0's bytes grow faster than the number of ranks");
    }
}

int main(void)
{
    log_setup(-1, -1);
    unsetenv(KEY_FD_ENV);
    counted = mmap(NULL, RANKS_MAX * sizeof *counted, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return test_run(NULL, NULL);
}
