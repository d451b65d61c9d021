/* The file of comm.tuned: weaker than the job and its command line, about [comm] alone, blamed by
 * its own lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "config/config.h"

#include <test.h>

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static const char *const told[] = {"comm.tuned=tuned.ini", "comm.tcp.message=3"};

static void refused(const char *fragment, const char *sentence)
{
    config *c = NULL;
    write_file("tuned.ini", fragment);
    assert_int_equal(config_load(NULL, told, 1, &c), WEFT_USAGE);
    assert_null(c);
    assert_string_equal(err_text(), sentence);
}

TEST(only_what_nobody_gave_takes_effect)
{
    config *c = NULL;
    write_file("job.ini", "[comm.tcp]\nlatency = 1\n[run]\nseed = 4\n");
    write_file("tuned.ini", "[comm]\nreduce = 7\nplugin = tcp\n\n[comm.tcp]\nlatency = 2\n"
                            "message = 5\nbandwidth = 9\n[comm.shm]\nbandwidth = 8\n");
    assert_int_equal(config_load("job.ini", told, 2, &c), WEFT_OK);
    assert_int_equal(config_add(c, "comm.tcp", "the core", config_link_options()), WEFT_OK);
    assert_int_equal(config_add(c, "comm.shm", "the core", config_link_options()), WEFT_OK);
    assert_int_equal(config_check(c), WEFT_OK);
    assert_string_equal(config_text(c, "comm.tcp.latency"), "1");
    assert_string_equal(config_where(c, "comm.tcp.latency"), "job.ini:2");
    assert_string_equal(config_text(c, "comm.tcp.message"), "3");
    assert_string_equal(config_where(c, "comm.tcp.message"), "command line");
    assert_string_equal(config_text(c, "comm.tcp.bandwidth"), "9");
    assert_string_equal(config_where(c, "comm.tcp.bandwidth"), "tuned.ini:8");
    assert_string_equal(config_text(c, "comm.reduce"), "7");
    assert_string_equal(config_text(c, "comm.plugin"), "tcp");
    assert_string_equal(config_section_at(c, 2), "comm");

    char *written = config_written(c, "data"), *dump = config_dump(c);
    assert_null(strstr(written, "reduce")); /* the job's own words are kept apart */
    assert_non_null(strstr(written, "tuned = tuned.ini"));
    assert_non_null(strstr(dump, "reduce = 7"));
    free(written);
    free(dump);
    config_destroy(c);
}

TEST(a_job_in_a_checkpoint_reads_no_file)
{
    config *c = NULL;
    assert_int_equal(config_load_text("[comm]\ntuned = gone.ini\n", "job", &c), WEFT_OK);
    config_destroy(c);
    const char *none = "comm.tuned=";
    assert_int_equal(config_load(NULL, &none, 1, &c), WEFT_OK);
    config_destroy(c);
}

TEST(what_is_wrong_is_blamed_by_its_line)
{
    refused("[comm]\nreduce = 7\n[train]\nbatch = 3\n",
            "tuned.ini:3: [train] is not allowed in a file of comm.tuned; only [comm] and "
            "[comm.NAME] are");
    refused("[commerce]\n", "tuned.ini:1: [commerce] is not allowed in a file of comm.tuned; only "
                            "[comm] and [comm.NAME] are");
    refused("[comm]\n\ntuned = tuned.ini\n",
            "tuned.ini:3: a file of comm.tuned cannot name another one");
    refused("; nothing\n", "tuned.ini has no keys; weft tune comm -o FILE writes one that has");
    refused("[comm]\nreduce\n", "tuned.ini:2: 'reduce' has no '='; write key = value, on one line");
    refused("[comm.tcp]\nlatency = 1\nlatency = 2\n",
            "tuned.ini:3: key 'latency' of [comm.tcp] was given in line 2 already; keep one of "
            "the two");
    unlink("tuned.ini");
    config *c = NULL;
    assert_int_equal(config_load(NULL, told, 1, &c), WEFT_USAGE);
    assert_string_equal(err_text(), "command line: comm.tuned: cannot open the file tuned.ini: No "
                                    "such file or directory");
}

TEST(its_values_are_checked_as_the_jobs_are)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"[comm.tcp]\nbandwidth = 9\nlatency = -1\n",
         "tuned.ini:3: comm.tcp.latency: '-1' is out of range; write 0 to 1000000000"},
        {"[comm.tcp]\nlatencies = 1\n",
         "tuned.ini:2: unknown key 'latencies' in [comm.tcp]; did you mean 'latency'?"},
        {"[comm.udp]\nbandwidth = 9\n",
         "tuned.ini:2: unknown section [comm.udp]; did you mean [comm.tcp]?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config *c = NULL;
        write_file("tuned.ini", cases[i].text);
        assert_int_equal(config_load(NULL, told, 2, &c), WEFT_OK);
        assert_int_equal(config_add(c, "comm.tcp", "the core", config_link_options()), WEFT_OK);
        assert_int_equal(config_check(c), WEFT_USAGE);
        assert_string_equal(err_text(), cases[i].sentence);
        config_destroy(c);
    }
}

static int enter(void **state)
{
    static char folder[] = "/tmp/weft-tuned-XXXXXX";
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    unlink("tuned.ini");
    unlink("job.ini");
    return chdir("/") || rmdir(*state);
}

int main(void)
{
    return test_run(enter, leave);
}
