/* job/wire/handshake.h: the first bytes of a connection to the store, before TLS.
 *
 * The store sends 26 bytes of plaintext or more as soon as it has accepted a connection:
 *
 *   "weft"   4 bytes
 *   version  u32, little-endian: WIRE_PROTOCOL
 *   salt     16 random bytes, fresh for each connection
 *   sealed   u16, little-endian: bytes of what follows, 0 to 1023
 *   key      text: the job key sealed by munge (munge.h), for ranks that have none
 *
 * Both ends derive the pre-shared key of this connection from the job key and the salt. So a
 * recorded ClientHello cannot be replayed, neither on another connection nor in another run with
 * the same key file. The salt is no secret. Changing it in transit only makes the handshake fail.
 */
#ifndef JOB_GREETING_H
#define JOB_GREETING_H

#include <weft/base.h>

#include "job/job.h"
#include "job/wire/munge.h"
#include "job/wire/wire.h"

#define JOB_HANDSHAKE_BYTES 26 /* without a key */
#define JOB_HANDSHAKE_SALT 16

typedef struct job_greeting { /* of one connection, as far as received */
    uint8_t bytes[JOB_HANDSHAKE_BYTES + MUNGE_TEXT];
    uint32_t got;
} job_greeting;

/* Make a greeting with a fresh salt and send it on the socket `fd`, which was just accepted: its
 * send buffer is empty, so it takes all bytes at once. `sealed` is the sealed key, "" for none. */
weft_status job_handshake_send(job_greeting *g, int fd, const char *sealed);

/* Read the greeting and no byte beyond it. WEFT_OK: complete. WEFT_BUSY: not complete yet. WEFT_IO:
 * the connection ended. WEFT_USAGE: not a greeting of this version; the record says why. */
weft_status job_handshake_read(job_greeting *g, int fd);

/* The sealed key of a complete greeting as text; "" where there is none. */
const char *job_handshake_sealed(job_greeting *g);

/* The pre-shared key of the connection. `key` is the job key; the caller wipes `psk`. */
weft_status job_handshake_key(const job_greeting *g, const uint8_t *key, uint8_t psk[32]);

/* Starts the session of the connection that `w` holds, with that key. */
weft_status job_handshake_open(const job_greeting *g, const uint8_t *key, job_tls_context *c,
                               bool server, job_wire *w);

/* Sends the first frame of that session: the hello of this rank, which listens at `at`. */
void job_handshake_hello(job_wire *w, const job_identity *who, uint64_t process,
                         const job_place *at);

#endif
