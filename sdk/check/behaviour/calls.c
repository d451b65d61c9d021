/* check/behaviour/calls.c: purity, threads, options and log lines. */
#include "check/behaviour/behaviour.h"

#include "base/err.h"

static check_host one, two;

static void drive(check_exercise *d)
{
    const weft_status st = check_exercise_all(d);
    if (st != WEFT_OK)
        check_fail("%s() of '%s' returned %s: %s", d->where, d->of, check_status(st),
                   check_exercise_why(d));
}

static void open_module(check_exercise *d)
{
    const weft_manifest *m = check_manifest(d->run);
    const weft_status st = check_open(m, d->host, &d->module);
    if (st != WEFT_OK)
        check_fail("open() returned %s: %s", check_status(st), d->host->why);
}

void check_behaviour_pure(check_run *r)
{
    check_exercise first = {.run = r, .host = &one}, second = {.run = r, .host = &two};
    check_host_begin(&one, "the first host");
    check_host_begin(&two, "the second host");
    open_module(&first);
    drive(&first);
    const uint64_t digest = first.digest;
    drive(&first);
    if (first.digest != digest)
        check_fail("planning the same job twice with one module gives two different plans; every "
                   "rank plans for itself, so the ranks of a job would disagree");
    open_module(&second);
    drive(&second);
    if (second.digest != digest)
        check_fail("planning the same job with another module of the same process gives another "
                   "plan; the plugin keeps global data");
}

static void *drive_elsewhere(void *arg)
{
    drive(arg);
    return NULL;
}

void check_behaviour_threads(check_run *r)
{
    pthread_t other;
    check_exercise d = {.run = r, .host = &one};
    check_host_begin(&one, "the host");
    open_module(&d);
    drive(&d);
    const uint64_t digest = d.digest;
    if (pthread_create(&other, NULL, drive_elsewhere, &d))
        check_fail("no thread for the check");
    pthread_join(other, NULL);
    if (d.digest != digest)
        check_fail("planning the same job in another thread gives another plan; the plugin keeps "
                   "thread-local data");
}

void check_behaviour_keys(check_run *r)
{
    check_exercise d = {.run = r, .host = &one};
    check_host_begin(&one, "the host");
    check_exercise_life(&d);
    if (one.misuse[CHECK_MISUSE_KEY][0])
        check_fail("%s", one.misuse[CHECK_MISUSE_KEY]);
}

void check_behaviour_log(check_run *r)
{
    check_exercise d = {.run = r, .host = &one};
    check_host_begin(&one, "the host");
    check_exercise_life(&d);
    if (one.misuse[CHECK_MISUSE_LOG][0])
        check_fail("%s", one.misuse[CHECK_MISUSE_LOG]);
    for (uint32_t i = 0; i < one.lines; i++)
        for (const char *at = one.log[i]; *at; at++)
            if ((unsigned char)*at < 32 || (unsigned char)*at > 126)
                check_fail("log line %u has the byte 0x%02x; a line is printable text without a "
                           "newline",
                           i + 1, (unsigned char)*at);
}
