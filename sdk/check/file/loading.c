/* check/file/loading.c: what dlopen(), dlclose() and exit() do with the object. */
#define _GNU_SOURCE
#include "base/err.h"
#include "check/file/file.h"
#include "check/took.h"
#include "check/watch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIALS 5
#define MAX_MS 100.0

/* Standard output and error into a file in memory. */
static int capture(void)
{
    const int fd = memfd_create("weft-check-silence", MFD_CLOEXEC);
    fflush(NULL);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        check_fail("standard output cannot be captured");
    return fd;
}

void check_file_constructors(check_run *r)
{
    static check_state before, after;
    struct stat st;
    const int out = capture();
    check_state_take(&before);
    if (!dlopen(r->path, RTLD_NOW | RTLD_LOCAL))
        check_fail("the loader refuses the file: %s", dlerror());
    check_state_take(&after);
    fflush(NULL);
    const char *text = check_state_compare(&before, &after,
                                           CHECK_STATE_OWNED | CHECK_STATE_NEW | CHECK_STATE_FILES |
                                               CHECK_STATE_THREADS);
    if (*text)
        check_fail("after dlopen(), %s; constructors run in every program that lists plugins and "
                   "must do nothing",
                   text);
    if (!fstat(out, &st) && st.st_size)
        check_fail("dlopen() wrote %lld bytes to standard output or error", (long long)st.st_size);
}

typedef struct timed {
    const check_run *r;
    double *ms; /* shared */
} timed;

static void load_once(void *arg)
{
    const timed *t = arg;
    void *handle;
    const uint64_t since = check_took_begin();
    check_entry entry = check_raw_entry(t->r, &handle);
    if (!entry || !entry())
        check_fail("%s", err_text());
    *t->ms = (double)(check_took_ns(since)) / 1e6;
}

void check_file_load_time(check_run *r)
{
    double *ms = check_shared(sizeof *ms);
    timed t = {r, ms};
    double best = 1e9;
    bool late;
    for (int i = 0; i < TRIALS && best > MAX_MS; i++) { /* other work on the machine disturbs */
        *ms = 1e9;
        check_fork(load_once, &t, 5, &late);
        best = *ms < best ? *ms : best;
    }
    if (best > MAX_MS)
        check_fail("loading the file and weft_plugin_entry() took %.0f ms, the best of %d times; "
                   "%.0f ms at most, since every command that lists plugins waits for it",
                   best, TRIALS, MAX_MS);
}

void check_file_reload(check_run *r)
{
    void *handle;
    char id[WEFT_MAX_NAME] = "";
    for (int i = 0; i < 3; i++) {
        check_entry entry = check_raw_entry(r, &handle);
        const weft_manifest *m = entry ? entry() : NULL;
        if (!m)
            check_fail("load %d of the file: %s", i + 1,
                       entry ? "weft_plugin_entry() returned NULL" : err_text());
        if (i && m->id && strncmp(id, m->id, sizeof id - 1) != 0)
            check_fail("after dlclose() and dlopen() the manifest has the id '%.60s', before it "
                       "was '%s'",
                       m->id, id);
        snprintf(id, sizeof id, "%.60s", m->id ? m->id : "");
        if (dlclose(handle))
            check_fail("dlclose() failed: %s", dlerror());
    }
}

static void open_and_exit(void *arg)
{
    const check_run *r = arg;
    static check_host h;
    void *module = NULL;
    const weft_manifest *m = check_load_raw(r);
    if (!m)
        check_fail("%s", err_text());
    check_host_begin(&h, "the host");
    const weft_status st = check_open(m, &h, &module);
    if (st != WEFT_OK)
        check_fail("open() returned %s: %s", check_status(st), h.why);
    check_watch_exit();
    exit(0);
}

void check_file_exit(check_run *r)
{
    bool late;
    const int status = check_fork(open_and_exit, r, 5, &late);
    if (late)
        check_fail("exit() did not end the process within 5 seconds while a module was open");
    if (status)
        check_fail("exit() ended with the wait status 0x%x while a module was open",
                   (unsigned)status);
}
