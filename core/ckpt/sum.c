/* ckpt/sum.c: the SHA-256 of bytes that are written, formed on a thread of its own. See internal.h.
 *
 * A writer that also makes its values would need a processor for the sum as long as for all the
 * rest. One buffer is with the thread at a time: the writer fills another one meanwhile. */
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ckpt/internal.h"

struct ckpt_sum {
    EVP_MD_CTX *hash;
    pthread_t thread;
    bool beside; /* the thread runs */
    pthread_mutex_t lock;
    pthread_cond_t turn;
    const void *data; /* NULL: the thread has nothing to do */
    uint64_t n;
    bool end, bad;
};

static void *form(void *arg)
{
    ckpt_sum *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->data && !s->end)
            pthread_cond_wait(&s->turn, &s->lock);
        if (!s->data)
            break;
        pthread_mutex_unlock(&s->lock);
        const bool good = EVP_DigestUpdate(s->hash, s->data, s->n);
        pthread_mutex_lock(&s->lock);
        s->bad = s->bad || !good;
        s->data = NULL;
        pthread_cond_signal(&s->turn);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

ckpt_sum *ckpt_sum_begin(bool beside)
{
    ckpt_sum *s = mem_alloc(sizeof *s);
    s->hash = EVP_MD_CTX_new();
    s->bad = !s->hash || !EVP_DigestInit_ex(s->hash, EVP_sha256(), NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->turn, NULL);
    if (beside && !s->bad) /* without a thread the sum is formed where it is asked for */
        s->beside = !pthread_create(&s->thread, NULL, form, s);
    return s;
}

/* Until the thread has nothing to do; with the lock. */
static void await_thread(ckpt_sum *s)
{
    while (s->data)
        pthread_cond_wait(&s->turn, &s->lock);
}

void ckpt_sum_add(ckpt_sum *s, const void *data, uint64_t n)
{
    if (!s->beside) {
        s->bad = s->bad || !EVP_DigestUpdate(s->hash, data, n);
        return;
    }
    pthread_mutex_lock(&s->lock);
    await_thread(s);
    s->data = data;
    s->n = n;
    pthread_cond_signal(&s->turn);
    pthread_mutex_unlock(&s->lock);
}

bool ckpt_sum_end(ckpt_sum *s, uint8_t out[32])
{
    if (s->beside) {
        pthread_mutex_lock(&s->lock);
        await_thread(s);
        s->end = true;
        pthread_cond_signal(&s->turn);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    const bool good = !s->bad && EVP_DigestFinal_ex(s->hash, out, NULL);
    EVP_MD_CTX_free(s->hash);
    pthread_cond_destroy(&s->turn);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return good;
}
