/* doctor/report.h: the report, as JSON: how checks write it, and how it is printed.
 *
 * All text in it is restricted to printable ASCII, because text from a machine goes to terminals
 * and to other ranks. [setup] */
#ifndef DOCTOR_REPORT_H
#define DOCTOR_REPORT_H

#include "doctor/context.h"

/* Begin the part of the report for one check; complete it, with its level, and append it to
 * d->done. */
void doctor_begin_check(doctor *d, const char *id, const char *title);
void doctor_end_check(doctor *d);

/* A line of the summary. */
void doctor_add_line(doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line that says why the check, or a part of it, cannot be made: it is "unknown" unless it has a
 * finding. */
void doctor_add_unknown(doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_set_unknown(doctor *d); /* without a line */

/* A fact: a name with a text or a number. */
void doctor_add_text(doctor *d, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_add_number(doctor *d, const char *name, int64_t value);

/* A finding: what is wrong; then why it matters, and the command that fixes or shows it. Every
 * finding has all three. */
void doctor_add_finding(doctor *d, enum doctor_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_add_reason(doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define DOCTOR_RAISE_FILES                                                                         \
    "echo '* - nofile 1048576' | sudo tee /etc/security/limits.d/weft.conf  # then log in again"
void doctor_add_command(doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A fact of a completed check; `otherwise` or "" where there is no such fact. */
int64_t doctor_fact_number(const doctor *d, const char *check, const char *name, int64_t otherwise);
const char *doctor_fact_text(const doctor *d, const char *check, const char *name);

/* A new JSON string, cleaned. */
json_t *doctor_json_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Parse a report that another rank sent. NULL unless it is an object of printable text, no deeper
 * than reports are. Its fields may still be missing or of another type. */
json_t *doctor_report_read(const void *text, uint64_t bytes);

/* A string member of a report, or "". */
const char *doctor_report_text(const json_t *of, const char *key);

/* The facts of one check of a report, or NULL; borrowed. */
json_t *doctor_report_facts(const json_t *report, const char *check);

/* A number among the facts of a report, or `otherwise`. */
int64_t doctor_report_number(const json_t *report, const char *check, const char *fact,
                             int64_t otherwise);

void doctor_print_check(const json_t *check, FILE *to);
void doctor_print_finding(const json_t *finding, const char *prefix, FILE *to);

#endif
