/* run/view/flight.h: the flight record: the last instructions of a rank, which survive a crash.
 *
 * It is a ring buffer in a mapped file OUT/flight/rank-0000.ring: a header and FLIGHT_RECORDS
 * records. Written records are in the page cache, so they are there even after SIGKILL. A record
 * costs about 30 ns. */
#ifndef RUN_VIEW_FLIGHT_H
#define RUN_VIEW_FLIGHT_H

#include <stdatomic.h>
#include <stdint.h>
#include <weft/base.h>

#define FLIGHT_RECORDS 4096u

typedef struct run_flight_head {
    char magic[8]; /* "weftring" */
    uint32_t version, records;
    uint32_t rank, ranks;
    _Atomic uint64_t next; /* records ever written */
    char unused[32];
} run_flight_head;

typedef struct run_flight_record {
    uint64_t time_ns, step;
    uint32_t entry;
    char kind; /* c call, s start, w wait, e end of a list */
    char name[43];
} run_flight_record;

_Static_assert(sizeof(run_flight_head) == 64 && sizeof(run_flight_record) == 64,
               "records are 64 bytes");

#define FLIGHT_VERSION 1u
#define FLIGHT_BYTES ((uint64_t)(FLIGHT_RECORDS + 1) * 64)

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

#endif
