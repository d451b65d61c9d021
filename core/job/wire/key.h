/* job/wire/key.h: the job key, where it comes from, and the keys derived from it.
 *
 * Whoever holds the 32 bytes is a rank of the job. They reach a rank on an inherited descriptor (a
 * sealed memory file, whose number is in WEFT_KEY_FD) or in a file of mode 0600; never in an
 * argument, the environment or a log. In memory they lie in a page of their own, which core dumps
 * leave out. */
#ifndef JOB_KEY_H
#define JOB_KEY_H

#include "job/job.h"

#define KEY_BYTES 32
#define KEY_FD_ENV "WEFT_KEY_FD"

/* A page for one key; job_key_free() wipes it. NULL allowed there. */
uint8_t *job_key_alloc(void);
void job_key_free(uint8_t *key);

/* Random bytes from the kernel. */
weft_status job_key_random(uint8_t *out, uint32_t bytes);

/* A new random key in a sealed memory file. Returns the descriptor (close-on-exec), -1 recorded. */
int job_key_descriptor(void);

/* Fill `key` from the descriptor that WEFT_KEY_FD names, which is closed, or else from `file`. */
weft_status job_key_obtain(const job_identity *who, const char *file, uint8_t *key);

/* HKDF-SHA256 of `key` with `salt` (16 bytes: the meeting's number) and "weft-1 `use` `label`". */
weft_status job_key_derive(const uint8_t *key, const uint8_t *salt, const char *use,
                           const char *label, uint8_t out[KEY_BYTES]);

#endif
