/* kern/flat.cu: flat ranges of any float type: sum into another, and sum of squares.
 *
 * The sum of squares is formed in double over blocks of FLAT_BLOCK elements, whose sums one block
 * adds up in order: the bits do not depend on the GPU. */
#include "common.cuh"

/* in: x [N] of type dt; out: y [N] of type gt, written or added to. */
template <int W> FN void accumulate_at(const struct gpu_job &j, int64_t i)
{
    float x[W];
    load_any<W>(j.in[0], j.z.dt, i, x);
    put_grad<W>(j.out[0], j.z.gt[0], i, x, j.z.accumulate);
}

/* A thread takes WIDE elements; of the last ones one after another. */
ENTRY(accumulate, ROW_BLOCK, struct gpu_job)
{
    const int64_t i = (block() * ROW_BLOCK + thread()) * WIDE;
    if (i + WIDE <= j.z.rows) {
        accumulate_at<WIDE>(j, i);
        return;
    }
    for (int64_t k = i; k < j.z.rows; k++)
        accumulate_at<1>(j, k);
}

template <int W> FN double squares_at(const struct gpu_job &j, int64_t i)
{
    float x[W];
    double sum = 0;
    load_any<W>(j.in[0], j.z.dt, i, x);
    for (int k = 0; k < W; k++)
        sum += (double)x[k] * (double)x[k];
    return sum;
}

/* All threads' values in order of the threads; on thread 0. */
FN double ordered_sum(double x, double *all)
{
    all[thread()] = x;
    sync_block();
    for (int n = threads() / 2; n > 0; n /= 2) {
        if (thread() < n)
            all[thread()] += all[thread() + n];
        sync_block();
    }
    return all[0];
}

/* in: x [N] of type dt; ws: double [blocks] */
ENTRY(sumsq_part, ROW_BLOCK, struct gpu_job)
{
    SHARED(double, all, ROW_BLOCK);
    const int64_t first = block() * FLAT_BLOCK;
    const int64_t last = first + FLAT_BLOCK < j.z.rows ? first + FLAT_BLOCK : j.z.rows;
    double sum = 0;
    for (int64_t i = first + thread() * WIDE; i < last; i += ROW_BLOCK * WIDE)
        if (i + WIDE <= last)
            sum += squares_at<WIDE>(j, i);
        else
            for (int64_t k = i; k < last; k++)
                sum += squares_at<1>(j, k);
    sum = ordered_sum(sum, all);
    if (thread() == 0)
        ((double *)j.ws)[block()] = sum;
}

/* ws: double [parts]; out: f32, written or added to */
ENTRY(sumsq_total, SUM_BLOCK, struct gpu_job)
{
    SHARED(double, all, SUM_BLOCK);
    double sum = 0;
    for (int64_t i = thread(); i < j.z.parts; i += threads())
        sum += ((const double *)j.ws)[i];
    sum = ordered_sum(sum, all);
    float *total = (float *)j.out[0];
    if (thread() == 0)
        *total = (float)(j.z.accumulate ? (double)*total + sum : sum);
}

/* ws: f32 [rows], the loss of each row; out[loss]: their sum times the weight */
ENTRY(loss_total, SUM_BLOCK, struct gpu_job)
{
    SHARED(double, all, SUM_BLOCK);
    double sum = 0;
    for (int64_t i = thread(); i < j.z.rows; i += threads())
        sum += (double)((const float *)j.ws)[i];
    sum = ordered_sum(sum, all);
    if (thread() == 0)
        *(float *)j.out[j.z.loss] = (float)(sum * (double)j.z.weight);
}

/* in: x [A, B, C]; out: y [B, A, C]; A is rows, B is parts. A thread takes W elements of y. Values
 * pass through fp32, which has every one of a 16-bit type. */
template <class T, int W> FN void interchange_at(const struct gpu_job &j)
{
    const int64_t vectors = j.z.cols / W, i = block() * ROW_BLOCK + thread();
    const int64_t row = i / vectors, within = i % vectors * W;
    if (row >= j.z.rows * j.z.parts)
        return;
    const int64_t from = row % j.z.rows * j.z.parts + row / j.z.rows;
    float x[W];
    load<W>((const T *)j.in[0] + from * j.z.cols + within, x);
    store<W>((T *)j.out[0] + row * j.z.cols + within, x);
}

FOR_ROWS(interchange, ROW_BLOCK, interchange_at)
