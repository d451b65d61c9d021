/* job/wire/tls.h: TLS 1.3 with a pre-shared key over a non-blocking socket, with the system's
 * OpenSSL.
 *
 * External PSK with ephemeral Diffie-Hellman, TLS_AES_128_GCM_SHA256, no certificates, no tickets,
 * no early data. OpenSSL reads exactly the bytes of a record and sends nothing after the handshake,
 * so the bare socket can be used after it. Before that at most TLS_EARLY bytes are read from a
 * peer, and a server allocates OpenSSL's session (76 KB) only for a complete ClientHello.
 * job_tls_handshake() is WEFT_IO when the connection ended or broke, which says nothing about the
 * key; WEFT_PEER when the peer has another key, or none. */
#ifndef JOB_TLS_H
#define JOB_TLS_H

#include <stdbool.h>
#include <weft/host.h>

#define TLS_EARLY 2048 /* our handshake takes less than 600 in each direction */

typedef struct job_tls_context job_tls_context;

weft_status job_tls_context_open(job_tls_context **out);
void job_tls_context_close(job_tls_context *c);

/* The rest is as in weft_host_tls, with an explicit key. The caller keeps `fd`. */
weft_status job_tls_start(job_tls_context *c, int fd, bool server, const uint8_t psk[32],
                          weft_tls **out);
weft_status job_tls_handshake(weft_tls *t);
int32_t job_tls_wants(const weft_tls *t);
weft_status job_tls_read(weft_tls *t, void *to, uint64_t bytes, uint64_t *done);
weft_status job_tls_write(weft_tls *t, const void *from, uint64_t bytes, uint64_t *done);
void job_tls_end(weft_tls *t);

/* The connection itself ended or broke; the key was neither accepted nor rejected. */
bool job_tls_lost(const weft_tls *t);

/* The handshake is complete, so the peer holds the key. A verified ClientHello alone does not prove
 * that to a server: it may be a replay. */
bool job_tls_shaken(const weft_tls *t);

/* Bytes received so far. */
uint64_t job_tls_received(const weft_tls *t);

/* Bytes after which the sending key is renewed, far below the limit of AES-GCM; tests lower it. */
extern uint64_t job_tls_rekey_bytes;

#endif
