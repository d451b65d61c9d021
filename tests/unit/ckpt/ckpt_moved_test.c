/* Does a save stay in its folder when that is renamed, and leave what is not its own? */
#define _GNU_SOURCE
#include "ckpt_model.h"
#include <test.h>

/* A file of another job, in a folder of `run` that a save would sweep, remove or write into. */
static const char *stranger(const char *run, const char *folder)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/checkpoints/%s/manifest.json", run, folder);
    return path;
}

/* OUT is renamed while a save is under way, and the folder of another job gets its name. */
TEST(a_save_stays_in_its_folder)
{
    static const char *const theirs[] = {"", "step-00000001", ".step-00000005.tmp",
                                         ".step-00000006.tmp", ".step-00000007.tmp"};
    char run[128], other[128], moved[128], path[256];
    ckpt_save s;
    ckpt_shard_sum sum;
    ckpt *c;
    empty_work();
    snprintf(run, sizeof run, "%s/run", work);
    snprintf(other, sizeof other, "%s/other", work);
    snprintf(moved, sizeof moved, "%s/moved", work);
    assert_int_equal(mkdir(run, 0777) | mkdir(other, 0777), 0);
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        snprintf(path, sizeof path, "%s/checkpoints/%s", other, theirs[i]);
        assert_int_equal(mkdir(path, 0777), 0);
        put_file(stranger(other, theirs[i]), "x", 1);
    }
    const int out = open(run, O_RDONLY | O_DIRECTORY);
    assert_true(out >= 0);

    assert_int_equal(ckpt_begin(out, run, 5, &s), WEFT_OK);
    assert_int_equal(rename(run, moved) | rename(other, run), 0);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, NULL, 0, NULL, &sum), WEFT_OK);
    assert_int_equal(ckpt_commit(&s, "", &sum, 1, (ckpt_keep){1, 0}), WEFT_OK);
    assert_int_equal(ckpt_begin(out, run, 6, &s), WEFT_OK);
    ckpt_abandon(&s);
    snprintf(path, sizeof path, "%s/checkpoints/.step-00000007.tmp", moved);
    assert_int_equal(mkdir(path, 0777), 0); /* by rank 0 */
    assert_int_equal(ckpt_join(out, run, 7, &s), WEFT_OK);
    assert_int_equal(ckpt_write_shard(&s, 1, 2, NULL, 0, NULL, &sum), WEFT_OK);
    ckpt_part(&s);
    close(out);

    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        assert_int_equal(access(stranger(run, theirs[i]), F_OK), 0);
        snprintf(path, sizeof path, "%s/checkpoints/%s/shard-00001-of-00002.safetensors", run,
                 theirs[i]);
        assert_int_equal(access(path, F_OK), -1);
    }
    snprintf(path, sizeof path,
             "%s/checkpoints/.step-00000007.tmp/shard-00001-of-00002.safetensors", moved);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000005", moved);
    assert_int_equal(ckpt_open(path, &c), WEFT_OK);
    ckpt_close(c);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000005", run);
    assert_int_equal(access(path, F_OK), -1);
}

static void save_empty(int out, const char *run, uint64_t step)
{
    ckpt_save s;
    ckpt_shard_sum sum;
    assert_int_equal(ckpt_begin(out, run, step, &s), WEFT_OK);
    assert_int_equal(ckpt_write_shard(&s, 0, 1, NULL, 0, NULL, &sum), WEFT_OK);
    assert_int_equal(ckpt_commit(&s, "", &sum, 1, (ckpt_keep){2, 0}), WEFT_OK);
}

static bool there(const char *run, uint64_t step, const char *file)
{
    char path[4096];
    snprintf(path, sizeof path, "%.200s/checkpoints/step-%08" PRIu64 "%.99s", run, step, file);
    return access(path, F_OK) == 0;
}

/* An old checkpoint goes, but not one in which somebody has put a file. */
TEST(a_file_of_the_user_stays)
{
    static const char *const names[] = {"notes.txt", "shard-00000-of-00001.safetensors.bak",
                                        "shard-0-of-1.safetensors"};
    char run[128], path[512];
    empty_work();
    snprintf(run, sizeof run, "%s/run", work);
    assert_int_equal(mkdir(run, 0777), 0);
    const int out = open(run, O_RDONLY | O_DIRECTORY);
    assert_true(out >= 0);
    for (uint32_t i = 0; i < 3; i++) {
        save_empty(out, run, 10 * i + 10);
        snprintf(path, sizeof path, "%s/checkpoints/step-%08u/%s", run, 10 * i + 10, names[i]);
        put_file(path, "x", 1);
    }
    for (uint32_t step = 40; step <= 70; step += 10)
        save_empty(out, run, step);
    close(out);
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/%s", names[i]);
        assert_true(there(run, 10 * i + 10, path));
        assert_true(there(run, 10 * i + 10, "/manifest.json"));
    }
    assert_false(there(run, 40, "") || there(run, 50, ""));
    assert_true(there(run, 60, "/manifest.json") && there(run, 70, "/manifest.json"));
}

int main(void)
{
    return test_run(make_work, remove_work);
}
