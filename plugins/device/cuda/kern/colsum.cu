/* kern/colsum.cu: sums over the tokens for each column: gradients of biases, and of gain and bias
 * of a normalisation.
 *
 * Two kernels. The first gives each block a tile of columns and a run of rows, whose sums go to the
 * workspace; the second adds those up in order. How rows are cut follows from the sizes alone, so
 * that the bits are the same on every GPU. */
#include "common.cuh"

/* Threads of a block: TILE_LANES beside each other over columns, TILE_ROWS over rows. */
#define TILE_LANES 32
#define TILE_ROWS 8
/* Columns of a vector lie this far from each other, so that neither writing lane by lane nor
 * reading column by column has two threads at one bank. */
#define TILE_PITCH (TILE_LANES + 4)
static_assert(TILE_LANES * TILE_ROWS == ROW_BLOCK, "a tile is a block");

/* Sums of N kinds of values over this block's rows: add(row, col, sum) adds a row's. They go to
 * ws [kind][part][cols]. */
template <int W, int N, class F> FN void part_sums(const struct gpu_job &j, F add)
{
    SHARED(float, tile, TILE_ROWS *TILE_PITCH *WIDE);
    const int lane = thread() % TILE_LANES, group = thread() / TILE_LANES;
    const int64_t col = (block() * TILE_LANES + lane) * W, first = block_y() * j.z.part;
    const int64_t last = first + j.z.part < j.z.rows ? first + j.z.part : j.z.rows;
    float sum[N][W] = {};
    if (col < j.z.cols)
        for (int64_t t = first + group; t < last; t += TILE_ROWS)
            add(t, col, sum);
    float *ws = (float *)j.ws;
    for (int k = 0; k < N; k++) {
        for (int i = 0; i < W; i++)
            tile[(group * W + i) * TILE_PITCH + lane] = sum[k][i];
        sync_block();
        for (int c = thread(); c < TILE_LANES * W; c += ROW_BLOCK) {
            const int i = c % W, l = c / W;
            const int64_t at = (block() * TILE_LANES + l) * W + i;
            float total = 0;
            for (int g = 0; g < TILE_ROWS; g++)
                total += tile[(g * W + i) * TILE_PITCH + l];
            if (at < j.z.cols)
                ws[((int64_t)k * j.z.parts + block_y()) * j.z.cols + at] = total;
        }
        sync_block();
    }
}

/* in: dy [T,O] */
template <class T, int W> FN void colsum_part_rows(const struct gpu_job &j)
{
    part_sums<W, 1>(j, [&j](int64_t t, int64_t col, float(&sum)[1][W]) {
        float d[W];
        load<W>((const T *)j.in[0] + t * j.z.cols + col, d);
        for (int i = 0; i < W; i++)
            sum[0][i] += d[i];
    });
}

FOR_ROWS(colsum_part, ROW_BLOCK, colsum_part_rows)

/* in: dy [T,C], x [T,C], mean [T], rstd [T]: sums of dy * (x - mean) * rstd, and of dy */
template <class T, int W> FN void layernorm_dw_rows(const struct gpu_job &j)
{
    part_sums<W, 2>(j, [&j](int64_t t, int64_t col, float(&sum)[2][W]) {
        const float mean = ((const float *)j.in[2])[t], rstd = ((const float *)j.in[3])[t];
        float d[W], x[W];
        load<W>((const T *)j.in[0] + t * j.z.cols + col, d);
        load<W>((const T *)j.in[1] + t * j.z.cols + col, x);
        for (int i = 0; i < W; i++) {
            sum[0][i] = fmaf(d[i], (x[i] - mean) * rstd, sum[0][i]);
            sum[1][i] += d[i];
        }
    });
}

FOR_ROWS(layernorm_dw_part, ROW_BLOCK, layernorm_dw_rows)

/* in: dy [T,C], x [T,C], rstd [T]: sums of dy * x * rstd */
template <class T, int W> FN void rmsnorm_dw_rows(const struct gpu_job &j)
{
    part_sums<W, 1>(j, [&j](int64_t t, int64_t col, float(&sum)[1][W]) {
        const float rstd = ((const float *)j.in[2])[t];
        float d[W], x[W];
        load<W>((const T *)j.in[0] + t * j.z.cols + col, d);
        load<W>((const T *)j.in[1] + t * j.z.cols + col, x);
        for (int i = 0; i < W; i++)
            sum[0][i] = fmaf(d[i], x[i] * rstd, sum[0][i]);
    });
}

FOR_ROWS(rmsnorm_dw_part, ROW_BLOCK, rmsnorm_dw_rows)

/* ws [kind][parts][cols]; out[kind] [cols]. A block has TILE_LANES columns of one kind; its rows of
 * threads take every TILE_ROWS-th part. */
ENTRY(colsum_total, ROW_BLOCK, struct gpu_job)
{
    SHARED(float, tile, ROW_BLOCK);
    const int lane = thread() % TILE_LANES, group = thread() / TILE_LANES;
    const int64_t col = block() * TILE_LANES + lane, kind = block_y();
    const float *ws = (const float *)j.ws + kind * j.z.parts * j.z.cols;
    float sum = 0;
    if (col < j.z.cols)
        for (int64_t p = group; p < j.z.parts; p += TILE_ROWS)
            sum += ws[p * j.z.cols + col];
    tile[thread()] = sum;
    sync_block();
    if (group > 0 || col >= j.z.cols)
        return;
    for (int g = 1; g < TILE_ROWS; g++)
        sum += tile[g * TILE_LANES + lane];
    const float total[1] = {sum};
    put_grad<1>(j.out[kind], j.z.gt[kind], col, total, j.z.accumulate);
}
