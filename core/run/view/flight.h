/* run/view/flight.h: the last instructions of a rank, where a crash cannot take them.
 *
 * A ring of fixed records in a mapped file OUT/flight/rank-0000.ring: what the process wrote is in
 * the page cache whatever becomes of it. One record is 64 bytes and costs some 30 ns. */
#ifndef RUN_VIEW_FLIGHT_H
#define RUN_VIEW_FLIGHT_H

#include <stdint.h>
#include <stdio.h>
#include <weft/base.h>

#define FLIGHT_RECORDS 4096u

typedef struct flight {
    void *map; /* NULL: records nothing */
    uint64_t bytes;
} flight;

/* Create OUT/flight/rank-RRRR.ring. It is always a new file: one of that name is replaced and never
 * cut short, since a process may have it mapped. [setup] */
weft_status flight_open(const char *out_dir, uint32_t rank, uint32_t ranks, flight *out);
void flight_close(flight *f);

/* Note that entry `entry` of a list is about to begin. [compute] */
void flight_note(flight *f, uint64_t step, uint32_t entry, char kind, const char *name);

/* Print the last `count` records of every ring in the folder `dir` (or its flight/), oldest first.
 * A foreign or damaged ring is refused in words. [setup] */
weft_status flight_print(const char *dir, uint32_t count, FILE *to);

#endif
