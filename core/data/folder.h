/* data/folder.h: an output folder that is there complete or not at all.
 *
 * Files are written into a folder with a temporary name beside the final one; a commit renames it.
 * An existing folder or file is never replaced. A killed process leaves a folder ".NAME.PID.tmp",
 * which nothing reads. */
#ifndef DATA_FOLDER_H
#define DATA_FOLDER_H

#include <dirent.h>
#include <limits.h>
#include <weft/base.h>

typedef struct data_folder {
    int parent, fd;          /* open descriptors; fd: the temporary folder */
    char temp[NAME_MAX + 1]; /* its name under `parent` */
    char name[NAME_MAX + 1]; /* the final name */
    char path[PATH_MAX];     /* of the temporary folder */
} data_folder;

/* Make the temporary folder for `path`. WEFT_USAGE: `path` exists, or its parent does not. [setup]
 */
weft_status data_folder_begin(const char *path, data_folder *f);

/* Sync it and give it its final name; either way `f` is closed, and on failure removed. [setup] */
weft_status data_folder_commit(data_folder *f);

/* Remove it with the files in it. [setup] */
void data_folder_abandon(data_folder *f);

/* Write a whole file `name` into it and sync it. [setup] */
weft_status data_folder_file(int folder, const char *name, const void *data, uint64_t bytes);

/* The calls of which these are made, for other folders that are there whole; -1 or NULL with errno.
 * Links are not followed. A stream over a folder, with a descriptor of its own; remove it with the
 * files in it, or what else has the name; rename it to a name that must be free. [setup] */
DIR *data_folder_list(int parent, const char *name);
int data_folder_remove(int parent, const char *name);
int data_folder_rename(int parent, const char *from, const char *to);

#endif
