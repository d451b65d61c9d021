/* comm/kernels/code.c: gradient compression: runs the steps of compressed sums block by block; a
 * block stays in the L1 cache from the first load to the last store. */
#include "comm/kernels/code.h"

typedef struct walk {
    const comm_code_set *set;
    const sched_request *r;
    const sched_step *s;
    void *const *to;
    const void *const *from;
    float times;
    uint64_t elements, codes; /* bytes of a whole block */
} walk;

static void encode(const walk *w, float *x, uint64_t block, uint64_t n, uint32_t residual_at)
{
    float *residual =
        w->s->nto > residual_at ? (float *)w->to[residual_at] + block * SCHED_CODE_BLOCK : NULL;
    if (residual)
        w->set->add_residual(x, residual, w->times, n);
    w->set->encode(w->r->compress, (char *)w->to[0] + block * w->codes, x, residual, n);
}

/* Adds the contributions in rank order; this rank's own is not encoded. */
static void add_up(const walk *w, float *x, uint64_t block, uint64_t n)
{
    float mine[SCHED_CODE_BLOCK];
    const uint32_t form = w->r->compress;
    for (uint32_t i = 0; i < w->s->nfrom; i++) {
        const char *from = w->from[i];
        if (i == w->s->peer) {
            w->set->widen(w->r->dtype, i ? mine : x, from + block * w->elements, n);
            if (i)
                w->set->add_residual(x, mine, 1, n);
        } else {
            (i ? w->set->add : w->set->decode)(form, x, from + block * w->codes, n);
        }
    }
}

static void run_block(const walk *w, uint64_t block, uint64_t n)
{
    float x[SCHED_CODE_BLOCK];
    const char *from = w->from[0];
    void *elements = (char *)w->to[w->s->what == SCHED_REDUCE_ENCODE] + block * w->elements;
    switch (w->s->what) {
    case SCHED_ENCODE:
        w->set->widen(w->r->dtype, x, from + block * w->elements, n);
        encode(w, x, block, n, 1);
        return;
    case SCHED_DECODE: w->set->decode(w->r->compress, x, from + block * w->codes, n); break;
    default:
        add_up(w, x, block, n);
        if (w->s->what == SCHED_REDUCE_ENCODE)
            encode(w, x, block, n, 2);
    }
    w->set->narrow(w->r->dtype, elements, x, n);
}

void comm_code_run(const comm_code_set *set, const sched_request *r, const sched_step *s,
                   void *const *to, const void *const *from, float times)
{
    const uint64_t size = weft_dtype_size(r->dtype), count = s->bytes / size;
    const walk w = {set,
                    r,
                    s,
                    to,
                    from,
                    times,
                    SCHED_CODE_BLOCK * size,
                    sched_code_bytes(r->compress, SCHED_CODE_BLOCK)};
    for (uint64_t block = 0; block * SCHED_CODE_BLOCK < count; block++) {
        uint64_t left = count - block * SCHED_CODE_BLOCK;
        run_block(&w, block, left < SCHED_CODE_BLOCK ? left : SCHED_CODE_BLOCK);
    }
}
