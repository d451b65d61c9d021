/* check/check.h: `weft plugins check FILE.so`: numbered checks of one plugin, each in a process of
 * its own.
 *
 * How to add a check:
 *   1. Write `static void name(check_run *r)` in a file of the group's folder (core/check/GROUP/).
 *      It returns when the plugin is right. Otherwise it calls check_fail() with a sentence: what
 *      was asked, what the plugin did, what the SDK says. check_fail() ends the process, so nothing
 *      has to be undone and no status is passed on. Helpers are in rig.h.
 *   2. Add a row to the group's table: number, interfaces, deadline, title, how a bad plugin shows.
 *      Numbers are stable: they are never reused or renumbered. A new group is a table, an entry in
 *      groups.c and a declaration at the end of this header.
 *   3. Add a bad plugin to tests/check/bad on which this check fails and no lower-numbered one, and
 *      its line to tests/check/bad/expected.txt.
 *   4. `weft plugins check --page > docs/CHECKS.md`; a test compares it.
 *
 * To debug: `gdb --args weft plugins check FILE.so --only N --in-process`.
 *
 * A check is "not applicable" only because of what the plugin is: no component of its interfaces,
 * an optional member that is absent, or a probe() that says that this machine lacks the device. A
 * tool or privilege that the check needs and lacks is a failure with a reason. */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include "host/host.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct check check;

/* What a check gets. */
typedef struct check_run {
    const check *now;
    const char *path; /* of the file, absolute */
    uint64_t seed;    /* of all randomness */
    host *h;          /* that has loaded the file; NULL before check_load() */
    const component *const *components;
    uint32_t n;
} check_run;

struct check {
    uint32_t number;
    const char *ifaces;   /* "weft.link/1|weft.coll/1": only plugins with such a component; NULL:
                             every plugin */
    uint32_t seconds;     /* deadline; 0: 10 */
    const char *title;    /* what a right plugin does, without a full stop */
    const char *bad_sign; /* how a bad one shows, for docs/CHECKS.md */
    void (*run)(check_run *r);
};

typedef struct check_group {
    const char *name, *title; /* "conduct", "Conduct" */
    const check *checks;      /* ended by number 0 */
} check_group;

extern const check_group *const check_groups[];                      /* NULL-ended, by number */
const check *check_find(uint32_t number, const check_group **group); /* NULL: no such number */

/* --- results: each of these ends the process of the check. [any] --- */

typedef enum check_outcome {
    CHECK_NONE,
    CHECK_PASS,
    CHECK_FAIL,
    CHECK_NOT_APPLICABLE,
    CHECK_CRASH,
    CHECK_TIMEOUT,
    CHECK_OUTCOMES
} check_outcome;

/* The plugin is wrong. From several threads and processes the first one counts. */
_Noreturn void check_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The check does not concern this plugin, for a reason that its kind or its probe() gives. */
_Noreturn void check_not_applicable(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define check_that(condition, ...) ((condition) ? (void)0 : check_fail(__VA_ARGS__))

/* --- the command --- */

typedef struct check_request {
    const char *path;
    const char *only; /* "1-14,53"; NULL: all */
    uint64_t seed;
    bool json, in_process;
    int result; /* of the process of one check: the descriptor of its page; else -1 */
} check_request;

/* Run the checks and print the report. Returns the exit status: 0 all pass, 1 something failed, 2
 * the request is wrong. [setup] */
int check_command(const check_request *q);

void check_print_list(void); /* number, group, title */
void check_print_page(void); /* docs/CHECKS.md */

/* --- groups --- */
extern const check_group check_group_file, check_group_manifest, check_group_version,
    check_group_life, check_group_conduct;

#endif
