/* job/wire/key.h: the job key, how a rank gets it, and the keys derived from it.
 *
 * Whoever holds the 32 bytes can join the job. A rank gets them from an inherited descriptor (a
 * sealed memory file, whose number is in WEFT_KEY_FD), from a file that nobody else can read or
 * change (mode 0600, or 0440 of root's), or in a Slurm step from rank 0 by munge (munge.h), if
 * neither is given; never from an argument or the environment, and they are never logged. In memory
 * they have their own page, which is excluded from core dumps.
 */
#ifndef JOB_KEY_H
#define JOB_KEY_H

#include "job/job.h"

#define KEY_BYTES 32
#define KEY_FD_ENV "WEFT_KEY_FD"

/* Allocate a page for one key; job_key_free() wipes and frees it (NULL allowed). */
uint8_t *job_key_alloc(void);
void job_key_free(uint8_t *key);

/* Random bytes from the kernel. */
weft_status job_key_random(uint8_t *out, uint32_t bytes);

/* Is there a descriptor in WEFT_KEY_FD, or a `file`? */
bool job_key_given(const char *file);

/* Fill `key` from the descriptor in WEFT_KEY_FD, which is then closed, or else from `file`. */
weft_status job_key_obtain(const job_identity *who, const char *file, uint8_t *key);

/* The 128 random bits that Open MPI's mpirun gives the processes of a run, by which networks of
 * some vendors tell runs apart. Of a run on one machine they are in the environment of its
 * processes alone, which other users cannot read; of one on several they are on command lines, too:
 * there they are no secret. False: there are none, so the ranks need a key file. [setup] */
#define MPIRUN_SECRET 16u
bool job_key_of_mpirun(uint8_t out[MPIRUN_SECRET]);

/* HKDF-SHA256 of `key` with `salt` (16 bytes: the meeting's number) and "weft-1 `use` `label`". */
weft_status job_key_derive(const uint8_t *key, const uint8_t *salt, const char *use,
                           const char *label, uint8_t out[KEY_BYTES]);

#endif
