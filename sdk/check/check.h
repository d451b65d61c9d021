/* check/check.h: `weft plugins check FILE.so`: numbered checks of one plugin, each in a process of
 * its own.
 *
 * How to add a check:
 *   1. Write `void check_GROUP_WORD(check_run *r)` in a file of the group's folder,
 *      sdk/check/GROUP/. It returns when the plugin is right. Otherwise it calls check_fail() with
 *      a sentence: what was asked, what the plugin did, what the SDK says. check_fail() ends the
 *      process, so nothing has to be undone and no status is passed on.
 *   2. Declare it in GROUP/GROUP.h and add a row to the table in GROUP/GROUP.c: number, interfaces,
 *      deadline, title, how a bad plugin shows. Numbers are stable: they are never reused or
 *      renumbered.
 *   3. Add a bad plugin to tests/check/bad/SET.c, a name of its enum, on which this check fails and
 *      no check with a lower number, and its line to tests/check/bad/SET.expected: number, name, a
 *      phrase of the sentence. SET is the group, or `any` for checks of every plugin. A new set is
 *      these two files, or a folder SET for SET.c; the first line of .expected is `kind KIND`, the
 *      folder of the plugin (comm, device, op, ...). CMake builds SET.c once a line with
 *      -DBAD=NAME, and once with -DBAD=GOOD: that plugin passes all checks.
 *   4. `weft plugins check --page > docs/CHECKS.md`; a test compares it.
 *   5. `ctest -R check`: every bad plugin of the set fails at its check, and every plugin of the
 *      tree and of tests/check/right passes.
 *
 * What checks share:
 *   harness/harness.h      loading, a host that counts and can fail, options, TLS with a key, the
 * state of the process, memory before a guard page, ranks in processes of their own
 *   exercise/exercise.h  a short lawful life of every component, for checks of any kind of plugin
 *   link/link.h    ranks that are connected by the plugin's transport
 *   reference/reference.h  every op in double precision
 *   device/ops.h   ops with operands and values, run on a device or by a kernel
 *
 * To debug: `gdb --args weft plugins check FILE.so --only N --in-process`.
 *
 * A check is "not applicable" only because of what the plugin or the machine is: no component of
 * its interfaces, an optional member that is absent, or a probe() that says that this machine lacks
 * the device (check_absent()). A tool or privilege that the check needs and lacks is a failure with
 * a reason. All checks of a plugin take less than 20 s together. Of a file that the host refuses,
 * checks run one by one up to the first that fails: the rest would fail for the same cause. Three
 * time-outs in one call of the plugin end the run, too. */
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
    const host_component *const *components;
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
    const char *name, *title; /* "behaviour", "Behaviour" */
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

/* A part of the check cannot run on this machine, which lacks a device or a library. The check goes
 * on with the other parts. If it returns, its result is "not applicable" with the first of these
 * reasons, since a pass would promise more than was seen. Does not end the process. */
void check_absent(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The check has seen all that it looks for, whatever check_absent() says. */
_Noreturn void check_pass(void);

/* The check whose sequence of calls `--reproduce SEED` repeats. */
#define CHECK_SEQUENCES "181"

#define check_that(condition, ...) ((condition) ? (void)0 : check_fail(__VA_ARGS__))

/* --- the command --- */

#define CHECK_SETS 16u /* options that a request may set */

typedef struct check_request {
    const char *path;
    const char *only; /* "1-14,53"; NULL: all */
    uint64_t seed;
    bool json, in_process;
    int result; /* of the process of one check: the descriptor of its page; else -1 */
    const char *set[CHECK_SETS]; /* "key=value": options of the plugin's components */
    uint32_t nset;
    bool threads; /* ranks of transports are threads of one process */
} check_request;

/* Run the checks and print the report. Returns the exit status: 0 all pass, 1 something failed, 2
 * the request is wrong. [setup] */
int check_command(const check_request *q);

void check_print_list(void); /* number, group, title */
void check_print_page(void); /* docs/CHECKS.md */

/* --- groups --- */
extern const check_group check_group_file, check_group_manifest, check_group_version,
    check_group_lifecycle, check_group_behaviour, check_group_device, check_group_link,
    check_group_coll, check_group_strategy, check_group_rule, check_group_op, check_group_fuzz,
    check_group_data;

#endif
