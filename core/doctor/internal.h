/* doctor/internal.h: what checks call. A check looks (see_...), says what it saw (tell_...), and
 * names what is badly set. It believes nothing that it reads: what is missing or makes no sense is
 * not seen, and text is cleaned of all that is not printable before it goes into the report.
 *
 *   doctor.c    the table of checks, and the walk over it
 *   see.c       files below the root
 *   tell.c      the report, and its printing
 *   apart.c     a function in a process of its own
 *   cpu.c topology.c memory.c limits.c net.c rdma.c gpu.c plugin.c job.c   the checks
 *   ranks.c     across ranks: meet, gather, print
 *   path.c      across ranks: what lies between
 *   compare.c   across ranks: what differs */
#ifndef DOCTOR_INTERNAL_H
#define DOCTOR_INTERNAL_H

#include "base/mem.h"
#include "doctor/doctor.h"

#include <stdbool.h>

typedef struct doctor {
    const char *root;      /* before every path; "" for this machine */
    const doctor_job *job; /* NULL: none */
    json_t *done;          /* checks that are done, an array */
    json_t *check;         /* the one at work */
    json_t *finding;       /* its newest; borrowed */
    pool pool;
} doctor;

typedef struct doctor_check {
    const char *id, *title;
    void (*run)(doctor *d);
    bool apart; /* calls code that is not ours */
} doctor_check;

/* --- see.c: paths are formats, and begin with '/' --- */

/* All of a small file, without blanks at its end. False: it is not there, empty, or not readable.
 */
bool see_text(const doctor *d, char *out, size_t size, const char *path, ...)
    __attribute__((format(printf, 4, 5)));

/* A file that holds one whole number, or what a number at its beginning says. */
bool see_number(const doctor *d, int64_t *out, const char *path, ...)
    __attribute__((format(printf, 3, 4)));

/* What follows `key` on the first line that begins with it, without blanks around and a colon. */
bool see_line(const doctor *d, const char *path, const char *key, char *out, size_t size);

/* Such a line's number; times 1024 when "kB" follows. */
bool see_bytes(const doctor *d, const char *path, const char *key, uint64_t *out);

/* Names in a folder, sorted, at most 4096; NULL-ended. Never NULL itself. */
const char *const *see_names(doctor *d, const char *path, ...)
    __attribute__((format(printf, 2, 3)));
bool see_path(const doctor *d, const char *path, ...) __attribute__((format(printf, 2, 3)));

/* How many a list such as "0-3,8" names; 0 when it is none. */
uint32_t see_count(const char *list);

/* The word in brackets of "always [madvise] never". */
bool see_choice(const char *text, char *out, size_t size);

/* A fact that an earlier check told, or what is given instead. */
int64_t see_fact(const doctor *d, const char *check, const char *name, int64_t otherwise);
const char *see_fact_text(const doctor *d, const char *check, const char *name);

/* --- tell.c --- */

void tell_line(doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tell_fact(doctor *d, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void tell_number(doctor *d, const char *name, int64_t value);

/* A finding: what it is, then why it matters and what to type. */
void tell(doctor *d, enum doctor_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void tell_why(doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tell_type(doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Begin the check's part of the report; end it, with its level, into d->done. */
void tell_begin(doctor *d, const char *id, const char *title);
void tell_end(doctor *d);

/* A new JSON string, of what can be printed. */
json_t *tell_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "12.5 GiB". Four may stand in one call. */
const char *tell_size(uint64_t bytes);

/* A report that another rank sent: NULL unless it is an object of what can be printed, no deeper
 * than reports are. What it has in it is looked for with care all the same. */
json_t *report_read(const void *text, uint64_t bytes);

/* A string of a report, or "". */
const char *report_text(const json_t *of, const char *key);
void report_print_check(const json_t *check, FILE *to);
void report_print_finding(const json_t *finding, const char *prefix, FILE *to);

/* --- apart.c --- */

/* What `what` returns, made in a process of its own within `seconds`. NULL: `why` says how it
 * ended. */
json_t *run_apart(json_t *(*what)(void *ctx), void *ctx, uint32_t seconds, char *why, size_t size);

/* --- the checks --- */

void check_job(doctor *d);
void check_fit(doctor *d);
void check_system(doctor *d);
void check_processor(doctor *d);
void check_frequency(doctor *d);
void check_clock(doctor *d);
void check_topology(doctor *d);
void check_memory(doctor *d);
void check_huge_pages(doctor *d);
void check_shared(doctor *d);
void check_limits(doctor *d);
void check_container(doctor *d);
void check_network(doctor *d);
void check_sockets(doctor *d);
void check_rdma(doctor *d);
void check_gpus(doctor *d);
void check_libcuda(doctor *d);
void check_libnccl(doctor *d);
void check_plugins(doctor *d);
void check_peers(doctor *d);

/* --- compare.c --- */

/* What differs between the reports of `ranks` ranks, as findings. */
json_t *compare_reports(json_t *const *reports, uint32_t ranks);

/* A number among the facts of a report, or what is given instead. */
int64_t compare_number(const json_t *report, const char *check, const char *fact, int64_t other);

/* "rank 3", "ranks 0-2, 5": those of which `is` is true. */
const char *compare_ranks(pool *p, const bool *is, uint32_t ranks);

#endif
