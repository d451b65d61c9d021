/* check/behaviour/process.c: what belongs to the process. */
#define _GNU_SOURCE /* memfd_create */
#include "check/behaviour/behaviour.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static check_host h;

void check_behaviour_silent(check_run *r)
{
    struct stat st;
    char text[200] = "";
    check_exercise d = {.run = r, .host = &h};
    const int out = memfd_create("weft-check-silence", MFD_CLOEXEC);
    const int old[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    check_load(r);
    check_host_begin(&h, "the host");
    fflush(NULL);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
        check_fail("standard output cannot be captured");
    check_exercise_life(&d);
    fflush(NULL);
    dup2(old[0], STDOUT_FILENO);
    dup2(old[1], STDERR_FILENO);
    if (fstat(out, &st) || !st.st_size)
        return;
    if (pread(out, text, sizeof text - 1, 0) < 0)
        text[0] = 0;
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 32 || (unsigned char)*at > 126)
            *at = ' ';
    check_fail("the plugin wrote %lld bytes to standard output or error (use log() of the host "
               "table): %s",
               (long long)st.st_size, text);
}

void check_behaviour_state(check_run *r)
{
    static check_state before, after;
    check_exercise d = {.run = r, .host = &h};
    check_load(r);
    check_host_begin(&h, "the host");
    check_state_take(&before);
    check_exercise_life(&d);
    check_state_take(&after);
    const char *text = check_state_compare(&before, &after, CHECK_STATE_OWNED);
    if (*text)
        check_fail("after a life of the plugin, %s; it belongs to the process, so to the host",
                   text);
}
