/* schedule/mirror.h: staged operations: a schedule over memory that no link can access runs on a
 * mirror in host memory.
 *
 * Steps that fetch the input in chunks precede the algorithm's steps; steps that store the output
 * follow them. Dependencies come from the places accessed, as for every step: the first chunk is
 * sent while the second is being fetched, and the last chunk is stored as soon as its last sum is
 * ready. The runtime side is core/comm/staging.c.
 *
 * Cost for S bytes: S copied each way over the device's bus, and a mirror of S in host memory. */
#ifndef SCHEDULE_MIRROR_H
#define SCHEDULE_MIRROR_H

#include "schedule/writer.h"

void sched_mirror_fetches(sched_writer *w);
void sched_mirror_stores(sched_writer *w);
sched_span sched_mirror_chunk(uint64_t bytes,
                              uint32_t i); /* chunk i of `bytes`, the unit of fetches and stores */
uint64_t sched_mirror_bytes(const sched_request *r); /* size of the mirror in bytes */

#endif
