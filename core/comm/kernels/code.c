/* comm/kernels/code.c: walks the blocks of the steps of compressed sums; a block stays in the
 * first cache from the first load to the last store. */
#include "comm/kernels/code.h"

#include "comm/kernels/reduce.h"

#if defined(__x86_64__)
const code_set *code_pick(void)
{
    return reduce_usable(&reduce_v4) ? &code_v4 : reduce_usable(&reduce_v3) ? &code_v3 : &code_v2;
}
#else
const code_set *code_pick(void)
{
    return &code_v2;
}
#endif

typedef struct walk {
    const code_set *set;
    const comm_request *r;
    const comm_step *s;
    void *const *to;
    const void *const *from;
    float times;
    uint64_t elements, codes; /* bytes of a whole block */
} walk;

static void encode(const walk *w, float *x, uint64_t block, uint64_t n, uint32_t kept_at)
{
    float *kept = w->s->nto > kept_at ? (float *)w->to[kept_at] + block * CODE_BLOCK : NULL;
    if (kept)
        w->set->add_kept(x, kept, w->times, n);
    w->set->encode(w->r->compress, (char *)w->to[0] + block * w->codes, x, kept, n);
}

/* The contributions in the order of the ranks; the own one is not encoded. */
static void add_up(const walk *w, float *x, uint64_t block, uint64_t n)
{
    float mine[CODE_BLOCK];
    const uint32_t form = w->r->compress;
    for (uint32_t i = 0; i < w->s->nfrom; i++) {
        const char *from = w->from[i];
        if (i == w->s->peer) {
            w->set->widen(w->r->dtype, i ? mine : x, from + block * w->elements, n);
            if (i)
                w->set->add_kept(x, mine, 1, n);
        } else {
            (i ? w->set->add : w->set->decode)(form, x, from + block * w->codes, n);
        }
    }
}

static void run_block(const walk *w, uint64_t block, uint64_t n)
{
    float x[CODE_BLOCK];
    const char *from = w->from[0];
    void *elements = (char *)w->to[w->s->what == COMM_FOLD] + block * w->elements;
    switch (w->s->what) {
    case COMM_ENCODE:
        w->set->widen(w->r->dtype, x, from + block * w->elements, n);
        encode(w, x, block, n, 1);
        return;
    case COMM_DECODE: w->set->decode(w->r->compress, x, from + block * w->codes, n); break;
    default:
        add_up(w, x, block, n);
        if (w->s->what == COMM_FOLD)
            encode(w, x, block, n, 2);
    }
    w->set->narrow(w->r->dtype, elements, x, n);
}

void code_run(const code_set *set, const comm_request *r, const comm_step *s, void *const *to,
              const void *const *from, float times)
{
    const uint64_t size = weft_dtype_size(r->dtype), count = s->bytes / size;
    const walk w = {
        set, r, s, to, from, times, CODE_BLOCK * size, code_bytes(r->compress, CODE_BLOCK)};
    for (uint64_t block = 0; block * CODE_BLOCK < count; block++) {
        uint64_t left = count - block * CODE_BLOCK;
        run_block(&w, block, left < CODE_BLOCK ? left : CODE_BLOCK);
    }
}
