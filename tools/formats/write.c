/* formats/write.c: parameters of a checkpoint into files of other programs. See internal.h.
 *
 * A parameter whose axes are there in the same order is copied in chunks. Of another one, blocks
 * along the first axis there are read and turned: for the matrices of a model of ordinary width the
 * whole, so that the checkpoint is read once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/file.h"
#include "formats/internal.h"

#define CHUNK ((uint64_t)1 << 18) /* elements at once: what fits a second-level cache */
#define SLAB ((uint64_t)8 << 20)  /* elements of a block that is turned */

weft_status formats_write_bytes(formats_writer *w, const void *data, uint64_t bytes)
{
    weft_status st = formats_check_interrupted();
    if (st != WEFT_OK)
        return st;
    if (data_file_write(w->fd, data, bytes))
        return err_fail_errno(WEFT_IO, "it cannot be written (after %llu bytes)",
                              (unsigned long long)w->done);
    w->done += bytes;
    data_file_hand_on(w->fd, &w->handed, w->done);
    return WEFT_OK;
}

/* fp16 ends at 65504: a weight beyond it would become infinite. */
static weft_status check_range_of(const formats_writer *w, const formats_param *p, const float *v,
                                  uint64_t n)
{
    float max = 0;
    if (w->dtype != WEFT_F16)
        return WEFT_OK;
    for (uint64_t i = 0; i < n; i++)
        max = fabsf(v[i]) > max && fabsf(v[i]) < INFINITY ? fabsf(v[i]) : max;
    return max < 65520.0f ? WEFT_OK
                          : err_fail(WEFT_USAGE,
                                     "parameter %s has the value %g, which fp16 cannot hold: use "
                                     "--dtype bf16 or fp32",
                                     p->name, (double)max);
}

static weft_status put(formats_writer *w, const formats_param *p, float *v, uint64_t n)
{
    weft_status st = check_range_of(w, p, v, n);
    if (st == WEFT_OK && w->dtype != WEFT_F32)
        formats_narrow(w->dtype, v, n, v); /* no result is wider than its value */
    return st == WEFT_OK ? formats_write_bytes(w, v, n * weft_dtype_size(w->dtype)) : st;
}

static ckpt_piece piece_of(const formats_param *p)
{
    ckpt_piece out = {.name = p->name, .dtype = WEFT_F32, .rank = p->shape.rank};
    for (uint32_t i = 0; i < p->shape.rank; i++)
        out.shape[i] = p->shape.axes[i].size;
    return out;
}

static uint64_t elements_of(const formats_param *p)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < p->shape.rank; i++)
        n *= (uint64_t)p->shape.axes[i].size;
    return n;
}

/* Room for n values that stays for the next tensor. */
static float *capacity(formats_capacity *r, uint64_t n)
{
    if (r->n < n) {
        free(r->at);
        r->at = mem_alloc(n * sizeof *r->at);
        r->n = n;
    }
    return r->at;
}

void formats_write_end(formats_writer *w)
{
    free(w->in.at);
    free(w->out.at);
    w->in = w->out = (formats_capacity){0};
}

static weft_status write_plain(formats_writer *w, const formats_param *p)
{
    const uint64_t all = elements_of(p);
    ckpt_piece want = piece_of(p);
    float *v = capacity(&w->out, CHUNK);
    weft_status st = WEFT_OK;
    for (; st == WEFT_OK && want.first < all; want.first += want.count) {
        want.count = all - want.first < CHUNK ? all - want.first : CHUNK;
        st = ckpt_read(w->c, &want, v);
        if (st == WEFT_OK)
            st = put(w, p, v, want.count);
    }
    return st;
}

/* The elements of a block of a parameter in the file's order of axes. */
static formats_turning turning_of(const formats_view *v, const int64_t *size)
{
    formats_turning t = {.rank = v->rank};
    uint64_t stride = 1;
    for (uint32_t i = v->rank; i-- > 0; stride *= (uint64_t)size[i]) {
        t.size[i] = (uint64_t)size[i];
        t.in[i] = stride;
    }
    stride = 1;
    for (uint32_t j = v->rank; j-- > 0; stride *= t.size[v->order[j]])
        t.out[v->order[j]] = stride;
    return t;
}

/* A block that was read, in parts along the first axis there. */
static weft_status put_turned(formats_writer *w, const formats_param *p, const formats_view *v,
                              const int64_t *size, const float *in)
{
    formats_turning t = turning_of(v, size);
    const uint32_t first = v->order[0];
    const uint64_t all = t.size[first], inner = t.out[first];
    const uint64_t step = inner < CHUNK ? CHUNK / inner : 1;
    float *out = capacity(&w->out, step * inner < CHUNK ? CHUNK : step * inner);
    weft_status st = WEFT_OK;
    for (uint64_t at = 0; st == WEFT_OK && at < all; at += step) {
        t.size[first] = all - at < step ? all - at : step;
        formats_turn(&t, in + at * t.in[first], out);
        st = put(w, p, out, t.size[first] * inner);
    }
    return st;
}

static weft_status write_turned(formats_writer *w, const formats_param *p, const formats_view *v)
{
    const uint32_t first = v->order[0];
    const int64_t all = p->shape.axes[first].size;
    const uint64_t inner = elements_of(p) / (uint64_t)all;
    int64_t step = (int64_t)(SLAB / inner);
    step = step < 1 ? 1 : step > all ? all : step;
    float *in = capacity(&w->in, inner * (uint64_t)step);
    weft_status st = WEFT_OK;
    for (int64_t at = 0; st == WEFT_OK && at < all; at += step) {
        ckpt_piece want = piece_of(p);
        memcpy(want.size, want.shape, sizeof want.size);
        want.start[first] = at;
        want.size[first] = all - at < step ? all - at : step;
        want.count = inner * (uint64_t)want.size[first];
        st = ckpt_read(w->c, &want, in);
        if (st == WEFT_OK)
            st = put_turned(w, p, v, want.size, in);
    }
    return st;
}

weft_status formats_write_param(formats_writer *w, const formats_param *p, const formats_view *v)
{
    return v->plain ? write_plain(w, p) : write_turned(w, p, v);
}
