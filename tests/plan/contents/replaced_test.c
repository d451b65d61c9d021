/* What replacements leave without readers: is it in no list, and are its parameters nowhere?
 *
 * A strategy lets the residual stream pass by the feed-forward of each block, or of the first: the
 * sum at its end becomes a copy. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job.h"

#include <test.h>

#define JOB TINY "batch = 4\nmicrobatch = 1\n[parallel]\nstrategy = dp\n"

static bool first_alone;

/* bias_residual(what the feed-forward gives, bias, x) becomes x. */
static weft_status emit(void *user, const weft_builder *b)
{
    const weft_opcall *old = user;
    weft_tensor x;
    weft_status st = b->op(b->ctx, "copy", NULL, 0, &old->in[2], 1, 0, &x, 1);
    return st != WEFT_OK ? st : b->assign(b->ctx, old->out[0], x, 0);
}

static weft_status pass_by(const weft_view *v, const weft_edits *e)
{
    weft_status st = WEFT_OK;
    bool inside = false, done = false;
    const uint32_t ops = v->ops(v->ctx);
    for (uint32_t i = 0; st == WEFT_OK && i < ops; i++) {
        const char *id;
        weft_opcall call = {.struct_size = sizeof call};
        st = v->op(v->ctx, i, &id, &call);
        inside |= !strcmp(id, "gelu");
        if (st != WEFT_OK || !inside || strcmp(id, "bias_residual") || (done && first_alone))
            continue;
        st = e->replace(e->ctx, i, 0, emit, &call);
        inside = false;
        done = true;
    }
    return st;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *v,
                        const weft_edits *e)
{
    (void)module, (void)conf;
    const bool dp = v->mesh(v->ctx, "dp") > 1;
    weft_status st = WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT && dp)
        st = e->split(e->ctx, "tokens|targets|positions", "tokens", "dp", 0);
    if (phase == WEFT_PHASE_SPLIT && st == WEFT_OK)
        st = pass_by(v, e);
    if (phase == WEFT_PHASE_SYNC && dp)
        st = e->sync(e->ctx, "*", "dp", WEFT_SYNC_LAST, 0, 0);
    return st;
}

static uint32_t pieces_like(const planned *j, const char *part)
{
    uint32_t found = 0;
    for (uint32_t s = 0; s < j->plans.n; s++)
        for (uint32_t i = 0; i < j->plans.at[s].pieces.n; i++)
            found += strstr(j->plans.at[s].pieces.at[i].name, part) != NULL;
    return found;
}

/* Instructions of an op that the lists of all stages call. */
static uint32_t calls_of(const planned *j, const char *id)
{
    uint32_t found = 0;
    for (uint32_t s = 0; s < j->plans.n; s++) {
        const plan *p = &j->plans.at[s];
        const plan_list *lists[] = {&p->step, &p->eval};
        for (uint32_t i = 0; i < 2; i++)
            for (uint32_t k = 0; k < lists[i]->entries.n; k++) {
                const plan_entry *e = &lists[i]->entries.at[k];
                const plan_segment *g = e->kind == ENTRY_CALL ? &p->segments.at[e->what] : NULL;
                for (uint32_t x = 0; g && x < g->n; x++)
                    found += !strcmp(p->kernels.at[p->instrs.at[g->first + x].kernel].spec.id, id);
            }
    }
    return found;
}

static void check(const char *text, uint32_t ranks, bool one)
{
    static const weft_strategy table = {.struct_size = sizeof table, .edit = edit};
    const host_component c = {
        .kind = "parallel", .iface = "weft.strategy/1", .name = "by", .table = &table};
    planned whole, less;
    first_alone = one;
    if (planned_make(text, ranks, SPEC_TRAIN, &whole) != WEFT_OK ||
        planned_with(text, ranks, &c, NULL, &less) != WEFT_OK)
        fail_msg("%u ranks of\n%s\nare refused: %s", ranks, text, err_text());
    const uint32_t blocks = 2, left = one ? 1 : 0;
    assert_int_equal(pieces_like(&less, ".ffn."), left * pieces_like(&whole, ".ffn.") / blocks);
    assert_int_equal(pieces_like(&less, ".ln2."), left * pieces_like(&whole, ".ln2.") / blocks);
    assert_int_equal(pieces_like(&less, ".attn."), pieces_like(&whole, ".attn."));
    assert_int_equal(pieces_like(&less, "block.0.ffn."), 0);
    assert_int_equal(calls_of(&less, "gelu"), left * calls_of(&whole, "gelu") / blocks);
    assert_int_equal(calls_of(&less, "gelu.dx"), left * calls_of(&whole, "gelu.dx") / blocks);
    assert_int_equal(calls_of(&less, "attention"), calls_of(&whole, "attention"));
    assert_true(calls_of(&whole, "gelu") > 0);
    assert_true(less.plan->param_elements < whole.plan->param_elements);
    assert_true(less.plan->flops_step < whole.plan->flops_step);
    assert_true(less.plan->bytes.peak < whole.plan->bytes.peak);
    assert_int_equal(plan_check(&less.plans), WEFT_OK);
    planned_free(&whole);
    planned_free(&less);
}

TEST(is_nowhere)
{
    for (int one = 0; one < 2; one++) {
        check(JOB, 1, one);
        check(JOB, 2, one);
        check(JOB "[optim]\nplacement = zero3\n", 2, one);
        check(TINY "batch = 4\nmicrobatch = 1\nrecompute = block\n[parallel]\nstrategy = dp\n", 2,
              one);
        check(TINY "batch = 4\nmicrobatch = 1\n[parallel]\nstrategy = dp, pp\ndp = 1\npp = 2\n", 2,
              one);
    }
}
