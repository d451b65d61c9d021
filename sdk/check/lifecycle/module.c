/* check/lifecycle/module.c: what modules leave behind, and how two of them live together. */
#include "check/lifecycle/lifecycle.h"

#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMES 1000
#define SETTLE 20 /* opened before the state is taken: libraries allocate once */
#define SLACK_MAPPINGS 16
#define SLACK_BYTES ((uint64_t)8 << 20)

static check_host one, two;

static void *open_module(const weft_manifest *m, check_host *h)
{
    void *module = NULL;
    const weft_status st = check_open(m, h, &module);
    if (st != WEFT_OK)
        check_fail("open() returned %s: %s", check_status(st), h->why);
    return module;
}

void check_lifecycle_repeat(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    static check_state before, after;
    check_host_begin(&one, "the host");
    for (int i = 0; i < TIMES + SETTLE; i++) {
        if (i == SETTLE)
            check_state_take(&before);
        check_close(m, open_module(m, &one));
        if (check_state_children())
            check_fail("after open() and close() there is a process that the plugin has started");
        if (one.live)
            check_fail("after close() %llu blocks of memory are not given back",
                       (unsigned long long)one.live);
    }
    check_state_take(&after);
    const char *text =
        check_state_compare(&before, &after, CHECK_STATE_FILES | CHECK_STATE_THREADS);
    if (*text)
        check_fail("after open() and close() %d times, %s", TIMES, text);
    if (after.mappings > before.mappings + SLACK_MAPPINGS ||
        after.bytes > before.bytes + SLACK_BYTES)
        check_fail("after open() and close() %d times there are %llu mappings of %llu KiB instead "
                   "of %llu of %llu KiB",
                   TIMES, (unsigned long long)after.mappings,
                   (unsigned long long)(after.bytes >> 10), (unsigned long long)before.mappings,
                   (unsigned long long)(before.bytes >> 10));
}

void check_lifecycle_two_hosts(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    check_host_begin(&one, "the first of two hosts");
    check_host_begin(&two, "the second of two hosts");
    check_exercise first = {.run = r, .host = &one}, second = {.run = r, .host = &two};
    first.module = open_module(m, &one);
    second.module = open_module(m, &two);
    const uint64_t allocs = two.allocs, lines = two.lines, records = two.records;
    weft_status st = check_exercise_all(&first);
    if (st != WEFT_OK)
        check_fail("%s() of '%s' returned %s while two modules are open: %s", first.where, first.of,
                   check_status(st), check_exercise_why(&first));
    if (two.allocs != allocs || two.lines != lines || two.records != records)
        check_fail("calls with the first module used the host of the second: the plugin keeps the "
                   "host in global data");
    check_close(m, first.module);
    st = check_exercise_all(&second);
    if (st != WEFT_OK)
        check_fail("%s() of '%s' returned %s after the other module was closed: %s", second.where,
                   second.of, check_status(st), check_exercise_why(&second));
    check_close(m, second.module);
}

void check_lifecycle_threads(check_run *r)
{
    static check_state before, after;
    check_exercise d = {.run = r, .host = &one};
    const char *text = "";
    check_host_begin(&one, "the host");
    check_exercise_life(
        &d); /* what libraries keep for the process is there now, but no process is */
    if (check_state_children())
        check_fail("after close(), there is a process that the plugin has started");
    check_state_take(&before);
    check_exercise_life(&d);
    for (int i = 0; i < 50; i++) { /* the kernel ends a joined thread a little later */
        check_state_take(&after);
        text = check_state_compare(&before, &after, CHECK_STATE_FILES | CHECK_STATE_THREADS);
        if (!*text)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    check_fail("after close(), %s; it was not so before open()", text);
}

void check_lifecycle_memory(check_run *r)
{
    check_exercise d = {.run = r, .host = &one};
    check_host_begin(&one, "the host");
    check_exercise_life(&d);
    if (one.misuse[CHECK_MISUSE_MEMORY][0])
        check_fail("%s", one.misuse[CHECK_MISUSE_MEMORY]);
    if (one.live)
        check_fail("after close() %llu blocks of memory are not given back by free() of the table "
                   "whose alloc() gave them",
                   (unsigned long long)one.live);
}

static void end_child(void *arg)
{
    (void)arg;
    _exit(0);
}

void check_lifecycle_fork(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    bool late;
    check_host_begin(&one, "the host");
    check_exercise d = {.run = r, .host = &one};
    d.module = open_module(m, &one);
    const int status = check_fork(end_child, NULL, 5, &late);
    if (late || status)
        check_fail("a child that was forked while a module is open %s",
                   late ? "did not end within 5 seconds" : "did not end as it should");
    const weft_status st = check_exercise_all(&d);
    if (st != WEFT_OK)
        check_fail("after a fork, %s() of '%s' returned %s in the parent: %s", d.where, d.of,
                   check_status(st), check_exercise_why(&d));
    check_close(m, d.module);
}
