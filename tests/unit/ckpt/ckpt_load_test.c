/* Is a checkpoint refused when anything in it is not what was written? */
#define _GNU_SOURCE
#include "base/log.h"
#include "file_faults.h"
#include <test.h>

#include "ckpt_model.h"

enum { FILE_MAX = 1 << 16 };

static unsigned char file[FILE_MAX], other[FILE_MAX];

static void accepted(uint64_t step)
{
    char dir[4096];
    ckpt *c;
    snprintf(dir, sizeof dir, "%s", file_of(step, ""));
    if (ckpt_open(dir, &c) != WEFT_OK)
        fail_msg("%s", err_text());
    check_content(c, step);
    ckpt_close(c);
}

static void start(uint64_t step, uint32_t shards)
{
    empty_work();
    dice_state = 7;
    assert_int_equal(save(step, shards, 0), WEFT_OK);
    accepted(step);
}

/* --- damage --- */

TEST(every_flipped_byte_is_seen)
{
    start(5, 2);
    char paths[3][4096];
    snprintf(paths[0], sizeof *paths, "%s", file_of(5, "manifest.json"));
    snprintf(paths[1], sizeof *paths, "%s", shard_of(5, 0, 2));
    snprintf(paths[2], sizeof *paths, "%s", shard_of(5, 1, 2));
    for (int i = 0; i < 3; i++) {
        size_t n = get_file(paths[i], file, sizeof file);
        for (size_t at = 0; at < n; at++) {
            file[at] ^= (unsigned char)(1 << at % 8);
            put_file(paths[i], file, n);
            refused(5, i ? "shard-0000" : "manifest.json");
            file[at] ^= (unsigned char)(1 << at % 8);
        }
        put_file(paths[i], file, n);
    }
    accepted(5);
}

TEST(every_shorter_length_is_seen)
{
    start(5, 2);
    char paths[3][4096];
    snprintf(paths[0], sizeof *paths, "%s", file_of(5, "manifest.json"));
    snprintf(paths[1], sizeof *paths, "%s", shard_of(5, 0, 2));
    snprintf(paths[2], sizeof *paths, "%s", shard_of(5, 1, 2));
    for (int i = 0; i < 3; i++) {
        size_t n = get_file(paths[i], file, sizeof file - 1);
        for (size_t cut = 0; cut < n; cut++) {
            put_file(paths[i], file, cut);
            refused(5, i ? "shard-0000" : "manifest.json");
        }
        put_file(paths[i], file, n + 1); /* and one longer */
        refused(5, i ? "shard-0000" : "manifest.json");
        put_file(paths[i], file, n);
    }
    accepted(5);
}

TEST(missing_and_swapped_shards_are_seen)
{
    start(5, 3);
    dice_state = 7;
    assert_int_equal(save(6, 3, 0), WEFT_OK); /* the same layout, other bytes */
    char a[4096], b[4096];
    snprintf(a, sizeof a, "%s", shard_of(5, 0, 3));
    snprintf(b, sizeof b, "%s", shard_of(5, 1, 3));
    size_t na = get_file(a, file, sizeof file), nb = get_file(b, other, sizeof other);

    assert_int_equal(unlink(a), 0);
    refused(5, "shard-00000-of-00003.safetensors: No such file");
    put_file(a, other, nb); /* a duplicate */
    refused(5, "shard-00000");
    put_file(b, file, na); /* swapped */
    refused(5, "shard-00000");
    put_file(a, file, na);
    refused(5, "shard-00001");
    put_file(b, other, nb);
    accepted(5);
    na = get_file(shard_of(6, 0, 3), file, sizeof file); /* that of another step */
    put_file(a, file, na);
    refused(5, "SHA-256");
    memset(file, 0, na);
    put_file(a, file, na);
    refused(5, "shard-00000");
    na = get_file(file_of(6, "manifest.json"), file, sizeof file);
    put_file(file_of(5, "manifest.json"), file, na); /* and its manifest */
    refused(5, "shard-0000");
    assert_int_equal(unlink(file_of(5, "manifest.json")), 0);
    refused(5, "not a complete checkpoint");
}

TEST(what_is_no_file_is_refused)
{
    static const char *const names[] = {"manifest.json", "shard-00000-of-00001.safetensors"};
    for (int i = 0; i < 2; i++) {
        char path[4096], away[128];
        start(5, 1);
        snprintf(path, sizeof path, "%s", file_of(5, names[i]));
        snprintf(away, sizeof away, "%s/away", work);
        assert_int_equal(rename(path, away), 0);
        assert_int_equal(symlink(away, path), 0); /* the true bytes, through a link */
        refused(5, names[i]);
        unlink(path);
        assert_int_equal(mkdir(path, 0777), 0);
        refused(5, names[i]);
        rmdir(path);
        assert_int_equal(mkfifo(path, 0666), 0);
        refused(5, names[i]); /* and nobody waits for a writer */
        unlink(path);
        assert_int_equal(rename(away, path), 0);
        accepted(5);
    }
    ckpt *c;
    assert_int_equal(ckpt_open("/tmp/weft-none/such", &c), WEFT_USAGE);
    assert_int_equal(ckpt_open("/dev/null", &c), WEFT_USAGE);
}

TEST(a_change_after_opening_is_seen)
{
    start(5, 1);
    char dir[4096];
    unsigned char out[MODEL_BYTES];
    ckpt *c;
    snprintf(dir, sizeof dir, "%s", file_of(5, ""));
    assert_int_equal(ckpt_open(dir, &c), WEFT_OK);
    size_t n = get_file(shard_of(5, 0, 1), file, sizeof file);
    file[n - 1] ^= 1;
    usleep(20000); /* over one tick of the file system's clock */
    put_file(shard_of(5, 0, 1), file, n);
    assert_int_equal(ckpt_read(c, &model[0], out), WEFT_DATA);
    assert_non_null(strstr(err_text(), "changed"));
    ckpt_close(c);
}

/* --- the newest that verifies --- */

TEST(the_newest_passes_over_broken_ones)
{
    ckpt *c;
    empty_work();
    assert_int_equal(ckpt_open_newest(work, &alone, &c), WEFT_USAGE); /* no folder */
    for (uint64_t step = 10; step <= 60; step += 10)
        assert_int_equal(save(step, 2, 0), WEFT_OK);
    check_newest(60);
    char path[4096], away[4096];
    assert_int_equal(truncate(shard_of(60, 1, 2), 100), 0);
    assert_int_equal(unlink(file_of(50, "manifest.json")), 0);
    snprintf(path, sizeof path, "%s", file_of(40, ""));
    snprintf(away, sizeof away, "%s", file_of(99, "")); /* 40 under a wrong name */
    assert_int_equal(rename(path, away), 0);
    path[strlen(path) - 1] = away[strlen(away) - 1] = 0; /* without the slash */
    assert_int_equal(symlink(away, path), 0);
    put_file(file_of(30, "manifest.json"), "", 0);
    check_newest(20);
    snprintf(path, sizeof path, "%s/checkpoints/step-100", work); /* not our spelling */
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000100x", work);
    assert_int_equal(mkdir(path, 0777), 0);
    check_newest(20);
    put_file(shard_of(20, 0, 2), "", 0);
    assert_int_equal(unlink(shard_of(10, 0, 2)), 0);
    assert_int_equal(ckpt_open_newest(work, &alone, &c), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "none of the 7"));
}

/* Whatever call fails, and however: the newest is what the next attempt opens. */
TEST(what_could_not_be_read_is_not_passed_over)
{
    static const int errors[] = {EIO, EACCES, ENOMEM, ESTALE, EMFILE, ETIMEDOUT};
    ckpt *c;
    for (uint32_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        bool hit = true;
        empty_work();
        assert_int_equal(save(10, 2, 0) | save(20, 2, 0), WEFT_OK);
        for (long at = 1; hit; at++) {
            err_clear();
            faults_set(FAULT_ERROR, at, errors[i], false);
            weft_status st = ckpt_open_newest(work, &alone, &c);
            hit = faults.calls >= at;
            faults_set(FAULT_NONE, 0, 0, false);
            assert_int_equal(hit, st != WEFT_OK);
            assert_int_not_equal(st, WEFT_DATA);
            if (hit && !strstr(err_text(), strerror(errors[i])))
                fail_msg("call %ld: '%s'", at, err_text());
            if (!hit)
                ckpt_close(c);
            assert_true(hit || at > 8); /* the faults did strike */
            check_newest(20);
        }
    }
}

/* They keep all their bytes under another name, which nothing uses again. */
TEST(damaged_ones_are_set_aside)
{
    static unsigned char before[1 << 16], after[1 << 16];
    char path[4096];
    empty_work();
    for (uint64_t step = 1; step <= 3; step++)
        assert_int_equal(save(step, 1, 0), WEFT_OK);
    for (int turn = 0; turn < 3; turn++) {
        size_t n = get_file(shard_of(3, 0, 1), before, sizeof before);
        assert_int_equal(truncate(file_of(3, "manifest.json"), 70 + turn), 0);
        check_newest(2);
        assert_int_equal(ckpt_set_aside(-1, work, 2), WEFT_OK);
        snprintf(path, sizeof path,
                 turn ? "%s/checkpoints/step-00000003.damaged.%d"
                      : "%s/checkpoints/step-00000003.damaged",
                 work, turn);
        assert_true(strlen(path) < 4000);
        strncat(path, "/shard-00000-of-00001.safetensors", sizeof path - strlen(path) - 1);
        assert_int_equal(get_file(path, after, sizeof after), n);
        assert_memory_equal(before, after, n);
        assert_false(has_step(3));
        assert_int_equal(save(3, 1, 2), WEFT_OK); /* which removes step 1 and none of them */
        check_newest(3);
        assert_int_equal(count_entries("step-"), 2 + turn + 1);
    }
    assert_int_equal(ckpt_set_aside(-1, work, 3), WEFT_OK); /* nothing to do */
    assert_int_equal(count_entries("step-"), 5);
}

/* --- requests that differ from what is stored --- */

TEST(differences_are_named)
{
    start(5, 2);
    char dir[4096];
    unsigned char out[MODEL_BYTES];
    ckpt *c;
    snprintf(dir, sizeof dir, "%s", file_of(5, ""));
    assert_int_equal(ckpt_open(dir, &c), WEFT_OK);
    static const struct {
        ckpt_piece want;
        weft_status status;
        const char *word;
    } cases[] = {
        {{"block.9", WEFT_F32, 2, {12, 21}, {0}, {0}, 0, 1, NULL}, WEFT_USAGE, "no tensor block.9"},
        {{"block.0.attn.qkv.w", WEFT_BF16, 2, {12, 21}, {0}, {0}, 0, 1, NULL},
         WEFT_USAGE,
         "as F32 [12, 21], where this job has BF16 [12, 21]"},
        {{"block.0.attn.qkv.w", WEFT_F32, 2, {21, 12}, {0}, {0}, 0, 1, NULL},
         WEFT_USAGE,
         "F32 [21, 12]"},
        {{"block.0.attn.qkv.w", WEFT_F32, 1, {252}, {0}, {0}, 0, 1, NULL}, WEFT_USAGE, "F32 [252]"},
        {{"block.0.attn.qkv.w", WEFT_F32, 9, {12, 21}, {0}, {0}, 0, 1, NULL},
         WEFT_USAGE,
         "[12, 21]"},
        {{"steps", WEFT_I64, 1, {1}, {0}, {0}, 0, 1, NULL}, WEFT_USAGE, "I64 []"},
        {{"scale", WEFT_I32, 1, {5}, {0}, {0}, 5, 1, NULL}, WEFT_INTERNAL, "5 + 1 of 5"},
        {{"scale", WEFT_I32, 1, {5}, {0}, {0}, UINT64_MAX, 2, NULL}, WEFT_INTERNAL, "scale"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ckpt_read(c, &cases[i].want, out), cases[i].status);
        if (!strstr(err_text(), cases[i].word))
            fail_msg("'%s' does not say '%s'", err_text(), cases[i].word);
    }
    ckpt_close(c);
}

int main(void)
{
    log_setup(WEFT_LOG_ERROR, -1); /* what is passed over is not news here */
    return test_run(make_work, remove_work);
}
