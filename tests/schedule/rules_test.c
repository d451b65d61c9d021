/* tests/schedule/rules_test.c: does [comm] algorithm name the algorithm that it says, and is what
 * makes no sense refused with a sentence that helps? */
#include "base/err.h"

#include <string.h>
#include <test.h>

#include "schedule/algorithm.h"

static const char *rule(const char *rules, uint32_t kind, uint64_t bytes)
{
    sched_request r = {.kind = kind, .dtype = WEFT_BF16, .count = bytes / 2, .ranks = 4};
    assert_int_equal(sched_rules_check(NULL, NULL, rules), WEFT_OK);
    return sched_rule(rules, &r);
}

TEST(one_word)
{
    assert_string_equal(rule("auto", WEFT_ALL_REDUCE, 8), "auto");
    assert_string_equal(rule("ring", WEFT_ALL_REDUCE, 8), "ring");
    assert_string_equal(rule("ring", WEFT_BROADCAST, 1 << 30), "ring"); /* refused by name later */
}

TEST(first_match)
{
    const char *text =
        "all_reduce:0-64K=doubling,  all_reduce : 64K-1M = double_tree ,\t"
        "all_reduce=ring, reduce_scatter:1G-=halving, *:0-7=pairwise, all_gather=auto,"
        "*=pairwise";
    assert_string_equal(rule(text, WEFT_ALL_REDUCE, 0), "doubling");
    assert_string_equal(rule(text, WEFT_ALL_REDUCE, 64 << 10), "doubling"); /* the first of two */
    assert_string_equal(rule(text, WEFT_ALL_REDUCE, (64 << 10) + 2), "double_tree");
    assert_string_equal(rule(text, WEFT_ALL_REDUCE, 1 << 20), "double_tree");
    assert_string_equal(rule(text, WEFT_ALL_REDUCE, (1 << 20) + 2), "ring");
    assert_string_equal(rule(text, WEFT_REDUCE_SCATTER, 1 << 30), "halving");
    assert_string_equal(rule(text, WEFT_REDUCE_SCATTER, (1 << 30) - 2), "pairwise");
    assert_string_equal(rule(text, WEFT_ALL_GATHER, 6), "pairwise");
    assert_string_equal(rule(text, WEFT_ALL_GATHER, 8), "auto");
    assert_string_equal(rule("all_reduce=ring", WEFT_ALL_GATHER, 8), "auto"); /* no rule holds */
}

TEST(refused)
{
    static const char *const bad[][2] = {
        {"rign", "'rign' is none of the algorithms auto, ring, halving"},
        {"", "'' is none of the algorithms"},
        {"ring, tree", "'ring' is not a rule; write KIND=NAME"},
        {"all_reduce=ring, tree", "'tree' is not a rule"},
        {"all_reduce=rign", "; did you mean 'ring'?"},
        {"all_redcue=ring", "'all_redcue' is none of all_reduce, reduce_scatter"},
        {"all_redcue=ring", "; did you mean 'all_reduce'?"},
        {"barrier=ring", "is none of"},
        {"send=pairwise", "is none of"},
        {"all_reduce:64K=ring", "'64K' is not a range of sizes"},
        {"all_reduce:64K-1K=ring", "is not a range"},
        {"all_reduce:0-64Q=ring", "is not a range"},
        {"all_reduce:-64K=ring", "is not a range"},
        {"all_reduce:0-99999999999999999999=ring", "is not a range"},
        {"all_reduce:0-99999999999999999G=ring", "is not a range"},
        {"all_reduce:0-1K", "is not a rule"},
        {"all_reduce=", "'' is none of the algorithms"},
        {"=ring", "'' is none of all_reduce"},
        {",", "'' is not a rule"},
        {"all_gather=one_shot", "one_shot has no all_gather; use one of: auto, ring"},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sched_request r = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .ranks = 2};
        assert_int_equal(sched_rules_check(NULL, NULL, bad[i][0]), WEFT_USAGE);
        if (!strstr(err_text(), bad[i][1]))
            fail_msg("'%s': %s", bad[i][0], err_text());
        assert_non_null(sched_rule(bad[i][0], &r)); /* and no crash */
    }
    char text[4096];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(sched_rules_check(NULL, NULL, text), WEFT_USAGE);
    text[100] = '=';
    assert_int_equal(sched_rules_check(NULL, NULL, text), WEFT_USAGE);
}

/* The help of the key names every algorithm that can be asked for. */
TEST(help_is_whole)
{
    const char *help = "";
    for (const config_section *s = config_core_sections(); s->name; s++)
        for (uint32_t k = 0; !strcmp(s->name, "comm") && s->options[k]; k++)
            if (!strcmp(s->options[k]->key, "algorithm"))
                help = s->options[k]->help;
    for (uint32_t i = 0; sched_algorithms[i]; i++)
        if (sched_algorithms[i]->kinds != SCHED_ON(WEFT_BARRIER))
            assert_non_null(strstr(help, sched_algorithms[i]->name));
}
