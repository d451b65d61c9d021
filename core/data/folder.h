/* data/folder.h: calls for folders that are there whole or not at all, and for the files in them:
 * -1 or NULL with errno. Links are not followed. */
#ifndef DATA_FOLDER_H
#define DATA_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <weft/base.h>

/* Write a whole file `name` into the open folder and sync it. [setup] */
weft_status data_folder_file(int folder, const char *name, const void *data, uint64_t bytes);

/* A stream over a folder, with a descriptor of its own. [setup] */
DIR *data_folder_list(int parent, const char *name);

/* Remove the files in a folder; false: it cannot be opened. [setup] */
bool data_folder_empty(int parent, const char *name);

/* Remove it with the files in it, or what else has the name; 0 if nothing has. [setup] */
int data_folder_remove(int parent, const char *name);

/* Rename it to a name that must be free. [setup] */
int data_folder_rename(int parent, const char *from, const char *to);

#endif
