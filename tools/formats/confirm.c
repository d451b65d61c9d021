/* formats/confirm.c: the sums of a checkpoint are compared while it is exported; see pack.h. */
#include "formats/pack.h"

static void *work(void *arg)
{
    formats_confirm *k = arg;
    k->st = ckpt_confirm(k->c, &k->stop);
    err_keep(&k->why);
    err_clear();
    return NULL;
}

void formats_confirm_begin(formats_confirm *k, const ckpt *c)
{
    k->c = c;
    k->running = !pthread_create(&k->thread, NULL, work, k);
}

static void join(formats_confirm *k)
{
    if (k->running)
        pthread_join(k->thread, NULL);
    k->running = false;
}

weft_status formats_confirm_end(formats_confirm *k)
{
    if (k->running)
        join(k);
    else
        work(k);
    return k->st == WEFT_OK ? WEFT_OK : err_again(k->st, &k->why);
}

void formats_confirm_stop(formats_confirm *k)
{
    atomic_store(&k->stop, true);
    join(k);
}
