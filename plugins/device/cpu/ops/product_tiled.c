/* product_tiled.c: products of bf16 by the kernel of kern/product.c, where the set of kernels has
 * it.
 *
 * Each thread computes a part of C, or products of the batch. The divisions differ in the size of
 * their largest part and in how much is packed: the outer operand of a part once, the inner one
 * once for each block of the outer one, unless it is stored as tiles are loaded. */
#include "ops.h"

/* What an element of an operand costs: it is loaded as it is stored, copied, its pairs are
 * interleaved, 16 by 16 pairs are transposed, or both; and how many products of two elements cost
 * as much as 1. Measured at 2048 tokens. */
enum { STORED = 1, COPIED = 12, INTERLEAVED = 16, TRANSPOSED = 32, BOTH = 48, MULTIPLIED = 12 };

/* Products with fewer rows or columns are oneDNN's. With few tokens y packs its weights for little
 * work: at 256 oneDNN takes 42 ms of a step for y of GPT-2 124M, and this kernel 38; at 128 they
 * are level, at 64 oneDNN takes 19 and this kernel 23. */
enum { LEAST_LANES = 32, LEAST_TOKENS_OF_Y = 256 };

static double times_packed(const struct cpu_product *p, double outer)
{
    const double width = (double)cpu_product_width(p);
    return outer > width ? outer / width : 1;
}

/* Lanes of the largest of `parts`. */
static double largest(int64_t lanes, int64_t parts)
{
    return (double)((cpu_product_panels(lanes) + parts - 1) / parts * PRODUCT_LANES);
}

/* What the largest part costs, for each element along k. */
static double part_cost(const struct cpu_product *p)
{
    const double m = largest(p->m, p->down), n = largest(p->n, p->across);
    const double a = m * (p->a_transposed ? BOTH : cpu_product_stored(p) ? STORED : COPIED);
    const double b = n * (p->b_transposed ? TRANSPOSED : INTERLEAVED);
    return m * n / MULTIPLIED +
           (p->outer_a ? a + b * times_packed(p, m) : b + a * times_packed(p, n));
}

/* Choose the division of C among `parts` threads, and the outer operand. */
static void divide(struct cpu_product *p, int64_t parts)
{
    double least = 0;
    struct cpu_product try = *p;
    for (int64_t k = 0; k < 2 * parts; k++) {
        try.down = k / 2 + 1;
        try.across = parts / try.down;
        try.outer_a = k % 2;
        const double cost = parts % try.down == 0 ? part_cost(&try) : 0;
        if (cost > 0 && (least == 0 || cost < least)) {
            least = cost;
            *p = try;
        }
    }
}

bool product_is_tiled(const weft_prepared *p, int64_t m, int64_t n)
{
    const int64_t least = p->op->form == PRODUCT_Y ? LEAST_TOKENS_OF_Y : LEAST_LANES;
    return p->d->kernels->product && p->a.dt == WEFT_BF16 && m >= least && n >= LEAST_LANES;
}

weft_status product_tiled_ready(weft_prepared *p, struct cpu_product *product, int64_t batch)
{
    const int64_t threads = p->d->threads;
    const int64_t blocks = cpu_product_panels(product->m) * cpu_product_panels(product->n);
    const int64_t parts = blocks < threads ? blocks : threads;
    divide(product, batch % threads == 0 ? 1 : parts);
    p->a.product = product;
    p->a.outer = batch;
    return cpu_scratch_reserve(p->d, p->d->kernels->product_scratch(&p->a));
}

weft_status product_tiled_run(const weft_prepared *p, const void *const *in, void *const *out)
{
    const struct cpu_product *q = p->a.product;
    const struct cpu_job j = {&p->a, in, out, NULL};
    cpu_par(p->d, p->d->kernels->product, &j, p->a.outer * q->down * q->across, 1);
    return WEFT_OK;
}
