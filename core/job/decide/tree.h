/* job/decide/tree.h: which rank watches which by heartbeats, and what silence means.
 *
 * The ranks form a tree: rank r has the parent (r - 1) / fanout. A rank exchanges heartbeats with
 * its parent and its children only, so no rank handles more than fanout + 1 of them in an interval.
 * The children of rank 0 use their connections to the store. With at most fanout + 1 ranks all are
 * its children. Other ranks have one more connection, to the parent.
 *
 * Rank 0 alone declares a rank frozen, and only by what it sees on its own connection to that rank.
 * The tree decides whom it looks at: a child that is silent for half of the time, or whose
 * connection to its parent ends, is returned to rank 0, which asks it directly and declares it
 * frozen at the end of the time. A child that is heard again is taken over by its parent. So a slow
 * or broken connection between two ranks accuses nobody, a frozen parent is named and not its
 * children, and the time until a frozen rank is named does not depend on its depth.
 *
 * Beats that go down carry the number of rank 0's last beat, which each rank passes on at once:
 * that is how rank 0's life is seen from any depth. If the number stops for half of the time,
 * because rank 0 or a rank on the way is frozen, a rank asks rank 0 directly. Without an answer at
 * the end of the time, rank 0 is frozen. Beats that go up carry how far each rank below has come.
 *
 * Pure. Times are milliseconds of the caller's clock (`clock` of job/state.h). */
#ifndef JOB_TREE_H
#define JOB_TREE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct job_tree {
    uint32_t ranks, fanout;
} job_tree;

/* Children of a rank; the same for all ranks of a job, so a change of its value is a change of the
 * protocol. Tests lower it. */
#define JOB_TREE_FANOUT 32u
extern uint32_t job_tree_fanout;

/* The parent of `rank`; of rank 0 it is 0. */
uint32_t job_tree_parent(const job_tree *t, uint32_t rank);

/* How many children `rank` has: *first and those after it. */
uint32_t job_tree_children(const job_tree *t, uint32_t rank, uint32_t *first);

/* Is `rank` a child of `top`, or below one of its children? */
bool job_tree_is_below(const job_tree *t, uint32_t top, uint32_t rank);

/* Milliseconds between two beats of rank 0 and a rank over the connection of the store. `later`:
 * the rank is to be watched by another one, and has not been yet: longer than `beat`, so that the
 * beats of thousands do not delay the meeting and the making of the tree. */
uint32_t job_tree_interval(bool later, uint32_t beat, uint32_t silence);

/* --- a parent, for each child that is connected to it --- */

typedef struct job_watch {
    bool taken;         /* rank 0 relies on this rank for it */
    uint64_t last_seen; /* its last sign of life */
} job_watch;

typedef enum job_watch_event {
    JOB_WATCH_NONE,
    JOB_WATCH_TAKE,   /* tell rank 0 that this rank watches the child from now on */
    JOB_WATCH_RETURN, /* tell rank 0 that it is silent; rank 0 looks itself */
} job_watch_event;

/* `silence`: after so long a rank is frozen. */
job_watch_event job_tree_check_child(job_watch *w, uint64_t now, uint32_t silence);

/* --- rank 0, for each other rank --- */

typedef struct job_guard {
    bool relies; /* its parent watches it ... */
    bool relied; /* ... or did so */
    uint64_t
        last_seen; /* the last sign of life on its own connection, or that the parent knows of */
} job_guard;

/* The parent takes it over. */
void job_tree_rely(job_guard *g);

/* The parent has heard nothing for `silent` and returns it. The rest of the time is never less than
 * a quarter, in which the rank can answer rank 0. */
void job_tree_return(job_guard *g, uint64_t now, uint64_t silent, uint32_t silence);

/* Is it frozen? False for one that its parent watches. */
bool job_tree_is_frozen(const job_guard *g, uint64_t now, uint32_t silence);

/* --- every other rank, for rank 0 --- */

typedef enum job_root_event {
    JOB_ROOT_WELL,
    JOB_ROOT_ASK, /* send rank 0 a beat over the store's connection, and ask for an answer */
    JOB_ROOT_FROZEN,
} job_root_event;

/* `attached`: the number comes through a connection to the parent. `silent`: since rank 0 was last
 * heard, or its number has last changed. */
job_root_event job_tree_check_root(bool attached, uint64_t silent, uint32_t silence);

#endif
