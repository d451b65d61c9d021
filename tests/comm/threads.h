/* tests/comm/threads.h: ranks that are threads of one process, with a world each over the link of
 * loop_link.h and a job that is fake_job.c. */
#ifndef TESTS_COMM_THREADS_H
#define TESTS_COMM_THREADS_H

#include <stdatomic.h>

#include "loop_link.h"
#include "naive.h"

#define PATIENCE 60.0
#define MAX_OPS 40

/* No memory is taken in a step: armed, every allocation of ours is counted. */
extern atomic_int armed, allocations;

typedef struct rank {
    struct job_test *test;
    uint32_t me, link, link2;
    comm_world *w;
    comm_arena arena;
    uint64_t used;
    sched_schedule *made[MAX_OPS];
    uint32_t mades;
    char said[1024]; /* the record with which it ended */
    weft_status st;
    pthread_t thread;
} rank;

typedef struct job_test {
    loop_hub hub, hub2;
    job job;
    uint32_t n;
    void (*body)(rank *);
    rank rank[LOOP_MAX_RANKS];
    pthread_barrier_t barrier;
    uint64_t seed;
    const sched_request *request;
    const char *explain; /* what the job says once all are connected */
    uint32_t checked;    /* bit r: rank r asks for checksums */
} job_test;

/* Threads cannot use cmocka's asserts: what fails there ends the program. */
#define must(cond) ((cond) ? (void)0 : must_failed(#cond, __FILE__, __LINE__))
void must_failed(const char *what, const char *file, int line);
extern char must_note[1500]; /* printed then as well: what was being tried */

/* Set up a test (links "loop" and "pool"), then run `body` on every rank to its end. */
void begin_test(job_test *t, uint32_t n, uint64_t caps, uint32_t channels);
void run_ranks(job_test *t, void (*body)(rank *));

comm_channel *channel_of_all(rank *k, uint32_t link, const char *name);

/* One operation and its memory, part of the arena. */
typedef struct piece {
    sched_request r;
    comm_op *op;
    char *in, *out, *scratch;
    int takes_part;
    uint64_t started; /* clock_ns() */
} piece;

void add_piece(rank *k, comm_channel *c, const sched_request *all, piece *p);
void start_piece(piece *p, int overlap);
void wait_piece(piece *p, int exact); /* and check the result */

#endif
