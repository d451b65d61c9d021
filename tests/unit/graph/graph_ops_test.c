/* Do the ops that come with weft make the right shapes, and refuse the wrong ones in a useful
 * sentence? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"

static const graph_mesh alone = {0};

/* "bf16 tokens=8,embed=4" as a shape; the names live in `text`. */
static weft_shape parse(const char *spec, char text[128])
{
    static const struct {
        const char *word;
        uint32_t dtype;
    } types[] = {{"f32", WEFT_F32},
                 {"bf16", WEFT_BF16},
                 {"f16", WEFT_F16},
                 {"i32", WEFT_I32},
                 {"i64", WEFT_I64}};
    weft_shape s = {0};
    snprintf(text, 128, "%s", spec);
    char *p = strchr(text, ' ');
    if (p)
        *p++ = 0;
    for (size_t i = 0; i < 5; i++)
        if (!strcmp(text, types[i].word))
            s.dtype = types[i].dtype;
    for (char *axis = p ? strtok(p, ",") : NULL; axis; axis = strtok(NULL, ",")) {
        char *equal = strchr(axis, '=');
        *equal = 0;
        s.axes[s.rank++] = (weft_axis){axis, strtoll(equal + 1, NULL, 10)};
    }
    return s;
}

static void print(const weft_shape *s, char *out, size_t cap)
{
    static const char *const words[] = {"?", "f32", "bf16", "f16", "i32"};
    size_t used = (size_t)snprintf(out, cap, "%s", words[s->dtype]);
    for (uint32_t i = 0; i < s->rank; i++)
        used += (size_t)snprintf(out + used, cap - used, "%c%s=%lld", i ? ',' : ' ',
                                 s->axes[i].name, (long long)s->axes[i].size);
}

typedef struct infer_case {
    const char *id;
    const char *in[7];
    const char *out;  /* shapes joined by " | " */
    const char *says; /* instead: part of the refusal */
} infer_case;

#define T "tokens=8"
#define X "f32 tokens=8,embed=4"
static const infer_case cases[] = {
    {"linear", {X, "f32 ffn=16,embed=4"}, "f32 tokens=8,ffn=16", NULL},
    {"linear",
     {"bf16 " T ",embed=4", "bf16 three=3,heads=2,dim=2,embed=4", "bf16 three=3,heads=2,dim=2"},
     "bf16 tokens=8,three=3,heads=2,dim=2",
     NULL},
    {"linear", {"f32 " T ",heads=2,dim=2", "f32 embed=4,heads=2,dim=2"}, X, NULL},
    {"linear",
     {X, "f32 ffn=16,embed=5"},
     NULL,
     "x[t,I..] w[O..,I..] b?[O..] -> y[t,O..]: w, which is f32 [ffn 16, embed 5], does not "
     "fit x, which is f32 [tokens 8, embed 4]"},
    {"linear",
     {X, "f32 embed=4,ffn=16"},
     NULL,
     "w, which is f32 [embed 4, ffn 16], does not fit x"},
    {"linear", {X, "f32 ffn=16,channel=4"}, NULL, "does not fit x"},
    {"linear", {X, "f32 embed=4"}, NULL, "w, which is f32 [embed 4], does not fit x"},
    {"linear",
     {X, "bf16 ffn=16,embed=4"},
     NULL,
     "w, which is bf16 [ffn 16, embed 4], does not fit"},
    {"linear", {"i32 " T ",embed=4", "f32 ffn=16,embed=4"}, NULL, "x cannot be i32"},
    {"linear", {"f32 " T, "f32 ffn=16,embed=4"}, NULL, "x cannot be f32 [tokens 8]"},
    {"linear", {X, "f32 ffn=16,embed=4", "f32 ffn=8"}, NULL, "b, which is f32 [ffn 8], does not"},
    {"linear", {X}, NULL, "1 inputs were given"},
    {"linear", {X, "f32 tokens=9,embed=4"}, NULL, "two axes named 'tokens'"},
    {"linear",
     {X, "f32 a=1,b=1,c=1,d=1,e=1,f=1,g=1,embed=4", "f32 a=1,b=1,c=1,d=1,e=1,f=1,g=1"},
     "f32 tokens=8,a=1,b=1,c=1,d=1,e=1,f=1,g=1",
     NULL},
    {"linear.dx", {"f32 " T ",ffn=16", "f32 ffn=16,embed=4"}, X, NULL},
    {"linear.dx", {"f32 " T ",ffn=16", "f32 ffn=15,embed=4"}, NULL, "does not fit dy"},
    {"linear.dw", {"f32 " T ",ffn=16", X}, "f32 ffn=16,embed=4", NULL},
    {"linear.dw", {"f32 tokens=9,ffn=16", X}, NULL, "does not fit dy"},
    {"linear.dw",
     {"f32 " T ",a=1,b=1,c=1,d=1", "f32 " T ",e=1,f=1,g=1,h=1,i=1"},
     NULL,
     "dw would have more than 8 axes"},
    {"bmm",
     {"bf16 experts=3," T ",embed=4", "bf16 experts=3,ffn=16,embed=4"},
     "bf16 experts=3,tokens=8,ffn=16",
     NULL},
    {"bmm",
     {"f32 a=2,b=3," T ",embed=4", "f32 a=2,b=3,ffn=16,embed=4"},
     "f32 a=2,b=3,tokens=8,ffn=16",
     NULL},
    {"bmm", {X, "f32 ffn=16,embed=4"}, NULL, "x cannot be f32 [tokens 8, embed 4]"},
    {"bmm", {"f32 e=3," T ",embed=4", "f32 e=2,ffn=16,embed=4"}, NULL, "does not fit x"},
    {"bmm", {"f32 e=3," T ",embed=4", "f32 e=3,tokens=8,embed=4"}, NULL, "two axes named"},
    {"bmm.dx",
     {"f32 e=3," T ",ffn=16", "f32 e=3,ffn=16,embed=4"},
     "f32 e=3,tokens=8,embed=4",
     NULL},
    {"bmm.dw", {"f32 e=3," T ",ffn=16", "f32 e=3," T ",embed=4"}, "f32 e=3,ffn=16,embed=4", NULL},
    {"random", {"i64", "bf16 " T ",embed=4"}, X, NULL},
    {"random", {"i64", "f32 " T}, "f32 tokens=8", NULL},
    {"random", {"f32", "bf16 ffn=3,embed=4"}, "f32 ffn=3,embed=4", NULL},
    {"random", {"f32", X}, NULL, "the time is not that of f32 [tokens 8, embed 4]"},
    {"random", {"i64", "f32 ffn=3,embed=4"}, NULL, "the time is not that of f32 [ffn 3, embed 4]"},
    {"random", {"i64", "f32 embed=4,tokens=8"}, NULL, "the input 'first_token' for tensors whose"},
    {"random", {"i32", X}, NULL, "time cannot be i32 []"},
    {"random", {X}, NULL, "1 inputs were given"},
    {"dropout", {X, "i64"}, X, NULL},
    {"dropout",
     {"bf16 " T ",heads=2,dim=2", "i64", "bf16 heads=2,dim=2"},
     "bf16 tokens=8,heads=2,dim=2",
     NULL},
    {"dropout", {X, "i64", "f32 embed=4", X}, X, NULL},
    {"dropout", {X, "i64", "f32 embed=5"}, NULL, "b, which is f32 [embed 5], does not fit x"},
    {"dropout", {X, "f32"}, NULL, "time cannot be f32 []"},
    {"dropout", {"f32 ffn=3,embed=4", "i64"}, NULL, "which dropout does not take"},
    {"dropout", {"f32 " T, "i64"}, NULL, "x cannot be f32 [tokens 8]"},
    {"colsum", {"f32 " T ",heads=2,dim=2"}, "f32 heads=2,dim=2", NULL},
    {"colsum", {"f32 " T}, NULL, "cannot be"},
    {"layernorm",
     {"f16 " T ",embed=4", "f16 embed=4", "f16 embed=4"},
     "f16 tokens=8,embed=4 | f32 tokens=8 | f32 tokens=8",
     NULL},
    {"layernorm", {X, "f32 embed=4", "f32 embed=3"}, NULL, "does not fit x"},
    {"layernorm.dx", {X, X, "f32 embed=4", "f32 " T, "f32 " T}, X, NULL},
    {"layernorm.dx", {X, X, "f32 embed=4", "f32 tokens=7", "f32 " T}, NULL, "does not fit dy"},
    {"layernorm.dw", {X, X, "f32 " T, "f32 " T}, "f32 embed=4 | f32 embed=4", NULL},
    {"layernorm.dw",
     {"bf16 " T ",embed=4", "bf16 " T ",embed=4", "bf16 " T, "f32 " T},
     NULL,
     "mean cannot be bf16 [tokens 8]"},
    {"attention",
     {"f32 " T ",three=3,heads=2,dim=5"},
     "f32 tokens=8,heads=2,dim=5 | f32 tokens=8,heads=2",
     NULL},
    {"attention", {"f32 " T ",three=2,heads=2,dim=5"}, NULL, "queries, keys and values"},
    {"attention", {"f32 tokens=9,three=3,heads=2,dim=5"}, NULL, "not a whole number of sequences"},
    {"attention.dx",
     {"f32 " T ",heads=2,dim=5", "f32 " T ",three=3,heads=2,dim=5", "f32 " T ",heads=2,dim=5",
      "f32 " T ",heads=2"},
     "f32 tokens=8,three=3,heads=2,dim=5",
     NULL},
    {"attention",
     {"bf16 " T ",heads=4,dim=5", "bf16 " T ",kv=2,dim=5", "bf16 " T ",kv=2,dim=5"},
     "bf16 tokens=8,heads=4,dim=5 | f32 tokens=8,heads=4",
     NULL},
    {"attention",
     {"f32 " T ",heads=4,dim=5", "f32 " T ",kv=3,dim=5", "f32 " T ",kv=3,dim=5"},
     NULL,
     "4 is not a multiple of 3"},
    {"attention",
     {"f32 " T ",heads=4,dim=5", "f32 " T ",kv=2,dim=5", "f32 " T ",kv=4,dim=5"},
     NULL,
     "v, which is f32 [tokens 8, kv 4, dim 5], does not fit k"},
    {"attention", {"f32 " T ",heads=4,dim=5", "f32 " T ",kv=2,dim=5"}, NULL, "2 inputs were given"},
    {"attention.dx",
     {"f32 " T ",heads=4,dim=5", "f32 " T ",heads=4,dim=5", "f32 " T ",kv=2,dim=5",
      "f32 " T ",kv=2,dim=5", "f32 " T ",heads=4,dim=5", "f32 " T ",heads=4"},
     "f32 tokens=8,heads=4,dim=5 | f32 tokens=8,kv=2,dim=5 | f32 tokens=8,kv=2,dim=5",
     NULL},
    {"attention",
     {"f32 " T ",three=3,heads=2,dim=5", "i32 " T},
     "f32 tokens=8,heads=2,dim=5 | f32 tokens=8,heads=2",
     NULL},
    {"attention", {"f32 " T ",three=3,heads=2,dim=5", "f32 " T}, NULL, "reach cannot be f32"},
    {"attention", {"f32 " T ",three=3,heads=2,dim=5", "i32 tokens=4"}, NULL, "does not fit qkv"},
    {"attention",
     {"bf16 " T ",heads=4,dim=5", "bf16 " T ",kv=2,dim=5", "bf16 " T ",kv=2,dim=5", "i32 " T},
     "bf16 tokens=8,heads=4,dim=5 | f32 tokens=8,heads=4",
     NULL},
    {"attention.dx",
     {"f32 " T ",heads=2,dim=5", "f32 " T ",three=3,heads=2,dim=5", "f32 " T ",heads=2,dim=5",
      "f32 " T ",heads=2", "i32 " T},
     "f32 tokens=8,three=3,heads=2,dim=5",
     NULL},
    {"attention.dx",
     {"f32 " T ",heads=4,dim=5", "f32 " T ",heads=4,dim=5", "f32 " T ",kv=2,dim=5",
      "f32 " T ",kv=2,dim=5", "f32 " T ",heads=4,dim=5", "f32 " T ",heads=4", "i32 " T},
     "f32 tokens=8,heads=4,dim=5 | f32 tokens=8,kv=2,dim=5 | f32 tokens=8,kv=2,dim=5",
     NULL},
    {"rope", {"bf16 " T ",heads=2,dim=6"}, "bf16 tokens=8,heads=2,dim=6", NULL},
    {"rope", {"f32 " T ",heads=2,dim=5"}, NULL, "the axis 'dim' must be even; it has 5"},
    {"rmsnorm",
     {"f32 " T ",heads=2,dim=6", "f32 dim=6"},
     "f32 tokens=8,heads=2,dim=6 | f32 tokens=8,heads=2",
     NULL},
    {"rope", {"f32 tokens=9,heads=2,dim=6"}, NULL, "rope over sequences of 4 tokens was given 9"},
    {"rope", {"f32 tokens=9,heads=2,dim=6", "i32 tokens=9"}, "f32 tokens=9,heads=2,dim=6", NULL},
    {"rope", {"f32 tokens=9,heads=2,dim=6", "i32 tokens=8"}, NULL, "does not fit x"},
    {"cache.write",
     {"bf16 kv=2,rows=7,dim=5", "bf16 " T ",kv=2,dim=5", "i32 " T},
     "bf16 kv=2,rows=7,dim=5",
     NULL},
    {"cache.write",
     {"f32 heads=2,rows=7,dim=5", "f32 " T ",three=3,heads=2,dim=5", "i32 " T},
     "f32 heads=2,rows=7,dim=5",
     NULL},
    {"cache.write",
     {"f32 heads=2,rows=7,dim=5", "f32 " T ",two=2,heads=2,dim=5", "i32 " T},
     NULL,
     "takes part 0, 1 or 2"},
    {"cache.write",
     {"f32 kv=2,rows=7,dim=5", "f32 " T ",kv=3,dim=5", "i32 " T},
     NULL,
     "does not fit cache"},
    {"attention.cached",
     {"f32 " T ",heads=4,dim=5", "f32 kv=2,rows=7,dim=5", "f32 kv=2,rows=7,dim=5", "i32 " T},
     "f32 tokens=8,heads=4,dim=5",
     NULL},
    {"attention.cached",
     {"f32 " T ",three=3,heads=2,dim=5", "f32 heads=2,rows=7,dim=5", "f32 heads=2,rows=7,dim=5",
      "i32 " T},
     "f32 tokens=8,heads=2,dim=5",
     NULL},
    {"attention.cached",
     {"f32 " T ",heads=4,dim=5", "f32 kv=3,rows=7,dim=5", "f32 kv=3,rows=7,dim=5", "i32 " T},
     NULL,
     "4 is not a multiple of 3"},
    {"attention.cached",
     {"f32 " T ",heads=4,dim=5", "f32 kv=2,rows=7,dim=5", "f32 kv=2,rows=6,dim=5", "i32 " T},
     NULL,
     "does not fit k"},
    {"rmsnorm",
     {"bf16 " T ",embed=4", "bf16 embed=4"},
     "bf16 tokens=8,embed=4 | f32 tokens=8",
     NULL},
    {"rmsnorm", {X, "f32 embed=3"}, NULL, "g, which is f32 [embed 3], does not fit x"},
    {"rmsnorm.dx", {X, X, "f32 embed=4", "f32 " T}, X, NULL},
    {"rmsnorm.dw", {X, X, "f32 " T}, "f32 embed=4", NULL},
    {"rmsnorm.dw", {X, X, "f32 tokens=7"}, NULL, "does not fit dy"},
    {"swiglu", {X, X}, X, NULL},
    {"swiglu", {X, "f32 " T ",embed=5"}, NULL, "up, which is f32 [tokens 8, embed 5], does not"},
    {"swiglu.dx", {X, X, X}, X " | " X, NULL},
    {"embedding", {"f32 vocab=50,embed=4", "i32 " T}, X, NULL},
    {"embedding", {"f32 vocab=50,embed=4", "f32 " T}, NULL, "ids cannot be f32"},
    {"embedding.dw", {X, "i32 " T, "f32 vocab=50,embed=4"}, "f32 vocab=50,embed=4", NULL},
    {"embedding.dw", {X, "i32 " T, "f32 vocab=50,embed=5"}, NULL, "does not fit dy"},
    {"softmax_xent",
     {"bf16 " T ",vocab=50", "i32 " T, "f32"},
     "bf16 tokens=8,vocab=50 | f32",
     NULL},
    {"softmax_xent", {"f32 " T ",vocab=50", "i32 tokens=9", "f32"}, NULL, "targets, which is i32"},
    {"softmax_xent", {"f32 " T ",vocab=5", "i32 " T, "f32"}, NULL, "6 columns of the logits are"},
    {"softmax_xent.loss", {"f16 " T ",vocab=50", "i32 " T}, "f32", NULL},
    {"gelu", {"f32 " T ",ffn=16", "f32 ffn=16"}, "f32 tokens=8,ffn=16", NULL},
    {"gelu", {"f32 " T ",ffn=16", "f32 ffn=1"}, NULL, "does not fit x"},
    {"gelu", {"f32 " T ",ffn=16"}, "f32 tokens=8,ffn=16", NULL},
    {"gelu.dx", {X, X, "f32 embed=4"}, X, NULL},
    {"gelu.dx", {X, X}, X, NULL},
    {"bias_residual", {X, "f32 embed=4", X}, X, NULL},
    {"bias_residual",
     {X, "f32 embed=4", "f32 tokens=4,embed=4"},
     NULL,
     "r, which is f32 [tokens 4"},
    {"accumulate", {X}, X, NULL},
    {"accumulate", {"f32"}, "f32", NULL},
    {"sumsq", {"bf16 " T ",embed=4"}, "f32", NULL},
    {"sumsq", {"f32"}, "f32", NULL},
    {"add", {X, X}, X, NULL},
    {"add", {X, "f32"}, X, NULL},
    {"add", {"f32", "bf16 embed=4"}, "bf16 embed=4", NULL},
    {"add", {"f32 embed=4", "bf16 embed=4"}, "f32 embed=4", NULL},
    {"mul", {"bf16 embed=4", "bf16 embed=4"}, "bf16 embed=4", NULL},
    {"select", {"f32", "f32 embed=4", "f32"}, "f32 embed=4", NULL},
    {"add",
     {X, "f32 tokens=8,embed=5"},
     NULL,
     "f32 [tokens 8, embed 4] and f32 [tokens 8, embed 5]"},
    {"add", {X, "f32 embed=4,tokens=8"}, NULL, "operands of one shape or scalars"},
    {"add", {X, "f32 tokens=8,channel=4"}, NULL, "operands of one shape or scalars"},
    {"add", {X}, NULL, "takes 2 inputs, not 1"},
    {"sqrt", {"i32 embed=4"}, NULL, "not on i32 [embed 4]"},
};

static void one_case(const infer_case *c)
{
    graph g;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    const weft_builder b = graph_builder(&g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    const weft_attr attrs[] = {{.key = "sequence", .i = 4}, {.key = "valid", .i = 6}};
    uint32_t nattr = strcmp(c->id, "softmax_xent") ? 1 : 2, nin = 0, nout = WEFT_MAX_OPERANDS;
    weft_shape in[7], out[WEFT_MAX_OPERANDS];
    char names[7][128], got[512] = "";
    for (; nin < 7 && c->in[nin]; nin++)
        in[nin] = parse(c->in[nin], names[nin]);
    weft_status st = builtin_op(c->id)->infer(&self, attrs, nattr, in, nin, out, &nout);
    if (c->says) {
        assert_int_equal(st, WEFT_USAGE);
        if (!strstr(err_text(), c->says))
            fail_msg("%s: expected '%s' in: %s", c->id, c->says, err_text());
    } else {
        if (st != WEFT_OK)
            fail_msg("%s: %s", c->id, err_text());
        for (uint32_t i = 0; i < nout; i++) {
            if (i)
                snprintf(got + strlen(got), sizeof got - strlen(got), " | ");
            print(&out[i], got + strlen(got), sizeof got - strlen(got));
        }
        assert_string_equal(got, c->out);
    }
    graph_free(&g);
}

TEST(shapes)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        one_case(&cases[i]);
}

TEST(attention_needs_its_sequence)
{
    graph g;
    char names[128];
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    const weft_builder b = graph_builder(&g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    weft_shape in = parse("f32 tokens=8,three=3,heads=2,dim=5", names), out[2];
    uint32_t n = WEFT_MAX_OPERANDS;
    assert_int_equal(builtin_op("attention")->infer(&self, NULL, 0, &in, 1, out, &n), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "'sequence'"));
    graph_free(&g);
}

/* The longest names and the largest sizes that a shape can have still make a whole sentence. */
TEST(long_names)
{
    char name[WEFT_MAX_AXES][WEFT_MAX_NAME];
    weft_shape s = {.dtype = WEFT_F32, .rank = WEFT_MAX_AXES}, in[2], out[2];
    for (int i = 0; i < WEFT_MAX_AXES; i++) {
        memset(name[i], 'a' + i, sizeof name[i] - 1);
        name[i][WEFT_MAX_NAME - 1] = 0;
        s.axes[i] = (weft_axis){name[i], INT64_MAX};
    }
    graph g;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    const weft_builder b = graph_builder(&g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    uint32_t n = WEFT_MAX_OPERANDS;
    in[0] = in[1] = s;
    in[1].axes[WEFT_MAX_AXES - 1].size--;
    assert_int_equal(builtin_op("linear")->infer(&self, NULL, 0, in, 2, out, &n), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "does not fit x"));
    graph_free(&g);
}

/* Numbers of the published GPT-2: 6 times parameters and 12 layers width sequence a token. */
TEST(costs)
{
    static const weft_op_self nobody = {.struct_size = sizeof nobody};
    char names[4][128];
    weft_attr attrs[] = {{.key = "sequence", .i = 4}, {.key = "causal", .i = 1}};
    weft_shape x = parse(X, names[0]), w = parse("f32 ffn=16,embed=4", names[1]);
    weft_shape y = parse("f32 tokens=8,ffn=16", names[2]), in[] = {x, w}, dy[] = {y, x};
    assert_true(builtin_op("linear")->flops(&nobody, NULL, 0, in, 2, &y, 1) == 2.0 * 8 * 16 * 4);
    assert_true(builtin_op("linear.dw")->flops(&nobody, NULL, 0, dy, 2, &w, 1) == 2.0 * 8 * 16 * 4);
    weft_shape bx = parse("f32 e=3,tokens=8,embed=4", names[0]);
    weft_shape bw = parse("f32 e=3,ffn=16,embed=4", names[1]);
    weft_shape by = parse("f32 e=3,tokens=8,ffn=16", names[2]);
    const double all = 2.0 * 3 * 8 * 16 * 4;
    assert_true(builtin_op("bmm")->flops(&nobody, NULL, 0, (weft_shape[]){bx, bw}, 2, &by, 1) ==
                all);
    assert_true(builtin_op("bmm.dx")->flops(&nobody, NULL, 0, (weft_shape[]){by, bw}, 2, &bx, 1) ==
                all);
    assert_true(builtin_op("bmm.dw")->flops(&nobody, NULL, 0, (weft_shape[]){by, bx}, 2, &bw, 1) ==
                all);
    weft_shape q = parse("f32 tokens=8,three=3,heads=2,dim=5", names[3]), a = q;
    a.axes[1] = q.axes[2];
    a.axes[2] = q.axes[3];
    a.rank = 3;
    const weft_op *op = builtin_op("attention");
    const weft_attr full[] = {{.key = "sequence", .i = 4}, {.key = "causal", .i = 0}};
    assert_true(op->flops(&nobody, full, 2, &q, 1, &a, 1) == 4.0 * 8 * 4 * 2 * 5);
    assert_true(op->flops(&nobody, attrs, 2, &q, 1, &a, 1) == 2.0 * 8 * 4 * 2 * 5);
    assert_true(op->flops(&nobody, attrs, 1, &q, 1, &a, 1) == 2.0 * 8 * 4 * 2 * 5); /* default */
    weft_shape din[] = {a, q};
    op = builtin_op("attention.dx");
    assert_true(op->flops(&nobody, attrs, 2, din, 2, &q, 1) == 4.0 * 8 * 4 * 2 * 5);
    weft_shape kv = a, grouped[] = {a, kv, kv};
    grouped[1].axes[1].size = grouped[2].axes[1].size = 1; /* shared keys cost as many products */
    op = builtin_op("attention");
    assert_true(op->flops(&nobody, attrs, 2, grouped, 3, &a, 1) == 2.0 * 8 * 4 * 2 * 5);
}
