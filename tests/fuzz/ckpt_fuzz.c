/* Any bytes as the header of a shard ("h", a byte whose lower six bits are the length of the data,
 * the JSON) or as a manifest whose sum holds ("m", the text before the sum): refused with words, or
 * read, and then written and read again the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ckpt/internal.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What the readers promise of every range that they let through. */
static void check_ranges(const ckpt_ranges *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        uint64_t whole;
        const ckpt_range *one = &r->at[i];
        must(ckpt_name_ok(one->name));
        must(ckpt_elements(one->rank, one->shape, one->dtype, &whole));
        must(!one->block || ckpt_block_ok(one->block, one->shape, &whole));
        must(one->count > 0 && one->first < whole && one->count <= whole - one->first);
    }
}

static void header_again(const ckpt_ranges *r, uint64_t data_bytes)
{
    pool p = {0};
    ckpt_ranges again = {0};
    ckpt_piece *pieces = mem_alloc((uint64_t)r->n * sizeof *pieces);
    const ckpt_piece **order = mem_alloc((uint64_t)r->n * sizeof *order);
    char *text;
    uint64_t bytes;
    for (uint32_t i = 0; i < r->n; i++) {
        const ckpt_range *one = &r->at[i];
        pieces[i] = (ckpt_piece){.name = one->name, .dtype = one->dtype, .rank = one->rank};
        pieces[i].first = one->first;
        pieces[i].count = one->count;
        memcpy(pieces[i].shape, one->shape, sizeof one->shape);
        if (one->block) {
            memcpy(pieces[i].start, one->block->start, sizeof pieces[i].start);
            memcpy(pieces[i].size, one->block->size, sizeof pieces[i].size);
        }
        order[i] = &pieces[i];
    }
    must(ckpt_header_build(order, r->n, &text, &bytes) == WEFT_OK && bytes % 8 == 0);
    must(ckpt_header_parse(text + 8, bytes - 8, data_bytes, 0, &p, &again) == WEFT_OK);
    must(again.n == r->n);
    for (uint32_t i = 0; i < r->n; i++)
        must(again.at[i].at == r->at[i].at && !strcmp(again.at[i].name, r->at[i].name) &&
             again.at[i].first == r->at[i].first &&
             !ckpt_block_order(again.at[i].block, r->at[i].block));
    free(text);
    free(order);
    free(pieces);
    free(again.at);
    pool_free(&p);
}

static void try_header(const uint8_t *data, size_t bytes)
{
    pool p = {0};
    ckpt_ranges r = {0};
    uint64_t data_bytes = data[0] & 0x3f, at = 0;
    if (ckpt_header_parse((const char *)data + 1, bytes - 1, data_bytes, 0, &p, &r) != WEFT_OK) {
        must(err_text()[0]);
    } else {
        check_ranges(&r);
        for (uint32_t i = 0; i < r.n; i++) {
            must(r.at[i].at == at);
            at += r.at[i].count * weft_dtype_size(r.at[i].dtype);
        }
        must(at == data_bytes);
        header_again(&r, data_bytes);
    }
    free(r.at);
    pool_free(&p);
}

static void manifest_again(ckpt_manifest *m)
{
    pool p = {0};
    ckpt_manifest again;
    char *text;
    uint64_t bytes;
    must(ckpt_manifest_build(m, &text, &bytes) == WEFT_OK);
    must(ckpt_manifest_parse(text, bytes, &p, &again) == WEFT_OK);
    must(again.step == m->step && again.shards == m->shards && !strcmp(again.job, m->job));
    must(!memcmp(again.sums, m->sums, m->shards * sizeof *m->sums));
    ckpt_ranges_sort(&again.ranges);
    must(ckpt_ranges_agree(&m->ranges, &again.ranges) == WEFT_OK);
    text[bytes / 2] ^= 4; /* and one wrong bit is seen */
    free(again.ranges.at);
    must(ckpt_manifest_parse(text, bytes, &p, &again) == WEFT_DATA);
    free(again.ranges.at);
    free(text);
    pool_free(&p);
}

static void try_manifest(const uint8_t *body, size_t bytes)
{
    pool p = {0};
    ckpt_manifest m;
    ckpt_piece *tensors;
    uint32_t *starts, n;
    char *text = mem_alloc(bytes + CKPT_TRAILER + 1);
    memcpy(text, body, bytes);
    must(ckpt_trailer(text, bytes, text + bytes) == WEFT_OK);
    if (ckpt_manifest_parse(text, bytes + CKPT_TRAILER, &p, &m) != WEFT_OK) {
        must(err_text()[0]);
    } else {
        check_ranges(&m.ranges);
        ckpt_ranges_sort(&m.ranges);
        must(ckpt_cover(&m.ranges, &p, &tensors, &starts, &n) == WEFT_OK || err_text()[0]);
        manifest_again(&m);
    }
    free(m.ranges.at);
    free(text);
    pool_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    err_clear();
    if (bytes > 1 && data[0] == 'h')
        try_header(data + 1, bytes - 1);
    else if (bytes && data[0] == 'm')
        try_manifest(data + 1, bytes - 1);
    return 0;
}
