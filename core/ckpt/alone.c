/* ckpt/alone.c: a checkpoint in a folder of any name, from weights that come from elsewhere. */
#include "ckpt/internal.h"
#include "data/folder.h"

weft_status ckpt_write_alone(const char *dir, uint64_t step, const char *job_text,
                             const ckpt_piece *pieces, uint32_t n, const ckpt_values *values,
                             const ckpt_beside *beside)
{
    data_folder f;
    ckpt_shard_sum sum;
    ckpt_manifest m = {.step = step, .job = job_text, .shards = 1, .sums = &sum};
    weft_status st = data_folder_begin(dir, &f);
    if (st != WEFT_OK)
        return st;
    st = ckpt_shard_write(f.path, 0, 1, pieces, n, NULL, values, &sum);
    if (st == WEFT_OK && beside)
        st = beside->write(beside->ctx, f.fd);
    if (st == WEFT_OK)
        st = ckpt_complete(f.fd, &m);
    if (st == WEFT_OK)
        return data_folder_commit(&f);
    data_folder_abandon(&f);
    return st;
}
