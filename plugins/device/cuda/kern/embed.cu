/* kern/embed.cu: the gradient of a table whose rows were looked up: dtable[id] += dy[token].
 *
 * No atomic sums, so the bits are always the same:
 *   1. ids become keys; ids outside the table get the key `table`, the largest
 *   2. the pairs (key, token) are sorted, stably, by digits of SORT_BITS from the lowest: count the
 *      digits of each block, add up the counts in the order (digit, block), scatter
 *   3. each block adds up RUN_BLOCK sorted rows of dy, run of equal keys by run. A run inside the
 *      block goes to the table; one that crosses its borders goes to the workspace, as the
 *      block's head (begins before it) or tail (continues after it)
 *   4. the block in which a crossing run begins adds its tail and the heads of the following blocks
 *
 * Sorting moves 16 bytes a token and digit, a hundredth of what dy has. */
#include "common.cuh"

/* The workspace, cut as the host side cut it; in: dy, ids. */
struct sorting {
    uint32_t *keys, *tokens, *keys2, *tokens2, *counts; /* [rows] each; [SORT_DIGITS][blocks] */
    float *partial;                                     /* [run blocks][head, tail][cols] */
};

FN struct sorting sorting_of(const struct gpu_job &j)
{
    const int64_t n = (j.z.rows + 15) / 16 * 16;
    const int64_t counts = (j.z.rows + SORT_BLOCK - 1) / SORT_BLOCK * SORT_DIGITS;
    uint32_t *ws = (uint32_t *)j.ws;
    return {ws, ws + n, ws + 2 * n, ws + 3 * n, ws + 4 * n, (float *)(ws + 4 * n + counts)};
}

/* in: dy, ids i32 [T] */
ENTRY(embed_keys, ROW_BLOCK, struct gpu_job)
{
    const struct sorting s = sorting_of(j);
    const int64_t t = block() * ROW_BLOCK + thread();
    if (t >= j.z.rows)
        return;
    const int64_t id = ((const int32_t *)j.in[1])[t] - j.z.first;
    s.keys[t] = (uint32_t)(id >= 0 && id < j.z.table ? id : j.z.table);
    s.tokens[t] = (uint32_t)t;
}

/* --- sorting: from keys to keys2 where `flip` is 0, else back --- */

FN uint32_t digit_of(uint32_t key, int lowest)
{
    return key >> lowest & (SORT_DIGITS - 1);
}

#define KEYS_EACH (SORT_BLOCK / SORT_THREADS)

/* How often this thread's keys, KEYS_EACH beside each other, have each digit. */
FN void count_digits(const struct gpu_job &j, const uint32_t *keys, uint32_t *mine)
{
    const int64_t first = block() * SORT_BLOCK + (int64_t)thread() * KEYS_EACH;
    for (int d = 0; d < SORT_DIGITS; d++)
        mine[d * SORT_THREADS] = 0;
    for (int64_t i = first; i < first + KEYS_EACH && i < j.z.rows; i++)
        mine[digit_of(keys[i], j.z.digit) * SORT_THREADS]++;
}

ENTRY(sort_count, SORT_THREADS, struct gpu_job)
{
    SHARED(uint32_t, count, SORT_DIGITS * SORT_THREADS);
    const struct sorting s = sorting_of(j);
    count_digits(j, j.z.flip ? s.keys2 : s.keys, count + thread());
    sync_block();
    if (thread() >= SORT_DIGITS)
        return;
    uint32_t sum = 0;
    for (int k = 0; k < SORT_THREADS; k++)
        sum += count[thread() * SORT_THREADS + k];
    s.counts[thread() * blocks() + block()] = sum;
}

/* counts [digit][block] become where the block's keys of the digit begin. One block. */
ENTRY(sort_scan, SUM_BLOCK, struct gpu_job)
{
    SHARED(uint32_t, all, SUM_BLOCK);
    const struct sorting s = sorting_of(j);
    const int64_t n = (j.z.rows + SORT_BLOCK - 1) / SORT_BLOCK * SORT_DIGITS;
    const int64_t each = (n + SUM_BLOCK - 1) / SUM_BLOCK, first = thread() * each;
    uint32_t sum = 0;
    for (int64_t i = first; i < first + each && i < n; i++)
        sum += s.counts[i];
    all[thread()] = sum;
    sync_block();
    uint32_t before = 0;
    for (int k = 0; k < thread(); k++)
        before += all[k];
    for (int64_t i = first; i < first + each && i < n; i++) {
        const uint32_t here = s.counts[i];
        s.counts[i] = before;
        before += here;
    }
}

/* Threads with one digit each: its counts become where each thread's keys of it begin. */
FN void scan_threads(uint32_t *count, uint32_t begin)
{
    uint32_t *row = count + thread() * SORT_THREADS;
    for (int k = 0; k < SORT_THREADS; k++) {
        const uint32_t here = row[k];
        row[k] = begin;
        begin += here;
    }
}

ENTRY(sort_scatter, SORT_THREADS, struct gpu_job)
{
    SHARED(uint32_t, count, SORT_DIGITS * SORT_THREADS);
    const struct sorting s = sorting_of(j);
    const uint32_t *keys = j.z.flip ? s.keys2 : s.keys, *tokens = j.z.flip ? s.tokens2 : s.tokens;
    uint32_t *to_keys = j.z.flip ? s.keys : s.keys2, *to_tokens = j.z.flip ? s.tokens : s.tokens2;
    const int64_t first = block() * SORT_BLOCK + (int64_t)thread() * KEYS_EACH;
    count_digits(j, keys, count + thread());
    sync_block();
    if (thread() < SORT_DIGITS)
        scan_threads(count, s.counts[thread() * blocks() + block()]);
    sync_block();
    for (int64_t i = first; i < first + KEYS_EACH && i < j.z.rows; i++) {
        const uint32_t d = digit_of(keys[i], j.z.digit);
        const uint32_t to = count[d * SORT_THREADS + thread()]++;
        to_keys[to] = keys[i];
        to_tokens[to] = tokens[i];
    }
}

/* --- sums; the sorted pairs are in keys2 where `flip` is 1 --- */

/* This block's run of sorted tokens, and whether its first and last runs of keys cross its borders.
 */
struct stretch {
    const uint32_t *keys, *tokens;
    int64_t first, last; /* tokens [first, last) */
    bool from_before, goes_on;
};

FN struct stretch stretch_of(const struct gpu_job &j, int64_t b)
{
    const struct sorting s = sorting_of(j);
    struct stretch r;
    r.keys = j.z.flip ? s.keys2 : s.keys;
    r.tokens = j.z.flip ? s.tokens2 : s.tokens;
    r.first = b * RUN_BLOCK;
    r.last = r.first + RUN_BLOCK < j.z.rows ? r.first + RUN_BLOCK : j.z.rows;
    r.from_before = r.first > 0 && r.keys[r.first - 1] == r.keys[r.first];
    r.goes_on = r.last < j.z.rows && r.keys[r.last] == r.keys[r.last - 1];
    return r;
}

/* A sum over the run that ends in front of token i goes where it belongs. */
template <int W>
FN void put_run(const struct gpu_job &j, const struct stretch &r, int64_t began, int64_t i,
                int64_t col, const float (&sum)[W])
{
    const uint32_t key = r.keys[began];
    float *partial = sorting_of(j).partial + block() * 2 * j.z.cols + col;
    if (key >= j.z.table)
        return;
    if (began == r.first && r.from_before)
        store<W>(partial, sum);
    else if (i == r.last && r.goes_on)
        store<W>(partial + j.z.cols, sum);
    else
        put_grad<W>(j.out[0], j.z.gt[0], key * j.z.cols + col, sum, j.z.accumulate);
}

/* in: dy [T,F]; out: dtable [V,F]. A thread has W columns. */
template <class T, int W> FN void run_sums(const struct gpu_job &j)
{
    const int64_t col = (block_y() * threads() + thread()) * W;
    const struct stretch r = stretch_of(j, block());
    int64_t began = r.first;
    float sum[W] = {0};
    if (col >= j.z.cols)
        return;
    for (int64_t i = r.first; i < r.last; i++) {
        float d[W];
        if (r.keys[i] != r.keys[began]) {
            put_run<W>(j, r, began, i, col, sum);
            for (int k = 0; k < W; k++)
                sum[k] = 0;
            began = i;
        }
        load<W>((const T *)j.in[0] + r.tokens[i] * j.z.cols + col, d);
        for (int k = 0; k < W; k++)
            sum[k] += d[k];
    }
    put_run<W>(j, r, began, r.last, col, sum);
}

FOR_ROWS(embed_runs, RUN_THREADS, run_sums)

/* The run that begins in this block and crosses its end. */
template <int W> FN void crossing_sum(const struct gpu_job &j)
{
    const int64_t col = (block_y() * threads() + thread()) * W;
    struct stretch r = stretch_of(j, block());
    const uint32_t key = r.keys[r.last - 1];
    const bool begins = !(r.from_before && r.keys[r.first] == key);
    if (col >= j.z.cols || !r.goes_on || !begins || key >= j.z.table)
        return;
    const float *partial = sorting_of(j).partial + col;
    float sum[W], head[W];
    load<W>(partial + (2 * block() + 1) * j.z.cols, sum);
    for (int64_t b = block() + 1;; b++) {
        r = stretch_of(j, b);
        load<W>(partial + 2 * b * j.z.cols, head);
        for (int k = 0; k < W; k++)
            sum[k] += head[k];
        if (!r.goes_on || r.keys[r.last - 1] != key)
            break;
    }
    put_grad<W>(j.out[0], j.z.gt[0], key * j.z.cols + col, sum, j.z.accumulate);
}

ENTRY(embed_crossing, RUN_THREADS, struct gpu_job)
{
    if (j.z.wide)
        crossing_sum<WIDE>(j);
    else
        crossing_sum<1>(j);
}
