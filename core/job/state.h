/* job/state.h: the job object, shared by job.c (calls from outside), server.c (rank 0's thread),
 * client.c (the thread of every other rank) and failure.c.
 *
 * One lock guards everything that is not atomic; a thread holds it while it handles events and
 * never while it waits for them. Calls from outside leave a request under the lock, wake the
 * thread, and wait for the answer in `moved`. */
#ifndef JOB_INSIDE_H
#define JOB_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "job/decide/cause.h"
#include "job/job.h"
#include "job/store/store.h"
#include "job/wire/wire.h"

#define TICK_MS 50
#define JOB_TEXT 1200
#define LEAVE_SECONDS 300.0

/* Time during which this process was running. A gap in the thread's own loop (the machine was
 * suspended, the whole job was stopped) counts as at most `most`, so that nobody is taken for
 * frozen because the judge was; a gap because processors are scarce still counts in full. */
typedef struct awake {
    uint64_t last, ms, most;
} awake;

static inline uint64_t awake_tick(awake *a)
{
    uint64_t now = clock_ms(), gap = a->last ? now - a->last : 0;
    a->ms += gap < a->most ? gap : a->most;
    a->last = now;
    return a->ms;
}

/* The answer to the one request of this rank. */
typedef struct mailbox {
    bool waits, done;
    uint32_t seq;
    weft_status status;
    void *bytes; /* owned until taken */
    uint64_t n;
} mailbox;

/* What stop.h agrees on. */
typedef struct stopping {
    _Atomic uint64_t begun; /* the step that this rank has begun or asks for; 0: none yet */
    _Atomic uint64_t last;  /* later ones do not begin; 0: none does until the ranks agree */
    int number;             /* the signal that asked */
    bool told;              /* rank 0 knows of the signal that this rank got */
    bool held, settled;     /* the agreement has begun; the last step is known */
    uint64_t since;         /* clock_ms() when all waits were ended; 0: they were not */
} stopping;

typedef struct server server;
typedef struct client client;

struct job {
    job_identity who;
    uint32_t silence_ms; /* without a sign of life for so long: frozen */
    uint32_t beat_ms;
    uint64_t join_ms;
    uint8_t *key; /* key.h */
    uint8_t meeting[MEETING_BYTES];
    tls_context *tls;
    weft_host_tls table;

    pthread_mutex_t asking; /* one request at a time */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool ready; /* the three above were made */
    pthread_t thread;
    void *(*body)(void *); /* what it does */
    bool running, stop;
    int wake_fd, failure_fd, control_fd;

    mailbox box;
    bool joined;   /* all ranks have met                            */
    bool leaving;  /* this rank has said goodbye                    */
    bool all_left; /* all have, in good order                       */
    bool drained;  /* nothing of ours waits to be sent, or can be   */
    bool parted;   /* rank 0: every other rank has closed           */

    _Atomic int failed; /* set once, after the text */
    char failure[JOB_TEXT];
    blame suspect;
    awake clock;

    _Atomic uint64_t step, place;
    stopping halt;

    server *server; /* rank 0        */
    client *client; /* another rank  */
};

/* --- failure.c; under the lock --- */

/* Take it as the truth: record, wake everybody, tell the launcher and the other ranks. */
void job_declare(job *j, uint32_t rank, const char *text);

/* Record it and end all waits of this rank, without telling anybody. */
void job_note_failure(job *j, const char *text);

/* A sign that `rank` failed. `text` continues "rank R ". */
void job_suspect(job *j, uint32_t rank, uint32_t weight, const char *text);
void job_judge(job *j); /* declare what has been held long enough */

/* Read what the launcher says. */
void job_hear_launcher(job *j);

/* "; last seen at step 17, place 34", or the like. */
void job_place(uint64_t step, uint64_t place, char *out, uint32_t bytes);

/* Returns WEFT_PEER with the record in this thread. */
weft_status job_fail_here(job *j);

void job_wake(job *j); /* the thread looks at the flags again; [any] */
void job_answer(job *j, uint32_t seq, weft_status status, const void *bytes, uint64_t n);

/* --- stop.c --- */
void stop_tick(job *j);                                          /* in each round of the thread */
bool stop_from_rank(job *j, uint32_t rank, const wire_frame *f); /* false: against the protocol */
bool stop_from_store(job *j, const wire_frame *f);               /* the same */
void stop_alone(job *j, int number); /* end all waits of this rank, which has no step to save */

/* --- job.c --- */

/* What the ranks have found out: where this one is, and whether all are on one machine. */
void job_settle(job *j, const job_identity *who);

/* Wait for `moved` until clock_ms() is `until`. False: the time is over. Under the lock. */
bool job_wait_moved(job *j, uint64_t until);

/* The one thread of the job: it takes no signal that another thread may handle. */
weft_status job_start_thread(job *j, void *(*body)(void *));

/* --- server.c --- */
weft_status server_start(job *j);
void server_free(job *j);

/* A request of rank 0 itself; `wait_ms` for a get or an exchange. Under the lock. */
void server_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                uint64_t wait_ms);
void server_give_up(job *j); /* answer now whatever waits; for a job of one rank */
void server_bye(job *j, uint32_t rank, weft_status status, const char *text);
void server_broadcast(job *j, uint32_t rank, const char *text);

/* Where `rank` was last seen; false before it joined. */
bool server_seen(job *j, uint32_t rank, uint64_t *step, uint64_t *place);
bool server_left(job *j, uint32_t rank);
void server_missing(job *j, char *out, uint32_t bytes); /* "rank 2, rank 3" that did not join */

/* Does every rank know why the job cannot begin? */
bool server_all_told(const job *j);

/* --- client.c --- */
weft_status client_start(job *j);
void client_free(job *j);
void client_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                uint64_t wait_ms);
void client_send(job *j, uint32_t type, uint32_t arg, const void *body, uint32_t bytes);
void client_bye(job *j, weft_status status, const char *text);
bool client_seen(job *j, uint32_t rank, uint64_t *step, uint64_t *place);

#endif
