/* tokens/text/list.h: which files a text is made of.
 *
 * A folder stands for the files in it and below, in the order of their names; hidden ones, whose
 * names begin with a dot, and those that end in .part are left out. Below one path a folder is
 * visited once, whatever links lead to it. A name tells what a file is:
 * .gz and .zst are compressed, and .jsonl and .ndjson, also in front of these, have a record a
 * line. */
#ifndef TOKENS_TEXT_LIST_H
#define TOKENS_TEXT_LIST_H

#include <stdbool.h>
#include <weft/base.h>

enum { DATA_PLAIN, DATA_GZ, DATA_ZST };

typedef struct tokens_text_file {
    char *path;
    uint64_t bytes; /* in the file */
    int64_t changed;
    int packing; /* DATA_PLAIN, ... */
    bool records;
} tokens_text_file;

typedef struct tokens_text_list {
    tokens_text_file *at;
    uint32_t n, capacity;
    uint64_t bytes; /* of all */
} tokens_text_list;

/* Paths of files and folders, in their order. One that is missing, no regular file, or a folder
 * without files is WEFT_USAGE. [setup] */
weft_status tokens_text_list_make(const char *const *paths, uint32_t n, tokens_text_list *out);
void tokens_text_list_free(tokens_text_list *l);

#endif
