/* schedule/mirror.h: schedules over memory that no link can touch run on a mirror in host memory.
 *
 * Steps that fetch the input in pieces come before those of the algorithm, steps that store the
 * output behind them. Who waits for whom follows from the places they touch, as for every step: the
 * first piece is on the wire while the second is still being fetched, and the last is stored as
 * soon as its last sum is formed. The runtime's side is core/comm/staging.c.
 *
 * Cost for S bytes: S copied each way over the device's bus, and a mirror of S in host memory. */
#ifndef SCHEDULE_MIRROR_H
#define SCHEDULE_MIRROR_H

#include "schedule/writer.h"

void sched_mirror_fetches(sched_writer *b);
void sched_mirror_stores(sched_writer *b);
sched_span sched_mirror_piece(uint64_t bytes,
                              uint32_t i); /* piece i of `bytes`, as fetches and stores go */
uint64_t sched_mirror_bytes(const sched_request *r); /* bytes of the mirror */

#endif
