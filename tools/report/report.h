/* report/report.h: run folders and sweeps as data, as one HTML file, and on a terminal.
 *
 * folder.c reads a folder, metrics.c and trace.c its large files, page.c puts the data into the
 * page, serve.c serves it, line.c draws a run on a terminal. docs/REPORT.md has the members of the
 * data. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <weft/base.h>

typedef struct report report;

report *report_create(void);
void report_free(report *r); /* NULL is allowed */

/* Add what `path` leads to: a run's folder, a sweep's, or a sweep.json. WEFT_USAGE: it is neither,
 * or is there already. [setup] */
weft_status report_add(report *r, const char *path);

/* The data now, which the caller owns. What a folder lacks or what is damaged in it is a note of
 * the run. A second call reads only what is new. `live`: what the page asks for newer data, NULL:
 * it asks for none. [setup] */
json_t *report_json(report *r, const char *live);

/* Write the page to `to`; the caller looks for an error of the stream. [setup] */
void report_write_page(const json_t *data, FILE *to);

/* --- of the files of this folder --- */

/* metrics.c: the lines of a metrics.jsonl that have been read. */
typedef struct report_metrics report_metrics;
report_metrics *report_metrics_create(void);
void report_metrics_free(report_metrics *m); /* NULL is allowed */

/* Read `f` from where it stands to its last whole line, and stay behind that. */
void report_metrics_read(report_metrics *m, FILE *f);

/* Put "steps", "step", "series", "points", "newest", "recent_ms", "last" and "attempts" into `run`.
 */
void report_metrics_put(const report_metrics *m, json_t *run, json_t *notes);

/* trace.c: one step of the file trace.json, open as `f`; null if it has none. */
json_t *report_read_trace(FILE *f, json_t *notes);

/* folder.c: why a run ended other than with all its steps, as it has recorded; NULL: nothing. */
const char *report_why(const json_t *run);

/* lines.c: `s` as JSON, null for NULL; a text that is not UTF-8 says so. */
json_t *report_text(const char *s);

/* folder.c: a plain file below a folder, with what fstat() says of it; `follow`: also through a
 * link. For json_loadf(), since json_loadfd() reads byte by byte. NULL with errno: there is none.
 */
FILE *report_open(int folder, const char *name, bool follow, struct stat *st);

/* lines.c: add a sentence to `notes`. */
void report_note(json_t *notes, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The next line of `f`, without its end; false at the end of the file. Longer ones are skipped.
 * *whole: it has an end, which a line that is still being written has not. */
#define REPORT_LINE ((size_t)1 << 20) /* bytes of a line at most */
bool report_next_line(FILE *f, char line[REPORT_LINE], size_t *length, bool *whole);

#endif
