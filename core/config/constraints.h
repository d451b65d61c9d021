/* config/constraints.h: what does not combine with what.
 *
 * Each rule about several keys is one row here: which keys, what is refused and what would be
 * lawful, and why. Where the numbers are known, the code names the row and fills it in; so the
 * sentence that a user sees and docs/COMBINATIONS.md are the same text. A rule that only a plugin
 * can know is the plugin's own sentence, and stands in the help of its keys. */
#ifndef CONFIG_CONSTRAINTS_H
#define CONFIG_CONSTRAINTS_H

#include <stdio.h>
#include <weft/base.h>

typedef struct config config; /* config.h */

typedef enum combine_rule {
    COMBINE_ONE_AUTO,
    COMBINE_SIZE,
    COMBINE_RANKS,
    COMBINE_AXIS_TWICE,
    COMBINE_PLACEMENT,
    COMBINE_TRANSPORT,
    COMBINE_ALGORITHM,
    COMBINE_TUNED,
    COMBINE_COMPRESS,
    COMBINE_COMPRESS_ALGORITHM,
    COMBINE_COMPRESS_TYPE,
    COMBINE_BATCH,
    COMBINE_SEQUENCE,
    COMBINE_HEADS,
    COMBINE_KV_HEADS,
    COMBINE_OWN_KV_HEADS,
    COMBINE_NO_ROTATION,
    COMBINE_PAIRS,
    COMBINE_DROPOUT,
    COMBINE_NO_VOCAB,
    COMBINE_VOCAB,
    COMBINE_RULES
} combine_rule;

/* What stands for {name} in the row's sentence: the text, or the number when it is NULL. */
typedef struct combine_fact {
    const char *name;
    long long number;
    const char *text;
} combine_fact;

/* fail(WEFT_USAGE) with the row's sentence. `facts` is ended by a NULL name. With a config, the
 * place of `key` (NULL: the row's own) comes first. [any] */
weft_status combine_refuse(combine_rule rule, const config *c, const char *key,
                           const combine_fact *facts);

/* The table in Markdown. */
void combine_print(FILE *to);

#endif
