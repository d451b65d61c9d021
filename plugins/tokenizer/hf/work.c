/* work.c: the memory of a call. */
#include <stdlib.h>

#include "hf.h"
#include "utf8.h"

/* Steps of PCRE2 for one match, and memory: a pattern of a stranger's file ends. */
#define MATCH_LIMIT 20000000u
#define HEAP_KIB 65536u
#define STACK_LEAST (32u << 10)
#define STACK_MAX (1u << 20)

bool hf_more(hf_work *w, void *at, uint64_t n, uint64_t *room, uint64_t more, size_t size)
{
    uint64_t want = *room ? *room : 64;
    while (want - n < more)
        want *= 2;
    void **to = at;
    void *grown = w->failed || want > UINT32_MAX ? NULL : realloc(*to, want * size);
    if (!grown) {
        w->failed = true;
        return false;
    }
    *to = grown;
    *room = want;
    return true;
}

void hf_put_char(hf_work *w, hf_bytes *b, uint32_t c)
{
    if (HF_CAPACITY(w, b, 4))
        b->n += utf8_write(c, b->at + b->n);
}

static hf_work *make(void)
{
    hf_work *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    w->stack = pcre2_jit_stack_create(STACK_LEAST, STACK_MAX, NULL);
    w->cache = calloc((size_t)HF_CACHE_SETS * HF_CACHE_WAYS, sizeof *w->cache);
    if (!w->match || !w->context || !w->cache) {
        hf_work_free(w);
        return NULL;
    }
    pcre2_set_match_limit(w->context, MATCH_LIMIT);
    pcre2_set_heap_limit(w->context, HEAP_KIB);
    if (w->stack)
        pcre2_jit_stack_assign(w->context, NULL, w->stack);
    return w;
}

hf_work *hf_work_take(weft_tokenizer *t)
{
    pthread_mutex_lock(&t->lock);
    hf_work *w = t->idle;
    if (w)
        t->idle = w->next;
    pthread_mutex_unlock(&t->lock);
    if (!w)
        w = make();
    if (w) {
        w->t = t;
        w->failed = w->limit = false;
        w->ids.n = 0;
    }
    return w;
}

void hf_work_give(weft_tokenizer *t, hf_work *w)
{
    if (w->failed) { /* what it holds may be large */
        hf_work_free(w);
        return;
    }
    pthread_mutex_lock(&t->lock);
    w->next = t->idle;
    t->idle = w;
    pthread_mutex_unlock(&t->lock);
}

void hf_work_free(hf_work *w)
{
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    void *const own[] = {w->clean.at,  w->normal.at, w->buffer[0].at, w->buffer[1].at, w->spare.at,
                         w->pieces.at, w->other.at,  w->marks.at,     w->symbols.at,   w->heap.at,
                         w->best.at,   w->ids.at,    w->points.at,    w->cache,        w};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        free(own[i]);
}
