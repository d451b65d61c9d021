/* job/beats/frame.h: the body of WIRE_BEAT, between a rank and its parent, both ways.
 *
 *   down  number u64 of rank 0's last beat; its step u64, its place u64
 *   up    step u64, place u64 of the sender; then for each rank below it that has come further
 * since the last beat: rank u32, step u64, place u64
 *
 * All little-endian. Over the connection to the store a rank that is no child of rank 0 sends no
 * ranks below. BEAT_ASKS in `arg` asks for a beat in answer, which does not ask.
 *
 * No I/O; the caller checks that a rank is below the sender. */
#ifndef JOB_BEATS_FRAME_H
#define JOB_BEATS_FRAME_H

#include <stdbool.h>

#include "job/wire/wire.h"

#define BEAT_ASKS 1u
#define BEAT_DOWN_BYTES 24u
#define BEAT_UP_BYTES 16u
#define BEAT_ENTRY_BYTES 20u
#define BEAT_ENTRIES_MAX 512u /* in one beat; more follow in the next */
#define BEAT_MAX (BEAT_UP_BYTES + BEAT_ENTRIES_MAX * BEAT_ENTRY_BYTES)

typedef struct job_beat_mark { /* how far a rank has come */
    uint64_t step, place;
} job_beat_mark;

typedef struct job_beat_root { /* what is known of rank 0 */
    uint64_t number;           /* of its last beat */
    job_beat_mark mark;
} job_beat_root;

void job_beat_pack_down(const job_beat_root *r, uint8_t out[BEAT_DOWN_BYTES]);
bool job_beat_unpack_down(const job_wire_frame *f, job_beat_root *out);

void job_beat_pack_mark(const job_beat_mark *m, uint8_t out[BEAT_UP_BYTES]);
void job_beat_pack_entry(uint32_t rank, const job_beat_mark *m, uint8_t out[BEAT_ENTRY_BYTES]);

/* The sender's mark, and the number of entries. False: malformed. */
bool job_beat_unpack_up(const job_wire_frame *f, job_beat_mark *out, uint32_t *entries);

/* Entry `i`, less than that number; returns its rank. */
uint32_t job_beat_entry(const job_wire_frame *f, uint32_t i, job_beat_mark *out);

#endif
