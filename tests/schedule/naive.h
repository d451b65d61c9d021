/* tests/schedule/naive.h: what a collective has to give, by the plainest loops; nothing here shares
 * code with core/schedule or core/comm. */
#ifndef TESTS_SCHEDULE_NAIVE_H
#define TESTS_SCHEDULE_NAIVE_H

#include "schedule/schedule.h"

/* Half and brain floats by search over all their values, in double. */
double half_value(uint16_t h);
uint16_t half_nearest(double x);
double bf16_value(uint16_t h);
uint16_t bf16_nearest(double x);

/* Element `i` of what rank `rank` puts in. Floats lie in (-1, 1), integers anywhere. */
void naive_input(const sched_request *r, uint32_t rank, uint64_t i, void *element);
void naive_fill(const sched_request *r, uint32_t rank, void *in);

/* Elements that `rank` puts in and gets out (0 for none). */
uint64_t naive_in_count(const sched_request *r, uint32_t rank);
uint64_t naive_out_count(const sched_request *r, uint32_t rank);

/* Element `i` of what `rank` has to get; sums in fp32 in the order of the ranks, rounded once. */
void naive_output(const sched_request *r, uint32_t rank, uint64_t i, void *element);

/* Is `got` right for element `i` at `rank`? `exact`: bit by bit; otherwise within what n roundings
 * of partial sums explain, measured against a sum in double. */
int naive_right(const sched_request *r, uint32_t rank, uint64_t i, const void *got, int exact);

/* First wrong element of `out`, or UINT64_MAX. Checks every element up to `dense`, then samples. */
uint64_t naive_first_wrong(const sched_request *r, uint32_t rank, const void *out, int exact,
                           uint64_t dense);

/* A request of all ranks as seen by one: kinds with two roles change theirs. False: this rank takes
 * no part (sends between two ranks). */
int naive_role(const sched_request *all, uint32_t rank, sched_request *mine);

#endif
