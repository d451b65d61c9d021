/* sweep.c: calls of an op in all its variants, against the reference. */
#include "sweep.h"
#include "joined.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setting {
    const char *id;
    uint32_t ct, gt, flags;
};

/* Of a number and of the tensor's root mean square: some fifty roundings in fp32, somewhat more
 * than one at the end to the 8 or 11 bits of bf16 or fp16. Attention in 16 bits rounds its
 * probabilities too; gradients of queries alone, where no larger ones of values are beside them,
 * are differences of numbers so rounded. */
static double tolerance(const char *id, uint32_t dtype)
{
    if (dtype != WEFT_F32 && strcmp(id, "attention.dx") == 0)
        return dtype == WEFT_BF16 ? 4e-2 : 5e-3;
    if (dtype != WEFT_F32 && strcmp(id, "attention") == 0)
        return dtype == WEFT_BF16 ? 2e-2 : 2.5e-3;
    if (strchr(id, '+')) /* rounded between two kernels */
        return dtype == WEFT_F32 ? 2e-5 : dtype == WEFT_BF16 ? 1e-2 : 2e-3;
    return dtype == WEFT_F32 ? 1e-5 : dtype == WEFT_BF16 ? 5e-3 : 1e-3;
}

static void compare(const check_call *c, void *const *got, const char *isa)
{
    for (uint32_t k = 0; k < c->nout; k++) {
        char what[128];
        if (c->out[k].dtype == 0)
            continue;
        const int64_t n = check_operand_count(&c->out[k]);
        double *g = malloc((size_t)n * sizeof *g);
        decode(g, c->out[k].dtype, got[k], n);
        for (int64_t i = 0; i < n && c->out[k].dtype == WEFT_F16; i++)
            if (fabs(g[i] - c->y[k][i]) <= 0x1p-24)
                g[i] = c->y[k][i]; /* a step of its smallest numbers: there is nothing nearer */
        snprintf(what, sizeof what, "%s output %u, isa %s, types %u to %u, first axis %lld", c->id,
                 k, isa, c->in[0].dtype, c->out[k].dtype, (long long)c->in[0].size[0]);
        expect_close(what, g, c->y[k], n, tolerance(c->id, c->out[k].dtype));
        free(g);
    }
}

static void expect_same_bits(const check_call *c, void *const *a, void *const *b)
{
    for (uint32_t k = 0; k < c->nout; k++) {
        if (c->out[k].dtype == 0)
            continue;
        const size_t bytes =
            (size_t)check_operand_count(&c->out[k]) * (size_t)weft_dtype_size(c->out[k].dtype);
        if (memcmp(a[k], b[k], bytes) != 0)
            fail_msg("%s output %u differs between two runs", c->id, k);
    }
}

static void free_all(const check_call *c, void **got)
{
    for (uint32_t k = 0; k < c->nout; k++)
        free(got[k]);
}

static void expect(const check_call *c)
{
    if (is_joined(c->id))
        reference_joined(c);
    else
        reference(c);
}

/* Has the library behind the op an order of its own, unless the same bits are asked for? A GPU's
 * adds the gradients of queries as they come. */
static int may_differ(const struct setting *s)
{
    return !bench_is_cpu() && strcmp(s->id, "attention.dx") == 0 &&
           !(s->flags & WEFT_SPEC_DETERMINISTIC);
}

/* Devices of one instruction set with one and two threads; the second of the cpu alone. */
struct pair {
    struct bench one, two;
    const char *isa;
};

/* Does oneDNN compute it, which may divide long sums among threads? With AMX the device itself
 * computes products of bf16 that are large enough. */
static int library_divides(const struct pair *p, const struct setting *s, const struct sizes *n)
{
    const char *const *isa = bench_isas();
    if (!strstr(s->id, "linear") && !strstr(s->id, "bmm"))
        return 0;
    while (isa[1])
        isa++;
    return strcmp(p->isa, "auto") != 0 || strcmp(*isa, "v4amx") != 0 || s->ct != WEFT_BF16 ||
           n->tokens < 256 || n->cols < 32 || n->inner < 32;
}

static void ask(struct pair *p, const struct setting *s, const struct sizes *n)
{
    void *first[WEFT_MAX_OPERANDS], *again[WEFT_MAX_OPERANDS], *two[WEFT_MAX_OPERANDS];
    check_call c;
    make_call(&c, s->id, n, s->ct, s->gt);
    c.flags = s->flags;
    device_run(&p->one, &c, first);
    device_run(&p->one, &c, again);
    if (bench_is_cpu())
        device_run(&p->two, &c, two);
    if (!may_differ(s))
        expect_same_bits(&c, first, again);
    if (bench_is_cpu() && !library_divides(p, s, n))
        expect_same_bits(&c, first, two);
    expect(&c);
    compare(&c, first, p->isa);
    if (bench_is_cpu()) {
        compare(&c, two, p->isa);
        free_all(&c, two);
    }
    free_all(&c, first);
    free_all(&c, again);
    check_call_end(&c);
}

/* Every combination of types and of accumulating that the op has. */
static void check_types(struct pair *p, const char *id, const struct sizes *n, int grads)
{
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    const int flat = strcmp(id, "accumulate") == 0 || strcmp(id, "sumsq") == 0;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            for (int add = 0; add < (grads ? 2 : 1); add++) {
                if (b != 0 && (!grads || (b != a && !flat)))
                    continue;
                struct setting s = {id, types[a], types[b], add ? WEFT_SPEC_ACCUMULATE : 0};
                ask(p, &s, n);
                if (may_differ(&s)) {
                    s.flags |= WEFT_SPEC_DETERMINISTIC;
                    ask(p, &s, n);
                }
            }
}

static void open_pair(struct pair *p, const char *isa)
{
    p->isa = isa;
    assert_int_equal(bench_open(&p->one, isa, 1), WEFT_OK);
    if (bench_is_cpu())
        assert_int_equal(bench_open(&p->two, isa, 2), WEFT_OK);
}

static void close_pair(struct pair *p)
{
    if (bench_is_cpu())
        bench_close(&p->two);
    bench_close(&p->one);
}

void sweep(const char *const *isas, const char *const *ids, const struct sizes *n, size_t sizes,
           int grads)
{
    for (const char *const *isa = isas; *isa; isa++) {
        struct pair p;
        open_pair(&p, *isa);
        for (size_t k = 0; k < sizes; k++)
            for (const char *const *id = ids; *id; id++)
                check_types(&p, *id, &n[k], grads);
        close_pair(&p);
    }
}

void sweep_in_place(const char *id, const struct sizes *n, int over)
{
    struct pair p;
    check_call c;
    void *got[WEFT_MAX_OPERANDS];
    open_pair(&p, "auto");
    make_call(&c, id, n, WEFT_BF16, WEFT_F32);
    c.over[0] = over;
    device_run(bench_is_cpu() ? &p.two : &p.one, &c, got);
    expect(&c);
    compare(&c, got, "auto");
    free_all(&c, got);
    check_call_end(&c);
    close_pair(&p);
}
