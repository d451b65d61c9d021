/* match_test.c: patterns of weft/match.h against lawful and lawless operands. */
#include <string.h>

#include <test.h>

#include <weft/match.h>

#define LINEAR "cT*I c*O*I c*O?", "cT*O"

static weft_status match(weft_match *m, const char *in, const char *out, const weft_operand *x,
                         uint32_t nin, const weft_operand *y, uint32_t nout)
{
    const weft_opspec spec = {
        .struct_size = sizeof spec, .id = "op", .nin = nin, .nout = nout, .in = x, .out = y};
    return weft_match_spec(m, "test", &spec, in, out);
}

TEST(sizes_by_letter)
{
    weft_match m;
    const weft_operand in[] = {{WEFT_BF16, 3, 0, 0, {7, 2, 5}},
                               {WEFT_BF16, 3, 0, 0, {4, 2, 5}},
                               {WEFT_BF16, 1, 0, 0, {4}}},
                       out[] = {{WEFT_BF16, 2, 0, 0, {7, 4}}}, flat[] = {{WEFT_BF16, 1, 0, 0, {7}}};
    /* The group I takes all axes that the word leaves; it is bound where O is looked for. */
    assert_int_equal(match(&m, LINEAR, in, 3, out, 1), WEFT_OK);
    assert_int_equal(m.size['T' - 'A'], 7);
    assert_int_equal(m.size['I' - 'A'], 10);
    assert_int_equal(m.rank['I' - 'A'], 2);
    assert_int_equal(m.dims['I' - 'A'][1], 5);
    assert_int_equal(m.size['O' - 'A'], 4);
    assert_int_equal(m.dt, WEFT_BF16);
    assert_int_equal(match(&m, LINEAR, in, 2, out, 1), WEFT_OK); /* the bias may be absent */
    assert_int_equal(match(&m, LINEAR, in, 1, out, 1), WEFT_USAGE);
    assert_string_equal(m.why, "op op: called with 1 inputs, which it does not take");
    assert_int_equal(match(&m, LINEAR, in, 2, flat, 1), WEFT_USAGE);
    assert_string_equal(m.why, "op op: output 0 has too few axes");
    assert_int_equal(match(&m, LINEAR, in, 2, out, 0), WEFT_USAGE);
}

TEST(types_and_axes)
{
    static const struct {
        const char *in, *why;
        weft_operand x[2];
        uint32_t n;
        weft_status st;
    } row[] = {
        {"cA", "", {{WEFT_F16, 1, 0, 0, {3}}}, 1, WEFT_OK},
        {"cA",
         "op op: the test device has no kernel for input 0 in int32; it takes fp32, bf16 or "
         "fp16",
         {{WEFT_I32, 1, 0, 0, {3}}},
         1,
         WEFT_UNSUPPORTED},
        {"cA cA",
         "the type of the other operands",
         {{WEFT_F16, 1, 0, 0, {3}}, {WEFT_BF16, 1, 0, 0, {3}}},
         2,
         WEFT_UNSUPPORTED},
        {"cA gA", "", {{WEFT_F16, 1, 0, 0, {3}}, {WEFT_F32, 1, 0, 0, {3}}}, 2, WEFT_OK},
        {"cA gA",
         "fp32 or the compute type",
         {{WEFT_F16, 1, 0, 0, {3}}, {WEFT_BF16, 1, 0, 0, {3}}},
         2,
         WEFT_UNSUPPORTED},
        {"fA", "it takes fp32", {{WEFT_F16, 1, 0, 0, {3}}}, 1, WEFT_UNSUPPORTED},
        {"iA", "it takes int32", {{WEFT_F32, 1, 0, 0, {3}}}, 1, WEFT_UNSUPPORTED},
        {"l", "it takes int64", {{WEFT_I32, 0, 0, 0, {0}}}, 1, WEFT_UNSUPPORTED},
        {"xA", "", {{WEFT_U8, 1, 0, 0, {3}}}, 1, WEFT_OK},
        {"cA cA",
         "sizes that do not fit",
         {{WEFT_F32, 1, 0, 0, {3}}, {WEFT_F32, 1, 0, 0, {4}}},
         2,
         WEFT_USAGE},
        {"cA3", "", {{WEFT_F32, 2, 0, 0, {9, 3}}}, 1, WEFT_OK},
        {"cA3", "no axis of three", {{WEFT_F32, 2, 0, 0, {9, 4}}}, 1, WEFT_USAGE},
        {"cA", "too many axes", {{WEFT_F32, 2, 0, 0, {9, 4}}}, 1, WEFT_USAGE},
        {"cAB", "too few axes", {{WEFT_F32, 1, 0, 0, {9}}}, 1, WEFT_USAGE},
        {"c*AB", "too few axes", {{WEFT_F32, 0, 0, 0, {0}}}, 1, WEFT_USAGE},
        {"cA", "invalid type or shape", {{99, 1, 0, 0, {9}}}, 1, WEFT_USAGE},
        {"cA", "invalid type or shape", {{WEFT_F32, 1, 0, 0, {0}}}, 1, WEFT_USAGE},
        {"cA", "invalid type or shape", {{WEFT_F32, 99, 0, 0, {1}}}, 1, WEFT_USAGE},
        {"c*A", "invalid type or shape", {{WEFT_F32, 2, 0, 0, {INT64_MAX, 2}}}, 1, WEFT_USAGE},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        weft_match m;
        const weft_status st = match(&m, row[i].in, "", row[i].x, row[i].n, NULL, 0);
        if (st != row[i].st || !strstr(m.why, row[i].why))
            fail_msg("row %zu: status %d, '%s'", i, st, m.why);
    }
}

TEST(unread_outputs)
{
    weft_match m;
    const weft_operand x = {WEFT_F32, 1, 0, 0, {3}}, none = {0, 0, 0, 0, {0}};
    assert_int_equal(match(&m, "cA", "cA~", &x, 1, &none, 1), WEFT_OK);
    assert_int_equal(match(&m, "cA", "cA~", &x, 1, &x, 1), WEFT_OK);
    assert_int_equal(match(&m, "cA", "-", &x, 1, &none, 1), WEFT_OK);
    assert_int_equal(match(&m, "cA", "-", &x, 1, &x, 1), WEFT_UNSUPPORTED);
    assert_non_null(strstr(m.why, "does not write output 0, which something else reads"));
    assert_int_equal(match(&m, "cA", "cA", &x, 1, &none, 1), WEFT_UNSUPPORTED);
    assert_non_null(strstr(m.why, "has to write output 0, which nobody reads"));
    assert_int_equal(match(&m, "cA", "", &none, 1, NULL, 0), WEFT_USAGE); /* an input is read */
}

TEST(attributes)
{
    const weft_attr attrs[] = {WEFT_ATTR_INT("causal", 1), WEFT_ATTR_REAL("eps", 1e-5)};
    const weft_opspec spec = {.struct_size = sizeof spec, .attrs = attrs, .nattr = 2};
    assert_int_equal(weft_attr_i(&spec, "causal", 7), 1);
    assert_int_equal(weft_attr_i(&spec, "rows", 7), 7);
    assert_true(weft_attr_f(&spec, "eps", 2) == 1e-5 && weft_attr_f(&spec, "none", 2) == 2);
}
