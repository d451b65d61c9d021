/* plugins/keys.h: the keys of a plugin, as `weft plugins NAME` and `weft config` print them. */
#ifndef PLUGINS_KEYS_H
#define PLUGINS_KEYS_H

#include "cli/options.h"
#include "config/config.h"
#include "host/host.h"

/* The section of a job file that has them. */
const char *plugins_section_of(const host_component *c, char out[128]);

/* Which of them are binding keys on resume (config/differ.h). */
cli_column plugins_column_of(const host_component *c);

/* The keys: those of its mesh axes, then its options. NULL-ended; the caller frees it, and
 * `capacity` lives as long. */
const weft_option **plugins_keys_of(const host_component *c, weft_option capacity[WEFT_MAX_MESH]);

#endif
