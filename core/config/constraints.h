/* config/constraints.h: rules about combinations of keys.
 *
 * Each rule about several keys is one row here: which keys, what is refused and what would be
 * valid, and why. Where the numbers are known, the code names the row and fills it in; so the
 * sentence that a user sees and docs/COMBINATIONS.md are the same text. A rule that only a plugin
 * can know is the plugin's own message, and is in the help of its keys. */
#ifndef CONFIG_CONSTRAINTS_H
#define CONFIG_CONSTRAINTS_H

#include <weft/base.h>

typedef struct config config; /* config.h */

typedef enum config_constraint {
    CONSTRAINT_ONE_AUTO,
    CONSTRAINT_SIZE,
    CONSTRAINT_RANKS,
    CONSTRAINT_AXIS_TWICE,
    CONSTRAINT_PLACEMENT,
    CONSTRAINT_TRANSPORT,
    CONSTRAINT_CHECKSUM,
    CONSTRAINT_ALGORITHM,
    CONSTRAINT_TUNED,
    CONSTRAINT_COMPRESS,
    CONSTRAINT_COMPRESS_ALGORITHM,
    CONSTRAINT_COMPRESS_TYPE,
    CONSTRAINT_COMPRESS_LIBRARY,
    CONSTRAINT_BATCH,
    CONSTRAINT_SEQUENCE,
    CONSTRAINT_RATES,
    CONSTRAINT_NO_EFFECT,
    CONSTRAINT_RULES
} config_constraint;

/* The value of {name} in the row's sentence: the text, or the number when it is NULL. */
typedef struct config_fact {
    const char *name;
    long long number;
    const char *text;
} config_fact;

/* err_fail(WEFT_USAGE) with the row's sentence. `facts` is ended by a NULL name. With a config, the
 * place of `key` (NULL: the row's own) comes first. [any] */
weft_status config_refuse(config_constraint rule, const config *c, const char *key,
                          const config_fact *facts);

/* The table. {name} is replaced by facts; a name with a dot is a key. */
typedef struct config_constraint_row {
    const char *keys; /* that are combined; the first one is reported as the cause */
    const char *says; /* what is refused; what is valid */
    const char *why;
} config_constraint_row;
extern const config_constraint_row config_constraint_rows[CONSTRAINT_RULES];

#endif
