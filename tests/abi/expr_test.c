/* expr_test.c: formulas of weft/expr.h and weft/random.h against plain loops.
 *
 * The builder here computes each op at once, on arrays of N numbers, so that a formula has values.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <test.h>

#include <weft/random.h>

enum { N = 5, LIMIT = 64 };

/* Tensor t has its values in value[t]; what is assigned comes into force at the end. */
typedef struct sheet {
    double value[LIMIT][N], next[LIMIT][N];
    uint8_t assigned[LIMIT];
    uint32_t tensors, calls, fail_at; /* fail_at: the call that fails; 0: none */
} sheet;

static weft_status count(sheet *s)
{
    return ++s->calls == s->fail_at ? WEFT_USAGE : WEFT_OK;
}

static weft_status constant(void *ctx, double value, uint32_t flags, weft_tensor *out)
{
    assert_int_equal(flags, 0);
    sheet *s = ctx;
    *out = ++s->tensors;
    for (int i = 0; i < N; i++)
        s->value[*out][i] = value;
    return count(s);
}

static weft_status state(void *ctx, const weft_state_args *args, weft_tensor *out)
{
    assert_string_equal(args->name, "v");
    assert_int_equal(args->struct_size, sizeof *args);
    assert_true(args->like && !args->flags && !args->dtype && !args->reserved);
    assert_true(!args->keep && !args->shape && !args->init);
    *out = ++((sheet *)ctx)->tensors;
    return count(ctx);
}

static double apply(const char *id, double x, double y, double z)
{
    if (!strcmp(id, "add"))
        return x + y;
    if (!strcmp(id, "sub"))
        return x - y;
    if (!strcmp(id, "mul"))
        return x * y;
    if (!strcmp(id, "sqrt"))
        return sqrt(x);
    assert_string_equal(id, "select");
    return z != 0 ? x : y;
}

static weft_status op(void *ctx, const char *id, const weft_attr *attrs, uint32_t nattr,
                      const weft_tensor *in, uint32_t nin, uint32_t flags, weft_tensor *out,
                      uint32_t nout)
{
    assert_int_equal(flags, 0);
    sheet *s = ctx;
    double sum = 0;
    assert_true(nin >= 1 && nin <= 3 && nout == 1 && (nattr == 0) == !attrs);
    *out = ++s->tensors;
    for (int i = 0; i < N; i++)
        sum += s->value[in[0]][i] * s->value[in[0]][i];
    for (int i = 0; i < N; i++)
        s->value[*out][i] = !strcmp(id, "sumsq")
                                ? sum
                                : apply(id, s->value[in[0]][i], nin > 1 ? s->value[in[1]][i] : 0,
                                        nin > 2 ? s->value[in[2]][i] : 0);
    return count(s);
}

static weft_status assign(void *ctx, weft_tensor to, weft_tensor from, uint32_t flags)
{
    assert_int_equal(flags, 0);
    sheet *s = ctx;
    memcpy(s->next[to], s->value[from], sizeof s->next[to]);
    s->assigned[to]++;
    return count(s);
}

static const double start[N] = {1, -2, 0.5, 3, 0}, gradient[N] = {0.25, -1, 8, 0, 2};

/* Momentum, as the header's example has it: parameter 1, gradient 2. */
static weft_status momentum(sheet *s, weft_tensor *v)
{
    const weft_builder b = {.struct_size = sizeof b,
                            .ctx = s,
                            .constant = constant,
                            .state = state,
                            .op = op,
                            .assign = assign};
    weft_expr e = {&b, WEFT_OK};
    memcpy(s->value[1], start, sizeof start);
    memcpy(s->value[2], gradient, sizeof gradient);
    s->tensors = 2;
    *v = weft_state(&e, "v", 1);
    for (int i = 0; i < N && *v; i++)
        s->value[*v][i] = i;
    weft_tensor next = weft_op2(&e, "add", weft_scale(&e, *v, 0.9), 2);
    weft_assign(&e, *v, next);
    weft_assign(&e, 1, weft_op2(&e, "sub", 1, weft_op2(&e, "mul", next, weft_number(&e, 0.1))));
    return e.st;
}

TEST(formulas_are_loops)
{
    static sheet s;
    weft_tensor v;
    memset(&s, 0, sizeof s);
    assert_int_equal(momentum(&s, &v), WEFT_OK);
    assert_int_equal(s.assigned[1], 1);
    assert_int_equal(s.assigned[v], 1);
    for (int i = 0; i < N; i++) {
        const double next = i * 0.9 + gradient[i];
        assert_true(fabs(s.next[v][i] - next) < 1e-12);
        assert_true(fabs(s.next[1][i] - (start[i] - 0.1 * next)) < 1e-12);
    }
}

TEST(norms_and_choices)
{
    static sheet s;
    const weft_builder b = {.struct_size = sizeof b, .ctx = &s, .constant = constant, .op = op};
    weft_expr e = {&b, WEFT_OK};
    memset(&s, 0, sizeof s);
    memcpy(s.value[1], start, sizeof start);
    s.tensors = 1;
    weft_tensor norm = weft_norm(&e, 1), zero = weft_number(&e, 0);
    weft_tensor chosen = weft_op3(&e, "select", norm, zero, 1); /* where the parameter is not 0 */
    const weft_attr attr = WEFT_ATTR_INT("exact", 1);
    weft_tensor last = weft_op_with(&e, "sqrt", &attr, 1, &norm, 1);
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += start[i] * start[i];
    assert_int_equal(e.st, WEFT_OK);
    for (int i = 0; i < N; i++) {
        assert_true(fabs(s.value[norm][i] - sqrt(sum)) < 1e-12);
        assert_true(s.value[chosen][i] == (start[i] != 0 ? s.value[norm][i] : 0));
        assert_true(fabs(s.value[last][i] - sqrt(sqrt(sum))) < 1e-12);
    }
}

/* --- along an axis: x is [one 1, n N] --- */

static weft_status shape(void *ctx, weft_tensor t, weft_shape *out)
{
    *out = (weft_shape){.dtype = WEFT_F32, .rank = 2, .axes = {{"one", 1}, {"n", N}}};
    assert_true(t >= 1);
    return count(ctx);
}

/* What an op was asked, as text. */
static char asked[256];

static weft_status note(void *ctx, const char *id, const weft_attr *attrs, uint32_t nattr,
                        const weft_tensor *in, uint32_t nin, uint32_t flags, weft_tensor *out,
                        uint32_t nout)
{
    assert_int_equal(flags, 0);
    size_t used = (size_t)snprintf(asked, sizeof asked, "%s", id);
    for (uint32_t i = 0; i < nin; i++)
        used += (size_t)snprintf(asked + used, sizeof asked - used, " %u", in[i]);
    for (uint32_t i = 0; i < nattr; i++)
        used += (size_t)snprintf(asked + used, sizeof asked - used, " %s=%lld", attrs[i].key,
                                 (long long)attrs[i].i);
    assert_int_equal(nout, 1);
    *out = ++((sheet *)ctx)->tensors;
    return count(ctx);
}

TEST(axes_have_numbers)
{
    static sheet s;
    const weft_builder b = {
        .struct_size = sizeof b, .ctx = &s, .constant = constant, .shape = shape, .op = note};
    weft_expr e = {&b, WEFT_OK};
    memset(&s, 0, sizeof s);
    s.tensors = 2;
    weft_sum_axis(&e, 1, "n");
    assert_string_equal(asked, "sum_axis 1 n=1");
    weft_max_axis(&e, 2, "one");
    assert_string_equal(asked, "max_axis 2 one=0");
    weft_broadcast(&e, 1, 2, "one");
    assert_string_equal(asked, "broadcast 1 2 one=0");
    weft_repeat(&e, 1, "two", 2, 9);
    assert_string_equal(asked, "repeat 1 two=2 size=9");
    weft_sum_axis(&e, 1, "on"); /* which builder.op() refuses */
    assert_string_equal(asked, "sum_axis 1 on=-1");
    weft_round(&e, 1);
    assert_string_equal(asked, "round 1");
    weft_floor(&e, 1);
    assert_string_equal(asked, "floor 1");
    weft_cast(&e, 1, WEFT_U8);
    assert_string_equal(asked, "cast 1 dtype=7");
    const weft_tensor mean = weft_mean_axis(&e, 1, "n");
    assert_int_equal(mean, s.tensors);
    assert_memory_equal(asked, "mul ", 4);
    assert_true(fabs(s.value[mean - 1][0] - 1.0 / N) < 1e-12); /* the constant before it */
    assert_int_equal(e.st, WEFT_OK);
    s.fail_at = s.calls + 1;
    assert_int_equal(weft_mean_axis(&e, 1, "n"), 0);
    assert_int_equal(e.st, WEFT_USAGE);
}

/* Whichever call fails, it is the last, and its status is the formula's. */
TEST(the_first_failure_is_kept)
{
    static sheet s;
    weft_tensor v;
    memset(&s, 0, sizeof s);
    assert_int_equal(momentum(&s, &v), WEFT_OK);
    const uint32_t calls = s.calls;
    assert_true(calls > 6);
    for (uint32_t k = 1; k <= calls; k++) {
        memset(&s, 0, sizeof s);
        s.fail_at = k;
        assert_int_equal(momentum(&s, &v), WEFT_USAGE);
        assert_int_equal(s.calls, k);
    }
}

/* --- random numbers --- */

static weft_status input(void *ctx, const weft_input_args *args, weft_tensor *out)
{
    assert_true(args->struct_size == sizeof *args && !args->flags);
    assert_string_equal(args->name, "first_token");
    assert_true(args->shape->dtype == WEFT_I64 && !args->shape->rank);
    *out = 90;
    return count(ctx);
}

static weft_status draw(void *ctx, const char *id, const weft_attr *attrs, uint32_t nattr,
                        const weft_tensor *in, uint32_t nin, uint32_t flags, weft_tensor *out,
                        uint32_t nout)
{
    assert_int_equal(flags, 0);
    const int dropout = !strcmp(id, "dropout");
    assert_true(dropout || !strcmp(id, "random"));
    assert_true(nattr == 2 && nin == 2 && nout == 1);
    assert_string_equal(attrs[0].key, "stream");
    assert_true((uint64_t)attrs[0].i == 0x85944171f73967e8); /* of "foobar" */
    assert_string_equal(attrs[1].key, dropout ? "p" : "distribution");
    assert_true(dropout ? attrs[1].f == 0.25 : attrs[1].i == 1);
    assert_true(in[dropout] == 90 && in[!dropout] == 7);
    *out = dropout ? 91 : 92;
    return count(ctx);
}

/* The published FNV-1a of three texts, and what the ops are called with. */
TEST(random_numbers)
{
    static sheet s;
    const weft_builder b = {.struct_size = sizeof b, .ctx = &s, .input = input, .op = draw};
    assert_true((uint64_t)weft_stream_of("") == 0xcbf29ce484222325);
    assert_true((uint64_t)weft_stream_of("a") == 0xaf63dc4c8601ec8c);
    assert_true((uint64_t)weft_stream_of("foobar") == 0x85944171f73967e8);
    memset(&s, 0, sizeof s);
    weft_expr e = {&b, WEFT_OK};
    assert_int_equal(weft_dropout(&e, 7, 0.25, "foobar"), 91);
    assert_int_equal(weft_random(&e, WEFT_NORMAL, "foobar", weft_first_token(&e), 7), 92);
    assert_true(e.st == WEFT_OK && s.calls == 4);
    s.fail_at = 5;
    assert_int_equal(weft_dropout(&e, 7, 0.25, "foobar"), 0);
    assert_true(e.st == WEFT_USAGE && s.calls == 5);
}
