/* check/file/absent.c: libraries that a plugin loads by itself, when they are absent. */
#include "base/err.h"
#include "check/exercise/exercise.h"
#include "check/file/file.h"
#include "check/hook.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LIMIT 16u

static check_host h;
static char asked[LIMIT][128]; /* names that were loaded */
static uint32_t nasked;

/* dlopen() on a machine that has none of these libraries; dlerror() names what was asked. */
static void *none(const char *path, int flags)
{
    char missing[256];
    if (!path)
        return dlopen(NULL, flags);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (nasked < LIMIT)
        snprintf(asked[nasked++], sizeof *asked, "%s", name);
    snprintf(missing, sizeof missing, "/nonexistent/%s", name);
    return dlopen(missing, flags);
}

/* Whether the sentence has one of the names, up to ".so". */
static bool is_named(const char *text)
{
    for (uint32_t i = 0; i < nasked; i++) {
        char stem[128];
        const char *so = strstr(asked[i], ".so");
        snprintf(stem, sizeof stem, "%.*s", so ? (int)(so - asked[i]) : 127, asked[i]);
        if (strstr(text, stem))
            return true;
    }
    return false;
}

void check_file_absent(check_run *r)
{
    static const check_hooks hooks[] = {{"dlopen", (void (*)(void))none}, {0}};
    const weft_manifest *m = check_load_raw(r);
    check_exercise d = {.run = r, .host = &h, .where = "open"};
    if (!m || !check_hook_object(m, hooks))
        check_not_applicable("it does not call dlopen()");
    m = check_manifest(r);
    d.of = m->id;
    check_host_begin(&h, "the host");
    err_clear();
    weft_status st = check_open(m, &h, &d.module);
    if (st == WEFT_OK)
        st = check_exercise_all(&d);
    const char *why = st == WEFT_OK ? d.absent : check_exercise_why(&d);
    if (!nasked)
        check_not_applicable("it calls dlopen() in no call that the check makes");
    if (st != WEFT_OK && st != WEFT_ABSENT)
        check_fail("dlopen() of %s failed, and %s() of '%s' returned %s instead of WEFT_ABSENT: %s",
                   asked[nasked - 1], d.where, d.of, check_status(st), why);
    if ((st != WEFT_OK || *why) && !is_named(why))
        check_fail("dlopen() of %s failed, and the sentence of %s() of '%s' does not name it: %s",
                   asked[nasked - 1], d.where, d.of, why);
    check_close(m, d.module);
    check_pass();
}
