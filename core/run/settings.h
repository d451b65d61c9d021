/* run/settings.h: what a run reads of its job while it runs. Filled once, from a config that has
 * been checked; the plan and the spec have all else. */
#ifndef RUN_SETTINGS_H
#define RUN_SETTINGS_H

#include "config/config.h"

typedef enum run_save_mode { RUN_SAVE_AUTO, RUN_SAVE_BESIDE, RUN_SAVE_INLINE } run_save_mode;

#define PROGRESS_AUTO UINT64_MAX
/* Texts are the config's. */
typedef struct run_settings {
    const char *name, *out;
    uint64_t seed, steps;
    double deadline, frozen_after, join_timeout; /* seconds */
    uint64_t verify_every;                       /* steps; 0: never, also below */
    uint64_t eval_every, eval_batches;
    uint64_t save_every;
    uint32_t save_keep; /* checkpoints; 0: all */
    run_save_mode save_mode;
    double save_timeout;                  /* seconds */
    const char *init;                     /* folder of weights to begin with; "": random ones */
    uint64_t trace_first, trace_last;     /* steps; a lower last: none */
    uint64_t trace_bytes, progress_every; /* lines of progress; PROGRESS_AUTO: by time */
    double peak_flops;                    /* of a rank in a second; 0: measured */
} run_settings;

/* After config_check(); WEFT_USAGE: log.trace_steps has no steps. [setup] */
weft_status run_settings_read(const config *cfg, run_settings *out);

#endif
