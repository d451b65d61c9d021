/* formats/read.c: values of parameters from files (formats_read). See internal.h.
 *
 * What is asked for is a range of a flattened block of a parameter. Where the axes there are in the
 * same order, it is rows that lie in the file as they are. Else the range is cut into boxes, and of
 * each box those runs are read that the file has in one piece; then the box is turned. A run is as
 * long as the box is along the file's last axes: for a range of many rows of a transposed matrix,
 * many elements. */
#include <stdlib.h>
#include <string.h>

#include "base/number/half.h"
#include "formats/internal.h"

#define HELD ((uint64_t)32 << 20)     /* bytes of a tensor that is read whole, at most */
#define LONG_RUN ((uint64_t)64 << 10) /* bytes of a run that is read by itself */

void formats_widen(uint32_t dtype, const void *in, uint64_t n, float *out)
{
    const uint16_t *half = in;
    if (dtype == WEFT_F32)
        memcpy(out, in, n * sizeof *out);
    else if (dtype == WEFT_BF16)
        for (uint64_t i = 0; i < n; i++)
            out[i] = bf16_value(half[i]);
    else
        for (uint64_t i = 0; i < n; i++)
            out[i] = f16_value(half[i]);
}

void formats_narrow(uint32_t dtype, const float *in, uint64_t n, void *out)
{
    uint16_t *half = out;
    if (dtype == WEFT_F32)
        memcpy(out, in, n * sizeof *in);
    else if (dtype == WEFT_BF16)
        for (uint64_t i = 0; i < n; i++)
            half[i] = bf16_from(in[i]);
    else
        for (uint64_t i = 0; i < n; i++)
            half[i] = f16_from(in[i]);
}

/* A box of a parameter, in the order of the file: sizes along it, and strides. */
typedef struct spread {
    uint32_t rank;
    uint64_t start[WEFT_MAX_AXES], size[WEFT_MAX_AXES];
    uint64_t there[WEFT_MAX_AXES]; /* stride in the file */
    uint64_t here[WEFT_MAX_AXES];  /* stride in the output */
    uint64_t run;                  /* elements that the file has in one piece */
    uint32_t outer;                /* axes that the runs are counted over */
} spread;

static void *raw(formats_file *f, uint64_t bytes)
{
    f->held = NULL;
    if (f->raw_cap < bytes) {
        free(f->raw);
        f->raw = mem_alloc(bytes);
        f->raw_cap = bytes;
    }
    return f->raw;
}

/* Elements [first, first + n) of the tensor as the file has it. */
static weft_status read_run(formats_file *f, const formats_tensor *t, uint64_t first, uint64_t n,
                            float *out)
{
    const uint64_t width = weft_dtype_size(t->dtype);
    const uint64_t at = t->at + first * width;
    if (f->held == t) {
        formats_widen(t->dtype, (const char *)f->raw + first * width, n, out);
        return WEFT_OK;
    }
    if (t->dtype == WEFT_F32)
        return formats_source_bytes(&f->source, t->file, at, n * width, out);
    void *bytes = raw(f, n * width);
    weft_status st = formats_source_bytes(&f->source, t->file, at, n * width, bytes);
    if (st == WEFT_OK)
        formats_widen(t->dtype, bytes, n, out);
    return st;
}

/* A tensor of which many short runs are wanted is read once and held, unless it is large. */
static weft_status hold(formats_file *f, const formats_tensor *t, const spread *s, uint64_t runs)
{
    if (f->held == t || t->bytes > HELD || runs < 2 || s->run * sizeof(float) >= LONG_RUN)
        return WEFT_OK;
    weft_status st = formats_source_bytes(&f->source, t->file, t->at, t->bytes, raw(f, t->bytes));
    if (st == WEFT_OK)
        f->held = t;
    return st;
}

static weft_status read_plain(formats_file *f, const formats_bound *b, const box *block,
                              const ckpt_piece *want, float *out)
{
    box whole = {.rank = block->rank};
    box_rows rows;
    uint64_t at[2];
    const uint64_t last = want->first + want->count;
    for (uint32_t i = 0; i < whole.rank; i++)
        whole.size[i] = b->shape.axes[i].size;
    box_common(block, &whole, &rows);
    weft_status st = WEFT_OK;
    for (uint64_t i = box_row_from(&rows, 0, want->first); st == WEFT_OK && i < rows.n; i++) {
        box_row(&rows, i, at);
        if (at[0] >= last)
            break;
        const uint64_t skip = at[0] < want->first ? want->first - at[0] : 0;
        uint64_t n = rows.length - skip;
        if (n > last - at[0] - skip)
            n = last - at[0] - skip;
        st = read_run(f, b->tensor, at[1] + skip, n, out + (at[0] + skip - want->first));
    }
    return st;
}

/* `begin` and `size` of the box, in coordinates of the whole parameter. */
static spread spread_of(const formats_bound *b, const box *block, const uint64_t *begin,
                        const uint64_t *size)
{
    const formats_view *v = &b->view;
    spread s = {.rank = v->rank, .run = 1};
    uint64_t here[WEFT_MAX_AXES], stride = 1;
    for (uint32_t i = v->rank; i-- > 0;) {
        here[i] = stride;
        stride *= (uint64_t)block->size[i];
    }
    stride = 1;
    bool whole = true;
    s.outer = v->rank;
    for (uint32_t j = v->rank; j-- > 0;) {
        const uint32_t i = v->order[j];
        s.start[j] = begin[i];
        s.size[j] = size[i];
        s.there[j] = stride;
        s.here[j] = here[i];
        if (whole) {
            s.run *= size[i];
            s.outer = j;
        }
        whole = whole && size[i] == (uint64_t)b->shape.axes[i].size;
        stride *= (uint64_t)b->shape.axes[i].size;
    }
    return s;
}

static weft_status read_spread(formats_file *f, const formats_tensor *t, const spread *s,
                               float *out)
{
    uint64_t at[WEFT_MAX_AXES] = {0}, runs = 1, there = 0, stride = 1;
    formats_turning turning = {.rank = s->rank};
    for (uint32_t j = s->rank; j-- > 0; stride *= s->size[j]) {
        turning.size[j] = s->size[j];
        turning.in[j] = stride;
        turning.out[j] = s->here[j];
        there += s->start[j] * s->there[j];
    }
    if (f->there_cap < stride) {
        f->there_cap = stride;
        f->there = mem_grow(f->there, f->there_cap * sizeof *f->there);
    }
    for (uint32_t j = 0; j < s->outer; j++)
        runs *= s->size[j];
    weft_status st = hold(f, t, s, runs);
    for (uint64_t r = 0; st == WEFT_OK && r < runs; r++) {
        uint64_t from = there;
        for (uint32_t j = 0; j < s->outer; j++)
            from += at[j] * s->there[j];
        st = read_run(f, t, from, s->run, f->there + r * s->run);
        for (uint32_t j = s->outer; j-- > 0 && ++at[j] == s->size[j];)
            at[j] = 0;
    }
    if (st == WEFT_OK)
        formats_turn(&turning, f->there, out);
    return st;
}

/* The largest box that begins at element `at` of the block and ends before `end`: its first axis
 * that is not one element wide is cut, those after it are whole. Returns its elements. */
static uint64_t next_box(const box *block, uint64_t at, uint64_t end, uint64_t begin[WEFT_MAX_AXES],
                         uint64_t size[WEFT_MAX_AXES])
{
    uint64_t stride = 1, taken = 0;
    uint32_t cut = block->rank - 1;
    for (uint32_t i = block->rank; i-- > 0; stride *= (uint64_t)block->size[i]) {
        begin[i] = at / stride % (uint64_t)block->size[i];
        if (at % stride == 0 && end - at >= stride)
            cut = i;
    }
    stride = 1;
    for (uint32_t i = block->rank; i-- > 0; stride *= (uint64_t)block->size[i]) {
        size[i] = i > cut ? (uint64_t)block->size[i] : 1;
        if (i == cut) {
            const uint64_t left = (uint64_t)block->size[i] - begin[i], fit = (end - at) / stride;
            size[i] = left < fit ? left : fit;
            taken = size[i] * stride;
        }
    }
    for (uint32_t i = 0; i < block->rank; i++)
        begin[i] += (uint64_t)block->start[i];
    return taken;
}

static weft_status read_turned(formats_file *f, const formats_bound *b, const box *block,
                               const ckpt_piece *want, float *out)
{
    const uint64_t end = want->first + want->count;
    weft_status st = WEFT_OK;
    for (uint64_t at = want->first, n; st == WEFT_OK && at < end; at += n) {
        uint64_t begin[WEFT_MAX_AXES], size[WEFT_MAX_AXES];
        n = next_box(block, at, end, begin, size);
        const spread s = spread_of(b, block, begin, size);
        st = read_spread(f, b->tensor, &s, out + (at - want->first));
    }
    return st;
}

static int by_param(const void *name, const void *bound)
{
    return strcmp(name, ((const formats_bound *)bound)->param);
}

weft_status formats_read(formats_file *f, const ckpt_piece *want, float *out)
{
    const formats_bound *b =
        f->n ? bsearch(want->name, f->at, f->n, sizeof *f->at, by_param) : NULL;
    box block = {.rank = want->rank};
    bool given = false;
    weft_status st = formats_check_interrupted();
    if (st != WEFT_OK)
        return st;
    if (!b || b->shape.rank != want->rank)
        return err_fail(WEFT_INTERNAL, "%s: parameter %s is not bound", f->source.path, want->name);
    for (uint32_t i = 0; i < want->rank; i++)
        given = given || want->size[i];
    for (uint32_t i = 0; i < want->rank; i++) {
        block.start[i] = given ? want->start[i] : 0;
        block.size[i] = given ? want->size[i] : b->shape.axes[i].size;
    }
    return b->view.plain ? read_plain(f, b, &block, want, out)
                         : read_turned(f, b, &block, want, out);
}
