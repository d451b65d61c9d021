/* Whoever can reach the store's port and does not hold the key changes nothing; whoever holds it
 * and breaks the protocol ends the job in words, and takes no memory that it announces. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <test.h>

#include "base/number/rng.h"
#include "job/wire/handshake.h"
#include "job/wire/wire.h"
#include "ranks.h"

#define FLOOD 1000

static weft_status hello_all(job *j, uint32_t me, uint32_t n)
{
    uint32_t all[RANKS_MAX];
    weft_status st = job_exchange(j, "ranks", &me, sizeof me, all);
    for (uint32_t r = 0; st == WEFT_OK && r < n; r++)
        if (all[r] != r)
            st = (err_fail)(WEFT_INTERNAL, "another rank's number came");
    return st != WEFT_OK ? st : job_exchange(j, "end", NULL, 0, NULL);
}

static weft_status hello_and_stay(job *j, uint32_t me, uint32_t n)
{
    weft_status st = hello_all(j, me, n);
    if (st == WEFT_OK)
        st = ranks_at_work(j);
    return st == WEFT_OK ? ranks_until_told(j) : st;
}

static int dial(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!connect(fd, (struct sockaddr *)&a, sizeof a))
        return fd;
    close(fd);
    return -1;
}

/* Until rank 0 listens. */
static void wait_listening(uint16_t port)
{
    for (int i = 0; i < RANKS_WAIT_MS / 10; i++) {
        int fd = dial(port);
        if (fd >= 0) {
            close(fd);
            return;
        }
        usleep(10000);
    }
    fail_msg("nobody listens at port %u", port);
}

static long resident_kib(pid_t pid)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

/* One connection that sends what is no handshake of ours, and whose answer is awaited. */
static void throw_at(uint16_t port, const void *bytes, size_t n)
{
    int fd = dial(port);
    if (fd < 0)
        return;
    if (send(fd, bytes, n, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        fail_msg("send: %s", strerror(errno));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    poll(&p, 1, 20);
    close(fd);
}

static void throw_everything(uint16_t port)
{
    static const char http[] = "POST /rendezvous HTTP/1.1\r\nContent-Length: 2147483647\r\n\r\n";
    uint8_t noise[4096];
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)rng_below(rng_key((uint64_t)round, "attack"), i, 256);
        if (round % 4 == 1) /* frames of ours, unencrypted, that announce 2 GiB */
            memcpy(noise, "\xff\xff\xff\x7f\x01\0\0\0\0\0\0\0\0\0\0\0", 16);
        if (round % 4 == 2) /* a TLS record that announces a message of 16 MiB */
            memcpy(noise, "\x16\x03\x01\x40\x00\x01\xff\xff\xff\x03\x03", 11);
        if (round % 4 == 3) /* ... and one of just what OpenSSL allows */
            memcpy(noise, "\x16\x03\x01\x40\x00\x01\x02\x01\x00\x03\x03", 11);
        throw_at(port, noise, sizeof noise - (size_t)round * 64);
    }
    throw_at(port, http, sizeof http - 1);
    throw_at(port, "", 0);
    throw_at(port, "\x16", 1);
}

/* Every listening socket of process `pid`, as "address:port" in /proc/net/tcp's hexadecimal. */
static int listeners(pid_t pid, const char *table, char out[][64], int cap)
{
    char line[512], local[64], dir[64], link[96], name[64];
    unsigned long inode;
    unsigned state;
    int n = 0;
    FILE *f = fopen(table, "re");
    snprintf(dir, sizeof dir, "/proc/%d/fd", pid);
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, " %*d: %63s %*s %x %*s %*s %*s %*s %*s %lu", local, &state, &inode) != 3 ||
            state != 10)
            continue;
        DIR *d = opendir(dir);
        for (struct dirent *e; d && (e = readdir(d));) {
            snprintf(link, sizeof link, "%s/%.20s", dir, e->d_name);
            ssize_t len = readlink(link, name, sizeof name - 1);
            unsigned long own = 0;
            name[len > 0 ? len : 0] = 0;
            if (sscanf(name, "socket:[%lu]", &own) == 1 && own == inode && n < cap)
                snprintf(out[n++], 64, "%s", local);
        }
        if (d)
            closedir(d);
    }
    if (f)
        fclose(f);
    return n;
}

TEST(chosen_address_only)
{
    ranks r;
    ranks_prepare(&r, 2);
    ranks_prepare_to_tell();
    ranks_start_one(&r, 0, hello_and_stay);
    wait_listening(r.port);
    char found[8][64], expected[64];
    snprintf(expected, sizeof expected, "0100007F:%04X", r.port);
    assert_int_equal(listeners(r.pid[0], "/proc/net/tcp", found, 8), 1);
    assert_string_equal(found[0], expected);
    assert_int_equal(listeners(r.pid[0], "/proc/net/tcp6", found, 8), 0);
    assert_int_equal(listeners(r.pid[0], "/proc/net/udp", found, 8), 0);
    ranks_start_one(&r, 1, hello_and_stay);
    ranks_wait_ready(&r, 2); /* all are there: nothing listens any more */
    for (int i = 0; i < 2; i++)
        while (listeners(r.pid[i], "/proc/net/tcp", found, 8) > 0)
            usleep(1000);
    assert_int_equal(dial(r.port), -1);
    ranks_tell();
    ranks_expect_well(&r);
    ranks_end(&r);
    ranks_end_telling();
}

TEST(strangers)
{
    ranks r;
    ranks_prepare(&r, 3);
    ranks_prepare_to_tell();
    ranks_start_one(&r, 0, hello_and_stay);
    ranks_start_one(&r, 1, hello_and_stay);
    wait_listening(r.port);
    ranks_wait_admitted(&r, 1);
    throw_everything(r.port); /* once: OpenSSL loads its error strings, and so on */
    long before = resident_kib(r.pid[0]);
    throw_everything(r.port);
    static int idle[FLOOD];
    for (int i = 0; i < FLOOD; i++) {
        idle[i] = dial(r.port);
        if (i % 3 == 1 && idle[i] >= 0 && send(idle[i], "\x16\x03", 2, MSG_NOSIGNAL) < 0)
            assert_int_equal(errno, ECONNRESET);
    }
    uint64_t began = clock_ms();
    ranks_start_one(&r, 2, hello_and_stay); /* with all of them standing at the door */
    long max = 0;
    for (int i = 0; i < 20; i++) {
        long now = resident_kib(r.pid[0]);
        max = now > max ? now : max;
        usleep(50000);
    }
    ranks_tell();
    ranks_expect_well(&r);
    if (!getenv("WEFT_SANITIZED") && max > before + 4096)
        fail_msg("the store grew from %ld to %ld KiB under attack", before, max);
    for (int i = 0; i < 3; i++)
        assert_true(r.report[i].ended_ms < began + patience(15000));
    for (int i = 0; i < FLOOD; i++)
        if (idle[i] >= 0)
            close(idle[i]);
    ranks_end(&r);
    ranks_end_telling();
}

/* --- peers that hold the key --- */

typedef struct insider {
    job_tls_context *context;
    job_wire w;
} insider;

static void wait_wire(insider *in)
{
    struct pollfd p = {.fd = in->w.fd, .events = job_tls_wants(in->w.tls) == 2 ? POLLOUT : POLLIN};
    poll(&p, 1, 50);
}

static void insider_open(insider *in, const ranks *r)
{
    job_greeting g = {.got = 0};
    job_identity who = {.rank = 1, .ranks = 2};
    uint8_t *key = job_key_alloc(), psk[32];
    assert_int_equal(job_key_obtain(&who, r->key, key), WEFT_OK);
    int fd = dial(r->port);
    assert_true(fd >= 0);
    weft_status st;
    while ((st = job_handshake_read(&g, fd)) == WEFT_BUSY)
        usleep(1000);
    assert_int_equal(st, WEFT_OK);
    assert_int_equal(job_handshake_key(&g, key, psk), WEFT_OK);
    job_key_free(key);
    assert_int_equal(job_tls_context_open(&in->context), WEFT_OK);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    assert_int_equal(job_wire_open(&in->w, in->context, fd, false, psk), WEFT_OK);
    while ((st = job_tls_handshake(in->w.tls)) == WEFT_BUSY)
        wait_wire(in);
    assert_int_equal(st, WEFT_OK);
}

static void insider_close(insider *in)
{
    job_wire_close(&in->w);
    job_tls_context_close(in->context);
}

static void send_hello(insider *in, uint32_t rank, uint32_t n, const char *version)
{
    job_wire_hello h = {.rank = rank, .ranks = n, .process = 7};
    uint8_t body[HELLO_BYTES];
    job_wire_version(h.version);
    if (version)
        snprintf(h.version, sizeof h.version, "%s", version);
    job_wire_pack_hello(&h, body);
    job_wire_send(&in->w, WIRE_HELLO, 0, 0, body, sizeof body);
}

/* What comes back: its type, 0 for the end of the connection. */
static uint32_t answer(insider *in, char *text, uint32_t bytes)
{
    job_wire_frame f;
    in->w.limit = WIRE_BODY_MAX;
    for (uint64_t until = clock_ms() + RANKS_WAIT_MS; clock_ms() < until; wait_wire(in)) {
        weft_status st = job_wire_flush(&in->w);
        if (st == WEFT_OK || st == WEFT_BUSY)
            st = job_wire_take(&in->w, &f);
        if (st == WEFT_BUSY)
            continue;
        if (st != WEFT_OK)
            return 0;
        job_wire_text(&f, text, bytes);
        return f.type;
    }
    return 99;
}

/* A process with the key whose hello does not fit ends the job of rank 0 at once, with the reason.
 */
static void refused_hello(uint32_t rank, uint32_t n, const char *version, const char *word)
{
    ranks r;
    insider in;
    char text[WIRE_TEXT];
    ranks_prepare(&r, 2);
    ranks_start_one(&r, 0, hello_all);
    wait_listening(r.port);
    insider_open(&in, &r);
    send_hello(&in, rank, n, version);
    assert_int_equal(answer(&in, text, sizeof text), WIRE_REFUSED);
    if (!strstr(text, word))
        fail_msg("'%s' lacks '%s'", text, word);
    insider_close(&in);
    assert_int_equal(ranks_wait(&r, 0, RANKS_WAIT_MS), 0);
    assert_int_equal(r.report[0].join, WEFT_PEER);
    if (!strstr(r.report[0].text, word))
        fail_msg("rank 0 says '%s', which lacks '%s'", r.report[0].text, word);
    ranks_end(&r);
}

/* Instead of a hello: the head of a frame that is none. The connection ends. */
static void no_hello(const ranks *r, uint32_t type, uint32_t announced)
{
    insider in;
    char text[WIRE_TEXT];
    uint8_t head[WIRE_HEAD] = {(uint8_t)announced, (uint8_t)(announced >> 8),
                               (uint8_t)(announced >> 16), (uint8_t)(announced >> 24),
                               (uint8_t)type};
    uint64_t done;
    insider_open(&in, r);
    assert_int_equal(job_tls_write(in.w.tls, head, sizeof head, &done), WEFT_OK);
    assert_int_equal(answer(&in, text, sizeof text), 0);
    insider_close(&in);
}

TEST(hellos)
{
    char version[WIRE_VERSION];
    job_wire_version(version);
    refused_hello(1, 2, "ABI 9.9, wire 9", "ABI 9.9, wire 9");
    refused_hello(1, 2, "ABI 9.9, wire 9", version);
    refused_hello(1, 3, NULL, "a job of 3 ranks, rank 0 for one of 2");
    refused_hello(0, 2, NULL, "in the job already");
    refused_hello(2, 2, NULL, "rank 2");
    refused_hello(UINT32_MAX, 2, NULL, "rank 4294967295");
}

TEST(no_hellos)
{
    ranks r;
    ranks_prepare(&r, 2);
    ranks_start_one(&r, 0, hello_all);
    wait_listening(r.port);
    no_hello(&r, WIRE_HELLO, 0x7fffffff);
    no_hello(&r, WIRE_HELLO, UINT32_MAX);
    no_hello(&r, WIRE_HELLO, 0);
    no_hello(&r, WIRE_PUT, 0);
    ranks_start_one(&r, 1, hello_all); /* and nothing of it mattered */
    ranks_expect_well(&r);
    ranks_end(&r);
}

/* Has rank 0 an open connection, whether the other side has ended it or not? */
static bool has_connections(uint16_t port)
{
    char line[512];
    unsigned own, state;
    bool has = false;
    FILE *f = fopen("/proc/net/tcp", "re");
    while (f && fgets(line, sizeof line, f))
        has |= sscanf(line, " %*d: %*x:%x %*s %x", &own, &state) == 2 && own == port &&
               (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT);
    if (f)
        fclose(f);
    return has;
}

/* A rank whose attempt is over before it has read its welcome: its place is free again, for its
 * next attempt or for another process. One that comes again while the old connection still looks
 * alive takes its place. */
TEST(given_up)
{
    ranks r;
    insider first, again;
    char text[WIRE_TEXT];
    ranks_prepare(&r, 2);
    ranks_start_one(&r, 0, hello_all);
    wait_listening(r.port);
    insider_open(&first, &r);
    send_hello(&first, 1, 2, NULL);
    assert_int_equal(answer(&first, text, sizeof text), WIRE_WELCOME);
    insider_open(&again, &r);
    send_hello(&again, 1, 2, NULL);
    assert_int_equal(answer(&again, text, sizeof text), WIRE_WELCOME);
    insider_close(&first);
    insider_close(&again);
    while (has_connections(r.port)) /* rank 0 has not seen that they are gone */
        usleep(1000);
    ranks_start_one(&r, 1, hello_all);
    ranks_expect_well(&r);
    ranks_end(&r);
}

static weft_status watch(job *j, uint32_t me, uint32_t n)
{
    (void)me, (void)n;
    weft_status st = WEFT_OK;
    for (int i = 0; st == WEFT_OK && i < 20000; i++) {
        usleep(1000);
        st = job_failure(j);
    }
    return st;
}

/* Rank 1 was admitted and then sends `head` and `bytes` bytes. */
static void violates(uint32_t type, uint32_t announced, uint32_t times)
{
    ranks r;
    insider in;
    char text[WIRE_TEXT];
    ranks_prepare(&r, 2);
    ranks_start_one(&r, 0, watch);
    wait_listening(r.port);
    insider_open(&in, &r);
    send_hello(&in, 1, 2, NULL);
    assert_int_equal(answer(&in, text, sizeof text), WIRE_WELCOME);
    uint8_t frame[WIRE_HEAD + 64] = {(uint8_t)announced,
                                     (uint8_t)(announced >> 8),
                                     (uint8_t)(announced >> 16),
                                     (uint8_t)(announced >> 24),
                                     (uint8_t)type,
                                     0,
                                     0,
                                     0,
                                     0xff,
                                     0xff};
    for (uint32_t i = 0; i < times; i++) {
        uint64_t done;
        (void)!job_tls_write(in.w.tls, frame, WIRE_HEAD + (announced < 64 ? announced : 64), &done);
    }
    assert_int_equal(ranks_wait(&r, 0, RANKS_WAIT_MS), 0);
    assert_true(r.report[0].join == WEFT_PEER || r.report[0].body == WEFT_PEER);
    if (!strstr(r.report[0].text, "rank 1 broke the protocol"))
        fail_msg("rank 0 says '%s'", r.report[0].text);
    insider_close(&in);
    ranks_end(&r);
}

TEST(members)
{
    violates(WIRE_PUT, UINT32_MAX, 1);
    violates(WIRE_PUT, 0x7fffffff, 1);
    violates(WIRE_PUT, 1, 1);      /* no room for a key's length */
    violates(WIRE_HELLO, 56, 1);   /* a second hello */
    violates(WIRE_WELCOME, 16, 1); /* what only the store says */
    violates(77, 0, 1);
    violates(WIRE_BEAT, 15, 1);
    violates(WIRE_GET, 2, 2); /* a request before the last one was answered */
}

int main(void)
{
    log_setup(-1, -1);
    unsetenv(KEY_FD_ENV);
    const struct CMUnitTest about_time[] = {cmocka_unit_test(strangers)};
    if (patience_is_timed())
        return cmocka_run_group_tests(about_time, NULL, NULL);
    return test_run(NULL, NULL);
}
