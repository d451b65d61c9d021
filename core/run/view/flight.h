/* run/view/flight.h: the flight record: the last instructions of a rank, which survive a crash.
 *
 * It is a ring buffer of 64-byte records in a mapped file OUT/flight/rank-0000.ring. Written
 * records are in the page cache, so they are there even after SIGKILL. A record costs about 30
 * ns. */
#ifndef RUN_VIEW_FLIGHT_H
#define RUN_VIEW_FLIGHT_H

#include <stdint.h>
#include <stdio.h>
#include <weft/base.h>

#define FLIGHT_RECORDS 4096u

typedef struct run_flight {
    void *map; /* NULL: nothing is recorded */
    uint64_t bytes;
} run_flight;

/* Create OUT/flight/rank-RRRR.ring. An existing file of that name is replaced, never truncated,
 * because another process may have mapped it. [setup] */
weft_status run_flight_open(const char *out_dir, uint32_t rank, uint32_t ranks, run_flight *out);
void run_flight_close(run_flight *f);

/* Record that entry `entry` of a list is about to start. [compute] */
void run_flight_note(run_flight *f, uint64_t step, uint32_t entry, char kind, const char *name);

/* Print the last `count` records of every ring in the folder `dir` (or its flight/), oldest first.
 * WEFT_DATA: a file is damaged or not a flight record. [setup] */
weft_status run_flight_print(const char *dir, uint32_t count, FILE *to);

#endif
