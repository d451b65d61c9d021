/* tests/schedule/pace.h: which of the things that may happen next in sim.c does: by a seed, so that
 * a run can be had again. Nothing that a pace holds back is lost: when nothing else can happen, it
 * happens after all. */
#ifndef TESTS_SCHEDULE_PACE_H
#define TESTS_SCHEDULE_PACE_H

#include <stdint.h>

#define PACE_RANKS 1u    /* ranks are slow, each by its own measure */
#define PACE_LINKS 2u    /* the ways between two ranks are, each direction for itself */
#define PACE_STARVED 4u  /* one rank has its turn only when no other can do anything */
#define PACE_BURSTS 8u   /* a rank acts often in a row */
#define PACE_BUFFERS 16u /* a send may be finished before its receive is there */
#define PACE_ALL 31u

#define PACE_MAX 32

typedef struct pace {
    uint32_t flags, n;
    uint64_t random, seed;
    uint32_t slow[PACE_MAX], starved;
    uint32_t burst, first;
    int eager; /* hold nothing back */
} pace;

void pace_begin(pace *p, uint64_t seed, uint32_t flags, uint32_t n);
uint32_t pace_draw(pace *p, uint32_t n); /* 0 ... n - 1 */

uint32_t pace_first(pace *p); /* the rank that is asked first */
int pace_holds(pace *p, uint32_t rank);
int pace_holds_way(pace *p, uint32_t from, uint32_t to);
int pace_buffers(pace *p); /* this send */

#endif
