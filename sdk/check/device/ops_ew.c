/* check/device/ops_ew.c: 89 to 91: elementwise programs: opcodes, registers, operands, the gate and
 * special values.
 *
 * A device may refuse a program, and says so by query(); one that it accepts has to be right. */
#include "base/mem.h"
#include "check/device/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OPCODES 21u /* WEFT_EW_COPY to WEFT_EW_FLOOR */

typedef struct code { /* a program and memory for it */
    weft_ew_program program;
    weft_ew_step steps[WEFT_EW_MAX_STEPS];
    uint16_t outs[WEFT_MAX_OPERANDS];
} code;

static void begin(check_call *c, code *p, uint32_t nregs, const char *what)
{
    memset(p, 0, sizeof *p);
    p->program = (weft_ew_program){sizeof p->program, 0, nregs, -1, p->steps, p->outs};
    check_call_begin(c, "ew");
    c->program = &p->program;
    snprintf(c->what, sizeof c->what, "%s", what);
}

static void step(code *p, uint16_t op, uint32_t dst, uint32_t a, uint32_t b, uint32_t c)
{
    p->steps[p->program.nsteps++] =
        (weft_ew_step){op,          (uint16_t)dst, (uint16_t)a,
                       (uint16_t)b, (uint16_t)c,   op == WEFT_EW_CONST ? WEFT_EW_SCALAR : 0,
                       2.5f};
}

static void give(check_call *c, code *p, uint32_t reg, int64_t n)
{
    p->outs[c->nout] = (uint16_t)reg;
    check_call_out(c, WEFT_F32, 1, &n);
}

/* The results, and what the last step of each may be off. */
static void compute(check_call *c, const code *p)
{
    const int64_t n = check_operand_count(&c->out[0]);
    (void)check_reference(c);
    for (uint32_t k = 0; k < c->nout; k++) {
        uint32_t last = p->program.nsteps;
        while (p->steps[--last].dst != p->outs[k])
            ;
        c->slack[k] = mem_alloc((uint64_t)n * sizeof(double));
        for (int64_t i = 0; i < n; i++)
            c->slack[k][i] = check_case_slack(p->steps[last].op, c->y[k][i]);
    }
}

/* Run it and compare, where the device accepts it; `seen` counts. */
static void run(check_dev *b, check_call *c, const code *p, uint32_t *seen)
{
    check_image m = {0};
    compute(c, p);
    if (check_bench_accepts(b, c, NULL)) {
        check_bench_compute(b, c, &m);
        check_image_right(b, c, &m);
        check_image_end(&m);
        ++*seen;
    }
    check_call_end(c);
}

/* --- 89 --- */

/* One opcode on three operands, of which the second may be a scalar. */
static void one(check_dev *b, uint16_t op, int64_t n, bool scalar, uint32_t *seen)
{
    check_call c;
    code p;
    char what[100];
    snprintf(what, sizeof what, "an 'ew' program of the opcode %u on %lld elements%s", op,
             (long long)n, scalar ? ", with a scalar" : "");
    begin(&c, &p, 4, what);
    check_call_in(&c, WEFT_F32, 1, &n, 0.25, 3);
    check_call_in(&c, WEFT_F32, scalar ? 0 : 1, &n, 0.25, 3);
    double *third = check_call_in(&c, WEFT_F32, 1, &n, -1, 1);
    for (int64_t i = 0; i < n; i += 2)
        third[i] = 0;
    step(&p, op, 3, 0, 1, 2);
    give(&c, &p, 3, n);
    run(b, &c, &p, seen);
}

/* All opcodes in one program, whose results are all outputs. */
static void all_opcodes(check_dev *b, int64_t n, uint32_t *seen)
{
    check_call c;
    code p;
    begin(&c, &p, 3 + OPCODES, "an 'ew' program with a step of each opcode");
    for (uint32_t k = 0; k < 3; k++)
        check_call_in(&c, WEFT_F32, 1, &n, 0.25, 3);
    for (uint32_t op = 1; op <= OPCODES; op++) {
        step(&p, (uint16_t)op, 2 + op, op % 2, 1 - op % 2, 2);
        give(&c, &p, 2 + op, n);
    }
    run(b, &c, &p, seen);
}

static void set_whole(double *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)(check_random(&seed) % 9) - 4;
}

/* 62 registers that live at once, on whole numbers; then their sum, each with another sign. */
static void registers(check_dev *b, int64_t n, uint32_t *seen)
{
    const uint32_t max = WEFT_EW_MAX_REGISTERS;
    check_call c;
    code p;
    begin(&c, &p, max, "an 'ew' program on 64 registers");
    for (uint32_t k = 0; k < 2; k++)
        set_whole(check_call_in(&c, WEFT_F32, 1, &n, 0, 1), n, k + 1);
    for (uint32_t k = 2; k < max; k++)
        step(&p, k % 3 ? WEFT_EW_ADD : WEFT_EW_SUB, k, k - 1, 0, 0);
    for (uint32_t k = 0; k < max; k++)
        if (k != 2)
            step(&p, k % 2 ? WEFT_EW_ADD : WEFT_EW_SUB, 2, 2, k, 0);
    give(&c, &p, 2, n);
    give(&c, &p, max - 1, n);
    run(b, &c, &p, seen);
}

/* As many steps as a program may have, on four registers. Each is written again, those of the
 * inputs, too, and register 3 holds a number and a vector in turn. Exact in fp32. */
static void steps(check_dev *b, int64_t n, uint32_t *seen)
{
    check_call c;
    code p;
    begin(&c, &p, 4, "an 'ew' program of 256 steps on 4 registers");
    for (uint32_t k = 0; k < 2; k++)
        set_whole(check_call_in(&c, WEFT_F32, 1, &n, 0, 1), n, k + 1);
    set_whole(check_call_in(&c, WEFT_F32, 0, &n, 0, 1), 1, 3);
    for (uint32_t k = 0; k < WEFT_EW_MAX_STEPS / 5; k++) {
        step(&p, WEFT_EW_CONST, 3, 0, 0, 0);
        step(&p, WEFT_EW_MUL, 3, 3, 3, 0);
        p.steps[p.program.nsteps - 1].flags = WEFT_EW_SCALAR;
        step(&p, k % 2 ? WEFT_EW_ADD : WEFT_EW_SUB, 0, 0, 3, 0);
        step(&p, k % 2 ? WEFT_EW_MAX : WEFT_EW_MIN, 3, 0, 1, 0);
        step(&p, WEFT_EW_SUB, 1, 3, 1, 0);
    }
    step(&p, WEFT_EW_SUB, 2, 1, 2, 0);
    for (uint32_t k = 0; k < 4; k++)
        give(&c, &p, k, n);
    run(b, &c, &p, seen);
}

/* 32 inputs, of which the last is a scalar, and 32 outputs. */
static void operands(check_dev *b, int64_t n, uint32_t *seen)
{
    const uint32_t max = WEFT_MAX_OPERANDS;
    check_call c;
    code p;
    begin(&c, &p, 2 * max, "an 'ew' program of 32 inputs and 32 outputs");
    for (uint32_t k = 0; k < max; k++) {
        const bool scalar = k + 1 == max;
        double *x = check_call_in(&c, WEFT_F32, scalar ? 0 : 1, &n, 0, 1);
        set_whole(x, scalar ? 1 : n, k + 1);
    }
    for (uint32_t k = 0; k < max; k++) {
        step(&p, WEFT_EW_SUB, max + k, k, (k + 1) % max, 0);
        give(&c, &p, max + k, n);
    }
    run(b, &c, &p, seen);
}

static void programs(check_dev *b)
{
    static const int64_t sizes[] = {1000, 1};
    uint32_t seen = 0;
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t op = 1; op <= OPCODES; op++) {
            one(b, (uint16_t)op, sizes[i], false, &seen);
            one(b, (uint16_t)op, sizes[i], true, &seen);
        }
        all_opcodes(b, sizes[i], &seen);
        registers(b, sizes[i], &seen);
        steps(b, sizes[i], &seen);
        operands(b, sizes[i], &seen);
    }
    if (!seen)
        check_not_applicable("query() of '%s' refuses each 'ew' program", b->who);
}

void check_ops_programs(check_run *r)
{
    check_bench_each(r, false, programs);
}

/* --- 90: y = x + x where the gate is not 0 --- */

static bool gated(check_dev *b, int64_t n, double gate)
{
    check_call c;
    check_image m = {0};
    code p;
    begin(&c, &p, 3, "an 'ew' program with a gate");
    p.program.gate = 1;
    check_call_in(&c, WEFT_F32, 1, &n, 0.25, 3);
    check_call_in(&c, WEFT_F32, 0, NULL, 0, 1)[0] = gate;
    step(&p, WEFT_EW_ADD, 2, 0, 0, 0);
    give(&c, &p, 2, n);
    compute(&c, &p);
    const bool yes = check_bench_accepts(b, &c, NULL);
    if (yes) {
        check_bench_compute(b, &c, &m);
        const uint64_t bytes = check_operand_bytes(&c.out[0]);
        if (gate != 0)
            check_image_right(b, &c, &m);
        else if (memcmp(m.was + m.out[0], m.is + m.out[0], bytes) != 0)
            check_fail("'%s' computes %s that is %g, and writes its output of %lld elements; with "
                       "a gate of 0 nothing is written",
                       b->who, c.what, gate, (long long)n);
        check_image_end(&m);
    }
    check_call_end(&c);
    return yes;
}

static void gate(check_dev *b)
{
    static const double gates[] = {0, 1, -0.0, 0.5, -1};
    uint32_t seen = 0;
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
        seen += gated(b, 1000, gates[i]) + gated(b, 1, gates[i]);
    if (!seen)
        check_not_applicable("query() of '%s' refuses 'ew' programs with a gate", b->who);
}

void check_ops_gate(check_run *r)
{
    check_bench_each(r, false, gate);
}

/* --- 91: what follows from fp32 and from weft/op.h --- */

#define TINY 0x1p-140 /* a denormal number */

static const struct {
    uint16_t op;
    const char *name;
    double a, b, c, want;
} specials[] = {
    {WEFT_EW_FINITE, "finite", NAN, 0, 0, 0},
    {WEFT_EW_FINITE, "finite", INFINITY, 0, 0, 0},
    {WEFT_EW_FINITE, "finite", -INFINITY, 0, 0, 0},
    {WEFT_EW_FINITE, "finite", TINY, 0, 0, 1},
    {WEFT_EW_FINITE, "finite", 3e38, 0, 0, 1},
    {WEFT_EW_COPY, "copy", NAN, 0, 0, NAN},
    {WEFT_EW_COPY, "copy", -INFINITY, 0, 0, -INFINITY},
    {WEFT_EW_COPY, "copy", -TINY, 0, 0, -TINY},
    {WEFT_EW_NEG, "neg", INFINITY, 0, 0, -INFINITY},
    {WEFT_EW_NEG, "neg", TINY, 0, 0, -TINY},
    {WEFT_EW_ABS, "abs", -INFINITY, 0, 0, INFINITY},
    {WEFT_EW_ABS, "abs", -TINY, 0, 0, TINY},
    {WEFT_EW_ADD, "add", INFINITY, -INFINITY, 0, NAN},
    {WEFT_EW_ADD, "add", NAN, 1, 0, NAN},
    {WEFT_EW_ADD, "add", TINY, TINY, 0, 2 * TINY},
    {WEFT_EW_SUB, "sub", INFINITY, INFINITY, 0, NAN},
    {WEFT_EW_SUB, "sub", 3 * TINY, TINY, 0, 2 * TINY},
    {WEFT_EW_MUL, "mul", 0, INFINITY, 0, NAN},
    {WEFT_EW_MUL, "mul", 3e38, 10, 0, INFINITY},
    {WEFT_EW_MUL, "mul", 0x1p-70, 0x1p-70, 0, TINY},
    {WEFT_EW_DIV, "div", 1, 0, 0, INFINITY},
    {WEFT_EW_DIV, "div", 0, 0, 0, NAN},
    {WEFT_EW_DIV, "div", 1, INFINITY, 0, 0},
    {WEFT_EW_DIV, "div", TINY, 2, 0, TINY / 2},
    {WEFT_EW_MIN, "min", INFINITY, 1, 0, 1},
    {WEFT_EW_MAX, "max", -INFINITY, 1, 0, 1},
    {WEFT_EW_SQRT, "sqrt", -1, 0, 0, NAN},
    {WEFT_EW_SQRT, "sqrt", INFINITY, 0, 0, INFINITY},
    {WEFT_EW_SIGN, "sign", -INFINITY, 0, 0, -1},
    {WEFT_EW_SIGN, "sign", TINY, 0, 0, 1},
    {WEFT_EW_EXP, "exp", -INFINITY, 0, 0, 0},
    {WEFT_EW_EXP, "exp", 200, 0, 0, INFINITY},
    {WEFT_EW_EXP, "exp", NAN, 0, 0, NAN},
    {WEFT_EW_LOG, "log", 0, 0, 0, -INFINITY},
    {WEFT_EW_LOG, "log", -1, 0, 0, NAN},
    {WEFT_EW_LESS, "less", NAN, 1, 0, 0},
    {WEFT_EW_LESS, "less", 1, NAN, 0, 0},
    {WEFT_EW_LESS, "less", -INFINITY, INFINITY, 0, 1},
    {WEFT_EW_LESS, "less", 0, TINY, 0, 1},
    {WEFT_EW_SELECT, "select", 5, 6, NAN, 5},
    {WEFT_EW_SELECT, "select", 5, 6, TINY, 5},
    {WEFT_EW_SELECT, "select", NAN, 6, -0.0, 6},
    {WEFT_EW_ROUND, "round", 2.5, 0, 0, 2},
    {WEFT_EW_ROUND, "round", 3.5, 0, 0, 4},
    {WEFT_EW_ROUND, "round", -INFINITY, 0, 0, -INFINITY},
    {WEFT_EW_FLOOR, "floor", INFINITY, 0, 0, INFINITY},
    {WEFT_EW_FLOOR, "floor", -0.5, 0, 0, -1},
};

/* One line of the table, in each of `n` elements. */
static bool special(check_dev *b, size_t line, int64_t n)
{
    const double from[] = {specials[line].a, specials[line].b, specials[line].c};
    check_call c;
    check_image m = {0};
    code p;
    char what[160];
    snprintf(what, sizeof what, "%s of %g, %g, %g in an 'ew' program on %lld elements",
             specials[line].name, from[0], from[1], from[2], (long long)n);
    begin(&c, &p, 4, what);
    for (uint32_t k = 0; k < 3; k++) {
        double *x = check_call_in(&c, WEFT_F32, 1, &n, 0, 1);
        for (int64_t i = 0; i < n; i++)
            x[i] = from[k];
    }
    step(&p, specials[line].op, 3, 0, 1, 2);
    give(&c, &p, 3, n);
    for (int64_t i = 0; i < n; i++)
        c.y[0][i] = (double)(float)specials[line].want;
    const bool yes = check_bench_accepts(b, &c, NULL);
    if (yes) {
        check_bench_compute(b, &c, &m);
        check_image_right(b, &c, &m);
        check_image_end(&m);
    }
    check_call_end(&c);
    return yes;
}

static void specials_of(check_dev *b)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        seen += special(b, i, 77) + special(b, i, 1);
    if (!seen)
        check_not_applicable("query() of '%s' refuses each 'ew' program", b->who);
}

void check_ops_special(check_run *r)
{
    check_bench_each(r, false, specials_of);
}
