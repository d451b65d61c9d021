/* Does any layout load what any other saved, and does a save that goes wrong leave a checkpoint
 * that is complete and no litter? */
#define _GNU_SOURCE
#include "file_faults.h"
#include <test.h>

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/log.h"
#include "ckpt_model.h"

TEST(any_layout_reads_any_other)
{
    static const uint32_t shards[] = {1, 2, 3, 4, 8, 17};
    for (uint32_t turn = 0; turn < 60; turn++) {
        empty_work();
        dice_state = turn + 1;
        weft_status st = save(turn, shards[turn % 6], 0);
        if (st != WEFT_OK)
            fail_msg("%s", err_text());
        check_newest(turn);
        assert_int_equal(count_entries("step-"), 1);
        assert_int_equal(count_entries(".step-"), 0);
    }
}

TEST(large_tensors_take_many_blocks)
{
    empty_work();
    enum { N = 3000001 };
    ckpt_save s;
    ckpt_shard_sum sum;
    float *data = malloc(N * sizeof *data), *back = malloc(N * sizeof *back);
    uint8_t small = 77;
    assert_true(data && back);
    for (int i = 0; i < N; i++)
        data[i] = (float)i;
    const ckpt_piece pieces[] = {{"small", WEFT_U8, 0, {0}, {0}, {0}, 0, 1, &small},
                                 {"large", WEFT_F32, 1, {N}, {0}, {0}, 0, N, data}};
    assert_int_equal(ckpt_begin(-1, work, 1, &s), WEFT_OK);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, pieces, 2, NULL, &sum), WEFT_OK);
    assert_int_equal(ckpt_commit(&s, "", &sum, 1, (ckpt_keep){0, 0}), WEFT_OK);
    ckpt *c;
    assert_int_equal(ckpt_open(file_of(1, ""), &c), WEFT_OK);
    assert_string_equal(ckpt_dir(c), file_of(1, ""));
    assert_string_equal(ckpt_job_text(c), "");
    assert_int_equal(ckpt_read(c, &pieces[1], back), WEFT_OK);
    assert_memory_equal(data, back, N * sizeof *data);
    small = 0;
    assert_int_equal(ckpt_read(c, &pieces[0], &small), WEFT_OK);
    assert_int_equal(small, 77);
    ckpt_close(c);
    ckpt_close(NULL);
    free(data);
    free(back);
}

TEST(keep_counts_the_newest)
{
    empty_work();
    for (uint64_t step = 1; step <= 5; step++) {
        assert_int_equal(save(step, 2, 2), WEFT_OK);
        check_newest(step);
        assert_int_equal(count_entries("step-"), step < 2 ? 1 : 2);
        assert_true(has_step(step) && (step == 1 || has_step(step - 1)));
    }
    assert_int_equal(save(3, 2, 1), WEFT_OK); /* later ones are not its own to remove */
    assert_true(has_step(3) && has_step(4) && has_step(5));
    assert_int_equal(save(6, 2, 0), WEFT_OK); /* 0 keeps all */
    assert_int_equal(count_entries("step-"), 4);
    assert_int_equal(save(123456789012, 1, 1), WEFT_OK); /* more digits than eight */
    check_newest(123456789012);
    assert_int_equal(count_entries("step-"), 1);
    assert_int_equal(count_entries(".step-"), 0);
}

/* Whole or damaged, what has the name keeps it and all its bytes; refused before anything is
 * written, and at the rename if it came meanwhile. */
TEST(one_of_the_same_step_is_never_replaced)
{
    static unsigned char before[1 << 16], after[1 << 16];
    ckpt_save s;
    ckpt_shard_sum sum;
    empty_work();
    assert_int_equal(save(7, 1, 0), WEFT_OK);
    for (int damaged = 0; damaged < 2; damaged++) {
        if (damaged)
            assert_int_equal(unlink(file_of(7, "manifest.json")), 0);
        size_t n = get_file(shard_of(7, 0, 1), before, sizeof before);
        assert_int_equal(save(7, 1, 1), WEFT_USAGE);
        assert_non_null(strstr(err_text(), "step-00000007 exists"));
        assert_int_equal(get_file(shard_of(7, 0, 1), after, sizeof after), n);
        assert_memory_equal(before, after, n);
        assert_int_equal(count_entries("step-"), 1);
        assert_int_equal(count_entries(".step-"), 0);
    }
    assert_int_equal(ckpt_begin(-1, work, 8, &s), WEFT_OK);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, NULL, 0, NULL, &sum), WEFT_OK);
    assert_int_equal(mkdir(file_of(8, ""), 0777), 0);
    put_file(file_of(8, "precious"), "x", 1);
    assert_int_equal(ckpt_commit(&s, "", &sum, 1, (ckpt_keep){0, 0}), WEFT_IO);
    assert_int_equal(access(file_of(8, "precious"), F_OK), 0);
    assert_int_equal(count_entries(".step-"), 0);
}

/* --- a save that goes wrong --- */

/* After a failure at any place: the newest that verifies is complete, be it the old or the new. */
static void check_survivor(bool saved)
{
    faults_set(FAULT_NONE, 0, 0, false);
    ckpt *c;
    weft_status st = ckpt_open_newest(work, &alone, &c);
    if (st != WEFT_OK)
        fail_msg("%s", err_text());
    uint64_t step = ckpt_step(c);
    assert_true(step == 200 || (step == 100 && !saved));
    check_content(c, step);
    ckpt_close(c);
}

TEST(no_failing_call_loses_a_checkpoint)
{
    static const int errors[] = {ENOSPC, EIO, EDQUOT, EROFS};
    for (int for_ever = 0; for_ever < 2; for_ever++)
        for (long at = 1;; at++) {
            empty_work();
            assert_int_equal(save(50, 2, 0), WEFT_OK);
            assert_int_equal(save(100, 2, 0), WEFT_OK);
            faults_set(FAULT_ERROR, at, errors[at % 4], for_ever);
            weft_status st = save(200, 3, 2);
            bool hit = faults.calls >= at, in_removal = hit && strchr("u", faults.log[at - 1]);
            if (st != WEFT_OK && strlen(err_text()) < 20)
                fail_msg("call %ld (%c): '%s'", at, faults.log[at - 1], err_text());
            check_survivor(st == WEFT_OK);
            if (!for_ever && !in_removal && st != WEFT_OK)
                assert_int_equal(count_entries(".step-"), 0);
            assert_int_equal(save(300, 1, 1), WEFT_OK); /* and the next save goes as ever */
            check_newest(300);
            assert_int_equal(count_entries("step-"), 1);
            assert_int_equal(count_entries(".step-"), 0);
            if (!hit) {
                assert_int_equal(st, WEFT_OK);
                assert_true(at > 30); /* the faults did strike */
                break;
            }
        }
}

TEST(a_crash_at_any_call_loses_nothing)
{
    for (long at = 1;; at++) {
        int status;
        empty_work();
        assert_int_equal(save(100, 2, 0), WEFT_OK);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            faults_set(FAULT_EXIT, at, 0, false);
            _exit(save(200, 2, 1) == WEFT_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        check_survivor(WEXITSTATUS(status) == 0);
        assert_int_equal(save(300, 1, 1), WEFT_OK);
        check_newest(300);
        assert_int_equal(count_entries("step-"), 1);
        assert_int_equal(count_entries(".step-"), 0);
        if (WEXITSTATUS(status) == 0)
            break;
        assert_int_equal(WEXITSTATUS(status), 42);
    }
}

TEST(interruptions_and_short_writes_do_no_harm)
{
    char log[sizeof faults.log];
    empty_work();
    faults_set(FAULT_NONE, 0, 0, false);
    assert_int_equal(save(1, 2, 1), WEFT_OK);
    memcpy(log, faults.log, sizeof log);
    for (long at = 1; log[at - 1]; at++)
        if (strchr("ws", log[at - 1]))
            for (int kind = 0; kind < 2; kind++) {
                empty_work();
                dice_state = 1;
                faults_set(kind ? FAULT_SHORT : FAULT_ERROR, at, EINTR, false);
                assert_int_equal(save(1, 2, 1), WEFT_OK);
                check_newest(1);
            }
}

/* Power may fail after the rename: by then every file and folder below must have been synced, and
 * the folder of the rename afterwards. */
TEST(all_is_synced_before_the_rename)
{
    for (int more = 0; more < 2; more++) {
        if (!more)
            empty_work();
        faults_set(FAULT_NONE, 0, 0, false);
        assert_int_equal(save(1 + (uint64_t)more, 3, 0), WEFT_OK);
        assert_non_null(strchr(faults.log, 'r'));
        assert_int_equal(faults.hasty_renames, 0);
        assert_int_equal(faults.n_unsynced, 0);
    }
}

/* A rank cleans up after itself, since rank 0 may be on another machine. */
TEST(a_shard_that_fails_is_not_left)
{
    char path[4200];
    ckpt_save s;
    ckpt_shard_sum sum;
    empty_work();
    assert_int_equal(ckpt_begin(-1, work, 1, &s), WEFT_OK);
    snprintf(path, sizeof path, "%s/shard-00000-of-00001.safetensors", s.temp);
    faults_set(FAULT_NONE, 0, 0, false);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, NULL, 0, NULL, &sum), WEFT_OK);
    long calls = faults.calls;
    assert_int_equal(unlink(path), 0);
    for (long at = 1; at <= calls; at++) {
        faults_set(FAULT_ERROR, at, EIO, false);
        assert_int_equal(ckpt_write_shard(&s, 0, 1, NULL, 0, NULL, &sum), WEFT_IO);
        assert_int_equal(access(path, F_OK), -1);
    }
    faults_set(FAULT_NONE, 0, 0, false);
    ckpt_abandon(&s);
}

TEST(files_over_the_limit_are_refused_in_words)
{
    empty_work();
    assert_int_equal(save(100, 1, 0), WEFT_OK);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){1000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status st = save(200, 1, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(st, WEFT_IO);
    assert_non_null(strstr(err_text(), "File too large"));
    assert_non_null(strstr(err_text(), "shard-00000-of-00001"));
    assert_int_equal(count_entries(".step-"), 0);
    check_newest(100);
}

/* In a name space of its own, so that the mount goes with the process: saves until a file system of
 * 64 KiB is full. 0: as it should be; 77: no mount allowed here. */
static int fill_a_small_disk(void)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", work, "tmpfs", 0, "size=64k"))
        return 77;
    for (uint64_t step = 1; step < 100; step++) {
        weft_status st = save(step, 2, 0);
        if (st == WEFT_OK)
            continue;
        if (step < 2 || st != WEFT_IO || !strstr(err_text(), "No space left"))
            return 1;
        if (count_entries(".step-") || has_step(step))
            return 2;
        check_newest(step - 1);
        return 0;
    }
    return 3;
}

TEST(a_full_disk_is_refused_in_words)
{
    int status;
    empty_work();
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        _exit(fill_a_small_disk());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- wrong requests --- */

TEST(a_second_job_is_refused)
{
    empty_work();
    ckpt_save s;
    int to_child[2], to_parent[2], status;
    assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        char c = (char)ckpt_begin(-1, work, 1, &s);
        _exit(write(to_parent[1], &c, 1) != 1 || read(to_child[0], &c, 1) != 1);
    }
    char c = 1;
    assert_int_equal(read(to_parent[0], &c, 1), 1);
    assert_int_equal(c, WEFT_OK);
    assert_int_equal(save(2, 1, 0), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "another job"));
    assert_int_equal(count_entries(".step-00000001.tmp"), 1); /* and the first one's is untouched */
    assert_int_equal(write(to_child[1], &c, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(save(2, 1, 0), WEFT_OK); /* the lock went with the process */
    assert_int_equal(count_entries(".step-"), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(close(to_child[i]) | close(to_parent[i]), 0);
}

static weft_status save_pieces(const ckpt_piece *p, uint32_t n, uint32_t shards)
{
    ckpt_save s;
    ckpt_shard_sum sums[4];
    assert_int_equal(ckpt_begin(-1, work, 9, &s), WEFT_OK);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < shards && st == WEFT_OK; i++)
        st = ckpt_write_shard(&s, i, shards, p, n, NULL, &sums[i]);
    if (st != WEFT_OK)
        ckpt_abandon(&s);
    else
        st = ckpt_commit(&s, "", sums, shards, (ckpt_keep){0, 0});
    assert_int_equal(count_entries("step-"), 0);
    assert_int_equal(count_entries(".step-"), 0);
    return st;
}

TEST(lawless_pieces_are_refused)
{
    static const unsigned char zeros[64];
    static const ckpt_piece bad[] = {
        {"../x y", WEFT_U8, 1, {4}, {0}, {0}, 0, 4, zeros},
        {"a@0", WEFT_U8, 1, {4}, {0}, {0}, 0, 4, zeros},
        {"", WEFT_U8, 1, {4}, {0}, {0}, 0, 4, zeros},
        {"__metadata__", WEFT_U8, 1, {4}, {0}, {0}, 0, 4, zeros},
        {"a", 99, 1, {4}, {0}, {0}, 0, 4, zeros},
        {"a", WEFT_U8, 1, {0}, {0}, {0}, 0, 0, zeros},
        {"a", WEFT_U8, 1, {-4}, {0}, {0}, 0, 4, zeros},
        {"a", WEFT_U8, 7, {4}, {0}, {0}, 0, 4, zeros},
        {"a", WEFT_U8, 1, {4}, {0}, {0}, 1, 4, zeros},
        {"a", WEFT_U8, 1, {4}, {0}, {0}, UINT64_MAX, 4, zeros},
        {"a", WEFT_U8, 1, {4}, {0}, {0}, 0, 3, zeros} /* and nobody has the fourth */,
        {"a", WEFT_I64, 2, {INT64_MAX, 2}, {0}, {0}, 0, 4, zeros},
    };
    empty_work();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(save_pieces(&bad[i], 1, 1), WEFT_INTERNAL);
        assert_true(strlen(err_text()) > 20);
    }
    const ckpt_piece twice[] = {{"a", WEFT_U8, 1, {8}, {0}, {0}, 0, 5, zeros},
                                {"a", WEFT_U8, 1, {8}, {0}, {0}, 4, 4, zeros}};
    assert_int_equal(save_pieces(twice, 2, 1), WEFT_INTERNAL); /* overlap in one shard */
    const ckpt_piece whole = {"a", WEFT_U8, 1, {8}, {0}, {0}, 0, 8, zeros};
    assert_int_equal(save_pieces(&whole, 1, 2), WEFT_INTERNAL); /* the same in two */
    assert_non_null(strstr(err_text(), "stored twice"));
}

TEST(wrong_calls_are_refused)
{
    ckpt_save s, second;
    ckpt_shard_sum sum;
    empty_work();
    assert_int_equal(ckpt_begin(-1, work, UINT64_MAX, &s), WEFT_USAGE);
    assert_int_equal(ckpt_begin(-1, "/tmp/weft-none/such", 1, &s), WEFT_USAGE);
    assert_int_equal(ckpt_begin(-1, "/dev/null", 1, &s), WEFT_USAGE);
    assert_int_equal(ckpt_begin(-1, work, 1, &s), WEFT_OK);
    assert_int_equal(ckpt_begin(-1, work, 2, &second), WEFT_USAGE); /* one at a time */
    assert_int_equal(ckpt_write_shard(&s, 1, 1, NULL, 0, NULL, &sum), WEFT_UNSUPPORTED);
    assert_int_equal(ckpt_write_shard(&s, 0, 0, NULL, 0, NULL, &sum), WEFT_UNSUPPORTED);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, NULL, 0, NULL, &sum), WEFT_OK);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, NULL, 0, NULL, &sum),
                     WEFT_IO); /* a second writer */
    ckpt_abandon(&s);
    ckpt_abandon(&s);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, NULL, 0, NULL, &sum), WEFT_IO); /* folder gone */
    assert_int_equal(save(1, 1, 0), WEFT_OK);
}

/* A link under a name that is swept must go as a link, and what it points to must stay. */
TEST(links_are_not_followed)
{
    char outside[128], kept[160], path[256];
    empty_work();
    assert_int_equal(save(1, 1, 0), WEFT_OK);
    snprintf(outside, sizeof outside, "%s/precious", work);
    snprintf(kept, sizeof kept, "%s/file", outside);
    assert_int_equal(mkdir(outside, 0777), 0);
    put_file(kept, "x", 1);
    static const char *const names[] = {".step-00000002.tmp", ".step-00000003.old"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/checkpoints/%s", work, names[i]);
        assert_int_equal(symlink(outside, path), 0);
    }
    snprintf(path, sizeof path, "%s/checkpoints/step-00000000", work);
    assert_int_equal(symlink(outside, path), 0);
    assert_int_equal(save(2, 1, 1), WEFT_OK);
    check_newest(2);
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_equal(count_entries(".step-"), 0);
    assert_int_equal(count_entries("step-"), 1);
}

int main(void)
{
    log_setup(WEFT_LOG_ERROR, -1); /* what is passed over is not news here */
    return test_run(make_work, remove_work);
}
