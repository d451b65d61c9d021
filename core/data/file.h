/* data/file.h: complete reads and writes of files, for token files and checkpoints.
 *
 * These calls retry after an interruption and after a short transfer, and report a failure as
 * errno, since the caller knows the context for the message. A failed fsync is never retried: a
 * second call would not report pages that the kernel has already dropped. */
#ifndef DATA_FILE_H
#define DATA_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <weft/base.h>

/* All of `bytes` to the current offset: 0, or -1 with errno. [any] */
int data_file_write(int fd, const void *data, uint64_t bytes);

/* `bytes` from offset `at`: 0, 1 when the file ends before them, or -1 with errno. [any] */
int data_file_read(int fd, void *out, uint64_t bytes, uint64_t at);

/* Let the disk begin with what was written since `*from`, once it is much, so that the sync at the
 * end waits for little. `done`: bytes in the file. Advice: what it cannot do, the sync does. [any]
 */
void data_file_hand_on(int fd, uint64_t *from, uint64_t done);

/* fsync of a file; of a folder, where a file system that knows none (EINVAL) counts as done. */
int data_file_sync(int fd);
int data_file_sync_folder(int fd);

/* fsync of the parent folder of `path`. */
int data_file_sync_parent(const char *path);

/* Whether `path` leads to this file, by whatever name. [any] */
bool data_file_is(const char *path, const struct stat *file);

/* What `path` leads to, if it is a link, or `path` itself: a rename to it then replaces no link. -1
 * with errno: the link leads to nothing, or the path is too long. [setup] */
int data_file_follow(const char *path, char out[PATH_MAX]);

/* Open `name` under `folder` (AT_FDCWD allowed) for reading, without waiting for a writer if it
 * turns out to be a pipe. A symbolic link as last part is refused unless `follow`. Anything but a
 * regular file is refused with errno EISDIR or ENODEV. The descriptor, or -1 with errno. [setup] */
int data_file_open_regular(int folder, const char *name, bool follow, struct stat *st);

/* WEFT_DATA for an errno that says that a file which has to be there is not, or is no plain file:
 * that is damage of what was stored. Else data_file_status(): it may be there, and could not be
 * read. */
weft_status data_file_damage(int error);

/* The status of an errno about a file that the user named: WEFT_USAGE where the name
 * or its permissions are wrong, WEFT_NO_MEMORY, or WEFT_IO. */
weft_status data_file_status(int error);

#endif
