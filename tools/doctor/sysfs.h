/* doctor/sysfs.h: reads /proc, /sys and /dev below the root.
 *
 * The contents are untrusted: a missing or malformed value counts as absent, and sizes are limited.
 * Paths are printf formats that begin with '/'. Files are opened without blocking, so that a pipe
 * or a device at a path does not block the doctor. [setup] */
#ifndef DOCTOR_SYSFS_H
#define DOCTOR_SYSFS_H

#include "doctor/context.h"

/* The whole of a small file, without trailing blanks. False: absent, empty or not readable. */
bool doctor_read_text(const doctor *d, char *out, size_t size, const char *path, ...)
    __attribute__((format(printf, 4, 5)));

/* The integer at the start of a file. */
bool doctor_read_number(const doctor *d, int64_t *out, const char *path, ...)
    __attribute__((format(printf, 3, 4)));

/* The text after `key` and an optional colon on the first line that begins with `key`, without
 * surrounding blanks. */
bool doctor_read_line(const doctor *d, const char *path, const char *key, char *out, size_t size);

/* The number on such a line, in bytes: multiplied by 1024 where "kB" follows. */
bool doctor_read_bytes(const doctor *d, const char *path, const char *key, uint64_t *out);

/* Names in a folder, sorted, at most 4096, NULL-terminated, owned by d->pool. Never NULL. */
const char *const *doctor_list_folder(doctor *d, const char *path, ...)
    __attribute__((format(printf, 2, 3)));
bool doctor_path_exists(const doctor *d, const char *path, ...)
    __attribute__((format(printf, 2, 3)));

/* The number of CPUs in a list such as "0-3,8"; 0 where it is malformed. */
uint32_t doctor_count_cpus(const char *list);

/* The word in brackets of a text such as "always [madvise] never". */
bool doctor_bracketed_word(const char *text, char *out, size_t size);

#endif
