/* ew_test.c: elementwise programs: functions against libm, AdamW in place, random programs against
 * an interpreter, the gate, and what is refused. */
#include "cases.h"
#include <test.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *id;
    uint32_t op, nin;
    double lo, hi;
} ops[] = {
    {"copy", WEFT_EW_COPY, 1, -9, 9},     {"add", WEFT_EW_ADD, 2, -9, 9},
    {"sub", WEFT_EW_SUB, 2, -9, 9},       {"mul", WEFT_EW_MUL, 2, -9, 9},
    {"div", WEFT_EW_DIV, 2, -9, 9},       {"min", WEFT_EW_MIN, 2, -9, 9},
    {"max", WEFT_EW_MAX, 2, -9, 9},       {"sqrt", WEFT_EW_SQRT, 1, 0, 9},
    {"neg", WEFT_EW_NEG, 1, -9, 9},       {"abs", WEFT_EW_ABS, 1, -9, 9},
    {"sign", WEFT_EW_SIGN, 1, -9, 9},     {"exp", WEFT_EW_EXP, 1, -110, 95},
    {"log", WEFT_EW_LOG, 1, 0, 9},        {"pow", WEFT_EW_POW, 2, 0, 9},
    {"select", WEFT_EW_SELECT, 3, -9, 9}, {"less", WEFT_EW_LESS, 2, -9, 9},
    {"finite", WEFT_EW_FINITE, 1, -9, 9}, {"cos", WEFT_EW_COS, 1, -9, 9},
    {"round", WEFT_EW_ROUND, 1, -9, 9},   {"floor", WEFT_EW_FLOOR, 1, -9, 9},
};

static const double special[] = {
    0.0,   -0.0,           1.0,   -1.0,       INFINITY, -INFINITY, NAN,    1e-40,      -1e-45, 3e38,
    -3e38, 1.17549435e-38, 88.72, 88.73,      -87.4,    -103.9,    -104.1, 0.70710678, 0.5,    1.5,
    2.5,   -0.5,           -2.5,  0.49999997, 8388607.5};

/* Relative error, except that results below the normal numbers count by their last place. */
static void expect_accurate(const char *id, const char *isa, const check_call *c, const float *got,
                            const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double w = (double)(float)want[i], g = (double)got[i];
        if (g == w || (isnan(g) && isnan(w)))
            continue;
        if (!(fabs(g - want[i]) <= 1e-6 * fabs(want[i]) + 3e-45))
            fail_msg("%s(%.9g, ..) on %s is %.9g, should be %.9g", id, c->x[0][i], isa, g, want[i]);
    }
}

static void fill_operand(double *x, int64_t n, int64_t stride)
{
    const int64_t k = sizeof special / sizeof *special;
    for (int64_t i = 0; i < k * k && i < n; i++)
        x[i] = check_operand_rounded(WEFT_F32, special[i / stride % k]);
}

static void check_function(struct bench *b, size_t k, int64_t n)
{
    check_call c = {.id = ops[k].id};
    void *got[WEFT_MAX_OPERANDS];
    for (uint32_t i = 0; i < ops[k].nin; i++) {
        add_input(&c, WEFT_F32, 1, &n, ops[k].lo, ops[k].hi);
        fill_operand(c.x[i], n, i == 0 ? 1 : (int64_t)(sizeof special / sizeof *special));
    }
    add_output(&c, WEFT_F32, 1, &n);
    reference(&c);
    device_run(b, &c, got);
    expect_accurate(ops[k].id, b->isa, &c, got[0], c.y[0], n);
    free(got[0]);
    check_call_end(&c);
}

/* Every function on specials in all pairs, and on random numbers; exp and log densely. */
TEST(test_functions)
{
    for (const char *const *isa = bench_isas(); *isa; isa++) {
        struct bench b;
        assert_int_equal(bench_open(&b, *isa, 2), WEFT_OK);
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
            const int dense = ops[k].op == WEFT_EW_EXP || ops[k].op == WEFT_EW_LOG;
            check_function(&b, k, dense ? 300000 : 1000);
            check_function(&b, k, 1);
        }
        bench_close(&b);
    }
}

/* --- AdamW, as the core joins it ---
 * inputs: p g m v lr clip count gate; outputs: p m v over their inputs, and a bf16 copy of p */
enum { P, G, M, V, LR, CLIP, COUNT, GATE, NIN };

#define STEP(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
static const weft_ew_step adamw[] = {
    STEP(.op = WEFT_EW_MUL, .dst = 8, .a = G, .b = CLIP),
    STEP(.op = WEFT_EW_CONST, .dst = 9, .imm = 0.9f, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_CONST, .dst = 10, .imm = 0.1f, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_CONST, .dst = 11, .imm = 0.95f, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_CONST, .dst = 12, .imm = 0.05f, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_MUL, .dst = 13, .a = 9, .b = M),
    STEP(.op = WEFT_EW_MUL, .dst = 14, .a = 10, .b = 8),
    STEP(.op = WEFT_EW_ADD, .dst = 15, .a = 13, .b = 14), /* m */
    STEP(.op = WEFT_EW_MUL, .dst = 16, .a = 8, .b = 8),
    STEP(.op = WEFT_EW_MUL, .dst = 16, .a = 12, .b = 16),
    STEP(.op = WEFT_EW_MUL, .dst = 17, .a = 11, .b = V),
    STEP(.op = WEFT_EW_ADD, .dst = 17, .a = 17, .b = 16), /* v */
    STEP(.op = WEFT_EW_CONST, .dst = 18, .imm = 1.0f, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_POW, .dst = 19, .a = 9, .b = COUNT, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_SUB, .dst = 19, .a = 18, .b = 19, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_POW, .dst = 20, .a = 11, .b = COUNT, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_SUB, .dst = 20, .a = 18, .b = 20, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_DIV, .dst = 21, .a = 15, .b = 19),
    STEP(.op = WEFT_EW_DIV, .dst = 22, .a = 17, .b = 20),
    STEP(.op = WEFT_EW_SQRT, .dst = 22, .a = 22),
    STEP(.op = WEFT_EW_CONST, .dst = 23, .imm = 1e-8f, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_ADD, .dst = 22, .a = 22, .b = 23),
    STEP(.op = WEFT_EW_DIV, .dst = 21, .a = 21, .b = 22),
    STEP(.op = WEFT_EW_CONST, .dst = 24, .imm = 0.1f, .flags = WEFT_EW_SCALAR),
    STEP(.op = WEFT_EW_MUL, .dst = 25, .a = 24, .b = P),
    STEP(.op = WEFT_EW_ADD, .dst = 21, .a = 21, .b = 25),
    STEP(.op = WEFT_EW_MUL, .dst = 21, .a = LR, .b = 21),
    STEP(.op = WEFT_EW_SUB, .dst = 26, .a = P, .b = 21), /* p */
};

static void make_adamw(check_call *c, int64_t n, double gate, const weft_ew_program *p)
{
    *c = (check_call){.id = "ew", .program = p, .over = {1, 3, 4, 0}};
    add_input(c, WEFT_F32, 1, &n, -1, 1);
    add_input(c, WEFT_F32, 1, &n, -1, 1);
    add_input(c, WEFT_F32, 1, &n, -0.1, 0.1);
    add_input(c, WEFT_F32, 1, &n, 0, 0.1);
    add_input(c, WEFT_F32, 0, NULL, 0.01, 0.02);
    add_input(c, WEFT_F32, 0, NULL, 0.5, 1);
    add_input(c, WEFT_F32, 0, NULL, 7, 7);
    add_input(c, WEFT_F32, 0, NULL, gate, gate);
    for (int k = 0; k < 3; k++)
        add_output(c, WEFT_F32, 1, &n);
    add_output(c, WEFT_BF16, 1, &n);
}

static void check_adamw(struct bench *b, int64_t n, double gate)
{
    static const uint16_t out[] = {26, 15, 17, 26};
    static const double tol[] = {2e-6, 2e-6, 2e-6, 5e-3};
    const weft_ew_program p = {sizeof p, sizeof adamw / sizeof *adamw, 27, GATE, adamw, out};
    check_call c;
    void *got[WEFT_MAX_OPERANDS];
    make_adamw(&c, n, gate, &p);
    device_run(b, &c, got);
    reference(&c);
    double *have = malloc((size_t)n * sizeof *have);
    for (uint32_t k = 0; k < 4; k++) {
        decode(have, c.out[k].dtype, got[k], n);
        if (gate == 0 && k == 3) /* the shut gate leaves the poison */
            assert_true(isnan(have[0]) && isnan(have[n - 1]));
        else
            expect_close("adamw", have, gate == 0 ? c.x[c.over[k] - 1] : c.y[k], n,
                         gate == 0 ? 0 : tol[k]);
        free(got[k]);
    }
    free(have);
    check_call_end(&c);
}

TEST(test_adamw)
{
    static const int64_t sizes[] = {2, 15, 511, 512, 513, 10007, 70000};
    for (const char *const *isa = bench_isas(); *isa; isa++)
        for (int threads = 1; threads <= 2; threads++) {
            struct bench b;
            assert_int_equal(bench_open(&b, *isa, threads), WEFT_OK);
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                check_adamw(&b, sizes[k], 1);
                check_adamw(&b, sizes[k], 0);
            }
            bench_close(&b);
        }
}

/* --- random programs on whole numbers, on which fp32 is exact --- */

enum { MAX_STEPS = 40, REGS = 24 };

static const uint16_t exact[] = {WEFT_EW_COPY, WEFT_EW_ADD,    WEFT_EW_SUB,    WEFT_EW_MUL,
                                 WEFT_EW_ADD,  WEFT_EW_MUL,    WEFT_EW_SUB,    WEFT_EW_MIN,
                                 WEFT_EW_MAX,  WEFT_EW_NEG,    WEFT_EW_ABS,    WEFT_EW_SIGN,
                                 WEFT_EW_LESS, WEFT_EW_SELECT, WEFT_EW_FINITE, WEFT_EW_CONST};

static int64_t pick(int64_t n)
{
    return (int64_t)uniform(0, (double)n);
}

static void random_program(weft_ew_step *steps, uint32_t nsteps, uint32_t nin)
{
    uint32_t known = nin;
    for (uint32_t k = 0; k < nsteps; k++) {
        const uint16_t dst = (uint16_t)(known < REGS && pick(3) ? known : pick(known));
        steps[k] = (weft_ew_step){.op = exact[pick(sizeof exact / sizeof *exact)],
                                  .dst = dst,
                                  .a = (uint16_t)pick(known),
                                  .b = (uint16_t)pick(known),
                                  .c = (uint16_t)pick(known),
                                  .imm = (float)(pick(7) - 3)};
        known = dst == known ? known + 1 : known;
    }
}

static void random_operands(check_call *c, int64_t n)
{
    static const uint32_t types[] = {WEFT_F32, WEFT_F32, WEFT_BF16, WEFT_F16};
    const uint32_t nin = 1 + (uint32_t)pick(6), nout = 1 + (uint32_t)pick(4);
    for (uint32_t k = 0; k < nin; k++) {
        const int scalar = k > 0 && pick(3) == 0;
        double *x = add_input(c, types[pick(4)], scalar ? 0 : 1, &n, -4, 5);
        for (int64_t i = 0; i < (scalar ? 1 : n); i++)
            x[i] = floor(x[i]);
    }
    for (uint32_t k = 0; k < nout; k++) {
        add_output(c, types[pick(4)], 1, &n);
        for (uint32_t i = 0; i < nin && !c->over[k]; i++)
            if (c->in[i].rank == 1 && c->in[i].dtype == c->out[k].dtype && pick(2))
                c->over[k] = i + 1;
        for (uint32_t i = 0; i < k; i++)
            if (c->over[i] == c->over[k])
                c->over[k] = 0;
    }
}

static void random_one(struct bench *b, int64_t n)
{
    weft_ew_step steps[MAX_STEPS];
    uint16_t out[WEFT_MAX_OPERANDS];
    double reg[REGS] = {0};
    void *got[WEFT_MAX_OPERANDS];
    check_call c = {.id = "ew"};
    random_operands(&c, n);
    weft_ew_program p = {sizeof p, 1 + (uint32_t)pick(MAX_STEPS), REGS, -1, steps, out};
    c.program = &p;
    bool lawful = false;
    while (!lawful) {
        random_program(steps, p.nsteps, c.nin);
        for (uint32_t k = 0; k < c.nout; k++)
            out[k] = pick(2) ? steps[p.nsteps - 1].dst : (uint16_t)pick(c.nin);
        lawful = true;
        for (int64_t i = 0; i < n && lawful; i++) /* fp32 is exact */
            lawful = check_reference_steps(&c, i, reg) <= 4e6;
    }
    reference(&c);
    for (uint32_t k = 0; k < c.nout; k++)
        for (int64_t i = 0; i < n; i++)
            c.y[k][i] = check_operand_rounded(c.out[k].dtype, c.y[k][i]);
    device_run(b, &c, got);
    for (uint32_t k = 0; k < c.nout; k++) {
        double *have = malloc((size_t)n * sizeof *have);
        decode(have, c.out[k].dtype, got[k], n);
        expect_close("a random program", have, c.y[k], n, 0);
        free(have);
        free(got[k]);
    }
    check_call_end(&c);
}

TEST(test_random_programs)
{
    for (const char *const *isa = bench_isas(); *isa; isa++) {
        struct bench b;
        assert_int_equal(bench_open(&b, *isa, 2), WEFT_OK);
        for (int k = 0; k < 300; k++)
            random_one(&b, k % 3 == 0 ? 1 : k % 3 == 1 ? 1 + pick(700) : 9000 + pick(700));
        bench_close(&b);
    }
}
