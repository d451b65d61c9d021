/* config/differ.h: does a job go on with what another one saved?
 *
 * A key binds when another value of it changes what the run computes: the model, the data, the seed
 * and the order of the samples, the update rule, the learning rate, the precision, what rounds or
 * clips gradients. All other keys are free: how long a run is, how it is laid out over ranks, what
 * carries and computes it, what is logged and saved, and where. One column says it: of the core's
 * keys in options.c, of plugins' in resolve/effects.c. Of plugins, keys of model families and
 * update rules bind, and keys of strategies, placements, transports and devices are free, since
 * results do not depend on the layout. */
#ifndef CONFIG_DIFFER_H
#define CONFIG_DIFFER_H

#include "config/config.h"

/* What another value of a key changes. */
#define CONFIG_BINDS 1u /* what the run computes */
#define CONFIG_ALONE 2u /* the run on one rank that other layouts of the job are compared with */

/* The effect of an option of the core's own tables; 0 for any other. [any] */
uint32_t config_option_effect(const weft_option *o);

/* The effect of the key "section.key" of a config; 0 where nobody has declared it. [any] */
uint32_t config_effect(const config *c, const char *key);

/* Give `effect` to the keys of `options`, which config_add() has added to `section`. [setup] */
void config_set_effect(config *c, const char *section, const weft_option *const *options,
                       uint32_t effect);

typedef struct config_change {
    const char *section, *key;
    const char *saved, *present; /* as written, or the default; they live as long as the configs */
} config_change;

/* The binding keys of `present`, already checked, whose values differ in `saved`, a job as
 * config_dump() wrote it. Values are compared as their types read them: 1e-3 is 0.001, and a key
 * that is left out has its default. Of a different update rule only the name is reported.
 * Writes up to `cap` and returns how many there are. [setup] */
uint32_t config_changes(const config *saved, const config *present, config_change *out,
                        uint32_t cap);

#endif
