/* kern/product.c: matrix products (GEMM) of bf16 by the tiles of AMX.
 *
 *   C [m,n] = or += A [m,k] B [k,n] (+ bias [n])
 *
 * Rows of A and columns of B are lanes. Both operands are packed into panels of 32 lanes, in the
 * order in which tiles are loaded, but for rows of A that are stored in it. A block of 32 x 32 of C
 * stays in four tiles while CHUNK elements of two panels, which fit L1, are multiplied. Of one
 * operand, the outer one, as many lanes as fit L2 are packed at a time; of the inner one a few
 * panels, once for each block of the outer one. Sums wait in fp32 between chunks: of one panel in
 * L2, and between depths of the outer operand those of HELD lanes. Rows of a block that is complete
 * are written while the next block is multiplied, since tiles leave the vectors idle.
 *
 * Each element of C is one sum along k in fp32, in one order: blocks and threads do not change it.
 * Lanes and elements that a panel has beyond its operand are zero. Subnormals count as zero, as in
 * vec_v4bf16.h.
 *
 * Cost: 2 m n k operations at 1.9 to 3.3 TFLOP/s of two cores that reach 5 with operands in L1
 * (Xeon at 2.6 GHz); packing takes 5 to 10 % of it, a quarter where A is transposed. It loses where
 * C has few rows or columns, since packing them costs more than the product. */
#include "impl.h"
#include "kern/simd/panel.h"

enum {
    LANES = PRODUCT_LANES,
    ALONG = PRODUCT_ALONG,
    TILE_UNITS = TILE * TILE, /* 1 KiB */
    CHUNK = 256,              /* elements along k that a block of C sums at a time */
    GROUP = 2,                /* panels of the inner operand that are packed at a time */
    HELD = 1024               /* lanes of the inner operand whose sums are held */
};

_Static_assert((int)LANES == 2 * TILE && (int)ALONG == 2 * TILE,
               "a panel has two tiles side by side");

/* Rows of A, or columns of B. One of the strides is 1. */
struct operand {
    const uint16_t *first;
    int64_t lanes, k;      /* elements of a lane */
    int64_t by_lane, by_k; /* strides, in elements */
    bool of_b;
};

/* A block of C whose sums are complete; m is 0 where there is none. */
struct finished {
    const float *sums;
    char *to;
    const uint16_t *bias; /* NULL: none */
    int64_t m, n;         /* its rows and columns that exist */
};

struct work {
    const struct cpu_job *j;
    struct operand outer, inner;
    uint32_t *outer_panels, *inner_panels;
    float *block[2]; /* complete sums: of the block before, and of this one */
    float *sums;     /* [inner panel][outer panel][4 tiles], or of one inner panel */
    struct finished before;
    char *c; /* the first element of this part of C */
    const uint16_t *bias;
};

/* Elements k to k + 31 of 16 lanes: a vector for each lane. */
INLINE void get_lanes(vf tile[TILE], const struct operand *o, int64_t lane, int64_t k,
                      const int whole)
{
    const uint16_t *p = o->first + lane * o->by_lane + k;
    const int64_t n = o->lanes - lane, left = o->k - k;
    const uint32_t some = left >= ALONG ? ~0u : (1u << left) - 1;
    for (int i = 0; i < TILE; i++, p += o->by_lane)
        tile[i] = whole ? v_load((const float *)p) : v_load_16s(p, i < n ? some : 0);
}

/* The same elements: a vector of 16 lanes for each pair of elements. */
INLINE void get_pairs(vf tile[TILE], const struct operand *o, int64_t lane, int64_t k,
                      const int whole)
{
    const uint16_t *p = o->first + k * o->by_k + lane;
    const int64_t n = o->lanes - lane, left = o->k - k;
    const uint32_t some = n >= TILE ? 0xffff : n > 0 ? (1u << n) - 1 : 0;
    for (int i = 0; i < TILE; i++, p += 2 * o->by_k)
        tile[i] = whole ? v_pair_16s(p, p + o->by_k, 0xffff, 0xffff)
                        : v_pair_16s(p, p + o->by_k, 2 * i < left ? some : 0,
                                     2 * i + 1 < left ? some : 0);
}

/* A's tiles have a row for each lane, B's one for each pair of elements. */
INLINE void pack_part(uint32_t *to, const struct operand *o, int64_t lane, int64_t k,
                      const int by_lanes, const int of_b, const int whole)
{
    vf tile[TILE];
    if (by_lanes)
        get_lanes(tile, o, lane, k, whole);
    else
        get_pairs(tile, o, lane, k, whole);
    if (by_lanes == of_b)
        transpose_tile(tile);
    for (int i = 0; i < TILE; i++)
        v_store((float *)(to + i * TILE), tile[i]);
}

static __attribute__((noinline)) void pack_tile(uint32_t *to, const struct operand *o, int64_t lane,
                                                int64_t k)
{
    const bool whole = lane + TILE <= o->lanes && k + ALONG <= o->k;
#define PACK(by_lanes, of_b)                                                                       \
    (whole ? pack_part(to, o, lane, k, by_lanes, of_b, 1)                                          \
           : pack_part(to, o, lane, k, by_lanes, of_b, 0))
    if (o->by_k == 1)
        o->of_b ? PACK(1, 1) : PACK(1, 0);
    else
        o->of_b ? PACK(0, 1) : PACK(0, 0);
#undef PACK
}

/* Pack n lanes into panels of `tiles` pairs of tiles, along the stride that is 1. */
static void pack(uint32_t *to, const struct operand *o, int64_t lane, int64_t n, int64_t k,
                 int64_t tiles)
{
    const int64_t halves = round_up(n, LANES) / TILE, all = halves * tiles;
    for (int64_t i = 0; i < all; i++) {
        const int64_t half = o->by_k == 1 ? i / tiles : i % halves;
        const int64_t t = o->by_k == 1 ? i % tiles : i / halves;
        pack_tile(to + ((half / 2 * tiles + t) * 2 + half % 2) * TILE_UNITS, o, lane + half * TILE,
                  k + t * ALONG);
    }
}

/* Write row r of the block before. */
INLINE void put_row(const struct work *w, int64_t r, const uint32_t dt, const int whole)
{
    const struct finished *f = &w->before;
    const struct cpu_args *a = w->j->a;
    const float *sums = f->sums + r / TILE * 2 * TILE_UNITS + r % TILE * TILE;
    char *to = f->to + r * a->product->n * dt_size(dt);
    for (int64_t i = 0; i < (whole ? LANES : f->n); i += VL, sums += TILE_UNITS) {
        const int64_t n = whole ? VL : f->n - i;
        vf x = v_load(sums);
        if (f->bias)
            x += v_get_n(f->bias, i, n, WEFT_BF16);
        if (a->accumulate)
            x += v_get_n(to, i, n, dt);
        v_put_n(to, i, n, dt, x);
    }
}

INLINE void put_rows(const struct work *w, int64_t begin, int64_t end)
{
    const bool whole = w->before.n == LANES, f32 = w->j->a->gt[0] == WEFT_F32;
    for (int64_t r = begin; r < smaller(end, w->before.m); r++)
        if (whole)
            f32 ? put_row(w, r, WEFT_F32, 1) : put_row(w, r, WEFT_BF16, 1);
        else
            f32 ? put_row(w, r, WEFT_F32, 0) : put_row(w, r, WEFT_BF16, 0);
}

/* A panel that tiles are loaded from. Distances in bytes: of a tile's rows, of the two tiles of a
 * pair, and of pairs along k. */
struct source {
    const char *at;
    int64_t stride, other, along;
};

INLINE struct source packed_panel(const uint32_t *p)
{
    return (struct source){(const char *)p, TILE * 4, TILE_UNITS * 4, 2 * TILE_UNITS * 4};
}

/* A block of C from `tiles` pairs of tiles of A and of B, added to the sums `from` unless that is
 * NULL. */
INLINE void multiply(const struct work *w, struct source a, struct source b, int64_t tiles,
                     const float *from, float *to)
{
    const int64_t rows = (LANES + tiles - 1) / tiles;
    tiles_fence();
    if (from) {
        TILE_LOAD(0, from, TILE);
        TILE_LOAD(1, from + TILE_UNITS, TILE);
        TILE_LOAD(2, from + 2 * TILE_UNITS, TILE);
        TILE_LOAD(3, from + 3 * TILE_UNITS, TILE);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t t = 0; t < tiles; t++, a.at += a.along, b.at += 2 * TILE_UNITS * 4) {
        TILE_LOAD(6, b.at, TILE);
        _tile_loadd(4, a.at, a.stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, a.at + a.other, a.stride);
        _tile_dpbf16ps(2, 5, 6);
        TILE_LOAD(7, b.at + TILE_UNITS * 4, TILE);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
        put_rows(w, t * rows, (t + 1) * rows);
    }
    TILE_STORE(0, to, TILE);
    TILE_STORE(1, to + TILE_UNITS, TILE);
    TILE_STORE(2, to + 2 * TILE_UNITS, TILE);
    TILE_STORE(3, to + 3 * TILE_UNITS, TILE);
    tiles_fence();
}

static struct finished finish(const struct work *w, const float *sums, int64_t i, int64_t o)
{
    const struct cpu_args *a = w->j->a;
    const bool b = w->inner.of_b;
    const int64_t row = b ? o : i, col = b ? i : o;
    return (struct finished){
        .sums = sums,
        .to = w->c + (row * a->product->n + col) * dt_size(a->gt[0]),
        .bias = w->bias ? w->bias + col : NULL,
        .m = smaller((b ? &w->outer : &w->inner)->lanes - row, LANES),
        .n = smaller((b ? &w->inner : &w->outer)->lanes - col, LANES),
    };
}

/* Place of a step in the sums along k. */
struct step {
    int64_t tiles;
    bool first, last;
};

/* A panel of the inner operand, from lane i on, with lanes [o, o + width) of the outer one. */
static void visit_panel(struct work *w, struct source panel, int64_t i, int64_t o, int64_t width,
                        float *sums, const struct step *s)
{
    for (int64_t t = 0; t < s->tiles; t += CHUNK / ALONG) {
        const int64_t tiles = smaller(s->tiles - t, CHUNK / ALONG);
        const bool first = s->first && t == 0, last = s->last && t + tiles == s->tiles;
        struct source x = panel;
        x.at += t * x.along;
        for (int64_t at = 0; at < width; at += LANES) {
            const struct source y =
                packed_panel(w->outer_panels + (at / LANES * s->tiles + t) * 2 * TILE_UNITS);
            float *sum = sums + at * LANES;
            float *to = last ? w->block[w->before.sums == w->block[0]] : sum;
            const bool b = w->inner.of_b;
            multiply(w, b ? y : x, b ? x : y, tiles, first ? NULL : sum, to);
            w->before = last ? finish(w, to, i, o + at) : (struct finished){0};
        }
    }
}

/* Panel of the inner operand from lane i on: 32 rows of A as they are stored, or packed, in groups
 * of panels before lane `end`. */
static struct source inner_panel(struct work *w, int64_t i, int64_t end, int64_t k, int64_t tiles)
{
    const struct operand *o = &w->inner;
    const bool stored = cpu_product_stored(w->j->a->product);
    const int64_t stride = o->by_lane * 2, group = stored ? 0 : i / LANES % GROUP;
    if (stored && i + LANES <= o->lanes) {
        const uint16_t *at = o->first + i * o->by_lane + k;
        return (struct source){(const char *)at, stride, TILE * stride, ALONG * 2};
    }
    if (group == 0)
        pack(w->inner_panels, o, i, smaller(end - i, GROUP * LANES), k, tiles);
    return packed_panel(w->inner_panels + group * tiles * 2 * TILE_UNITS);
}

/* Lanes [i, i + n) of the inner operand with lanes [o, o + width) of the outer one. */
static void visit_block(struct work *w, int64_t i, int64_t n, int64_t o, int64_t width)
{
    const int64_t all = w->outer.k, depth = cpu_product_depth(w->j->a->product);
    const int64_t held = all > depth ? round_up(width, LANES) * LANES : 0;
    for (int64_t k = 0; k < all; k += depth) {
        const struct step s = {.tiles = round_up(smaller(all - k, depth), ALONG) / ALONG,
                               .first = k == 0,
                               .last = k + depth >= all};
        if (held > 0 || i == 0)
            pack(w->outer_panels, &w->outer, o, width, k, s.tiles);
        for (int64_t x = 0; x < n; x += LANES)
            visit_panel(w, inner_panel(w, i + x, i + n, k, s.tiles), i + x, o, width,
                        w->sums + x / LANES * held, &s);
    }
}

/* Lanes of the inner operand that are processed together. */
INLINE int64_t inner_lanes(const struct cpu_product *p, int64_t lanes)
{
    return p->k > cpu_product_depth(p) ? smaller(lanes, HELD) : lanes;
}

INLINE int64_t outer_lanes(const struct cpu_product *p, int64_t lanes)
{
    return smaller(round_up(lanes, LANES), cpu_product_width(p));
}

/* Words of the outer operand's panels, of the inner one's, and of sums. */
struct sizes {
    int64_t outer, inner, sums;
};

INLINE struct sizes sizes_of(const struct cpu_product *p)
{
    const int64_t outer = outer_lanes(p, p->outer_a ? p->m : p->n);
    const int64_t depth = cpu_product_depth(p), units = round_up(depth, ALONG) / 2;
    const int64_t inner = p->k > depth ? inner_lanes(p, p->outer_a ? p->n : p->m) : LANES;
    return (struct sizes){outer * units, GROUP * LANES * units, round_up(inner, LANES) * outer};
}

size_t KERNEL(product_scratch)(const struct cpu_args *a)
{
    const struct sizes s = sizes_of(a->product);
    return (size_t)(s.outer + s.inner + s.sums + 2 * LANES * LANES) * 4;
}

INLINE void multiply_part(struct work *w)
{
    const struct cpu_product *p = w->j->a->product;
    const int64_t width = outer_lanes(p, w->outer.lanes), n = inner_lanes(p, w->inner.lanes);
    for (int64_t o = 0; o < w->outer.lanes; o += width)
        for (int64_t i = 0; i < w->inner.lanes; i += n)
            visit_block(w, i, smaller(w->inner.lanes - i, n), o,
                        smaller(w->outer.lanes - o, width));
    put_rows(w, 0, LANES);
    w->before = (struct finished){0};
}

/* Part `item` of C. */
INLINE void locate(struct work *w, int64_t item)
{
    const struct cpu_job *j = w->j;
    const struct cpu_product *p = j->a->product;
    const int64_t parts = p->down * p->across, batch = item / parts, part = item % parts;
    const int64_t row = cpu_product_cut(p->m, p->down, part / p->across);
    const int64_t col = cpu_product_cut(p->n, p->across, part % p->across);
    struct operand a = {.lanes = cpu_product_cut(p->m, p->down, part / p->across + 1) - row,
                        .k = p->k,
                        .by_lane = p->a_transposed ? 1 : p->k,
                        .by_k = p->a_transposed ? p->m : 1};
    struct operand b = {.lanes = cpu_product_cut(p->n, p->across, part % p->across + 1) - col,
                        .k = p->k,
                        .by_lane = p->b_transposed ? p->k : 1,
                        .by_k = p->b_transposed ? 1 : p->n,
                        .of_b = true};
    a.first = (const uint16_t *)j->in[0] + batch * p->m * p->k + row * a.by_lane;
    b.first = (const uint16_t *)j->in[1] + batch * p->k * p->n + col * b.by_lane;
    w->outer = p->outer_a ? a : b;
    w->inner = p->outer_a ? b : a;
    w->c = (char *)j->out[0] + ((batch * p->m + row) * p->n + col) * dt_size(j->a->gt[0]);
    w->bias = p->bias ? (const uint16_t *)j->in[2] + col : NULL;
}

/* in: A, B, maybe bias; out: C. Item: a part of C. */
void KERNEL(product)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    const struct sizes s = sizes_of(j->a->product);
    struct work w = {.j = j, .outer_panels = (uint32_t *)scratch};
    w.inner_panels = w.outer_panels + s.outer;
    w.block[0] = (float *)(w.inner_panels + s.inner);
    w.block[1] = w.block[0] + LANES * LANES;
    w.sums = w.block[1] + LANES * LANES;
    tiles_begin();
    for (int64_t item = begin; item < end; item++) {
        locate(&w, item);
        if (w.outer.lanes > 0 && w.inner.lanes > 0)
            multiply_part(&w);
    }
    tiles_end();
}
