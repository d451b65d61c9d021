/* check/behaviour/exceptions.c: C++ exceptions end in the plugin.
 *
 * operator new throws where malloc() returns NULL. So malloc() is replaced in the plugin and in the
 * C++ library, and fails for the k-th call of a life, for every k. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "base/err.h"
#include "check/behaviour/behaviour.h"
#include "check/hook.h"

#include <dlfcn.h>
#include <stdlib.h>

#define LIMIT 500u /* lives */

static check_host h;
static _Atomic uint64_t calls, fail_at;
static _Atomic bool on;

static void *failing_malloc(size_t bytes)
{
    if (!atomic_load(&on))
        return malloc(bytes);
    const uint64_t k = atomic_fetch_add(&calls, 1) + 1, at = atomic_load(&fail_at);
    /* The exception itself is allocated next; what fails stays failing for a while. */
    return at && k >= at && k < at + 3 ? NULL : malloc(bytes);
}

static const check_hooks hooks[] = {{"malloc", (void (*)(void))failing_malloc}, {0}};

static uint64_t live(check_run *r, const weft_manifest *m, uint64_t k)
{
    check_exercise d = {.run = r, .host = &h, .where = "open", .of = m->id};
    check_host_begin(&h, "the host");
    err_clear();
    atomic_store(&calls, 0);
    atomic_store(&fail_at, k);
    atomic_store(&on, true);
    weft_status st = check_open(m, &h, &d.module);
    if (st == WEFT_OK)
        st = check_exercise_all(&d);
    if (st != WEFT_OK && !*check_exercise_why(&d))
        check_fail("malloc() failed in %s() of '%s', which returned %s without a sentence", d.where,
                   d.of, check_status(st));
    check_close(m, d.module);
    atomic_store(&on, false);
    check_host_end(&h);
    return atomic_load(&calls);
}

void check_behaviour_exceptions(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    if (!check_hook_imports(m, "__gxx_personality_v0") && !check_hook_imports(m, "_Znwm") &&
        !check_hook_imports(m, "__cxa_throw"))
        check_not_applicable("it does not use the C++ library");
    if (dlsym(RTLD_DEFAULT, "__asan_init"))
        check_not_applicable("this program is built with AddressSanitizer, whose operator new does "
                             "not call malloc()");
    check_hook_object(m, hooks);
    check_hook_library("libstdc++.so", hooks);
    check_hook_library("libc++.so", hooks);
    const uint64_t n = live(r, m, 0);
    for (uint64_t k = 1; k <= n && k <= LIMIT; k++)
        live(r, m, k);
}
