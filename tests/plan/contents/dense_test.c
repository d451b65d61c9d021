/* Inputs that are vectors: a model family from outside (acme.mlp) whose inputs are the fields of
 * the data. Each input has the rows of its rank and micro-batch, and the lists of every layout are
 * simulated (machine.h). */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job.h"
#include "machine.h"

#include <test.h>

static const weft_field fields[] = {
    {.name = "weights", .dtype = WEFT_F32, .rank = 1, .axes = {{"place", 5}}},
    {.name = "targets", .dtype = WEFT_I32},
    {.name = "pixels", .dtype = WEFT_F32, .rank = 2, .axes = {{"row", 4}, {"column", 6}}},
    {.name = "mask", .dtype = WEFT_U8, .rank = 1, .axes = {{"row", 4}}},
};
static const weft_data_info data = {
    .struct_size = sizeof data, .rows = 1, .vocab = 11, .nfields = 4, .fields = fields};

#define MLP                                                                                        \
    "[model]\nfamily = acme.mlp\nlayers = 2\nembed = 10\nffn = 36\n[train]\nclip = 1\nbatch = "    \
    "24\n"

static void make(const char *text, uint32_t ranks, planned *j)
{
    if (planned_of(text, ranks, &data, j) != WEFT_OK)
        fail_msg("%u ranks of\n%s\nare refused: %s", ranks, text, err_text());
}

static const plan_input_slot *slot(const plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->inputs.n; i++)
        if (!strcmp(p->inputs.at[i].name, name))
            return &p->inputs.at[i];
    return NULL;
}

/* Bytes of an input of one micro-batch on one rank, and its element type. */
static void expect_slot(const plan *p, const char *name, uint32_t dtype, uint64_t elements)
{
    const plan_input_slot *x = slot(p, name);
    if (!x)
        fail_msg("the plan has no input %s", name);
    assert_int_equal(x->dtype, dtype);
    assert_int_equal(x->elements, elements);
    assert_int_equal(x->bytes, elements * weft_dtype_size(dtype));
    assert_true(x->stride >= x->bytes);
}

TEST(inputs_are_the_fields)
{
    static const struct {
        const char *lines;
        uint32_t ranks, rows; /* of one rank in one micro-batch */
        uint32_t dtype, passes;
    } jobs[] = {
        {"microbatch = 24\nprecision = fp32\n", 1, 24, WEFT_F32, 1},
        {"microbatch = 4\nprecision = fp32\n", 1, 4, WEFT_F32, 6},
        {"microbatch = 4\nprecision = bf16\n", 1, 4, WEFT_BF16, 6},
        {"microbatch = 3\nprecision = fp16\n[parallel]\nstrategy = dp\n", 4, 3, WEFT_F16, 2},
        {"microbatch = 6\nprecision = fp32\n[parallel]\nstrategy = tp, dp\ntp = 2\n", 4, 6,
         WEFT_F32, 2},
        {"microbatch = 1\nprecision = fp32\n[parallel]\nstrategy = dp, rows\ndp = 2\nrows = 3\n", 6,
         1, WEFT_F32, 4},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char text[512];
        planned j;
        snprintf(text, sizeof text, "%s%s", MLP, jobs[i].lines);
        make(text, jobs[i].ranks, &j);
        const uint64_t rows = jobs[i].rows;
        expect_slot(j.plan, "weights", jobs[i].dtype, rows * 5);
        expect_slot(j.plan, "pixels", jobs[i].dtype, rows * 24);
        expect_slot(j.plan, "targets", WEFT_I32, rows);
        assert_null(slot(j.plan, "mask"));
        assert_int_equal(j.plan->inputs.n, 3);
        assert_int_equal(j.plan->micro_batches, jobs[i].passes);
        assert_int_equal(j.spec.sequence, 1);
        planned_free(&j);
    }
}

TEST(inputs_of_stages)
{
    planned j;
    make(MLP "microbatch = 4\nprecision = fp32\n[parallel]\nstrategy = pp\n", 2, &j);
    assert_int_equal(j.plans.n, 2);
    expect_slot(&j.plans.at[0], "weights", WEFT_F32, 4 * 5);
    expect_slot(&j.plans.at[0], "pixels", WEFT_F32, 4 * 24);
    expect_slot(&j.plans.at[1], "targets", WEFT_I32, 4);
    planned_free(&j);
}

/* No gradient of the data itself is computed: one product forward and one backward a field. */
TEST(no_gradient_of_data)
{
    planned j;
    machine *m;
    make(MLP "microbatch = 4\nprecision = fp32\n", 1, &j);
    machine_team(j.plan, 0, &m);
    const weft_tensor pixels = graph_find(&m->g, "pixels");
    uint32_t forward = 0, weights = 0, inputs = 0;
    for (uint32_t i = 0; i < m->g.nodes.n; i++) {
        const graph_node *n = &m->g.nodes.at[i];
        const bool reads = n->in[0] == pixels || (n->nin > 1 && n->in[1] == pixels);
        forward += reads && !strcmp(n->id, "linear");
        weights += reads && !strcmp(n->id, "linear.dw");
        inputs += n->block == graph_tensor_at(&m->g, pixels)->block && !strcmp(n->id, "linear.dx");
    }
    assert_int_equal(forward, 1);
    assert_int_equal(weights, 1);
    assert_int_equal(inputs, 0);
    machine_dismiss(m);
    planned_free(&j);
}

static void walk_all(const char *lines, uint32_t ranks)
{
    char text[512];
    planned j;
    snprintf(text, sizeof text, "%s%s", MLP, lines);
    make(text, ranks, &j);
    machine_walk_all(&j.plans, j.plan);
    planned_free(&j);
}

TEST(every_list_is_simulated)
{
    walk_all("microbatch = 24\nprecision = fp32\n", 1);
    walk_all("microbatch = 4\nprecision = bf16\n", 1);
    walk_all("microbatch = 4\nprecision = fp16\n[parallel]\nstrategy = dp\n", 2);
    walk_all("microbatch = 2\nbucket_mb = 0.001\n[parallel]\nstrategy = dp\n", 3);
    walk_all("microbatch = 2\nbucket_mb = 0.001\n[parallel]\nstrategy = dp, rows\ndp = 2\nrows = 3"
             "\n[optim]\nplacement = zero2\n",
             6);
}

static void refused(const char *lines, const weft_data_info *d, const char *says)
{
    char text[512];
    planned j;
    snprintf(text, sizeof text, "%s%s", MLP, lines);
    err_clear();
    assert_int_not_equal(planned_of(text, 1, d, &j), WEFT_OK);
    if (!strstr(err_text(), says))
        fail_msg("expected '%s' in: %s", says, err_text());
    planned_free(&j);
}

TEST(what_cannot_be_is_said)
{
    weft_data_info d = data;
    refused("sequence = 4\n", &data, "a sample of the data has 1 rows; leave the key out");
    refused("layers = 0\n", &data, "layers");
    d.nfields = 2;
    d.fields = fields + 1;
    planned j; /* pixels and targets are enough */
    assert_int_equal(planned_of(MLP "microbatch = 4\n", 1, &d, &j), WEFT_OK);
    assert_int_equal(j.spec.model.params, 24 * 10 + 10 + 2 * (2 * 360 + 36 + 10) + 11 * 11);
    planned_free(&j);
    d.nfields = 1;
    refused("microbatch = 4\n", &d, "at least one field of WEFT_F32");
    d.fields = fields;
    refused("microbatch = 4\n", &d, "in a field 'targets'");
    d = data;
    d.vocab = 0;
    refused("microbatch = 4\n", &d, "the class of each row");
    d = data;
    const weft_field twice[] = {{.name = "x", .dtype = WEFT_F32, .rank = 1, .axes = {{"embed", 5}}},
                                fields[1]};
    d.fields = twice;
    d.nfields = 2;
    refused("microbatch = 4\n", &d, "has the axis 'embed' twice");
}
