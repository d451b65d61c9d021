/* kern/attention.cu: attention without a library, forward and backward, for any type and any size
 * of heads: the fallback where cuDNN has no kernel, and its reference in tests.
 *
 * As in FlashAttention (Dao et al., 2022; backward as in FlashAttention-2), scores are never
 * stored: a block has a tile of queries and walks over the tiles of keys that they see, keeping for
 * each query a running maximum m, a sum l of exponentials, and a result that is rescaled when m
 * grows. Backward recomputes the probabilities from the logarithm of the sum (lse): once for the
 * gradients of a tile of keys and values, over all tiles of queries and all heads that share them,
 * and once for those of a tile of queries. So every sum has one owner and one order: no atomics.
 *
 * Arithmetic is fp32 from shared memory, without tensor cores: a tenth of what the library reaches
 * in 16 bits. */
#include "common.cuh"

/* Where queries, keys and values are: element 0 of token 0, and elements from token to token. */
struct heads {
    int64_t q, k, v;        /* offsets of head 0 */
    int64_t q_step, k_step; /* from token to token */
    int64_t head, kv_head;  /* this block's */
    int64_t begin;          /* first token of this block's sequence */
};

FN struct heads heads_of(const struct gpu_sizes &z, int64_t head, int64_t kv_head, int64_t sequence)
{
    const int64_t row = z.heads * z.dim, kv_row = z.kv_heads * z.dim;
    struct heads h = {0, 0, 0, row, kv_row, head, kv_head, sequence * z.sequence};
    if (z.fused) {
        h.q_step = h.k_step = 3 * row;
        h.k = row;
        h.v = 2 * row;
    }
    h.q += head * z.dim;
    h.k += kv_head * z.dim;
    h.v += kv_head * z.dim;
    return h;
}

/* The threads of a block as rows of a tile: `lanes` beside each other have one row. */
struct place {
    int row, lane, lanes, rows; /* rows of a tile */
    int dim, pitch;             /* elements of a head; from row to row of a tile in shared memory */
};

FN struct place place_of(const struct gpu_sizes &z)
{
    const int rows = (int)z.part, lanes = HEAD_THREADS / rows;
    return {thread() / lanes, thread() % lanes, lanes, rows, (int)z.dim, (int)z.dim + 1};
}

FN float lanes_sum(float x, int lanes)
{
    for (int mask = lanes / 2; mask > 0; mask /= 2)
        x += shuffle_xor(x, mask);
    return x;
}

FN float lanes_max(float x, int lanes)
{
    for (int mask = lanes / 2; mask > 0; mask /= 2)
        x = fmaxf(x, shuffle_xor(x, mask));
    return x;
}

/* Tokens [first, first + rows) of a sequence into a tile; zeros behind its end. */
template <class T>
FN void load_tile(const struct gpu_sizes &z, const struct place &p, const T *from, int64_t step,
                  int64_t first, float *tile)
{
    for (int i = thread(); i < p.rows * p.dim; i += HEAD_THREADS) {
        const int r = i / p.dim, c = i % p.dim;
        const bool there = first + r < z.sequence;
        tile[r * p.pitch + c] = there ? widen(from[(first + r) * step + c]) : 0.0f;
    }
}

FN void clear_tile(const struct place &p, float *tile)
{
    for (int i = thread(); i < p.rows * p.pitch; i += HEAD_THREADS)
        tile[i] = 0;
}

template <class T>
FN void store_tile(const struct gpu_sizes &z, const struct place &p, const float *tile, T *to,
                   int64_t step, int64_t first)
{
    for (int i = thread(); i < p.rows * p.dim; i += HEAD_THREADS) {
        const int r = i / p.dim, c = i % p.dim;
        if (first + r < z.sequence)
            put(to + (first + r) * step + c, tile[r * p.pitch + c]);
    }
}

FN float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum = fmaf(a[i], b[i], sum);
    return sum;
}

/* Does query q see key k? Both count from the sequence's first token. */
FN bool sees(const struct gpu_sizes &z, int64_t q, int64_t k)
{
    return q < z.sequence && k < z.sequence && (!z.causal || k <= q);
}

/* Tiles of keys that queries [q0, q0 + rows) see. */
FN int64_t key_tiles(const struct gpu_sizes &z, int64_t q0, int rows)
{
    const int64_t end = z.causal && q0 + rows < z.sequence ? q0 + rows : z.sequence;
    return (end + rows - 1) / rows;
}

/* --- forward --- */

/* Shared: q, k, v, o [rows][pitch]; p [rows][rows + 1] */
struct forward_tiles {
    float *q, *k, *v, *o, *p;
};

FN struct forward_tiles forward_tiles_of(const struct place &p)
{
    float *s = (float *)shared_bytes();
    const int n = p.rows * p.pitch;
    return {s, s + n, s + 2 * n, s + 3 * n, s + 4 * n};
}

/* One tile of keys: scores, the new m and l of this row, and o rescaled and added to. */
FN void forward_step(const struct gpu_sizes &z, const struct place &p,
                     const struct forward_tiles &s, int64_t q, int64_t k0, float *m, float *l)
{
    float *prob = s.p + p.row * (p.rows + 1), max = *m, sum = 0;
    for (int k = p.lane; k < p.rows; k += p.lanes) {
        const float x = sees(z, q, k0 + k)
                            ? dot(s.q + p.row * p.pitch, s.k + k * p.pitch, p.dim) * z.weight
                            : -INFINITY;
        prob[k] = x;
        max = fmaxf(max, x);
    }
    max = lanes_max(max, p.lanes);
    for (int k = p.lane; k < p.rows; k += p.lanes) {
        prob[k] = max == -INFINITY ? 0.0f : exponential(prob[k] - max);
        sum += prob[k];
    }
    const float shrink = max == -INFINITY ? 1.0f : exponential(*m - max);
    *l = *l * shrink + lanes_sum(sum, p.lanes);
    *m = max;
    sync_warp(); /* the lanes of a row are in one warp */
    for (int c = p.lane; c < p.dim; c += p.lanes) {
        float x = s.o[p.row * p.pitch + c] * shrink;
        for (int k = 0; k < p.rows; k++)
            x = fmaf(prob[k], s.v[k * p.pitch + c], x);
        s.o[p.row * p.pitch + c] = x;
    }
}

/* in: qkv [T,3,H,D], or q [T,H,D], k and v [T,G,D]; out: y [T,H,D], lse f32 [T,H].
 * Blocks: heads, sequence by sequence; tiles of queries. */
template <class T> FN void attention_tile(const struct gpu_job &j)
{
    const struct place p = place_of(j.z);
    const struct forward_tiles s = forward_tiles_of(p);
    const int64_t head = block() % j.z.heads, group = j.z.heads / j.z.kv_heads;
    const struct heads h = heads_of(j.z, head, head / group, block() / j.z.heads);
    const T *q = (const T *)j.in[0] + h.begin * h.q_step + h.q;
    const T *k = (const T *)j.in[j.z.fused ? 0 : 1] + h.begin * h.k_step + h.k;
    const T *v = (const T *)j.in[j.z.fused ? 0 : 2] + h.begin * h.k_step + h.v;
    const int64_t q0 = block_y() * p.rows, tiles = key_tiles(j.z, q0, p.rows);
    float m = -INFINITY, l = 0;
    load_tile(j.z, p, q, h.q_step, q0, s.q);
    clear_tile(p, s.o);
    for (int64_t t = 0; t < tiles; t++) {
        sync_block();
        load_tile(j.z, p, k, h.k_step, t * p.rows, s.k);
        load_tile(j.z, p, v, h.k_step, t * p.rows, s.v);
        sync_block();
        forward_step(j.z, p, s, q0 + p.row, t * p.rows, &m, &l);
    }
    const int64_t row = j.z.heads * j.z.dim;
    for (int c = p.lane; c < p.dim; c += p.lanes)
        s.o[p.row * p.pitch + c] /= l;
    if (p.lane == 0 && q0 + p.row < j.z.sequence)
        ((float *)j.out[1])[(h.begin + q0 + p.row) * j.z.heads + head] = m + logf(l);
    sync_block();
    store_tile(j.z, p, s.o, (T *)j.out[0] + h.begin * row + head * j.z.dim, row, q0);
}

FOR_TYPES(attention, HEAD_THREADS, attention_tile)

/* --- backward; in: dy [T,H,D], then as forward, then y [T,H,D], lse f32 [T,H] --- */

/* ws f32 [T,H]: the sum over a head of dy * y. A warp has a token and head. */
template <class T> FN void attention_delta_row(const struct gpu_job &j)
{
    const int64_t i = (block() * ROW_BLOCK + thread()) / 32;
    const T *dy = (const T *)j.in[0] + i * j.z.dim;
    const T *y = (const T *)j.in[j.z.fused ? 2 : 4] + i * j.z.dim;
    float sum = 0;
    if (i >= j.z.rows * j.z.heads)
        return;
    for (int64_t c = thread() % 32; c < j.z.dim; c += 32)
        sum = fmaf(widen(dy[c]), widen(y[c]), sum);
    sum = warp_sum(sum);
    if (thread() % 32 == 0)
        ((float *)j.ws)[i] = sum;
}

FOR_TYPES(attention_delta, ROW_BLOCK, attention_delta_row)

/* Shared: a tile of queries and one of keys and values, their gradients, and for each pair the
 * probability and the gradient of the score. */
struct backward_tiles {
    float *q, *dy, *k, *v; /* [rows][pitch] */
    float *a, *b;          /* sums: dk and dv, or dq */
    float *p, *ds;         /* [queries][rows + 1] */
};

FN struct backward_tiles backward_tiles_of(const struct place &p)
{
    float *s = (float *)shared_bytes();
    const int n = p.rows * p.pitch;
    return {s,         s + n,     s + 2 * n, s + 3 * n,
            s + 4 * n, s + 5 * n, s + 6 * n, s + 6 * n + p.rows * (p.rows + 1)};
}

/* This thread's query against its keys: p and ds. */
FN void backward_scores(const struct gpu_job &j, const struct place &p,
                        const struct backward_tiles &s, const struct heads &h, int64_t q0,
                        int64_t k0)
{
    const int64_t q = q0 + p.row, at = (h.begin + q) * j.z.heads + h.head;
    const bool there = q < j.z.sequence;
    const float lse = there ? ((const float *)j.in[j.z.fused ? 3 : 5])[at] : 0;
    const float delta = there ? ((const float *)j.ws)[at] : 0;
    for (int k = p.lane; k < p.rows; k += p.lanes) {
        float prob = 0, ds = 0;
        if (sees(j.z, q, k0 + k)) {
            const float x = dot(s.q + p.row * p.pitch, s.k + k * p.pitch, p.dim) * j.z.weight;
            const float dp = dot(s.dy + p.row * p.pitch, s.v + k * p.pitch, p.dim);
            prob = exponential(x - lse);
            ds = prob * (dp - delta) * j.z.weight;
        }
        s.p[p.row * (p.rows + 1) + k] = prob;
        s.ds[p.row * (p.rows + 1) + k] = ds;
    }
}

/* This thread's key: dk += ds' q, dv += p' dy. */
FN void backward_keys(const struct place &p, const struct backward_tiles &s)
{
    for (int c = p.lane; c < p.dim; c += p.lanes) {
        float dk = s.a[p.row * p.pitch + c], dv = s.b[p.row * p.pitch + c];
        for (int q = 0; q < p.rows; q++) {
            dk = fmaf(s.ds[q * (p.rows + 1) + p.row], s.q[q * p.pitch + c], dk);
            dv = fmaf(s.p[q * (p.rows + 1) + p.row], s.dy[q * p.pitch + c], dv);
        }
        s.a[p.row * p.pitch + c] = dk;
        s.b[p.row * p.pitch + c] = dv;
    }
}

/* This thread's query: dq += ds k. */
FN void backward_queries(const struct place &p, const struct backward_tiles &s)
{
    for (int c = p.lane; c < p.dim; c += p.lanes) {
        float dq = s.a[p.row * p.pitch + c];
        for (int k = 0; k < p.rows; k++)
            dq = fmaf(s.ds[p.row * (p.rows + 1) + k], s.k[k * p.pitch + c], dq);
        s.a[p.row * p.pitch + c] = dq;
    }
}

/* Operands of a backward call, at the first token of the block's sequence. */
template <class T> struct operands {
    const T *dy, *q, *k, *v;
    int64_t row; /* of dy and y, from token to token */
};

template <class T>
FN struct operands<T> operands_of(const struct gpu_job &j, const struct heads &h) {
    const int64_t row = j.z.heads * j.z.dim;
    return {(const T *)j.in[0] + h.begin * row + h.head * j.z.dim,
            (const T *)j.in[1] + h.begin *h.q_step + h.q,
            (const T *)j.in[j.z.fused ? 1 : 2] + h.begin *h.k_step + h.k,
            (const T *)j.in[j.z.fused ? 1 : 3] + h.begin *h.k_step + h.v, row};
}

/* out: dqkv, or dk and dv (1 and 2). Blocks: heads of keys, sequence by sequence; tiles of keys. */
template <class T>
FN void attention_dkv_tile(const struct gpu_job &j)
{
    const struct place p = place_of(j.z);
    const struct backward_tiles s = backward_tiles_of(p);
    const int64_t kv = block() % j.z.kv_heads, group = j.z.heads / j.z.kv_heads;
    const int64_t k0 = block_y() * p.rows, tiles = (j.z.sequence + p.rows - 1) / p.rows;
    struct heads h = heads_of(j.z, kv * group, kv, block() / j.z.kv_heads);
    struct operands<T> x = operands_of<T>(j, h);
    load_tile(j.z, p, x.k, h.k_step, k0, s.k);
    load_tile(j.z, p, x.v, h.k_step, k0, s.v);
    clear_tile(p, s.a);
    clear_tile(p, s.b);
    for (int64_t i = 0; i < group; i++) {
        h = heads_of(j.z, kv * group + i, kv, block() / j.z.kv_heads);
        x = operands_of<T>(j, h);
        for (int64_t t = j.z.causal ? block_y() : 0; t < tiles; t++) {
            sync_block();
            load_tile(j.z, p, x.q, h.q_step, t * p.rows, s.q);
            load_tile(j.z, p, x.dy, x.row, t * p.rows, s.dy);
            sync_block();
            backward_scores(j, p, s, h, t * p.rows, k0);
            sync_block();
            backward_keys(p, s);
        }
    }
    sync_block();
    T *dk = (T *)j.out[j.z.fused ? 0 : 1], *dv = (T *)j.out[j.z.fused ? 0 : 2];
    store_tile(j.z, p, s.a, dk + h.begin * h.k_step + h.k, h.k_step, k0);
    store_tile(j.z, p, s.b, dv + h.begin * h.k_step + h.v, h.k_step, k0);
}

FOR_TYPES(attention_dkv, HEAD_THREADS, attention_dkv_tile)

/* out: dqkv, or dq. Blocks: heads, sequence by sequence; tiles of queries. */
template <class T> FN void attention_dq_tile(const struct gpu_job &j)
{
    const struct place p = place_of(j.z);
    const struct backward_tiles s = backward_tiles_of(p);
    const int64_t head = block() % j.z.heads, group = j.z.heads / j.z.kv_heads;
    const struct heads h = heads_of(j.z, head, head / group, block() / j.z.heads);
    const struct operands<T> x = operands_of<T>(j, h);
    const int64_t q0 = block_y() * p.rows, tiles = key_tiles(j.z, q0, p.rows);
    load_tile(j.z, p, x.q, h.q_step, q0, s.q);
    load_tile(j.z, p, x.dy, x.row, q0, s.dy);
    clear_tile(p, s.a);
    for (int64_t t = 0; t < tiles; t++) {
        sync_block();
        load_tile(j.z, p, x.k, h.k_step, t * p.rows, s.k);
        load_tile(j.z, p, x.v, h.k_step, t * p.rows, s.v);
        sync_block();
        backward_scores(j, p, s, h, q0, t * p.rows);
        sync_warp();
        backward_queries(p, s);
    }
    sync_block();
    store_tile(j.z, p, s.a, (T *)j.out[0] + h.begin * h.q_step + h.q, h.q_step, q0);
}

FOR_TYPES(attention_dq, HEAD_THREADS, attention_dq_tile)

/* --- statistics as cuDNN has them: f32 [sequences, H, sequence], where ours are [T,H] --- */

FN bool find_statistic(const struct gpu_sizes &z, int64_t *by_head, int64_t *by_token)
{
    const int64_t i = block() * ROW_BLOCK + thread();
    const int64_t row = i / z.sequence, sequence = row / z.heads;
    *by_head = i;
    *by_token = (sequence * z.sequence + i % z.sequence) * z.heads + row % z.heads;
    return i < z.rows * z.heads;
}

/* in ws; out[1]: lse */
ENTRY(stats_by_token, ROW_BLOCK, struct gpu_job)
{
    int64_t by_head, by_token;
    if (find_statistic(j.z, &by_head, &by_token))
        ((float *)j.out[1])[by_token] = ((const float *)j.ws)[by_head];
}

/* in: lse, the last operand of the backward pass; to ws */
ENTRY(stats_by_head, ROW_BLOCK, struct gpu_job)
{
    int64_t by_head, by_token;
    if (find_statistic(j.z, &by_head, &by_token))
        ((float *)j.ws)[by_head] = ((const float *)j.in[j.z.fused ? 3 : 5])[by_token];
}
