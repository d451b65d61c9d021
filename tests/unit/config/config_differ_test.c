/* Which keys of a saved job bind a job that goes on, and when are two values the same? */
#include <stdlib.h>
#include <string.h>

#include "config/differ.h"

#include <test.h>

static const weft_option rate = {
    sizeof(weft_option), WEFT_OPT_REAL, "rate", "0.5", "help", NULL, 0, 1};
static const weft_option pair = {
    sizeof(weft_option), WEFT_OPT_REALS, "pair", "1, 2", "help", NULL, 0, 0};
static const weft_option bytes = {
    sizeof(weft_option), WEFT_OPT_BYTES, "room", "4K", "help", NULL, 0, 0};
static const weft_option *const of_rule[] = {&rate, &pair, &bytes, NULL};
static const weft_option *const of_placement[] = {&rate, NULL};

static config *load(const char *text, const weft_option *const *binding,
                    const weft_option *const *free_ones)
{
    config *c;
    assert_int_equal(config_load_text(text, "job.ini", &c), WEFT_OK);
    assert_int_equal(config_add(c, "optim", "plugin one", binding), WEFT_OK);
    config_set_effect(c, "optim", binding, CONFIG_BINDS);
    assert_int_equal(config_add(c, "parallel", "plugin two", free_ones), WEFT_OK);
    assert_int_equal(config_check(c), WEFT_OK);
    return c;
}

/* The differences as "section.key saved present;", the saved job as it is read from a manifest. */
static char *differences(const char *saved, const char *present)
{
    config *a, *b = load(present, of_rule, of_placement);
    config_change x[16];
    static char out[2048];
    out[0] = 0;
    assert_int_equal(config_load_text(saved, "manifest", &a), WEFT_OK);
    uint32_t n = config_changes(a, b, x, 16);
    assert_in_range(n, 0, 16);
    for (uint32_t i = 0; i < n; i++) {
        size_t at = strlen(out);
        snprintf(out + at, sizeof out - at, "%s.%s %s %s;", x[i].section, x[i].key, x[i].saved,
                 x[i].present);
    }
    assert_int_equal(config_changes(a, b, x, 0), n);
    config_destroy(a);
    config_destroy(b);
    return out;
}

TEST(same_values)
{
    assert_string_equal(differences("", ""), "");
    assert_string_equal(differences("[optim]\nlr = 1e-3\n", "[optim]\nlr = 0.001\n"), "");
    assert_string_equal(differences("[optim]\nlr = 6e-4\n", ""), ""); /* its default */
    assert_string_equal(differences("", "[optim]\nlr = 0.0006\n"), "");
    assert_string_equal(differences("[comm]\nfeedback = yes\n", "[comm]\nfeedback = 1\n"), "");
    assert_string_equal(differences("[train]\nbatch = 032\n", ""), "");
    assert_string_equal(differences("[optim]\npair = 1.0,2e0\n", "[optim]\npair = 1, 2\n"), "");
    assert_string_equal(differences("[optim]\nroom = 4096\n", ""), "");
    assert_string_equal(differences("[train]\nloss_scale = auto\n", ""), "");
    /* A section and a key that are no more. */
    assert_string_equal(differences("[gone]\nx = 1\n[optim]\ngone = 2\n", ""), "");
}

TEST(other_values)
{
    assert_string_equal(differences("[run]\nseed = 2\n", ""), "run.seed 2 1;");
    assert_string_equal(differences("", "[run]\nseed = 2\n"), "run.seed 1 2;");
    assert_string_equal(differences("[optim]\npair = 1, 2, 3\n", ""), "optim.pair 1, 2, 3 1, 2;");
    assert_string_equal(differences("[optim]\nroom = 4M\n", ""), "optim.room 4M 4K;");
    assert_string_equal(differences("[train]\nloss_scale = 65536\n", ""),
                        "train.loss_scale 65536 auto;");
    assert_string_equal(differences("[train]\nbatch = many\n", ""), "train.batch many 32;");
    assert_string_equal(differences("[optim]\nlr = 1\nrate = 0.1\n[train]\nclip = 2\n", ""),
                        "train.clip 2 1.0;optim.lr 1 6e-4;optim.rate 0.1 0.5;");
}

TEST(another_rule)
{
    assert_string_equal(differences("[optim]\nrule = sgd\nrate = 0.1\nlr = 1\n", ""),
                        "optim.rule sgd adamw;optim.lr 1 6e-4;");
}

TEST(free_keys)
{
    assert_string_equal(
        differences("[run]\nsteps = 7\nout = x\ndeterministic = on\n[parallel]\nstrategy = tp\n"
                    "rate = 0.1\n[device]\nplugin = cuda\n[checkpoint]\nevery = 1\n[log]\n"
                    "level = warn\n[data]\nvalid = v\n[comm]\nplugin = tcp\nnear = shm\n[train]\n"
                    "microbatch = 1\nbucket_mb = 1\nrecompute = block\n[optim]\nplacement = zero\n",
                    ""),
        "");
}

/* The column of the core's keys says which bind and which one rank alone takes, too; of what
 * plugins have it says nothing. */
TEST(columns)
{
    uint32_t binding = 0, all = 0;
    for (const config_section *s = config_core_sections(); s->name; s++)
        for (const weft_option *const *o = s->options; *o; o++, all++) {
            bool binds = config_option_effect(*o) & CONFIG_BINDS;
            binding += binds;
            if (!strcmp(s->name, "model"))
                assert_true(binds);
            const bool alone = config_option_effect(*o) & CONFIG_ALONE;
            if (!strcmp(s->name, "model") || !strcmp(s->name, "data"))
                assert_true(alone);
            if (!strcmp(s->name, "comm") || !strcmp(s->name, "parallel"))
                assert_false(alone); /* one rank does without */
            assert_true(alone || !binds || !strcmp(s->name, "comm"));
            if (!strcmp(s->name, "log") || !strcmp(s->name, "checkpoint") ||
                !strcmp(s->name, "device") || !strcmp(s->name, "parallel"))
                assert_false(binds);
        }
    assert_in_range(binding, 15, all - 20);
    assert_int_equal(config_option_effect(&rate), 0);
}

TEST(remark)
{
    config *c, *again;
    assert_int_equal(config_load_text("[run]\nseed = 3\n", "job.ini", &c), WEFT_OK);
    config_remark(c, "data.train holds 5 tokens");
    char *text = config_dump(c);
    assert_non_null(strstr(text, "\n; data.train holds 5 tokens\n"));
    assert_int_equal(config_load_text(text, "dump", &again), WEFT_OK);
    assert_int_equal(config_check(again), WEFT_OK);
    free(text);
    config_destroy(c);
    config_destroy(again);
}
