/* run/exec/recording.h: sequences of calls that the device records once and replays (CUDA graphs).
 *
 * A recording stays valid for the whole run, because the plan fixes all addresses and what changes
 * between steps is in the arena. On a device that cannot record every call is made anew. */
#ifndef RUN_EXEC_RECORDING_H
#define RUN_EXEC_RECORDING_H

#include "run/exec/executor.h"

/* Record the calls of all lists where the device can. [setup] */
weft_status run_recordings_make(run_executor *e);

/* The entry after the recording that begins at entry i of `l`, with *work to replay; i if no
 * recording begins there. [compute] */
uint32_t run_recording_end(const run_executor *e, const plan_list *l, uint32_t i,
                           weft_capture **work);

/* Frees all recordings; the device frees their work when it is closed. [setup] */
void run_recordings_free(run_executor *e);

#endif
