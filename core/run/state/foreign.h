/* run/state/foreign.h: weights in files of other programs, which a run may begin with. The core
 * reads checkpoints of its own; whoever starts a rank brings the functions for others. */
#ifndef RUN_STATE_FOREIGN_H
#define RUN_STATE_FOREIGN_H

#include "ckpt/ckpt.h"
#include "config/config.h"
#include "plan/plan.h"

typedef struct run_foreign run_foreign; /* files that are open; opaque */

typedef struct run_foreign_files {
    /* Is `path` such a folder? [any] */
    bool (*is_folder)(const char *path);

    /* Open the folder `path` for the parameters of a job: its model must be that of [model] in
     * `cfg`, field by field. WEFT_USAGE names the field and the key. [setup] */
    weft_status (*open)(const char *path, const config *cfg, const plan_set *plans,
                        run_foreign **out);
    void (*close)(run_foreign *f); /* NULL is allowed */

    /* Elements [first, first + count) of a block of a parameter, as ckpt_read() has them, in fp32.
     * From one thread at a time. [setup] */
    weft_status (*read)(run_foreign *f, const ckpt_piece *want, float *out);

    /* Equal where two ranks see the same files, unless only values differ. [any] */
    uint64_t (*digest)(const run_foreign *f);
} run_foreign_files;

#endif
