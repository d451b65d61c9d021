/* list.h: the value of `train` or `valid`: which files, and in which proportion.
 *
 *   FILE | FOLDER | PATTERN           one data set
 *   A, B, ...                         one data set: the files of A, then those of B, ...
 *   A:WEIGHT, B:WEIGHT, ...           a mixture of data sets
 *
 * A folder means its files NAME.bin and NAME.tokens, a pattern has *, ? or [...]; both give files
 * in the order of the bytes of their names. A comma of a name is written \,. A value that is the
 * name of a file as a whole is that file. */
#ifndef LIST_H
#define LIST_H

#include "source.h"

#define LIST_FILES 16384u /* at most, in all */
#define LIST_PARTS 64u    /* of a mixture */
#define LIST_PATH 4096u   /* bytes of a path at most */

/* The files of a data set. */
typedef struct list_part {
    char **paths; /* [n], each one block of the host */
    uint32_t n, room;
    uint64_t weight; /* whole numbers without a common divisor; 0: there are no weights */
} list_part;

typedef struct list {
    const weft_host *host;
    const char *key; /* "data.train" */
    list_part *parts;
    uint32_t nparts, files;
} list;

/* Take a value apart and find its files, which are not opened. `key` is for messages and borrowed.
 * [setup] */
weft_status list_read(const weft_host *host, const char *key, const char *value, list *out);
void list_free(list *l); /* a zeroed one is allowed [setup] */

#endif
