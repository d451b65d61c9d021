/* job/state.h: the job object of one rank.
 *
 * job.c has the public calls, server.c and members.c the thread of rank 0, client.c the thread of
 * every other rank, mailbox.c what they share.
 *
 * One lock guards everything that is not atomic. The job thread holds it while it handles events
 * and releases it while it waits for them. A public call leaves a request under the lock, wakes the
 * thread and waits for the answer on the condition variable `moved`. */
#ifndef JOB_STATE_H
#define JOB_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/time/awake.h"
#include "job/decide/agreement.h"
#include "job/decide/failure.h"
#include "job/job.h"
#include "job/wire/munge.h"
#include "job/wire/wire.h"

#define TICK_MS 50
#define JOB_TEXT 1200
#define LEAVE_SECONDS 300.0
#define JOB_FROZEN "is frozen: no sign of life for %.1f s (stopped, stuck or cut off)"

/* The answer to the one request of this rank. */
typedef struct job_mailbox {
    bool waits, done;
    uint32_t seq;
    weft_status status;
    void *bytes; /* owned until taken */
    uint64_t n;
} job_mailbox;

typedef struct job_server job_server;
typedef struct job_client job_client;

struct job {
    job_identity who;
    uint32_t silence_ms; /* without a sign of life for so long: frozen */
    uint32_t beat_ms;
    uint64_t join_ms;
    uint8_t *key;            /* key.h */
    char sealed[MUNGE_TEXT]; /* rank 0: the key for ranks that have none; "": they have it */
    bool key_comes;          /* with the greeting of rank 0 */
    uint8_t meeting[MEETING_BYTES];
    job_tls_context *tls;
    weft_host_tls table;

    pthread_mutex_t asking; /* held during a request: one at a time */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool ready; /* lock, moved and asking are initialized */
    pthread_t thread;
    void *(*body)(void *); /* body of the thread */
    bool running, stop;
    int wake_fd, control_fd;

    job_mailbox box;
    uint64_t asked; /* awake_ms() when a request to stop was seen before all met; 0: none was */
    bool joined;    /* all ranks have met */
    bool leaving;   /* this rank has sent its bye */
    bool all_left;  /* all ranks have, with WEFT_OK */
    bool drained;   /* everything queued is sent, or cannot be sent any more */
    bool parted;    /* rank 0: every other rank has closed its connection */

    void (*act)(job *j, const job_event *e);          /* of rank 0, or of another rank ... */
    job_sign (*sign_of)(const job *j, uint32_t rank); /* ... and what it knows about `rank` */
    _Atomic int failed;                               /* set once, after the text */
    char failure[JOB_TEXT];
    job_cause candidate; /* candidate for the root cause */
    /* Time during which the thread ran, in milliseconds. Unlike awake_ms() it also leaves out what
     * the thread waited for a core, so a frozen observer takes no other rank for frozen. The thread
     * looks before it reads what has arrived: then a sign of life that waited in the socket while
     * the observer did not run counts from now on. */
    awake_count clock;

    _Atomic uint64_t step, place;
    job_agreement halt;

    job_server *server; /* rank 0 */
    job_client *client; /* another rank */
};

#endif
