/* config/differ.h: does a job go on with what another one saved?
 *
 * A key binds when another value of it changes what the run computes: the model, the data, the seed
 * and the order of the samples, the update rule, the learning rate, the precision, what rounds or
 * clips gradients. All other keys are free: how long a run is, how it is laid out over ranks, what
 * carries and computes it, what is logged and saved, and where. The core's tables have a column for
 * it (options.c). Of plugins, keys of model families and update rules bind, and keys of strategies,
 * placements, transports and devices are free, since results do not depend on the layout. */
#ifndef CONFIG_DIFFER_H
#define CONFIG_DIFFER_H

#include "config/config.h"

/* Does the option of the core's own tables bind? False for any other. [any] */
bool config_option_binds(const weft_option *o);

/* Does the key "section.key" of a config bind? False where nobody has declared it. [any] */
bool config_binds(const config *c, const char *key);

/* Make the keys of `options`, which config_add() has added to `section`, bind. [setup] */
void config_bind(config *c, const char *section, const weft_option *const *options);

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
