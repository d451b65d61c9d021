/* run/weights.c: see weights.h. */
#include "run/weights.h"

#include "base/err.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK (1u << 20) /* elements that pass through host memory at once */

static uint16_t to_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* n fp32 values at element `first` of a piece: master and, where there is one, compute copy. */
static weft_status put(executor *e, const piece *p, uint64_t first, const float *v, uint64_t n,
                       uint16_t *scratch)
{
    weft_status s = exec_write(e, p->offset + first * 4, v, n * 4);
    if (s || p->copy == UINT64_MAX)
        return s;
    for (uint64_t i = 0; i < n; i++)
        scratch[i] = to_bf16(v[i]);
    return exec_write(e, p->copy + first * 2, scratch, n * 2);
}

static weft_status parse_init(const char *text, double *mean, double *deviation)
{
    *mean = *deviation = 0;
    if (!strcmp(text, "zeros"))
        return WEFT_OK;
    if (!strcmp(text, "ones")) {
        *mean = 1;
        return WEFT_OK;
    }
    char *end = NULL;
    if (!strncmp(text, "normal:", 7))
        *deviation = strtod(text + 7, &end);
    if (!end || *end || end == text + 7)
        return fail(WEFT_USAGE, "initial values '%s' are none of zeros, ones, normal:DEVIATION",
                    text);
    return WEFT_OK;
}

static weft_status init_piece(executor *e, const piece *p, uint64_t seed, float *v,
                              uint16_t *scratch)
{
    double mean, deviation;
    weft_status s = parse_init(p->init, &mean, &deviation);
    uint64_t key = rng_key(seed, p->name), count = shape_elements(&p->shape);
    for (uint64_t first = 0; !s && first < count; first += CHUNK) {
        uint64_t n = count - first < CHUNK ? count - first : CHUNK;
        if (deviation != 0)
            rng_normals(key, first, n, (float)deviation, v);
        else
            for (uint64_t i = 0; i < n; i++)
                v[i] = (float)mean;
        s = put(e, p, first, v, n, scratch);
    }
    return s;
}

weft_status weights_init(executor *e, uint64_t seed)
{
    float *v = mem_alloc(CHUNK * sizeof *v);
    uint16_t *scratch = mem_alloc(CHUNK * sizeof *scratch);
    weft_status s = WEFT_OK;
    for (uint32_t i = 0; !s && i < e->plan->pieces.n; i++)
        if (e->plan->pieces.at[i].init)
            s = init_piece(e, &e->plan->pieces.at[i], seed, v, scratch);
    free(v);
    free(scratch);
    return s;
}

/* --- checkpoints --- */

static const char *const kept_scalars[] = {"count", "skipped"};
#define KEPT (sizeof kept_scalars / sizeof *kept_scalars)

static void describe(const piece *p, ckpt_piece *out)
{
    *out = (ckpt_piece){.name = p->name, .dtype = WEFT_F32, .rank = p->shape.rank};
    for (uint32_t i = 0; i < p->shape.rank; i++)
        out->shape[i] = p->shape.axes[i].size;
    out->count = shape_elements(&p->shape);
}

static void describe_scalar(uint32_t i, char name[64], ckpt_piece *out)
{
    snprintf(name, 64, "scalar.%s", kept_scalars[i]);
    *out = (ckpt_piece){.name = name, .dtype = WEFT_F32, .rank = 1, .shape = {1}, .count = 1};
}

static weft_status load_piece(executor *e, const ckpt *c, const piece *p, float *v,
                              uint16_t *scratch)
{
    ckpt_piece want;
    describe(p, &want);
    uint64_t count = want.count;
    for (uint64_t first = 0; first < count; first += CHUNK) {
        want.first = first;
        want.count = count - first < CHUNK ? count - first : CHUNK;
        weft_status s = ckpt_read(c, &want, v);
        if (!s)
            s = put(e, p, first, v, want.count, scratch);
        if (s)
            return s;
    }
    return WEFT_OK;
}

static bool wanted(const executor *e, const char *name)
{
    char kept[64];
    ckpt_piece x;
    for (uint32_t i = 0; i < e->plan->pieces.n; i++)
        if (!strcmp(e->plan->pieces.at[i].name, name))
            return true;
    for (uint32_t i = 0; i < KEPT; i++) {
        describe_scalar(i, kept, &x);
        if (!strcmp(kept, name))
            return true;
    }
    return false;
}

/* Training goes on from all of a checkpoint: what is left over belongs to another model or rule. */
static weft_status nothing_over(const executor *e, const ckpt *c)
{
    const ckpt_piece *has;
    uint32_t n = e->plan->spec->want == SPEC_TRAIN ? ckpt_tensors(c, &has) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (!wanted(e, has[i].name))
            return fail(WEFT_USAGE,
                        "checkpoint %s has tensor %s, which this job has not: [model] and the rule "
                        "of [optim] have to be those that were saved",
                        ckpt_dir(c), has[i].name);
    return WEFT_OK;
}

weft_status weights_load(executor *e, const ckpt *c)
{
    float *v = mem_alloc(CHUNK * sizeof *v);
    uint16_t *scratch = mem_alloc(CHUNK * sizeof *scratch);
    weft_status s = nothing_over(e, c);
    for (uint32_t i = 0; !s && i < e->plan->pieces.n; i++)
        s = load_piece(e, c, &e->plan->pieces.at[i], v, scratch);
    for (uint32_t i = 0; !s && i < KEPT && e->plan->spec->want == SPEC_TRAIN; i++) {
        ckpt_piece want;
        char name[64];
        float value;
        describe_scalar(i, name, &want);
        s = ckpt_read(c, &want, &value);
        if (!s)
            s = exec_write(e, plan_scalar(e->plan, kept_scalars[i]), &value, sizeof value);
    }
    free(v);
    free(scratch);
    return s;
}

/* The pieces that this rank writes; data in the arena itself where the host can see it. */
static weft_status collect(executor *e, ckpt_piece *out, uint32_t *n, char (*names)[64],
                           float *values, pool *copies)
{
    bool visible = e->table->caps & WEFT_DEV_HOST_MEMORY;
    *n = 0;
    for (uint32_t i = 0; i < e->plan->save.entries.n; i++) {
        const piece *p = &e->plan->pieces.at[e->plan->save.entries.at[i].what];
        if (p->writer != e->rank)
            continue;
        ckpt_piece *x = &out[(*n)++];
        describe(p, x);
        x->data = e->base + p->offset;
        if (!visible) {
            void *copy = pool_alloc(copies, x->count * 4);
            weft_status s = exec_read(e, p->offset, copy, x->count * 4);
            if (s)
                return s;
            x->data = copy;
        }
    }
    for (uint32_t i = 0; i < KEPT && e->rank == 0; i++) {
        double value;
        weft_status s = exec_scalar(e, kept_scalars[i], &value);
        if (s)
            return s;
        values[i] = (float)value;
        describe_scalar(i, names[i], &out[*n]);
        out[(*n)++].data = &values[i];
    }
    return WEFT_OK;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const ckpt_piece *)x)->name, ((const ckpt_piece *)y)->name);
}

typedef struct save_news { /* what ranks tell each other after a phase of the save */
    uint32_t status;
    ckpt_shard_sum sum;
} save_news;

/* All ranks learn whether all succeeded; a failure elsewhere is WEFT_IO here. */
static weft_status agree(executor *e, const char *what, weft_status mine, const ckpt_shard_sum *sum,
                         save_news *all)
{
    save_news news = {.status = mine};
    if (sum)
        news.sum = *sum;
    if (!e->job) {
        all[0] = news;
        return mine;
    }
    weft_status s = job_exchange(e->job, what, &news, sizeof news, all);
    if (mine || s)
        return mine ? mine : s;
    for (uint32_t r = 0; r < e->plan->spec->ranks; r++)
        if (all[r].status)
            return fail(WEFT_IO, "rank %u could not save the checkpoint", r);
    return WEFT_OK;
}

static weft_status write_own(executor *e, const char *temp, ckpt_shard_sum *sum)
{
    ckpt_piece *pieces = mem_alloc((e->plan->save.entries.n + KEPT) * sizeof *pieces);
    char names[KEPT][64];
    float values[KEPT];
    pool copies = {0};
    uint32_t n;
    weft_status s = collect(e, pieces, &n, names, values, &copies);
    qsort(pieces, n, sizeof *pieces, by_name);
    if (!s)
        s = ckpt_write_shard(temp, e->rank, e->plan->spec->ranks, pieces, n, sum);
    pool_free(&copies);
    free(pieces);
    return s;
}

weft_status weights_save(executor *e, const char *out_dir, uint64_t step, uint32_t keep)
{
    uint32_t ranks = e->plan->spec->ranks;
    save_news *all = mem_alloc(ranks * sizeof *all);
    char temp[4096] = "", final[4096] = "", tag[64];
    ckpt_shard_sum sum = {0};
    weft_status s = e->rank ? WEFT_OK : ckpt_begin(out_dir, step, temp, final);
    snprintf(tag, sizeof tag, "save.%llu.begin", (unsigned long long)step);
    weft_status begun = agree(e, tag, s, NULL, all);
    s = s ? s : begun;
    if (!s) {
        s = e->rank ? ckpt_paths(out_dir, step, temp, final) : WEFT_OK;
        s = s ? s : write_own(e, temp, &sum);
        snprintf(tag, sizeof tag, "save.%llu.shards", (unsigned long long)step);
        weft_status written = agree(e, tag, s, &sum, all);
        s = s ? s : written;
    }
    if (!e->rank && begun == WEFT_OK) {
        ckpt_shard_sum *sums = mem_alloc(ranks * sizeof *sums);
        for (uint32_t r = 0; r < ranks; r++)
            sums[r] = all[r].sum;
        char *text = config_dump(e->plan->spec->cfg);
        if (!s)
            s = ckpt_commit(temp, final, step, text, sums, ranks, keep);
        if (s)
            ckpt_abandon(temp);
        free(text);
        free(sums);
    }
    snprintf(tag, sizeof tag, "save.%llu.end", (unsigned long long)step);
    weft_status ended = begun ? WEFT_OK : agree(e, tag, s, NULL, all);
    free(all);
    return s ? s : ended;
}
