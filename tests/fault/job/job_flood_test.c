/* Does a job begin while a stranger holds 1,200 connections to the store's port and opens 30 new
 * ones each second, replays of a recorded handshake of a rank among them? And what does it cost
 * rank 0, kernel memory included? */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <test.h>

#include "flood.h"
#include "ranks.h"

#define GROWTH_MAX (4u << 20)

static weft_status meet(job *j, uint32_t me, uint32_t n)
{
    (void)me, (void)n;
    return job_exchange(j, "end", NULL, 0, NULL);
}

static int dial_wait(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < RANKS_WAIT_MS / 10; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (!connect(fd, (struct sockaddr *)&a, sizeof a))
            return fd;
        close(fd);
        usleep(10000);
    }
    fail_msg("nobody listens at port %u", port);
    return -1;
}

/* Copy what has come from one end to the other. False: the connection has ended. */
static bool copy(int from, int to, int record)
{
    char room[4096];
    ssize_t n = recv(from, room, sizeof room, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0;
    if (record >= 0 && write(record, room, (size_t)n) != n)
        return false;
    return send(to, room, (size_t)n, MSG_NOSIGNAL) == n;
}

/* Pass one connection on to `port`, both ways; what its client sends first goes to `record`. */
static void relay(int listener, uint16_t port, int record)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int from = accept(listener, NULL, NULL), to = dial_wait(port);
    struct pollfd p[2] = {{.fd = from, .events = POLLIN}, {.fd = to, .events = POLLIN}};
    for (bool open = true, first = true; open && poll(p, 2, -1) > 0;) {
        if (p[0].revents) {
            open = copy(from, to, first ? record : -1);
            first = false;
        }
        if (open && p[1].revents)
            open = copy(to, from, -1);
    }
    _exit(0);
}

/* Rank `me` joins through a relay, which records the first flight of its handshake. */
static pid_t join_recorded(ranks *r, uint32_t me, flood *f)
{
    struct sockaddr_in a;
    int listener = loopback_listen(&a), ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        relay(listener, r->port, ends[1]);
    uint16_t port = r->port;
    r->port = ntohs(a.sin_port);
    ranks_start_one(r, me, meet);
    r->port = port;
    ssize_t got = read(ends[0], f->record, sizeof f->record);
    assert_true(got > 100);
    f->record_bytes = (uint32_t)got;
    close(listener);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static uint64_t resident_bytes(pid_t pid)
{
    char path[64], line[256];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %lu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (uint64_t)kib << 10;
}

/* Milliseconds from the start of the last rank to the end of the job; *growth: of rank 0. */
static uint64_t play(uint32_t connections, uint64_t *growth)
{
    ranks r;
    flood f = {.connections = connections, .a_second = 30};
    ranks_prepare(&r, 3);
    ranks_start_one(&r, 0, meet);
    pid_t between = join_recorded(&r, 1, &f);
    usleep(500000);
    f.port = r.port;
    uint64_t before = resident_bytes(r.pid[0]) + flood_kernel_bytes(r.port), max = before;
    if (connections)
        flood_start(&f);
    for (int i = 0; connections && i < 60; i++) {
        uint64_t now = resident_bytes(r.pid[0]) + flood_kernel_bytes(r.port);
        max = now > max ? now : max;
        usleep(50000);
    }
    uint64_t began = clock_ms();
    ranks_start_one(&r, 2, meet);
    ranks_expect_well(&r);
    uint64_t took = clock_ms() - began;
    if (connections)
        flood_end(&f);
    kill(between, SIGKILL);
    waitpid(between, NULL, 0);
    ranks_end(&r);
    *growth = max - before;
    return took;
}

TEST(flooded)
{
    uint64_t growth, alone = play(0, &growth), took = play(1200, &growth);
    print_message(
        "the job began after %llu ms, %llu ms without the flood; rank 0 grew by %llu KiB\n",
        (unsigned long long)took, (unsigned long long)alone, (unsigned long long)growth >> 10);
    if (took > alone + patience(5000))
        fail_msg("the job began after %llu ms, %llu ms without the flood", (unsigned long long)took,
                 (unsigned long long)alone);
    if (!getenv("WEFT_SANITIZED") && growth > GROWTH_MAX)
        fail_msg("rank 0 grew by %llu KiB, kernel memory included",
                 (unsigned long long)growth >> 10);
}

int main(void)
{
    log_setup(-1, -1);
    unsetenv(KEY_FD_ENV);
    signal(SIGPIPE, SIG_IGN);
    return test_run(NULL, NULL);
}
