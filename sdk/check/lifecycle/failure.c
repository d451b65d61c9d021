/* check/lifecycle/failure.c: what a failing call leaves: no object, no memory, a sentence.
 *
 * Failures are provoked by the host's alloc(): the k-th allocation of the whole life fails, for
 * every k that the life has. */
#include "base/err.h"
#include "check/lifecycle/lifecycle.h"

#include <string.h>

#define LIMIT 2000 /* allocations of a life that are tried */

static check_host h;

typedef struct trial {
    weft_status st;
    const char *where, *of;
    bool failed_alloc, sentence;
    uint64_t live;
    bool untouched;          /* of a failing open(): *module */
    char misuse[CHECK_LINE]; /* of fail() */
} trial;

/* One life in which the k-th allocation fails; k 0: none does. */
static trial live(check_run *r, const weft_manifest *m, uint64_t k)
{
    static char mark;
    trial t = {.untouched = true};
    check_exercise d = {.run = r, .host = &h, .where = "open", .of = m->id};
    void *module = &mark;
    check_host_begin(&h, "the host");
    h.fail_at = k;
    err_clear();
    t.st = check_open(m, &h, &module);
    if (t.st == WEFT_OK) {
        d.module = module;
        t.st = check_exercise_all(&d);
    } else {
        t.untouched = module == &mark;
    }
    t.where = d.where;
    t.of = d.of;
    t.failed_alloc = k && !h.fail_at;
    t.sentence = t.st == WEFT_OK || *check_exercise_why(&d);
    if (d.module)
        check_close(m, d.module);
    t.live = h.live;
    memcpy(t.misuse, h.misuse[CHECK_MISUSE_FAIL], sizeof t.misuse);
    check_host_end(&h);
    return t;
}

typedef void look(const trial *t, uint64_t k);

static void for_each_allocation(check_run *r, look *look_at)
{
    const weft_manifest *m = check_manifest(r);
    trial t = live(r, m, 0);
    if (t.st != WEFT_OK)
        check_fail("a lawful call failed: %s() of '%s' returned %s", t.where, t.of,
                   check_status(t.st));
    for (uint64_t k = 1; k <= LIMIT; k++) {
        t = live(r, m, k);
        if (!t.failed_alloc)
            return;
        look_at(&t, k);
    }
}

static void right_status(const trial *t, uint64_t k)
{
    if (t->st != WEFT_OK && t->st != WEFT_NO_MEMORY)
        check_fail("allocation %llu of a life failed, and %s() of '%s' returned %s instead of "
                   "WEFT_NO_MEMORY",
                   (unsigned long long)k, t->where, t->of, check_status(t->st));
    if (t->live)
        check_fail("allocation %llu of a life failed in %s() of '%s', and after close() %llu "
                   "blocks are not given back",
                   (unsigned long long)k, t->where, t->of, (unsigned long long)t->live);
}

void check_lifecycle_no_memory(check_run *r)
{
    for_each_allocation(r, right_status);
}

static void has_sentence(const trial *t, uint64_t k)
{
    if (t->misuse[0])
        check_fail("%s", t->misuse);
    if (!t->sentence)
        check_fail("allocation %llu of a life failed, %s() of '%s' returned %s, and no sentence "
                   "was recorded with fail()",
                   (unsigned long long)k, t->where, t->of, check_status(t->st));
}

void check_lifecycle_sentence(check_run *r)
{
    for_each_allocation(r, has_sentence);
}

static void is_untouched(const trial *t, uint64_t k)
{
    if (!t->untouched)
        check_fail("open() returned %s when its allocation %llu failed, and wrote to *module; "
                   "out-parameters are written on WEFT_OK alone",
                   check_status(t->st), (unsigned long long)k);
}

void check_lifecycle_untouched(check_run *r)
{
    for_each_allocation(r, is_untouched);
}

void check_lifecycle_no_record(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    check_exercise d = {.run = r, .host = &h, .where = "open", .of = m->id};
    check_host_begin(&h, "the host");
    weft_status st = check_open(m, &h, &d.module);
    if (st == WEFT_OK && h.why[0])
        check_fail("open() returned WEFT_OK and recorded a failure: %s", h.why);
    if (st == WEFT_OK)
        st = check_exercise_all(&d);
    if (st != WEFT_OK)
        check_fail("a lawful call failed: %s() of '%s' returned %s: %s", d.where, d.of,
                   check_status(st), check_exercise_why(&d));
    if (h.why[0]) /* drivers forget what probe() and query() may record */
        check_fail("all calls succeeded, the last is %s() of '%s', and a failure is recorded: %s",
                   d.where, d.of, h.why);
}
