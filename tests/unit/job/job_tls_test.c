/* The TLS session over socket pairs and TCP: who gets in, what a peer without the key can make us
 * do, that encrypted bytes arrive unchanged, and that the bare socket is clean once it ends. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <test.h>
#include <unistd.h>

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "job/wire/tls.h"
#include "loopback.h"

#include <cmocka.h> /* last: it has a macro called fail */

static job_tls_context *context;
static const uint8_t key_a[32] = {1, 2, 3}, key_b[32] = {1, 2, 4};

static int open_context(void **state)
{
    (void)state;
    return job_tls_context_open(&context);
}

static int close_context(void **state)
{
    (void)state;
    job_tls_context_close(context);
    return 0;
}

/* A connected pair of TCP sockets: buffers and ends as they are between machines. */
static void tcp_pair(int fd[2])
{
    struct sockaddr_in a;
    int listener = loopback_listen(&a);
    fd[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd[1], (struct sockaddr *)&a, sizeof a), 0);
    fd[0] = accept(listener, NULL, NULL);
    assert_true(fd[0] >= 0);
    close(listener);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    fcntl(fd[1], F_SETFL, O_NONBLOCK);
}

static void wait_session(int fd, const weft_tls *t)
{
    struct pollfd p = {.fd = fd, .events = job_tls_wants(t) == 2 ? POLLOUT : POLLIN};
    poll(&p, 1, 20);
}

/* Both sides take turns; the statuses that each ends with. */
static void shake(weft_tls *t[2], const int fd[2], weft_status status[2])
{
    status[0] = status[1] = WEFT_BUSY;
    for (int turn = 0; turn < 200 && (status[0] == WEFT_BUSY || status[1] == WEFT_BUSY); turn++) {
        int side = turn & 1;
        if (status[side] != WEFT_BUSY)
            continue;
        status[side] = job_tls_handshake(t[side]);
        if (status[side] == WEFT_BUSY)
            wait_session(fd[side], t[side]);
        else if (status[side] != WEFT_OK) /* who is refused goes away */
            shutdown(fd[side], SHUT_WR);
    }
}

static void start_pair(weft_tls *t[2], int fd[2], const uint8_t *client_key)
{
    tcp_pair(fd);
    assert_int_equal(job_tls_start(context, fd[0], true, key_a, &t[0]), WEFT_OK);
    assert_int_equal(job_tls_start(context, fd[1], false, client_key, &t[1]), WEFT_OK);
}

static void end_pair(weft_tls *t[2], const int fd[2])
{
    for (int i = 0; i < 2; i++) {
        job_tls_end(t[i]);
        close(fd[i]);
    }
}

TEST(same_key)
{
    weft_tls *t[2];
    int fd[2];
    weft_status status[2];
    start_pair(t, fd, key_a);
    shake(t, fd, status);
    assert_int_equal(status[0], WEFT_OK);
    assert_int_equal(status[1], WEFT_OK);
    assert_true(job_tls_received(t[0]) < 1024 &&
                job_tls_received(t[1]) < 1024); /* TLS_EARLY has room */
    end_pair(t, fd);
}

TEST(wrong_key)
{
    weft_tls *t[2];
    int fd[2];
    weft_status status[2];
    start_pair(t, fd, key_b);
    shake(t, fd, status);
    assert_int_equal(status[0], WEFT_PEER);
    assert_int_equal(status[1], WEFT_PEER);
    assert_non_null(strstr(err_text(), "key of this job"));
    char byte;
    uint64_t done;
    assert_int_equal(job_tls_read(t[0], &byte, 1, &done), WEFT_USAGE);
    assert_int_equal(job_tls_write(t[0], &byte, 1, &done), WEFT_USAGE);
    end_pair(t, fd);
}

/* Bytes that are no handshake of ours: refused, and little of them read. */
static void refuses_bytes(const void *bytes, size_t n, bool server)
{
    int fd[2];
    weft_tls *t;
    tcp_pair(fd);
    assert_int_equal(job_tls_start(context, fd[0], server, key_a, &t), WEFT_OK);
    send(fd[1], bytes, n, MSG_NOSIGNAL);
    shutdown(fd[1], SHUT_WR);
    weft_status st;
    int turns = 0;
    while ((st = job_tls_handshake(t)) == WEFT_BUSY && turns++ < 100)
        wait_session(fd[0], t);
    assert_true(st == WEFT_PEER || st == WEFT_IO);
    assert_true(job_tls_received(t) <= TLS_EARLY);
    job_tls_end(t);
    close(fd[0]);
    close(fd[1]);
}

TEST(hostile_bytes)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    uint8_t noise[8192];
    for (int round = 0; round < 60; round++) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)rng_below(rng_key((uint64_t)round, "noise"), i, 256);
        if (round % 3 == 1) /* a record head that announces a handshake */
            memcpy(noise, "\x16\x03\x01\x3f\xff\x01\x01\xff\xff\x03\x03", 11);
        if (round % 3 == 2) /* a message of 2 GiB, or of 16 MiB in TLS's own counting */
            memcpy(noise, "\x7f\xff\xff\xff\x16\x03\x03\x40\x00\x01\xff\xff\xff", 13);
        refuses_bytes(noise, sizeof noise - (size_t)round * 100, round & 1);
    }
    refuses_bytes(http, sizeof http - 1, true);
    refuses_bytes(http, sizeof http - 1, false);
    refuses_bytes("", 0, true);
    refuses_bytes("\x16", 1, true);
}

/* A handshake with any one byte of the client's flight changed does not end well. */
TEST(changed_hello)
{
    int real[2], fake[2];
    weft_tls *client, *server;
    tcp_pair(real);
    assert_int_equal(job_tls_start(context, real[1], false, key_a, &client), WEFT_OK);
    assert_int_equal(job_tls_handshake(client), WEFT_BUSY);
    uint8_t hello[1024];
    struct pollfd p = {.fd = real[0], .events = POLLIN};
    poll(&p, 1, 60000);
    ssize_t n = recv(real[0], hello, sizeof hello, 0);
    assert_in_range(n, 100, 1000);
    for (ssize_t at = 0; at < n; at++) {
        hello[at] ^= 0x20;
        tcp_pair(fake);
        assert_int_equal(job_tls_start(context, fake[0], true, key_a, &server), WEFT_OK);
        assert_int_equal(send(fake[1], hello, (size_t)n, 0), n);
        shutdown(fake[1], SHUT_WR);
        weft_status st;
        while ((st = job_tls_handshake(server)) == WEFT_BUSY)
            wait_session(fake[0], server);
        assert_true(st == WEFT_PEER || st == WEFT_IO);
        job_tls_end(server);
        close(fake[0]);
        close(fake[1]);
        hello[at] ^= 0x20;
    }
    job_tls_end(client);
    close(real[0]);
    close(real[1]);
}

/* Move `n` bytes from t[from] to the other side, in uneven pieces. */
static void transfer(weft_tls *t[2], const int fd[2], int from, const uint8_t *data, uint8_t *got,
                     uint64_t n)
{
    uint64_t sent = 0, received = 0, piece = 1;
    while (received < n) {
        uint64_t done = 0;
        weft_status st = WEFT_OK;
        if (sent < n) {
            uint64_t want = n - sent < 300000 ? n - sent : 300000;
            st = job_tls_write(t[from], data + sent, want, &done);
            assert_true(st == WEFT_OK || (st == WEFT_BUSY && !done));
            sent += done;
        }
        do {
            piece = piece * 7 % 100003 + 1;
            uint64_t want = n - received < piece ? n - received : piece;
            weft_status r =
                want ? job_tls_read(t[1 - from], got + received, want, &done) : WEFT_BUSY;
            assert_true(r == WEFT_OK || (r == WEFT_BUSY && (!want || !done)));
            received += r == WEFT_OK ? done : 0;
            if (r == WEFT_BUSY)
                break;
        } while (received < n);
        if (st == WEFT_BUSY && received < n)
            wait_session(fd[1 - from], t[1 - from]);
    }
}

TEST(encrypted_payload)
{
    const uint64_t n = 10u << 20;
    uint8_t *data = malloc(n), *got = malloc(n);
    uint32_t words[4];
    for (uint64_t i = 0; i < n; i += 16) {
        rng_words(5, i, 0, words);
        memcpy(data + i, words, 16);
    }
    weft_tls *t[2];
    int fd[2];
    weft_status status[2];
    start_pair(t, fd, key_a);
    shake(t, fd, status);
    job_tls_rekey_bytes = 1 << 20; /* several fresh keys on the way */
    for (int from = 0; from < 2; from++) {
        memset(got, 0, n);
        transfer(t, fd, from, data, got, n);
        assert_memory_equal(data, got, n);
    }
    job_tls_rekey_bytes = UINT64_C(1) << 36;
    uint64_t done;
    assert_int_equal(job_tls_read(t[0], got, 1, &done), WEFT_BUSY);
    assert_int_equal(done, 0);
    job_tls_end(t[1]);
    close(fd[1]);
    assert_int_equal(job_tls_read(t[0], got, 1, &done), WEFT_PEER);
    for (int i = 0; i < 10 && (status[0] = job_tls_write(t[0], data, 1000, &done)) == WEFT_OK; i++)
        usleep(1000);
    assert_int_equal(status[0], WEFT_PEER); /* and no SIGPIPE on the way */
    job_tls_end(t[0]);
    close(fd[0]);
    free(data);
    free(got);
}

/* A flipped bit between the two is an error, never other bytes. */
TEST(changed_payload)
{
    weft_tls *t[2];
    int fd[2];
    weft_status status[2];
    start_pair(t, fd, key_a);
    shake(t, fd, status);
    uint8_t raw[256], out[64];
    uint64_t done;
    int other[2];
    assert_int_equal(job_tls_write(t[1], "forty-two bytes of something that matters", 42, &done),
                     0);
    struct pollfd p = {.fd = fd[0], .events = POLLIN};
    poll(&p, 1, 60000);
    ssize_t n = recv(fd[0], raw, sizeof raw, 0);
    assert_int_equal(n, 42 + 5 + 1 + 16);
    raw[20] ^= 1;
    tcp_pair(other); /* the bytes come again, changed, on the server's descriptor */
    dup2(other[0], fd[0]);
    assert_int_equal(send(other[1], raw, (size_t)n, 0), n);
    poll(&p, 1, 60000);
    assert_int_equal(job_tls_read(t[0], out, sizeof out, &done), WEFT_PEER);
    assert_int_equal(done, 0);
    close(other[0]);
    close(other[1]);
    end_pair(t, fd);
}

/* After end() each side's next byte is the other's first. Sent as early as either may. */
TEST(bare_socket)
{
    static const char first[2][16] = {"server's first..", "client's first.."};
    for (int round = 0; round < 50; round++) {
        weft_tls *t[2];
        int fd[2];
        weft_status status[2] = {WEFT_BUSY, WEFT_BUSY};
        start_pair(t, fd, key_a);
        for (int turn = 0; status[0] == WEFT_BUSY || status[1] == WEFT_BUSY; turn++) {
            int side = (turn + round) & 1;
            if (status[side] != WEFT_BUSY)
                continue;
            status[side] = job_tls_handshake(t[side]);
            if (status[side] == WEFT_BUSY)
                wait_session(fd[side], t[side]);
            else
                assert_int_equal(send(fd[side], first[side], 16, 0), 16);
        }
        for (int side = 0; side < 2; side++) {
            assert_int_equal(status[side], WEFT_OK);
            job_tls_end(t[side]);
        }
        for (int side = 0; side < 2; side++) {
            char got[32];
            struct pollfd p = {.fd = fd[side], .events = POLLIN};
            poll(&p, 1, 60000);
            assert_int_equal(recv(fd[side], got, sizeof got, 0), 16);
            assert_memory_equal(got, first[1 - side], 16);
            assert_int_equal(recv(fd[side], got, sizeof got, 0), -1); /* still open, and empty */
        }
        close(fd[0]);
        close(fd[1]);
    }
}

/* A self-signed certificate, as anybody can make one. */
static void certify(SSL_CTX *ctx)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert_true(key && cert);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    assert_true(SSL_CTX_use_certificate(ctx, cert) && SSL_CTX_use_PrivateKey(ctx, key));
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* TLS without our key is no way in: neither for a server with a certificate nor for any client. */
TEST(ordinary_tls)
{
    for (int server = 0; server < 2; server++) {
        int fd[2];
        weft_tls *t;
        tcp_pair(fd);
        SSL_CTX *ctx = SSL_CTX_new(TLS_method());
        certify(ctx);
        SSL *other = SSL_new(ctx);
        SSL_set_fd(other, fd[0]);
        if (server)
            SSL_set_accept_state(other);
        else
            SSL_set_connect_state(other);
        assert_int_equal(job_tls_start(context, fd[1], !server, key_a, &t), WEFT_OK);
        weft_status st = WEFT_BUSY;
        for (int turn = 0; turn < 100 && st == WEFT_BUSY; turn++) {
            SSL_do_handshake(other);
            st = job_tls_handshake(t);
            if (st == WEFT_BUSY)
                wait_session(fd[1], t);
        }
        assert_int_equal(st, WEFT_PEER);
        job_tls_end(t);
        SSL_free(other);
        SSL_CTX_free(ctx);
        close(fd[0]);
        close(fd[1]);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_DFL);
    return test_run(open_context, close_context);
}
