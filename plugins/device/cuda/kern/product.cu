/* kern/product.cu: matrix products without a library, for operands that cuBLASLt has no algorithm
 * for (odd sizes in 16 bits), and their reference in tests.
 *
 * C [m,n] = A [m,k] B [k,n], all by strides, so that one kernel has every transpose. A block makes
 * a tile of 64 by 64, sixteen deep at a time, each of 256 threads 4 by 4 of it in registers. fp32
 * arithmetic without tensor cores. */
#include "common.cuh"

#define TILE 64
#define DEPTH 16
#define EACH 4

template <class T>
FN void load_strip(const T *from, int64_t step, int64_t step_k, int64_t rows, int64_t depth,
                   float *tile)
{
    for (int i = thread(); i < TILE * DEPTH; i += ROW_BLOCK) {
        const int r = step_k == 1 ? i / DEPTH : i % TILE, k = step_k == 1 ? i % DEPTH : i / TILE;
        const bool there = r < rows && k < depth;
        tile[k * (TILE + 1) + r] = there ? widen(from[r * step + k * step_k]) : 0.0f;
    }
}

FN void multiply_strips(const float *a, const float *b, int row, int col, float (&sum)[EACH][EACH])
{
    for (int k = 0; k < DEPTH; k++) {
        float x[EACH], y[EACH];
        for (int i = 0; i < EACH; i++) {
            x[i] = a[k * (TILE + 1) + row + 16 * i];
            y[i] = b[k * (TILE + 1) + col + 16 * i];
        }
        for (int r = 0; r < EACH; r++)
            for (int c = 0; c < EACH; c++)
                sum[r][c] = fmaf(x[r], y[c], sum[r][c]);
    }
}

/* in: A, B, bias [n] or NULL; out: C of type gt, row-major. */
template <class T> FN void product_tile(const struct product_job &j)
{
    SHARED(float, a, DEPTH *(TILE + 1));
    SHARED(float, b, DEPTH *(TILE + 1));
    const int64_t row0 = block_y() * TILE, col0 = block() * TILE;
    const int row = thread() / 16, col = thread() % 16;
    float sum[EACH][EACH] = {};
    for (int64_t k = 0; k < j.k; k += DEPTH) {
        load_strip((const T *)j.a + row0 * j.a_row + k * j.a_k, j.a_row, j.a_k, j.m - row0, j.k - k,
                   a);
        load_strip((const T *)j.b + col0 * j.b_col + k * j.b_k, j.b_col, j.b_k, j.n - col0, j.k - k,
                   b);
        sync_block();
        multiply_strips(a, b, row, col, sum);
        sync_block();
    }
    for (int r = 0; r < EACH; r++)
        for (int c = 0; c < EACH; c++) {
            const int64_t y = row0 + row + 16 * r, x = col0 + col + 16 * c;
            if (y >= j.m || x >= j.n)
                continue;
            const float bias = j.bias ? widen(((const T *)j.bias)[x]) : 0.0f;
            const float out[1] = {sum[r][c] + bias};
            put_grad<1>(j.c, j.gt, y * j.n + x, out, j.accumulate);
        }
}

ENTRY(product_f32, ROW_BLOCK, struct product_job)
{
    product_tile<float>(j);
}

ENTRY(product_bf16, ROW_BLOCK, struct product_job)
{
    product_tile<bf16>(j);
}

ENTRY(product_f16, ROW_BLOCK, struct product_job)
{
    product_tile<f16>(j);
}
