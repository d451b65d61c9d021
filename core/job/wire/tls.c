/* job/wire/tls.c: see tls.h. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "job/wire/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"

#define RECORD_BYTES 16384
#define RECORD_HEAD 5
#define HANDSHAKE 22 /* record type that holds a ClientHello */

static const char identity[] = "weft-1"; /* not significant: the keys differ by label and meeting */
uint64_t job_tls_rekey_bytes = UINT64_C(1) << 36;

struct job_tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *socket;
};

struct weft_tls {
    job_tls_context *context;
    SSL *ssl; /* NULL: a server that has not received a whole ClientHello yet */
    int fd;
    int32_t want;            /* 1: to read, 2: to write */
    bool shaken;             /* handshake done */
    bool lost;               /* end of stream or an error of the socket */
    bool moved;              /* read() was called: the session stays in use */
    uint64_t bytes_received; /* bytes received */
    uint64_t sealed;         /* bytes written under the current sending key */
    uint64_t stuck;          /* bytes that a blocked write has already accepted */
    uint8_t psk[32];
};

/* --- the socket below: recv() and send() without SIGPIPE, and a limit before authentication --- */

static int socket_read(BIO *bio, char *to, int bytes)
{
    weft_tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (!t->shaken && t->bytes_received + (uint64_t)bytes > TLS_EARLY)
        return -1;
    ssize_t n = recv(t->fd, to, (size_t)bytes, MSG_DONTWAIT);
    if (n > 0) {
        t->bytes_received += (uint64_t)n;
        return (int)n;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_retry_read(bio);
    else
        t->lost = true;
    return n == 0 ? 0 : -1;
}

static int socket_write(BIO *bio, const char *from, int bytes)
{
    weft_tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t n = send(t->fd, from, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0)
        return (int)n;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        BIO_set_retry_write(bio);
    else
        t->lost = true;
    return -1;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int socket_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *socket_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft socket");
    if (m && BIO_meth_set_read(m, socket_read) && BIO_meth_set_write(m, socket_write) &&
        BIO_meth_set_ctrl(m, socket_control) && BIO_meth_set_create(m, socket_create))
        return m;
    BIO_meth_free(m);
    return NULL;
}

/* --- the key --- */

static SSL_SESSION *key_session(SSL *ssl)
{
    static const unsigned char aes_128_gcm_sha256[2] = {0x13, 0x01};
    const weft_tls *t = SSL_get_app_data(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    SSL_SESSION *s = cipher ? SSL_SESSION_new() : NULL;
    if (s && SSL_SESSION_set1_master_key(s, t->psk, sizeof t->psk) &&
        SSL_SESSION_set_cipher(s, cipher) && SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION))
        return s;
    SSL_SESSION_free(s);
    return NULL;
}

static int client_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes,
                      SSL_SESSION **out)
{
    (void)md; /* the only suite has one digest */
    *out = key_session(ssl);
    *id = (const unsigned char *)identity;
    *id_bytes = sizeof identity - 1;
    return *out != NULL;
}

static int server_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **out)
{
    *out = NULL;
    if (id_bytes != sizeof identity - 1 || memcmp(id, identity, id_bytes) != 0)
        return 1; /* no such key; there are no certificates to fall back on */
    *out = key_session(ssl);
    return *out != NULL;
}

static bool configure(SSL_CTX *ctx)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_clear_options(ctx, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ctx, 0);
    SSL_CTX_set_psk_use_session_callback(ctx, client_key);
    SSL_CTX_set_psk_find_session_callback(ctx, server_key);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
           SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") &&
           SSL_CTX_set1_groups_list(ctx, "X25519:P-256") && SSL_CTX_set_num_tickets(ctx, 0);
}

weft_status job_tls_context_open(job_tls_context **out)
{
    job_tls_context *c = mem_alloc(sizeof *c);
    c->ssl = SSL_CTX_new(TLS_method());
    c->socket = socket_method();
    if (c->ssl && c->socket && configure(c->ssl)) {
        *out = c;
        return WEFT_OK;
    }
    job_tls_context_close(c);
    return err_fail(WEFT_ABSENT,
                    "the system's OpenSSL offers no TLS 1.3 with TLS_AES_128_GCM_SHA256, "
                    "which ranks authenticate each other with");
}

void job_tls_context_close(job_tls_context *c)
{
    if (!c)
        return;
    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->socket);
    free(c);
}

/* --- a session --- */

static weft_status open_session(weft_tls *t)
{
    t->ssl = SSL_new(t->context->ssl);
    BIO *bio = t->ssl ? BIO_new(t->context->socket) : NULL;
    if (!bio)
        return err_fail(WEFT_NO_MEMORY, "OpenSSL could not begin a session");
    BIO_set_data(bio, t);
    SSL_set_bio(t->ssl, bio, bio);
    SSL_set_app_data(t->ssl, t);
    return WEFT_OK;
}

weft_status job_tls_start(job_tls_context *c, int fd, bool server, const uint8_t psk[32],
                          weft_tls **out)
{
    weft_tls *t = mem_alloc(sizeof *t);
    t->context = c;
    t->fd = fd;
    t->want = server ? 1 : 2;
    memcpy(t->psk, psk, sizeof t->psk);
    weft_status st = server ? WEFT_OK : open_session(t);
    if (st != WEFT_OK) {
        job_tls_end(t);
        return st;
    }
    if (!server) {
        SSL_set_connect_state(t->ssl);
        SSL_set_verify(t->ssl, SSL_VERIFY_PEER,
                       NULL); /* no authority is loaded: every certificate fails */
    }
    *out = t;
    return WEFT_OK;
}

/* Part of a record has arrived: a peer that has closed its end will not send the rest. */
static weft_status more_to_come(weft_tls *t)
{
    struct pollfd p = {.fd = t->fd, .events = POLLRDHUP};
    if (poll(&p, 1, 0) <= 0)
        return WEFT_BUSY;
    t->lost = true;
    return err_fail(WEFT_IO, "the connection ended before the peer had shown the job key");
}

/* Peeks at the socket without consuming bytes. OpenSSL's session costs 76 KB from its first byte
 * on, so a server starts it when the first record is complete, or cannot become valid. */
static weft_status await_hello(weft_tls *t)
{
    uint8_t seen[TLS_EARLY];
    ssize_t n = recv(t->fd, seen, sizeof seen, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        t->lost = true;
        return err_fail(WEFT_IO, "the connection ended before the peer had shown the job key");
    }
    if (n > 0 && (seen[0] != HANDSHAKE || (n > 1 && seen[1] != 3)))
        return err_fail(WEFT_PEER, "the peer does not speak TLS");
    if (n < RECORD_HEAD)
        return more_to_come(t);
    size_t whole = RECORD_HEAD + ((size_t)seen[3] << 8 | seen[4]);
    if (whole > sizeof seen)
        return err_fail(WEFT_PEER, "the peer's first message is longer than any of ours");
    if ((size_t)n < whole)
        return more_to_come(t);
    weft_status st = open_session(t);
    if (st == WEFT_OK)
        SSL_set_accept_state(t->ssl);
    return st;
}

/* WEFT_BUSY when OpenSSL waits for the socket, WEFT_PEER without a record otherwise. */
static weft_status waits(weft_tls *t, int result)
{
    switch (SSL_get_error(t->ssl, result)) {
    case SSL_ERROR_WANT_READ: t->want = 1; return WEFT_BUSY;
    case SSL_ERROR_WANT_WRITE: t->want = 2; return WEFT_BUSY;
    default: return WEFT_PEER;
    }
}

static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "no reason given";
}

/* OpenSSL keeps the key in its session while the connection lives, but does not need it after the
 * handshake: traffic keys derive from other secrets, and there are no tickets. */
static void forget_key(weft_tls *t)
{
    static const uint8_t zeroes[sizeof t->psk];
    SSL_SESSION *s = t->ssl ? SSL_get_session(t->ssl) : NULL;
    if (s)
        SSL_SESSION_set1_master_key(s, zeroes, sizeof zeroes);
    explicit_bzero(t->psk, sizeof t->psk);
}

weft_status job_tls_handshake(weft_tls *t)
{
    if (t->shaken)
        return WEFT_OK;
    weft_status st = t->ssl ? WEFT_OK : await_hello(t);
    if (st != WEFT_OK)
        return st;
    ERR_clear_error();
    int result = SSL_do_handshake(t->ssl);
    st = result == 1 ? WEFT_OK : waits(t, result);
    if (st == WEFT_BUSY)
        return st;
    forget_key(t);
    if (st == WEFT_OK &&
        SSL_session_reused(t->ssl)) { /* the peer was authenticated by the key alone */
        t->shaken = true;
        t->want = 1;
        return WEFT_OK;
    }
    if (t->lost)
        return err_fail(WEFT_IO, "the connection ended before the peer had shown the job key");
    return err_fail(WEFT_PEER,
                    "the peer does not hold the key of this job, or is not a rank of it (TLS: %s)",
                    reason());
}

int32_t job_tls_wants(const weft_tls *t)
{
    return t->want;
}

static weft_status broken(const weft_tls *t)
{
    if (t->lost)
        return err_fail(WEFT_PEER, "the peer ended the connection");
    return err_fail(WEFT_PEER, "the encrypted stream is not what the peer sent (TLS: %s)",
                    reason());
}

weft_status job_tls_read(weft_tls *t, void *to, uint64_t bytes, uint64_t *done)
{
    *done = 0;
    if (!t->shaken)
        return err_fail(WEFT_USAGE, "read before the handshake was done");
    if (!t->moved)
        SSL_set_read_ahead(t->ssl,
                           1); /* half the system calls; nobody else reads from the socket now */
    t->moved = true;
    while (*done < bytes) {
        size_t n = 0;
        ERR_clear_error();
        int result = SSL_read_ex(t->ssl, (char *)to + *done, bytes - *done, &n);
        *done += n;
        if (result == 1)
            continue;
        weft_status st = waits(t, result);
        if (*done)
            return WEFT_OK; /* the next call reports what ended the stream */
        return st == WEFT_BUSY ? st : broken(t);
    }
    return WEFT_OK;
}

weft_status job_tls_write(weft_tls *t, const void *from, uint64_t bytes, uint64_t *done)
{
    *done = 0;
    if (!t->shaken || bytes < t->stuck)
        return err_fail(WEFT_USAGE, t->shaken ? "a blocked write must be repeated with its bytes"
                                              : "write before the handshake was done");
    while (*done < bytes) {
        size_t n = 0;
        ERR_clear_error();
        if (t->sealed >= job_tls_rekey_bytes && !t->stuck) {
            SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
            t->sealed = 0;
        }
        int result = SSL_write_ex(t->ssl, (const char *)from + *done, bytes - *done, &n);
        if (result == 1) {
            *done += n;
            t->sealed += n;
            t->stuck = 0;
            continue;
        }
        weft_status st = waits(t, result);
        uint64_t rest = bytes - *done;
        t->stuck = st == WEFT_BUSY ? rest < RECORD_BYTES ? rest : RECORD_BYTES : 0;
        if (*done)
            return WEFT_OK;
        return st == WEFT_BUSY ? st : broken(t);
    }
    return WEFT_OK;
}

void job_tls_end(weft_tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl); /* frees the BIO; sends nothing */
    explicit_bzero(t->psk, sizeof t->psk);
    free(t);
}

bool job_tls_lost(const weft_tls *t)
{
    return t->lost;
}

bool job_tls_shaken(const weft_tls *t)
{
    return t->shaken;
}

uint64_t job_tls_received(const weft_tls *t)
{
    return t->bytes_received;
}
