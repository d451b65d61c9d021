/* job/wire/munge.h: the job key from rank 0 to the others by munge, which Slurm's nodes run.
 *
 * munge encrypts bytes with a key that the nodes of a cluster share, states which user made them,
 * and gives them to one user only. Rank 0 makes the job key and puts it, so sealed, into the
 * greeting of each connection to the store. Who else listens reads nothing; whoever else answers at
 * that port is another user, which munge says. A credential that was recorded before has an older
 * key, which its sender does not know, so the handshake with him fails; therefore age and replay of
 * a credential do not matter. Root on any node of the cluster can read it, as it can everything of
 * the user's.
 *
 * libmunge.so.2 is loaded when it is needed. */
#ifndef JOB_MUNGE_H
#define JOB_MUNGE_H

#include "job/wire/key.h"

#define MUNGE_TEXT 1024 /* bytes of a credential, its zero included; about 300 are used */

/* Seal `key` for processes of this user. WEFT_ABSENT: no libmunge or no munged here; the record
 * says which. [setup] */
weft_status job_munge_seal(const uint8_t key[KEY_BYTES], char out[MUNGE_TEXT]);

/* Open what rank 0 has sealed. WEFT_USAGE: another user has made it, it is none, or it
 * is empty. [setup] */
weft_status job_munge_open(const char *credential, uint8_t key[KEY_BYTES]);

#endif
