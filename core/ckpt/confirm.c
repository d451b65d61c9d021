/* ckpt/confirm.c: the sums of a checkpoint are compared while it is read (ckpt_open_ahead). */
#include <stdlib.h>

#include "base/err.h"
#include "ckpt/internal.h"

struct ckpt_confirm {
    const ckpt *c;
    pthread_t thread;
    bool running;
    atomic_bool stop;
    weft_status st;
    err_record why;
};

bool ckpt_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Each shard is the file whose header was read, and has its sum. */
static weft_status compare(struct ckpt_confirm *k)
{
    const ckpt *c = k->c;
    const ckpt_manifest *m = &c->manifest;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < m->shards; i++) {
        pool p = {0};
        ckpt_ranges again = {0};
        struct stat info;
        st = ckpt_shard_check(c->folder, i, m->shards, &m->sums[i], true, &k->stop, &p, &again,
                              &info);
        if (st == WEFT_OK && !ckpt_same_file(&info, &c->files[i]))
            st = err_fail(WEFT_DATA, "shard %u of %u was changed while it was read", i, m->shards);
        free(again.at);
        pool_free(&p);
    }
    if (st != WEFT_OK)
        err_context("checkpoint %s", c->dir);
    return st;
}

static void *work(void *arg)
{
    struct ckpt_confirm *k = arg;
    k->st = compare(k);
    err_keep(&k->why);
    err_clear();
    return NULL;
}

void ckpt_confirm_begin(ckpt *c)
{
    struct ckpt_confirm *k = mem_alloc(sizeof *k);
    k->c = c;
    k->running = !pthread_create(&k->thread, NULL, work, k);
    c->confirm = k;
}

weft_status ckpt_confirm(ckpt *c)
{
    struct ckpt_confirm *k = c->confirm;
    if (!k)
        return WEFT_OK;
    if (k->running)
        pthread_join(k->thread, NULL);
    else
        work(k);
    const weft_status st = k->st == WEFT_OK ? WEFT_OK : err_again(k->st, &k->why);
    free(k);
    c->confirm = NULL;
    return st;
}

void ckpt_confirm_stop(ckpt *c)
{
    struct ckpt_confirm *k = c->confirm;
    if (!k)
        return;
    atomic_store(&k->stop, true);
    if (k->running)
        pthread_join(k->thread, NULL);
    free(k);
    c->confirm = NULL;
}
