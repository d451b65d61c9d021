/* Written keys against declared ones; values, places, the dump, and what plugins see. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config/config.h"

#include <test.h>

#define OPT(type, key, dflt, choices, min, max)                                                    \
    &(const weft_option)                                                                           \
    {                                                                                              \
        sizeof(weft_option), type, key, dflt, "help of " key, choices, min, max                    \
    }

static const weft_option *const every_type[] = {
    OPT(WEFT_OPT_BOOL, "flag", "off", NULL, 0, 0),
    OPT(WEFT_OPT_INT, "small", "3", NULL, 1, 64),
    OPT(WEFT_OPT_INT, "any", "-7", NULL, 0, 0),
    OPT(WEFT_OPT_REAL, "rate", "0.5", NULL, 0, 1),
    OPT(WEFT_OPT_REAL, "free", "1e-8", NULL, 0, 0),
    OPT(WEFT_OPT_STRING, "word", "hello", NULL, 0, 0),
    OPT(WEFT_OPT_CHOICE, "form", "bf16", "fp32|bf16|fp16", 0, 0),
    OPT(WEFT_OPT_BYTES, "room", "4K", NULL, 1, 1e18),
    OPT(WEFT_OPT_SECONDS, "wait", "2.5", NULL, 0, 60),
    OPT(WEFT_OPT_REALS, "betas", "0.9, 0.95", NULL, 0, 1),
    OPT(WEFT_OPT_AUTO_INT, "threads", "auto", NULL, 1, 256),
    NULL,
};

static const weft_option *const needs[] = {OPT(WEFT_OPT_STRING, "host", NULL, NULL, 0, 0), NULL};
static const weft_option *const narrow[] = {OPT(WEFT_OPT_INT, "small", "9", NULL, 1, 10), NULL};
static const weft_option *const other[] = {OPT(WEFT_OPT_REAL, "small", "9", NULL, 1, 10), NULL};

static config *loaded(const char *text)
{
    config *c = NULL;
    if (config_load_text(text, "job.ini", &c) != WEFT_OK)
        fail_msg("%s", err_text());
    return c;
}

static config *with_types(const char *text)
{
    config *c = loaded(text);
    assert_int_equal(config_add(c, "x", "plugin x", every_type), WEFT_OK);
    return c;
}

static void check_says(const char *text, const char *sentence)
{
    config *c = with_types(text);
    assert_int_equal(config_check(c), WEFT_USAGE);
    assert_string_equal(err_text(), sentence);
    config_destroy(c);
}

TEST(unknown_words_have_a_neighbour)
{
    check_says("[train]\nbacth = 2\n", "job.ini:2: unknown key 'bacth' in [train]; did you mean "
                                       "'batch'?");
    check_says("[train]\n\n[trian]\n", "job.ini:3: unknown section [trian]; did you mean [train]?");
    check_says("[x]\nsmal = 2\n", "job.ini:2: unknown key 'smal' in [x]; did you mean 'small'?");
    check_says("[x]\nzzz = 2\n",
               "job.ini:2: unknown key 'zzz' in [x]; its keys are those of plugin x");
    check_says("[x]\nstrategy = 2\n",
               "job.ini:2: unknown key 'strategy' in [x]; [parallel] has a key of that name");
    check_says("[comm.nothing]\n",
               "job.ini:1: unknown section [comm.nothing]; neither the core nor "
               "a plugin that the job names has it");
    check_says("[train]\nBatch = 2\n", "job.ini:2: unknown key 'Batch' in [train]; did you mean "
                                       "'batch'?");
}

TEST(owners_of_a_section_are_named_once)
{
    static const weft_option alpha = {.key = "alpha", .type = WEFT_OPT_BOOL, .dflt = "off"},
                             omega = {.key = "omega", .type = WEFT_OPT_BOOL, .dflt = "off"},
                             gamma = {.key = "gamma", .type = WEFT_OPT_BOOL, .dflt = "off"};
    config *c = loaded("[y]\nzzz = 2\n");
    assert_int_equal(config_add(c, "y", "plugin a", (const weft_option *[]){&alpha, NULL}),
                     WEFT_OK);
    assert_int_equal(config_add(c, "y", "plugin b", (const weft_option *[]){&omega, NULL}),
                     WEFT_OK);
    assert_int_equal(config_add(c, "y", "plugin a", (const weft_option *[]){&gamma, NULL}),
                     WEFT_OK);
    assert_int_equal(config_check(c), WEFT_USAGE);
    assert_string_equal(err_text(), "job.ini:2: unknown key 'zzz' in [y]; its keys are those of "
                                    "plugin a and plugin b");
    config_destroy(c);
}

TEST(the_first_wrong_line_is_reported)
{
    check_says("[x]\nsmall = 0\n[nowhere]\na = 1\n[x]\nany = z\n",
               "job.ini:2: x.small: '0' is out of range; write 1 to 64");
    check_says(
        "[x]\nsmall = 1\n[nowhere-at-all]\na = 1\n[x]\nany = z\n",
        "job.ini:3: unknown section [nowhere-at-all]; neither the core nor a plugin that the "
        "job names has it");
    const char *const overrides[] = {"train.batch=2", "run.sede=3"};
    config *c = NULL;
    assert_int_equal(config_load(NULL, overrides, 2, &c), WEFT_OK);
    assert_int_equal(config_check(c), WEFT_USAGE);
    assert_string_equal(err_text(), "command line: unknown key 'sede' in [run]; did you mean "
                                    "'seed'?");
    config_destroy(c);
}

/* One value of one option: what the check says of it, NULL for nothing. */
static const struct {
    const char *line, *why;
} unlawful[] = {
    {"flag = maybe", "x.flag: 'maybe' is neither on nor off"},
    {"flag =", "x.flag: the value is empty"},
    {"small = 65", "x.small: '65' is out of range; write 1 to 64"},
    {"small = 1.0", "x.small: '1.0' is not a whole number"},
    {"small = 0x10", "x.small: '0x10' is not a whole number"},
    {"small = 3 4", "x.small: '3 4' is not a whole number"},
    {"small = +3", "x.small: '+3' is not a whole number"},
    {"small = -", "x.small: '-' is not a whole number"},
    {"any = 9223372036854775808", "x.any: '9223372036854775808' does not fit into 64 bits"},
    {"any = 3 # three", "x.any: '3 # three' is not a whole number"},
    {"rate = 1.5", "x.rate: '1.5' is out of range; write 0 to 1"},
    {"rate = -1e-9", "x.rate: '-1e-9' is out of range; write 0 to 1"},
    {"free = 1e999", "x.free: '1e999' does not fit into a double"},
    {"free = 1e-999", "x.free: '1e-999' does not fit into a double"},
    {"free = nan", "x.free: 'nan' is not a number"},
    {"free = inf", "x.free: 'inf' is not a number"},
    {"free = 0x1p3", "x.free: '0x1p3' is not a number"},
    {"free = 1.5e", "x.free: '1.5e' is not a number"},
    {"free = 1.0.0", "x.free: '1.0.0' is not a number"},
    {"free = e", "x.free: 'e' is not a number"},
    {"free =", "x.free: the value is empty"},
    {"form = bf15", "x.form: 'bf15' is none of fp32, bf16, fp16; did you mean 'bf16'?"},
    {"form = double", "x.form: 'double' is none of fp32, bf16, fp16"},
    {"room = 4k",
     "x.room: '4k' is not a number of bytes; write a whole number, optionally with K, M or G"},
    {"room = 4KB",
     "x.room: '4KB' is not a number of bytes; write a whole number, optionally with K, M or G"},
    {"room = K",
     "x.room: 'K' is not a number of bytes; write a whole number, optionally with K, M or G"},
    {"room = -1",
     "x.room: '-1' is not a number of bytes; write a whole number, optionally with K, M or G"},
    {"room = 0", "x.room: '0' is out of range; write at least 1"},
    {"room = 8589934592G", "x.room: '8589934592G' does not fit into 63 bits"},
    {"room = 17179869184G", "x.room: '17179869184G' does not fit into 63 bits"},
    {"wait = 61", "x.wait: '61' is out of range; write 0 to 60"},
    {"wait = 5s", "x.wait: '5s' is not a number"},
    {"betas = 0.9,", "x.betas: '' is not a number"},
    {"betas = 0.9, 1.1", "x.betas: '1.1' is out of range; write 0 to 1"},
    {"betas = 0.9 0.95", "x.betas: '0.9 0.95' is not a number"},
    {"threads = 0", "x.threads: '0' is out of range; write 1 to 256"},
    {"threads = automatic", "x.threads: 'automatic' is not a whole number, nor auto"},
};

TEST(unlawful_values_are_refused)
{
    for (size_t i = 0; i < sizeof unlawful / sizeof *unlawful; i++) {
        char text[128], sentence[256];
        snprintf(text, sizeof text, "[x]\n%s\n", unlawful[i].line);
        snprintf(sentence, sizeof sentence, "job.ini:2: %s", unlawful[i].why);
        check_says(text, sentence);
    }
}

TEST(values_are_read)
{
    config *c = with_types("[x]\nflag = yes\nsmall = 64\nany = -9223372036854775808\nrate = 1\n"
                           "free = -.5E-3\nroom = 3M\nwait = 0.25\nthreads = 8\nform = fp32\n");
    assert_int_equal(config_check(c), WEFT_OK);
    assert_int_equal(config_int(c, "x.flag"), 1);
    assert_int_equal(config_int(c, "x.small"), 64);
    assert_true(config_int(c, "x.any") == INT64_MIN);
    assert_true(config_real(c, "x.rate") == 1.0);
    assert_true(config_real(c, "x.free") == -0.0005);
    assert_int_equal(config_int(c, "x.room"), 3145728);
    assert_true(config_real(c, "x.wait") == 0.25);
    assert_int_equal(config_int(c, "x.threads"), 8);
    assert_string_equal(config_text(c, "x.form"), "fp32");
    assert_string_equal(config_text(c, "x.word"), "hello");
    assert_true(config_given(c, "x.form"));
    assert_false(config_given(c, "x.word"));
    assert_string_equal(config_where(c, "x.word"), "default of x.word");
    config_destroy(c);
}

TEST(defaults_fill_in)
{
    config *c = NULL;
    assert_int_equal(config_load(NULL, NULL, 0, &c), WEFT_OK);
    assert_int_equal(config_check(c), WEFT_OK);
    assert_int_equal(config_int(c, "train.batch"), 32);
    assert_true(config_real(c, "optim.lr") == 6e-4);
    assert_int_equal(config_int(c, "train.loss_scale"), 0);
    assert_string_equal(config_text(c, "model.family"), "gpt2");
    assert_string_equal(config_text(c, "parallel.strategy"), "none");
    assert_null(config_section_at(c, 0));
    config_destroy(c);
}

TEST(core_tables_are_lawful)
{
    for (const config_section *s = config_core_sections(); s->name; s++)
        for (const weft_option *const *o = s->options; *o; o++)
            if (config_option_check(*o) != WEFT_OK)
                fail_msg("[%s]: %s", s->name, err_text());
}

TEST(needed_keys_are_asked_for)
{
    config *c = loaded("[run]\nseed = 4\n");
    assert_int_equal(config_add(c, "comm.acme", "plugin acme", needs), WEFT_OK);
    assert_int_equal(config_check(c), WEFT_USAGE);
    assert_string_equal(err_text(), "job.ini: comm.acme.host is required (plugin acme): help of "
                                    "host");
    config_destroy(c);
    c = loaded("[comm.acme]\nhost = a\n");
    assert_int_equal(config_add(c, "comm.acme", "plugin acme", needs), WEFT_OK);
    assert_int_equal(config_check(c), WEFT_OK);
    config_destroy(c);
}

TEST(owners_may_share_a_key_of_one_type)
{
    config *c = with_types("[x]\nsmall = 11\n");
    assert_int_equal(config_add(c, "x", "plugin y", narrow), WEFT_OK);
    assert_int_equal(config_add(c, "x", "plugin z", other), WEFT_USAGE);
    assert_string_equal(err_text(),
                        "[x] small: plugin x declares it as 'whole number, 1 to 64', plugin z as "
                        "'number, 1 to 10'; the two cannot be used together");
    assert_int_equal(config_check(c), WEFT_USAGE);
    assert_string_equal(err_text(), "job.ini:2: x.small: '11' is out of range; write 1 to 10");
    config_destroy(c);
    c = with_types("");
    assert_int_equal(config_add(c, "x", "plugin y", narrow), WEFT_OK);
    assert_int_equal(config_check(c), WEFT_OK);
    assert_int_equal(config_int(c, "x.small"), 3);
    config_destroy(c);
}

TEST(failures_say_where)
{
    config *c = loaded("[train]\nbatch = 7\n");
    assert_int_equal(config_check(c), WEFT_OK);
    assert_int_equal(config_fail(c, "train.batch", "no multiple of %d", 4), WEFT_USAGE);
    assert_string_equal(err_text(), "job.ini:2: train.batch: no multiple of 4");
    assert_int_equal(config_fail(c, "train.clip", "odd"), WEFT_USAGE);
    assert_string_equal(err_text(), "train.clip (default 1.0): odd");
    config_destroy(c);
}

TEST(a_dump_is_the_same_job)
{
    config *c = with_types("[x]\nword = a;b\nbetas=0.5\n[train]\nbatch = 7\n"), *again = NULL;
    assert_int_equal(config_check(c), WEFT_OK);
    char *first = config_dump(c);
    assert_non_null(strstr(first, "[train]\nbatch = 7\nmicrobatch = 4\n"));
    assert_non_null(strstr(first, "word = a;b\n"));
    assert_int_equal(config_load_text(first, "dump", &again), WEFT_OK);
    assert_int_equal(config_add(again, "x", "plugin x", every_type), WEFT_OK);
    assert_int_equal(config_check(again), WEFT_OK);
    char *second = config_dump(again);
    assert_string_equal(first, second);
    free(first);
    free(second);
    config_destroy(c);
    config_destroy(again);
}

TEST(a_plugin_sees_its_own_keys)
{
    config *c = with_types("[x]\nbetas = 0.1 , 0.2,0.3\nroom = 1G\nsmall = 5\n");
    assert_int_equal(config_check(c), WEFT_OK);
    const weft_component typed = {.struct_size = sizeof typed, .options = every_type};
    const weft_component bare = {.struct_size = sizeof bare};
    const weft_conf *conf = config_conf(c, "x", &typed);
    assert_ptr_equal(conf, config_conf(c, "x", &typed));
    double reals[3] = {0};
    assert_int_equal(conf->reals(conf->ctx, "betas", reals, 3), 3);
    assert_true(reals[0] == 0.1 && reals[1] == 0.2 && reals[2] == 0.3);
    reals[1] = 9;
    assert_int_equal(conf->reals(conf->ctx, "betas", reals, 1), 3);
    assert_true(reals[1] == 9);
    assert_int_equal(conf->integer(conf->ctx, "room"), 1 << 30);
    assert_int_equal(conf->integer(conf->ctx, "threads"), 0);
    assert_true(conf->real(conf->ctx, "rate") == 0.5);
    assert_true(conf->real(conf->ctx, "small") == 5);
    assert_string_equal(conf->text(conf->ctx, "word"), "hello");
    assert_null(conf->text(conf->ctx, "batch"));
    assert_null(conf->text(conf->ctx, NULL));
    assert_int_equal(conf->integer(conf->ctx, "no"), 0);
    assert_ptr_equal(conf->component, &typed);
    conf = config_conf(c, "x", &bare);
    assert_null(conf->text(conf->ctx, "word"));
    config_destroy(c);
}

TEST(unlawful_options_are_told)
{
    static const struct {
        weft_option o;
        const char *sentence;
    } cases[] = {
        {{56, 1, "A", "on", "h", NULL, 0, 0},
         "an option whose key is not made of a-z, 0-9 and '_', "
         "1 to 48 bytes"},
        {{56, 1, NULL, "on", "h", NULL, 0, 0},
         "an option whose key is not made of a-z, 0-9 and "
         "'_', 1 to 48 bytes"},
        {{56, 10, "a", "on", "h", NULL, 0, 0}, "option 'a' has the unknown type 10"},
        {{56, 1, "a", "on", NULL, NULL, 0, 0}, "option 'a' has no line of help"},
        {{56, 5, "a", "on", "h", NULL, 0, 0},
         "option 'a' has no list of choices \"a|b\" (at most "
         "32)"},
        {{56, 5, "a", "on", "h", "on||off", 0, 0},
         "option 'a' has no list of choices \"a|b\" (at "
         "most 32)"},
        {{56, 2, "a", "1", "h", NULL, 3, 2}, "option 'a' has bounds that do not form a range"},
        {{56, 2, "a", "1", "h", NULL, NAN, 2}, "option 'a' has bounds that do not form a range"},
        {{56, 2, "a", "x", "h", NULL, 0, 0},
         "the default of option 'a' is invalid: 'x' is not a "
         "whole number"},
        {{56, 4, "a", "x ;", "h", NULL, 0, 0},
         "the default of option 'a' cannot be written in an "
         "INI file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(config_option_check(&cases[i].o), WEFT_USAGE);
        assert_string_equal(err_text(), cases[i].sentence);
    }
}

TEST(defaults_in_another_spelling)
{
    config *c = with_types("[x]\nbetas = 0.90,0.950\nsmall = 5\n");
    assert_int_equal(config_check(c), WEFT_OK);
    assert_true(config_is_default(c, "x.betas"));
    assert_int_equal(config_set(c, "x.betas", "0.9, 0.95, 1", NULL), WEFT_OK);
    assert_false(config_is_default(c, "x.betas"));
    config_destroy(c);
}

TEST(nearest_words)
{
    static const char *const words[] = {"batch", "microbatch", "tp", "pp", "eval_every"};
    assert_string_equal(config_nearest("bacth", words, 5), "batch");
    assert_string_equal(config_nearest("batc", words, 5), "batch");
    assert_string_equal(config_nearest("eval-every", words, 5), "eval_every");
    assert_string_equal(config_nearest("micorbtach", words, 5), "microbatch");
    assert_string_equal(config_nearest("tp", words, 5), "tp");
    assert_null(config_nearest("dp", words, 5));
    assert_null(config_nearest("", words, 5));
    assert_null(config_nearest("zebra", words, 5));
    char text[200];
    memset(text, 'a', sizeof text);
    text[199] = 0;
    assert_null(config_nearest(text, words, 5));
}
