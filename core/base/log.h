/* base/log.h: lines for people, on standard error.
 *
 * One line a call, written with one write(2) so that ranks sharing a terminal do not tear each
 * other's lines. Levels are those of weft/plugin.h. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include <weft/plugin.h>

/* Lines above `level` are dropped; `rank` < 0 leaves the rank out. Before the first thread. */
void log_setup(int level, int rank);
int log_level(void);
int log_rank(void);

/* From now on each line begins with the time, unless standard error is a terminal: a file is read
 * later, beside those of other machines. [any] */
void log_add_time(void);

/* What a line begins with: "2026-11-29T02:03:04.123Z ", in UTC, or "" without log_add_time().
 * Async-signal-safe. [any] */
const char *log_time(char out[32]);

/* "[TIME ]weft[ rank R] error: text". A line is dropped where nobody reads standard error within a
 * moment, an error within some seconds; the next one says how many are lost. [any] */
void log_line(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Can a line be written to standard error now, or within `ms`? False: it is a pipe that is full, or
 * a terminal that is held (Ctrl-S), and a write would wait until somebody reads. [any] */
bool log_has_capacity(int ms);

/* Write `text` to standard error as it is, or as much of it as somebody reads.
 * Async-signal-safe. [any] */
void log_put(const char *text, size_t bytes);

/* Replace control characters other than newlines and tabs by '?': names of files and texts of
 * others go to terminals. Bytes from 128 on stay, since they are UTF-8; but not the control
 * characters U+0080 to U+009F. [any] */
void log_plain(char *text);

/* Parse "error", "warn", "info" or "debug"; -1 for anything else. */
int log_level_from(const char *name);

#endif
