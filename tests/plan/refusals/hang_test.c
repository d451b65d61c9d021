/* Hand-written lists of two ranks: those that would hang are errors that name the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "plan/plan.h"

#include <cmocka.h>

/* Two ranks, two channels over one transport, a collective on each. */
typedef struct hand {
    spec spec;
    plan plan;
    plan_set set;
    weft_link_table link;
    host_component wire;
    plan_channel channels[2];
    plan_collective collectives[2];
    plan_entry entries[8];
} hand;

static void begin(hand *h, uint32_t at_once)
{
    memset(h, 0, sizeof *h);
    h->link = (weft_link_table){.struct_size = sizeof h->link, .channels = at_once};
    h->wire = (host_component){.name = "wire", .table = &h->link};
    h->spec.ranks = 2;
    h->spec.mesh = (graph_mesh){1, {"row"}, {2}};
    h->spec.links[0].c = &h->wire;
    h->channels[0] = (plan_channel){.name = "row.left"};
    h->channels[1] = (plan_channel){.name = "row.right"};
    for (uint32_t i = 0; i < 2; i++)
        h->collectives[i] = (plan_collective){.name = i ? "right" : "left",
                                              .channel = i,
                                              .kind = WEFT_ALL_REDUCE,
                                              .redop = WEFT_SUM,
                                              .dtype = WEFT_F32,
                                              .count = 10};
    h->plan = (plan){.spec = &h->spec, .step.name = "step", .eval.name = "eval"};
    h->plan.channels.at = h->channels;
    h->plan.collectives.at = h->collectives;
    h->plan.channels.n = h->plan.collectives.n = 2;
    h->plan.step.entries.at = h->entries;
}

/* "S0 W0": start and wait for collectives, one after another. */
static weft_status check(hand *h, const char *words)
{
    uint32_t *n = &h->plan.step.entries.n;
    for (*n = 0; *words; words += words[2] ? 3 : 2, ++*n) {
        uint32_t what = (uint32_t)(words[1] - '0');
        h->entries[*n] = (plan_entry){.kind = words[0] == 'S' ? ENTRY_START : ENTRY_WAIT,
                                      .what = what,
                                      .name = h->collectives[what].name};
    }
    h->set = (plan_set){.spec = &h->spec, .stage_axis = -1, .n = 1, .at = &h->plan};
    return plan_check(&h->set);
}

static void lawful(void **state)
{
    (void)state;
    static const char *const lists[] = {"S0 W0",       "S0 W0 S1 W1", "S0 S1 W0 W1",
                                        "S0 S1 W1 W0", "S0 S1 W1",    "S0 S0 W0"};
    hand h;
    for (uint32_t at_once = 0; at_once < 3; at_once++)
        for (uint32_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            begin(&h, at_once);
            if (check(&h, lists[i]) != WEFT_OK)
                fail_msg("'%s' with %u channels at once: %s", lists[i], at_once, err_text());
        }
}

static void hanging(void **state)
{
    (void)state;
    static const char *const lists[] = {"W0", "W0 S0", "S1 W0", "S0 W1 S1"};
    hand h;
    for (uint32_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        begin(&h, 0);
        if (check(&h, lists[i]) != WEFT_USAGE)
            fail_msg("'%s' was let through", lists[i]);
        assert_non_null(strstr(err_text(), "list step would hang"));
        assert_non_null(strstr(err_text(), "rank 0 is at entry "));
        assert_non_null(strstr(err_text(), "rank 1 is at entry "));
    }
}

/* Two groups over the same ranks, started in opposite order: each group's own order is valid. */
static void opposite_orders(void **state)
{
    (void)state;
    hand h;
    begin(&h, 0);
    plan two[2];
    plan_entry entries[2][4];
    for (uint32_t r = 0; r < 2; r++) {
        two[r] = h.plan;
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t what = i < 2 ? r : 1 - r;
            entries[r][i] = (plan_entry){.kind = i % 2 ? ENTRY_WAIT : ENTRY_START,
                                         .what = what,
                                         .name = h.collectives[what].name};
        }
        two[r].step.entries.at = entries[r];
        two[r].step.entries.n = 4;
    }
    plan_set set = {.spec = &h.spec, .n = 2, .at = two};
    assert_int_equal(plan_check(&set), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "rank 0 is at entry 1, left; rank 1 is at entry 1, "
                                       "right"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lawful), cmocka_unit_test(hanging),
                                       cmocka_unit_test(opposite_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
