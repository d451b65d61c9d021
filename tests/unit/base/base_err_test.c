/* base_err_test.c: the record of a failure keeps the names that its sentence begins with, and says
 * what to do about a limit. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <test.h>

#include "base/err.h"

TEST(a_name_is_written_once)
{
    assert_int_equal(err_fail_in(WEFT_USAGE, ERR_OP, "gelu", "it takes %d tensors", 1), WEFT_USAGE);
    assert_string_equal(err_text(), "op gelu: it takes 1 tensors");
    err_put_name(ERR_OP, "gelu");
    assert_string_equal(err_text(), "op gelu: it takes 1 tensors");
    err_put_name(ERR_CALL, "edits.replace");
    err_put_name(ERR_CALL, "edits.replace");
    err_put_name(ERR_OWNER, "strategy tp");
    assert_string_equal(err_text(), "strategy tp: edits.replace(): op gelu: it takes 1 tensors");
    err_put_name(ERR_OP, "outer"); /* another one is written, and is the name from now on */
    assert_string_equal(err_name(ERR_OP), "outer");
    assert_memory_equal(err_text(), "op outer: strategy tp", 21);
}

/* The word "gelu" in a sentence is not its name. */
TEST(words_are_not_searched)
{
    (void)!err_fail(WEFT_USAGE, "the op gelu of plugin tcp is not there");
    err_put_name(ERR_OP, "gelu");
    assert_string_equal(err_text(), "op gelu: the op gelu of plugin tcp is not there");
    assert_string_equal(err_name(ERR_PLUGIN), "");
}

TEST(a_new_record_has_no_names)
{
    (void)!err_fail_in(WEFT_IO, ERR_PLUGIN, "tcp", "no");
    /* the arguments may be of the old record */
    (void)!err_fail_in(WEFT_PEER, ERR_CALL, err_name(ERR_PLUGIN), "%s", err_text());
    assert_string_equal(err_text(), "tcp(): plugin tcp: no");
    assert_string_equal(err_name(ERR_PLUGIN), "");
    err_record now;
    err_keep(&now);
    assert_int_equal(now.code, WEFT_PEER);
    err_clear();
    assert_string_equal(err_name(ERR_CALL), "");
    err_keep(&now);
    assert_int_equal(now.code, WEFT_OK);
}

TEST(a_kept_record_comes_back_whole)
{
    err_record kept;
    (void)!err_fail_in(WEFT_IO, ERR_PLUGIN, "tcp", "no");
    err_set_name(ERR_KEY, "comm.tcp.port");
    err_keep(&kept);
    (void)!err_fail(WEFT_USAGE, "something else");
    const uint32_t before = err_count;
    assert_int_equal(err_again(WEFT_PEER, &kept), WEFT_PEER);
    assert_true(err_count != before);
    err_keep(&kept);
    assert_int_equal(kept.code, WEFT_PEER);
    assert_string_equal(err_text(), "plugin tcp: no");
    assert_string_equal(err_name(ERR_PLUGIN), "tcp");
    assert_string_equal(err_name(ERR_KEY), "comm.tcp.port");
}

TEST(long_names_are_cut)
{
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    (void)!err_fail(WEFT_IO, "no");
    err_put_name(ERR_ENTRY, name);
    const size_t once = strlen(err_text());
    err_put_name(ERR_ENTRY, name);
    assert_int_equal(strlen(err_text()), once);
    for (int i = 0; i < 20; i++)
        err_context("%s", name);
    assert_true(strlen(err_text()) < ERR_MAX);
}

TEST(too_few_open_files_are_raised)
{
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){64, 128};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    errno = EMFILE;
    assert_int_equal(err_fail_errno(WEFT_IO, "no socket"), WEFT_IO);
    assert_string_equal(err_text(), "no socket: Too many open files; the limit is 64, raise it: "
                                    "ulimit -n 128");
    few.rlim_cur = 128;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    errno = EMFILE;
    (void)!err_fail_errno(WEFT_IO, "no socket");
    assert_string_equal(err_text(), "no socket: Too many open files; the limit is 128 (ulimit -n), "
                                    "and only an administrator may raise it");
    errno = ENFILE;
    (void)!err_fail_errno(WEFT_IO, "no socket");
    assert_string_equal(err_text(), "no socket: Too many open files in system");
}
