/* Does a transport that listens let in those alone who hold the job's key, on the one address that
 * it was given? Transports that open no port skip all of it. */
#include "rig.h"
#include <test.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void need_listener(void)
{
    if (!rig_listens())
        skip();
}

static void need_encryption(void)
{
    if (!rig_has_option("encrypt"))
        skip();
}

/* Local addresses that this process listens on with TCP, as text of /proc/net/tcp
 * ("0100007F:PORT"); how many. */
static int listening(char out[][64], int cap)
{
    char line[512], target[64], path[300], link[64];
    int n = 0;
    FILE *f = fopen("/proc/net/tcp", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char local[64];
        unsigned status, inode;
        if (sscanf(line, " %*d: %63s %*s %x %*s %*s %*s %*u %*u %u", local, &status, &inode) != 3 ||
            status != 0x0A)
            continue;
        snprintf(target, sizeof target, "socket:[%u]", inode);
        DIR *d = opendir("/proc/self/fd");
        for (struct dirent *e; (e = readdir(d));) {
            snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
            ssize_t len = readlink(path, link, sizeof link - 1);
            link[len < 0 ? 0 : len] = '\0';
            if (strcmp(link, target) == 0 && n < cap)
                snprintf(out[n++], 64, "%s", local);
        }
        closedir(d);
    }
    fclose(f);
    return n;
}

static struct sockaddr_in where(void)
{
    char local[4][64];
    unsigned address, port;
    assert_int_equal(listening(local, 4), 1);
    assert_int_equal(sscanf(local[0], "%X:%X", &address, &port), 2);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = address;
    return to;
}

static int stranger(const struct sockaddr_in *to, const void *says, size_t bytes)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    (void)!connect(fd, (const struct sockaddr *)to, sizeof *to);
    usleep(1000);
    if (bytes > 0)
        (void)!send(fd, says, bytes, MSG_NOSIGNAL);
    return fd;
}

TEST(test_bad_bind_addresses_are_refused)
{
    static const char *const addresses[] = {"0.0.0.0",   "::",        "",
                                            "localhost", "300.1.1.1", "8.8.8.8"};
    need_listener();
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        node n;
        node_init(&n, 0, 2);
        n.bind_addr = addresses[i];
        assert_int_equal(node_open(&n), WEFT_USAGE);
        n.link = NULL;
        node_close(&n);
    }
}

TEST(test_host_without_tls_is_refused)
{
    node n;
    need_listener();
    node_init(&n, 0, 2);
    n.no_tls = true;
    assert_int_equal(node_open(&n), WEFT_UNSUPPORTED);
    assert_non_null(strstr(rig_why(), "authenticate"));
    n.link = NULL;
    node_close(&n);
}

/* Both ends until one fails, or `seconds` pass. */
static weft_status pair_fate(weft_conn *a, weft_conn *b, double seconds)
{
    for (double until = rig_now() + seconds; rig_now() < until;) {
        weft_status st = rig_table->ready(a), t = rig_table->ready(b);
        if (st == WEFT_OK && t == WEFT_OK)
            return WEFT_OK;
        if (t != WEFT_OK && t != WEFT_BUSY)
            return t;
        if (st != WEFT_OK && st != WEFT_BUSY)
            return st;
    }
    return WEFT_BUSY;
}

TEST(test_encrypt_must_agree)
{
    node n[2];
    need_encryption();
    for (uint32_t r = 0; r < 2; r++) {
        node_init(&n[r], r, 2);
        n[r].options[0][0] = "encrypt";
        n[r].options[0][1] = r ? "on" : "off";
        assert_int_equal(node_open(&n[r]), WEFT_OK);
    }
    weft_conn *a = node_connect(&n[0], &n[1], 0), *b = node_connect(&n[1], &n[0], 0);
    assert_int_equal(pair_fate(a, b, rig_patience()), WEFT_USAGE);
    node_close(&n[0]);
    node_close(&n[1]);
}

/* Noise and silence at the port, from more strangers than are let wait at once: none is believed,
 * and the real peer gets in between and after them. */
TEST(test_strangers_are_dropped)
{
    enum { STRANGERS = 150 };
    node n[2];
    int fd[STRANGERS];
    uint8_t noise[4096];
    need_listener();
    node_init(&n[0], 0, 2);
    assert_int_equal(node_open(&n[0]), WEFT_OK);
    struct sockaddr_in to = where();
    weft_conn *a = NULL;
    for (int i = 0; i < STRANGERS; i++) {
        check_pattern(noise, sizeof noise, (uint64_t)i);
        fd[i] = stranger(&to, noise, i % 3 == 0 ? 0 : i % 3 == 1 ? 5 : sizeof noise);
        if (i == STRANGERS / 2) {
            node_init(&n[1], 1, 2);
            assert_int_equal(node_open(&n[1]), WEFT_OK);
            a = node_connect(&n[0], &n[1], 0);
        }
        if (a)
            assert_int_equal(rig_table->ready(a), WEFT_BUSY);
    }
    weft_conn *b = node_connect(&n[1], &n[0], 0);
    assert_int_equal(pair_fate(a, b, rig_patience()), WEFT_OK);
    uint8_t sent = 42, got = 0;
    uint64_t want[4] = {1, 0, 0, 1};
    assert_int_equal(rig_table->send(a, &sent, 1, NULL, 0), WEFT_OK);
    assert_int_equal(rig_table->recv(b, &got, 1, NULL, 0), WEFT_OK);
    pair_finish((pair){a, b}, want);
    assert_int_equal(got, 42);
    for (int i = 0; i < STRANGERS; i++)
        close(fd[i]);
    node_close(&n[0]);
    node_close(&n[1]);
}

TEST(test_over_ipv6)
{
    node n[2];
    uint64_t sent = 6, got = 0, want[4] = {1, 0, 0, 1};
    need_listener();
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)&here, sizeof here) == 0;
    if (fd >= 0)
        close(fd);
    if (!have)
        skip();
    for (uint32_t r = 0; r < 2; r++) {
        node_init(&n[r], r, 2);
        n[r].bind_addr = "::1";
        assert_int_equal(node_open(&n[r]), WEFT_OK);
    }
    pair p = pair_up(&n[0], &n[1], 0);
    assert_int_equal(rig_table->send(p.a, &sent, sizeof sent, NULL, 0), WEFT_OK);
    assert_int_equal(rig_table->recv(p.b, &got, sizeof got, NULL, 0), WEFT_OK);
    pair_finish(p, want);
    assert_int_equal(got, 6);
    node_close(&n[0]);
    node_close(&n[1]);
}

/* How many of these sockets are still held by the other end. */
static int held(const int *fd, int n)
{
    char byte;
    int open = 0;
    for (int i = 0; i < n; i++) {
        ssize_t got;
        do
            got = recv(fd[i], &byte, 1, 0); /* an alert comes before the end */
        while (got > 0);
        open += got < 0 && errno == EAGAIN;
    }
    return open;
}

/* Silent strangers keep few places, however many they are: the older give way to the newer. */
TEST(test_silence_gives_way)
{
    enum { SILENT = 100, PLACES = 24 };
    node n[2];
    int fd[SILENT], open = SILENT;
    need_listener();
    nodes_up(n, 2);
    node_close(&n[1]);
    struct sockaddr_in to = where();
    weft_conn *a = node_connect(&n[0], &n[1], 0);
    for (int i = 0; i < SILENT; i++)
        fd[i] = stranger(&to, NULL, 0);
    for (double until = rig_now() + rig_patience(); open > PLACES && rig_now() < until;) {
        assert_int_equal(rig_table->ready(a), WEFT_BUSY);
        assert_int_equal(rig_table->wait(n[0].link, 0, 20000, 0), WEFT_OK);
        open = held(fd, SILENT);
    }
    assert_int_equal(open, PLACES);
    for (int i = 0; i < SILENT; i++)
        close(fd[i]);
    node_close(&n[0]);
}

/* Once all connections are up nothing listens, and what waited at the port is hung up on. A later
 * connection opens the same port again. */
TEST(test_closes_when_all_are_up)
{
    enum { SILENT = 60 };
    char local[4][64];
    node n[2];
    int fd[SILENT];
    need_listener();
    nodes_up(n, 2);
    assert_int_equal(listening(local, 4), 2);
    struct sockaddr_in to = {.sin_family = AF_INET};
    unsigned port[2], address;
    for (int i = 0; i < 2; i++)
        assert_int_equal(sscanf(local[i], "%X:%X", &address, &port[i]), 2);
    to.sin_addr.s_addr = address;
    for (int i = 0; i < SILENT; i++) {
        to.sin_port = htons((uint16_t)port[i % 2]);
        fd[i] = stranger(&to, "waits", i % 3 == 0 ? 5 : 0);
    }
    for (uint32_t channel = 0; channel < 3; channel++) {
        pair p = pair_up(&n[0], &n[1], channel);
        assert_int_equal(rig_table->ready(p.a), WEFT_OK);
        assert_int_equal(rig_table->ready(p.b), WEFT_OK);
        assert_int_equal(listening(local, 4), 0);
        assert_int_equal(held(fd, SILENT), 0);
        uint8_t sent = 42, got = 0;
        uint64_t want[4] = {1, 0, 0, 1};
        assert_int_equal(rig_table->send(p.a, &sent, 1, NULL, 0), WEFT_OK);
        assert_int_equal(rig_table->recv(p.b, &got, 1, NULL, 0), WEFT_OK);
        pair_finish(p, want);
        assert_int_equal(got, 42);
    }
    for (int i = 0; i < SILENT; i++)
        close(fd[i]);
    node_close(&n[0]);
    node_close(&n[1]);
}

/* The listener's end of `b` is made at last, and both come up; then all is closed. */
static void is_let_in(node n[2], weft_conn *b)
{
    weft_conn *a = node_connect(&n[0], &n[1], 0);
    assert_int_equal(pair_fate(a, b, rig_patience()), WEFT_OK);
    rig_table->disconnect(a);
    rig_table->disconnect(b);
    node_close(&n[0]);
    node_close(&n[1]);
}

/* The dialer's attempt is cut off again and again; it dials until it is let in. */
TEST(test_dials_until_let_in)
{
    node n[2];
    need_listener();
    nodes_up(n, 2);
    weft_conn *b = node_connect(&n[1], &n[0], 0);
    for (int i = 0; i < 30; i++) { /* it waits in the backlog */
        assert_int_equal(rig_table->ready(b), WEFT_BUSY);
        assert_int_equal(rig_table->wait(n[1].link, 0, 1000, 0), WEFT_OK);
    }
    char local[4][64];
    assert_int_equal(listening(local, 4), 1); /* the highest rank awaits nobody */
    /* Another connection of the listener is up and done: what waits in the backlog is cut off. */
    weft_conn *a = node_connect(&n[0], &n[1], 1);
    rig_table->disconnect(a);
    assert_int_equal(listening(local, 4), 0);
    is_let_in(n, b);
}

/* Nobody listens, and this rank is stopped for longer than it would dial: the other was stopped,
 * too, and comes later. */
TEST(test_a_stop_is_no_refusal)
{
    node n[2];
    need_listener();
    nodes_up(n, 2);
    weft_conn *a = node_connect(&n[0], &n[1], 1);
    rig_table->disconnect(a); /* with its last connection the listener is closed */
    weft_conn *b = node_connect(&n[1], &n[0], 0);
    for (int i = 0; i < 2; i++) {
        for (double until = rig_now() + rig_patience(); rig_now() < until;) {
            assert_int_equal(rig_table->ready(b), WEFT_BUSY);
            if (strstr(rig_why(), "refused"))
                break;
            assert_int_equal(rig_table->wait(n[1].link, 0, 1000, 0), WEFT_OK);
        }
        assert_non_null(strstr(rig_why(), "refused"));
        if (i == 0)
            usleep(2500000);
    }
    is_let_in(n, b);
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
