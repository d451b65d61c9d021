/* From INI text and command line to entries: what is taken, and what is refused with which words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "config/config.h"

#include <test.h>

static void refused(const char *text, const char *sentence)
{
    config *c = NULL;
    assert_int_equal(config_load_text(text, "job.ini", &c), WEFT_USAGE);
    assert_null(c);
    assert_string_equal(err_text(), sentence);
}

static config *taken(const char *text)
{
    config *c = NULL;
    weft_status st = config_load_text(text, "job.ini", &c);
    if (st != WEFT_OK)
        fail_msg("%s", err_text());
    return c;
}

TEST(lines_are_split)
{
    config *c = taken("; a comment\n# another\n\n[train]\nbatch = 8 ; eight\n\tmicrobatch=2\n"
                      "[run] ; the job\nname = a;b # c\n out =\nkey = x=y:z");
    assert_string_equal(config_raw(c, "train.batch"), "8");
    assert_string_equal(config_raw(c, "train.microbatch"), "2");
    assert_string_equal(config_raw(c, "run.name"), "a;b # c");
    assert_string_equal(config_raw(c, "run.out"), "");
    assert_string_equal(config_raw(c, "run.key"), "x=y:z");
    assert_null(config_raw(c, "run.seed"));
    assert_string_equal(config_section_at(c, 0), "train");
    assert_string_equal(config_section_at(c, 1), "run");
    assert_null(config_section_at(c, 2));
    config_destroy(c);
}

/* A text that comes with data does not say which code is loaded; somebody may say it afterwards. */
TEST(code_is_left_out)
{
    const char *text = "[run]\nplugins = evil\nuse = a\n[comm.mpi]\nlibrary = /x/libmpi.so\n"
                       "[device]\nlibraries = /x\nthreads = 2\n";
    config *c = taken(text);
    assert_string_equal(config_raw(c, "run.plugins"), "evil"); /* a text of our own */
    config_destroy(c);
    assert_int_equal(config_load_saved(text, "saved", &c), WEFT_OK);
    assert_null(config_raw(c, "run.plugins"));
    assert_null(config_raw(c, "comm.mpi.library"));
    assert_null(config_raw(c, "device.libraries"));
    assert_string_equal(config_raw(c, "run.use"), "a");
    assert_string_equal(config_raw(c, "device.threads"), "2");
    assert_int_equal(config_set(c, "run.plugins", "mine", NULL), WEFT_OK);
    assert_string_equal(config_raw(c, "run.plugins"), "mine");
    config_destroy(c);
}

TEST(foreign_line_ends_are_read)
{
    config *c = taken("\xEF\xBB\xBF[train]\r\nbatch = 8\r\n\r\nmicrobatch = 4");
    assert_string_equal(config_raw(c, "train.batch"), "8");
    assert_string_equal(config_raw(c, "train.microbatch"), "4");
    assert_string_equal(config_where(c, "train.microbatch"), "job.ini:4");
    config_destroy(c);
    c = taken("\xEF\xBB\xBF");
    config_destroy(c);
    c = taken("");
    assert_null(config_section_at(c, 0));
    config_destroy(c);
}

TEST(an_indented_line_is_a_line_of_its_own)
{
    config *c = taken("[run]\nname = a\n    seed = 3\n");
    assert_string_equal(config_raw(c, "run.name"), "a");
    assert_string_equal(config_raw(c, "run.seed"), "3");
    config_destroy(c);
    refused("[run]\nname = a\n    and more\n",
            "job.ini:3: 'and more' has no '='; write key = value, on one line");
}

TEST(malformed_lines_are_named)
{
    refused("[run\n", "job.ini:1: '[run' has no closing ']'");
    refused("[run ; x]\n", "job.ini:1: '[run' has no closing ']'");
    refused("\n[run] seed = 1\n",
            "job.ini:2: ' seed = 1' follows the section name; start a new line");
    refused("[]\n", "job.ini:1: '[]' is not a section; write [name] without blanks");
    refused("[a b]\n", "job.ini:1: '[a b]' is not a section; write [name] without blanks");
    refused("[run]\nseed\n", "job.ini:2: 'seed' has no '='; write key = value, on one line");
    refused("[run]\nseed ; = 1\n", "job.ini:2: 'seed' has no '='; write key = value, on one line");
    refused("[run]\nseed: 1\n", "job.ini:2: 'seed: 1' has ':' before any '='; write key = value");
    refused("[run]\n= 1\n", "job.ini:2: '' is not a key; write key = value");
    refused("[run]\nthe seed = 1\n", "job.ini:2: 'the seed' is not a key; write key = value");
    refused("[run]\nname =;x\n",
            "job.ini:2: the value of 'name' begins with ';'; put a blank before "
            "a comment");
    refused("seed = 1\n", "job.ini:1: key 'seed' is before any [section]");
    refused("[run]\nname = a\x01z\n",
            "job.ini:2: byte 9 is the control character 0x01; the file must be text");
    refused("[run]\rseed = 1\n",
            "job.ini:1: byte 6 is the control character 0x0d; the file must be text");
}

TEST(a_key_twice_names_both_lines)
{
    refused("[run]\nseed = 1\n[train]\nbatch = 2\n[run]\n\nseed = 1\n",
            "job.ini:7: key 'seed' of [run] was given in line 2 already; keep one of the two");
}

TEST(long_names_and_lines_are_refused)
{
    char text[8192], name[100];
    memset(name, 'k', sizeof name);
    snprintf(text, sizeof text, "[run]\n%.48s = 1\n[%.48s]\n", name, name);
    config_destroy(taken(text));
    snprintf(text, sizeof text, "[run]\n%.49s = 1\n", name);
    refused(text, "job.ini:2: a key of 49 bytes; 48 is the limit");
    snprintf(text, sizeof text, "[%.49s]\n", name);
    refused(text, "job.ini:1: a section name of 49 bytes; 48 is the limit");

    snprintf(text, sizeof text, "[run]\nname = %03993d\n", 7);
    config *c = taken(text);
    assert_int_equal(strlen(config_raw(c, "run.name")), 3993);
    config_destroy(c);
    snprintf(text, sizeof text, "[run]\nname = %03994d\n", 7);
    refused(text, "job.ini:2: a line of 4001 bytes; 4000 is the limit");
    memset(text, ';', 5000);
    text[5000] = 0;
    refused(text, "job.ini:1: a line of 5000 bytes; 4000 is the limit");
}

TEST(too_many_keys_are_refused)
{
    char *text = calloc(1, 1 << 20);
    size_t n = (size_t)snprintf(text, 8, "[run]\n");
    for (int i = 0; i < 4097; i++)
        n += (size_t)snprintf(text + n, 32, "k%d=1\n", i);
    refused(text, "job.ini:4098: more than 4096 keys");
    memset(text, '\n', (1 << 20) - 1);
    config_destroy(taken(text));
    free(text);
}

static const char *job_file(const void *bytes, size_t n)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/weft-config-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    return path;
}

TEST(files_are_read_as_they_are)
{
    config *c = NULL;
    char sentence[256];
    const char *path = job_file("[run]\nseed = 5\n", 15);
    assert_int_equal(config_load(path, NULL, 0, &c), WEFT_OK);
    assert_string_equal(config_raw(c, "run.seed"), "5");
    config_destroy(c);
    unlink(path);

    path = job_file("[run]\nse\0ed = 5\n", 16);
    assert_int_equal(config_load(path, NULL, 0, &c), WEFT_USAGE);
    snprintf(sentence, sizeof sentence,
             "%s:2: byte 3 is the control character 0x00; the file must be text", path);
    assert_string_equal(err_text(), sentence);
    unlink(path);

    char *big = calloc(1, (1 << 20) + 1);
    memset(big, '\n', (1 << 20) + 1);
    path = job_file(big, (1 << 20) + 1);
    assert_int_equal(config_load(path, NULL, 0, &c), WEFT_USAGE);
    snprintf(sentence, sizeof sentence, "%s is longer than 1048576 bytes; this is not a job file",
             path);
    assert_string_equal(err_text(), sentence);
    unlink(path);
    free(big);

    assert_int_equal(config_load("/tmp", NULL, 0, &c), WEFT_USAGE);
    assert_string_equal(err_text(), "cannot read the job file /tmp: Is a directory");
    assert_int_equal(config_load("/no/job.ini", NULL, 0, &c), WEFT_USAGE);
    assert_string_equal(err_text(),
                        "cannot open the job file /no/job.ini: No such file or directory");
}

TEST(the_last_override_holds)
{
    const char *path = job_file("[train]\nbatch = 4\n", 18);
    const char *const overrides[] = {"train.batch=8", "comm.tcp.encrypt=on", "run.name=a=b.c",
                                     "train.batch=16", "run.out="};
    config *c = NULL;
    assert_int_equal(config_load(path, overrides, 5, &c), WEFT_OK);
    assert_string_equal(config_raw(c, "train.batch"), "16");
    assert_string_equal(config_where(c, "train.batch"), "command line");
    assert_string_equal(config_raw(c, "comm.tcp.encrypt"), "on");
    assert_string_equal(config_raw(c, "run.name"), "a=b.c");
    assert_string_equal(config_raw(c, "run.out"), "");
    assert_string_equal(config_section_at(c, 0), "train");
    assert_string_equal(config_section_at(c, 1), "comm.tcp");
    assert_string_equal(config_section_at(c, 2), "run");
    assert_null(config_section_at(c, 3));
    config_destroy(c);
    unlink(path);
}

TEST(malformed_overrides_are_refused)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"train.batch", "command line: 'train.batch' is not section.key=value"},
        {"batch=3", "command line: 'batch=3' is not section.key=value"},
        {".batch=3", "command line: '.batch=3' is not section.key=value"},
        {"train.=3", "command line: 'train.=3' is not section.key=value"},
        {"x=train.batch", "command line: 'x=train.batch' is not section.key=value"},
        {"", "command line: '' is not section.key=value"},
        {"run.name=a\nb", "command line: the value of 'run.name' has blanks around it, a control "
                          "character or other than UTF-8, or a ';' that would begin a comment"},
        {"run.name= a", "command line: the value of 'run.name' has blanks around it, a control "
                        "character or other than UTF-8, or a ';' that would begin a comment"},
        {"run.name=a ;b", "command line: the value of 'run.name' has blanks around it, a control "
                          "character or other than UTF-8, or a ';' that would begin a comment"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config *c = NULL;
        assert_int_equal(config_load(NULL, &cases[i].text, 1, &c), WEFT_USAGE);
        assert_string_equal(err_text(), cases[i].sentence);
    }
}
