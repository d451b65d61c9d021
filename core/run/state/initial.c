/* run/state/initial.c: initial values of parameters and states (run_weights_init of weights.h).
 *
 * Some threads draw chunks, then the calling thread writes them. What has no `init` starts as the
 * arena does, at 0. */
#include "run/state/weights.h"

#include "base/err.h"
#include "base/number/box.h"
#include "base/number/rng.h"
#include "run/exec/arena.h"
#include "run/save/copy.h"
#include "run/state/local.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct values { /* normally distributed, or all equal, or those of the diagonal */
    double mean, deviation;
    bool diagonal;
} values;

static weft_status parse_init(const char *text, values *out)
{
    *out = (values){.mean = !strcmp(text, "ones") || !strcmp(text, "eye")};
    out->diagonal = !strcmp(text, "eye");
    if (!strcmp(text, "zeros") || out->mean != 0)
        return WEFT_OK;
    char *end = NULL;
    const char *from = strchr(text, ':');
    double *to = !strncmp(text, "normal:", 7) ? &out->deviation : &out->mean;
    if (from && (to == &out->deviation || !strncmp(text, "constant:", 9)))
        *to = strtod(from + 1, &end);
    if (!end || *end || end == from + 1)
        return err_fail(WEFT_USAGE,
                        "initial values '%s' are not zeros, ones, eye, constant:X or "
                        "normal:DEVIATION",
                        text);
    return WEFT_OK;
}

typedef struct chunk {
    run_local l;
    uint64_t first, n, key;
    values how;
    float *v; /* [LOCAL_CHUNK] */
    pthread_t thread;
    bool started;
} chunk;

/* A value depends on the element's index in the whole tensor, not on the block. */
static void *draw(void *arg)
{
    chunk *k = arg;
    const plan_piece *x = k->l.x;
    box whole = {.rank = x->shape.rank}, block = whole;
    box_rows rows;
    uint64_t at[2], done = 0;
    const uint64_t diagonal = (uint64_t)x->shape.axes[x->shape.rank - 1].size + 1;
    for (uint32_t i = 0; i < whole.rank; i++)
        whole.size[i] = x->shape.axes[i].size;
    const plan_extent *any = k->l.held.count ? &k->l.held : &k->l.copied;
    memcpy(block.start, any->start, sizeof block.start);
    memcpy(block.size, any->size, sizeof block.size);
    box_common(&block, &whole, &rows);
    for (uint64_t i = box_row_from(&rows, 0, k->first); done < k->n; i++) {
        box_row(&rows, i, at);
        uint64_t skip = k->first + done - at[0], n = rows.length - skip;
        if (n > k->n - done)
            n = k->n - done;
        if (k->how.deviation != 0)
            rng_normals(k->key, at[1] + skip, n, (float)k->how.deviation, k->v + done);
        for (uint64_t j = 0; j < n && k->how.deviation == 0; j++)
            k->v[done + j] =
                !k->how.diagonal || (at[1] + skip + j) % diagonal == 0 ? (float)k->how.mean : 0;
        done += n;
    }
    run_local_convert(x->shape.dtype, k->v, k->n, k->v);
    return NULL;
}

/* A state that begins as its parameter. */
static bool is_copy(const plan_piece *x)
{
    return strcmp(x->name, x->param) != 0 && x->init && !strcmp(x->init, "copy");
}

typedef struct cursor { /* the next chunk: its piece, and its first element */
    uint32_t piece;
    uint64_t done;
} cursor;

/* The next chunk of the pieces with initial values; n is 0 after the last. */
static weft_status next_chunk(const run_executor *e, uint64_t seed, cursor *c, chunk *out)
{
    for (; c->piece < e->plan->pieces.n; *c = (cursor){.piece = c->piece + 1}) {
        const plan_piece *x = &e->plan->pieces.at[c->piece];
        if (!x->init || is_copy(x))
            continue;
        out->l = run_local_find(e, x);
        uint64_t left = out->l.end - out->l.first - c->done;
        if (!left)
            continue;
        out->first = out->l.first + c->done;
        out->n = left < LOCAL_CHUNK ? left : LOCAL_CHUNK;
        out->key = rng_key(seed, x->name);
        c->done += out->n;
        return parse_init(x->init, &out->how);
    }
    out->n = 0;
    return WEFT_OK;
}

static void draw_all(chunk *k, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        k[i].started = pthread_create(&k[i].thread, NULL, draw, &k[i]) == 0;
    draw(&k[0]);
    for (uint32_t i = 1; i < n; i++)
        if (k[i].started)
            pthread_join(k[i].thread, NULL);
        else
            draw(&k[i]);
}

weft_status run_weights_init(run_executor *e, uint64_t seed)
{
    uint32_t threads = run_copy_threads(1), n;
    chunk *k = mem_alloc(threads * sizeof *k);
    uint16_t *scratch = mem_alloc(LOCAL_CHUNK * sizeof *scratch);
    cursor c = {0};
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < threads; i++)
        k[i].v = mem_alloc(LOCAL_CHUNK * sizeof *k[i].v);
    do {
        for (n = 0; st == WEFT_OK && n < threads; n++) {
            st = next_chunk(e, seed, &c, &k[n]);
            if (!k[n].n)
                break;
        }
        if (st == WEFT_OK && n)
            draw_all(k, n);
        for (uint32_t i = 0; st == WEFT_OK && i < n; i++)
            st = run_local_put(e, &k[i].l, k[i].first, k[i].v, k[i].n, scratch);
    } while (st == WEFT_OK && n);
    for (uint32_t i = 0; i < threads; i++)
        free(k[i].v);
    free(k);
    free(scratch);
    return st;
}

static const plan_piece *parameter_of(const plan *p, const plan_piece *state)
{
    for (uint32_t i = 0; i < p->pieces.n; i++)
        if (!strcmp(p->pieces.at[i].name, state->param))
            return &p->pieces.at[i];
    return NULL;
}

/* Reads values, which are the fp32 master copy in 16-bit jobs. A rank that has a part of a state
 * has that part of its parameter, too. */
static weft_status read_parameter(void *from, const plan_piece *state, ckpt_piece *want, float *v)
{
    run_executor *e = from;
    const plan_piece *param = parameter_of(e->plan, state);
    plan_extent x = {0};
    if (param)
        plan_extent_of(e->plan, param, e->rank, PLAN_EXTENT_HELD, &x);
    if (!param || x.first > want->first || x.first + x.count < want->first + want->count)
        return err_fail(WEFT_INTERNAL, "state %s is where its parameter is not", state->name);
    weft_status st = run_exec_read(e, x.offset + (want->first - x.first) * sizeof *v, v,
                                   want->count * sizeof *v);
    run_local_convert(state->shape.dtype, v, want->count, v);
    return st;
}

weft_status run_weights_copy(run_executor *e)
{
    const run_source parameters = {"states are copied from parameters", is_copy, read_parameter, e};
    return run_local_load(e, &parameters);
}
