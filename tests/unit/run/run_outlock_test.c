/* Does a job notice that somebody else's OUT/checkpoints is in the place of its own? */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <test.h>

#include "base/err.h"
#include "run/state/outlock.h"

static char work[] = "/tmp/weft-outlock-XXXXXX";

/* As a rank has it that has taken OUT. */
static void open_out(run_outlock *l, bool first)
{
    memset(l, 0, sizeof *l);
    snprintf(l->out, sizeof l->out, "%s", work);
    l->first = first;
    l->folder = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    l->fd = openat(l->folder, ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_true(l->folder > 0 && l->fd > 0);
}

static void close_out(run_outlock *l)
{
    close(l->fd);
    close(l->folder);
}

static void says(weft_status st, const char *words)
{
    assert_int_equal(st, WEFT_IO);
    assert_non_null(strstr(err_text(), words));
    err_clear();
}

#define IN_OUT(l, call, ...) assert_int_equal(call((l)->folder, __VA_ARGS__), 0)

TEST(a_folder_that_was_removed_is_made_again)
{
    run_outlock l;
    open_out(&l, true);
    assert_int_equal(run_outlock_check(&l), WEFT_OK);
    assert_int_equal(run_outlock_cause(&l), WEFT_OK); /* it was not there before */
    IN_OUT(&l, mkdirat, "checkpoints", 0777);
    assert_int_equal(run_outlock_check(&l), WEFT_OK);
    IN_OUT(&l, unlinkat, "checkpoints", AT_REMOVEDIR);
    assert_int_equal(run_outlock_check(&l), WEFT_OK);
    says(run_outlock_cause(&l), "checkpoints is not there any more: it was moved or removed");
    IN_OUT(&l, mkdirat, "checkpoints", 0777);
    assert_int_equal(run_outlock_check(&l), WEFT_OK);
    assert_int_equal(run_outlock_cause(&l), WEFT_OK);
    IN_OUT(&l, unlinkat, "checkpoints", AT_REMOVEDIR);
    close_out(&l);
}

/* The moment without the name may be seen or not. */
TEST(another_folder_is_not_taken)
{
    for (uint32_t link = 0; link < 2; link++)
        for (uint32_t seen = 0; seen < 2; seen++) {
            run_outlock l;
            open_out(&l, true);
            IN_OUT(&l, mkdirat, "other", 0777);
            IN_OUT(&l, mkdirat, "checkpoints", 0777);
            assert_int_equal(run_outlock_check(&l), WEFT_OK);
            assert_int_equal(renameat(l.folder, "checkpoints", l.folder, "moved"), 0);
            if (seen)
                assert_int_equal(run_outlock_check(&l), WEFT_OK);
            if (link)
                assert_int_equal(symlinkat("other", l.folder, "checkpoints"), 0);
            else
                IN_OUT(&l, mkdirat, "checkpoints", 0777);
            if (link || !seen)
                says(run_outlock_check(&l), "checkpoints is another folder than before");
            else /* as rank 0 makes it */
                assert_int_equal(run_outlock_check(&l), WEFT_OK);
            IN_OUT(&l, unlinkat, "checkpoints", link ? 0 : AT_REMOVEDIR);
            IN_OUT(&l, unlinkat, "moved", AT_REMOVEDIR);
            IN_OUT(&l, unlinkat, "other", AT_REMOVEDIR);
            close_out(&l);
        }
}

/* Rank 0 judges; the others know only after a failure that theirs is another one. */
TEST(other_ranks_follow)
{
    run_outlock l;
    open_out(&l, false);
    run_outlock_note(&l);
    assert_int_equal(run_outlock_cause(&l), WEFT_OK);
    IN_OUT(&l, mkdirat, "checkpoints", 0777);
    run_outlock_note(&l);
    assert_int_equal(renameat(l.folder, "checkpoints", l.folder, "moved"), 0);
    IN_OUT(&l, mkdirat, "checkpoints", 0777);
    says(run_outlock_cause(&l), "checkpoints is another folder than before");
    run_outlock_note(&l);
    assert_int_equal(run_outlock_cause(&l), WEFT_OK);
    IN_OUT(&l, unlinkat, "checkpoints", AT_REMOVEDIR);
    IN_OUT(&l, unlinkat, "moved", AT_REMOVEDIR);
    close_out(&l);
}

static int make_work(void **state)
{
    (void)state;
    return mkdtemp(work) ? 0 : -1;
}

static int remove_work(void **state)
{
    char path[64];
    (void)state;
    snprintf(path, sizeof path, "%s/.lock", work);
    return unlink(path) || rmdir(work);
}

int main(void)
{
    return test_run(make_work, remove_work);
}
