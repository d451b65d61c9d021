/* cli/saved.h: the words of commands that use a checkpoint: [-n RANKS] CHECKPOINT
 * [section.key=value ...]. */
#ifndef CLI_SAVED_H
#define CLI_SAVED_H

#include <stdint.h>

#define CLI_SAVED_OVERRIDES 64u

typedef struct cli_saved {
    const char *dir; /* of the checkpoint; NULL: not given */
    uint32_t ranks;  /* 0: not given */
    const char *overrides[CLI_SAVED_OVERRIDES];
    uint32_t noverrides;
} cli_saved;

/* How many words from argv[i] on are of these: 0, 1 or 2. */
int cli_saved_word(cli_saved *s, int argc, char **argv, int i);

/* Start `ranks` ranks of the same command without -n, and wait for them; returns the exit status.
 * `replaced` and its value become `name` and `value`; NULL: nothing is replaced. */
int cli_saved_launch(const cli_saved *s, int argc, char **argv, const char *replaced,
                     const char *name, const char *value);

#endif
