/* ckpt/confirm.c: the sums of a checkpoint that was opened without them (ckpt_open_ahead). */
#include <stdlib.h>

#include "base/err.h"
#include "ckpt/internal.h"

bool ckpt_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Each shard is the file whose header was read, and has its sum. */
weft_status ckpt_confirm(const ckpt *c, const atomic_bool *stop)
{
    const ckpt_manifest *m = &c->manifest;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < m->shards; i++) {
        pool p = {0};
        ckpt_ranges again = {0};
        struct stat info;
        st = ckpt_shard_check(c->folder, i, m->shards, &m->sums[i], true, stop, &p, &again, &info);
        if (st == WEFT_OK && !ckpt_same_file(&info, &c->files[i]))
            st = err_fail(WEFT_DATA, "shard %u of %u was changed while it was read", i, m->shards);
        free(again.at);
        pool_free(&p);
    }
    if (st != WEFT_OK)
        err_context("checkpoint %s", c->dir);
    return st;
}
