/* tests/comm/loop_link.h: a transport between the threads of one process, and a job for them.
 *
 * It buffers nothing, moves random pieces at random moments, and does harm on request. A hub is the
 * network; its component is handed to comm_add_link() by every rank. */
#ifndef TESTS_COMM_LOOP_LINK_H
#define TESTS_COMM_LOOP_LINK_H

#include <pthread.h>

#include "comm/comm.h"

#define LOOP_MAX_RANKS 8

typedef struct loop_hub {
    host_component component;
    weft_link_table table; /* caps and channels may be changed before ranks begin */
    pthread_mutex_t lock;
    weft_link *link[LOOP_MAX_RANKS];
    struct weft_conn *conns;
    uint64_t random, moved;
    uint64_t piece; /* most bytes moved at once */

    /* mischief that a link may do; 0: none */
    uint32_t hold;    /* looks that a message waits at most before its first byte moves */
    uint32_t busy;    /* of so many posts one is refused, while another is under way */
    uint32_t lag;     /* of so many looks one says how much has finished by now */
    uint32_t pauses;  /* now and then nothing moves for so many looks of anybody */
    uint32_t starves; /* of so many looks of rank `starved` one moves something */
    uint32_t starved;
    uint64_t eager; /* sends up to so long are buffered: finished at once */
    uint32_t paused;

    /* harm */
    int64_t gone;        /* this rank breaks its connections ... */
    uint64_t gone_after; /* ... once this many bytes have moved in all */
    int down;            /* connections do not come up, and the link says why */
    int lie;             /* 16-byte messages arrive as all ones */
    uint64_t flip_at;    /* of all bytes that move this one, counted from 1, arrives with ... */
    uint8_t flip;        /* ... these bits inverted */
} loop_hub;

void loop_begin(loop_hub *h, uint64_t caps, uint32_t channels);
void loop_end(loop_hub *h);

/* Mischief of all kinds, as much of each as the seed says. */
void loop_mischief(loop_hub *h, uint64_t seed);

/* The job of these threads: a store, and a failure that a test sets. */
struct job {
    pthread_mutex_t lock;
    pthread_cond_t put;
    struct {
        char key[256];
        void *value;
        uint64_t bytes;
    } entry[256];
    uint32_t entries;
    const char *failure; /* set under the lock; NULL: none */
};
void fake_job_begin(job *j);
void fake_job_fail(job *j, const char *text);
void fake_job_end(job *j);

#endif
