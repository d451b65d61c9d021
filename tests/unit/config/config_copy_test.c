/* config_copy() and config_set(): places of values, precedence, refusals, the file of comm.tuned.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "config/config.h"

#include <test.h>

static config *load(const char *text)
{
    config *c = NULL;
    assert_int_equal(config_load_text(text, "job.ini", &c), WEFT_OK);
    return c;
}

TEST(a_copy_keeps_values_and_places)
{
    config *c = load("[run]\nseed = 4\n[sweep]\ntp = 1, 2\n[sweep.train]\nbatch = 8\n");
    assert_int_equal(config_set(c, "train.batch", "16", NULL), WEFT_OK);
    config *copy = config_copy(c, "sweep");
    assert_int_equal(config_check(c), WEFT_USAGE);
    assert_string_equal(err_text(), "job.ini:3: unknown section [sweep]; neither the core nor a "
                                    "plugin that the job names has it");
    config_destroy(c);
    assert_int_equal(config_check(copy), WEFT_OK);
    assert_int_equal(config_int(copy, "run.seed"), 4);
    assert_string_equal(config_where(copy, "run.seed"), "job.ini:2");
    assert_int_equal(config_int(copy, "train.batch"), 16);
    assert_string_equal(config_where(copy, "train.batch"), "command line");
    config_destroy(copy);
}

TEST(a_copy_is_changed_alone)
{
    config *c = load("[run]\nseed = 4\n"), *copy = config_copy(c, NULL);
    assert_int_equal(config_set(copy, "run.seed", "5", "sweep.ini:7"), WEFT_OK);
    assert_int_equal(config_set(copy, "run.seed", "6", "sweep.ini:8"), WEFT_OK);
    assert_int_equal(config_int(c, "run.seed"), 4);
    assert_int_equal(config_int(copy, "run.seed"), 6);
    assert_string_equal(config_where(copy, "run.seed"), "sweep.ini:8");
    char *text = config_written(copy, "sweep");
    assert_string_equal(text, "[run]\nseed = 6\n");
    free(text);
    config_destroy(copy);
    config_destroy(c);
}

TEST(refusals_name_the_place)
{
    config *c = load("[run]\nseed = 4\n");
    assert_int_equal(config_set(c, "run.seed", " 5", "sweep.ini:7"), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "sweep.ini:7: the value of 'run.seed' has blanks"));
    assert_int_equal(config_set(c, "seed", "5", NULL), WEFT_USAGE);
    assert_string_equal(err_text(), "command line: 'seed=5' is not section.key=value");
    assert_int_equal(config_set(c, "train.batch", "many", "sweep.ini:7"), WEFT_OK);
    assert_int_equal(config_check_section(c, "run"), WEFT_OK);
    assert_int_equal(config_check_section(c, "train"), WEFT_USAGE);
    assert_string_equal(err_text(), "sweep.ini:7: train.batch: 'many' is not a whole number");
    assert_int_equal(config_check(c), WEFT_USAGE);
    assert_string_equal(err_text(), "sweep.ini:7: train.batch: 'many' is not a whole number");
    config_destroy(c);
}

TEST(origins_begin_messages)
{
    config *c = load("[run]\nseed = 4\n");
    assert_int_equal(config_check(c), WEFT_OK);
    assert_string_equal(config_origin(c, "run.seed"), "job.ini:2: run.seed");
    assert_string_equal(config_origin(c, "run.deadline"), "run.deadline (default 60)");
    assert_int_equal(config_fail(c, "run.seed", "is %d", 4), WEFT_USAGE);
    assert_string_equal(err_text(), "job.ini:2: run.seed: is 4");
    config_destroy(c);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Keys of the file that was named before are gone; what the job says still holds over the new. */
TEST(another_tuned_file_replaces_the_first)
{
    static const char *const first[] = {"comm.tuned=one.ini"};
    config *c = NULL;
    write_file("one.ini", "[comm]\nreduce = 7\nplugin = tcp\n");
    write_file("two.ini", "[comm]\nplugin = shm\nalgorithm = ring\n");
    assert_int_equal(config_load(NULL, first, 1, &c), WEFT_OK);
    config *copy = config_copy(c, NULL);
    assert_int_equal(config_set(copy, "comm.algorithm", "tree", NULL), WEFT_OK);
    assert_int_equal(config_set(copy, "comm.tuned", "two.ini", NULL), WEFT_OK);
    assert_null(config_raw(copy, "comm.reduce"));
    assert_string_equal(config_raw(copy, "comm.plugin"), "shm");
    assert_string_equal(config_raw(copy, "comm.algorithm"), "tree");
    assert_string_equal(config_where(copy, "comm.plugin"), "two.ini:2");
    assert_string_equal(config_raw(c, "comm.plugin"), "tcp");
    config_destroy(copy);
    config_destroy(c);
}

static int enter(void **state)
{
    static char folder[] = "/tmp/weft-copy-XXXXXX";
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    unlink("one.ini");
    unlink("two.ini");
    return chdir("/") || rmdir(*state);
}

int main(void)
{
    return test_run(enter, leave);
}
