/* cli/options.h: a section's options as a table. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "config/config.h"

/* What the column "resume" (config/differ.h) shows: no such column, a word for each option of the
 * core, or one word for all. */
typedef enum cli_column { CLI_PLAIN, CLI_OWN, CLI_BIND, CLI_FREE } cli_column;

/* For people in a terminal, or for docs/CONFIG.md. */
void cli_print_options(FILE *to, const weft_option *const *options, int markdown,
                       cli_column column);

#endif
