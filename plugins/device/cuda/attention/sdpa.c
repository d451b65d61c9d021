/* sdpa.c: attention by cuDNN: opening it, which sizes it serves, and running a plan.
 *
 * It wants 16-bit operands with heads of a multiple of eight elements, up to 128, and sequences of
 * more than one token. What it refuses when a plan is built, or run once, goes to our own kernels,
 * unless the user has asked for cuDNN by name; so does what its versions are known to compute
 * wrongly, by the list that its own front end keeps. Its statistics lie head by head, ours token by
 * token; two small kernels turn them. */
#include "sdpa.h"
#include "ops/ops.h"
#include "sdpa_graph.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OLDEST 91002      /* 9.10.2: before it minus infinity is no mask, and 9.10.0 has errors */
#define WRONG_ENDS 91500u /* up to 9.15.0 gradients want sequences of whole tiles ... */
#define TILE 128          /* ... of so many tokens */

struct gpu_sdpa {
    struct sdpa_calls c;
    cudnnHandle_t handle;
    size_t version;
    bool by_name; /* the user wants no other */
    char name[48];
};

struct ready {
    struct sdpa_plan plan;
    uint64_t sums, dq_sums, rest; /* offsets into the workspace, behind the statistics */
};

/* --- the library --- */

static weft_status find_calls(weft_device *d, void *so)
{
    static const struct {
        const char *name;
        size_t at;
    } calls[] = {
#define CALL(name) {#name, offsetof(struct sdpa_calls, name)},
        GPU_SDPA_CALLS(CALL)};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        void *found = dlsym(so, calls[k].name);
        if (!found)
            return gpu_fail(d->m, WEFT_ABSENT, "the libcudnn that is installed has no %s",
                            calls[k].name);
        memcpy((char *)&d->sdpa->c + calls[k].at, &found, sizeof found);
    }
    return WEFT_OK;
}

static weft_status start(weft_device *d)
{
    struct gpu_sdpa *s = d->sdpa;
    s->version = s->c.cudnnGetVersion();
    snprintf(s->name, sizeof s->name, "cuDNN %zu.%zu.%zu", s->version / 10000,
             s->version / 100 % 100, s->version % 100);
    if (s->version < OLDEST)
        return gpu_fail(d->m, WEFT_ABSENT, "%s is installed, and attention needs 9.10.2 or later",
                        s->name);
    const cudnnStatus_t r = s->c.cudnnCreate(&s->handle);
    if (r != CUDNN_STATUS_SUCCESS)
        return gpu_fail(d->m, WEFT_IO, "cuDNN does not start: %s", s->c.cudnnGetErrorString(r));
    return WEFT_OK;
}

static weft_status open_library(weft_device *d, void *so)
{
    const weft_host *host = d->m->host;
    d->sdpa = host->alloc(host->ctx, sizeof *d->sdpa, 0);
    if (!d->sdpa)
        return gpu_fail(d->m, WEFT_NO_MEMORY, "no memory for the calls of cuDNN");
    weft_status st = find_calls(d, so);
    return st != WEFT_OK ? st : start(d);
}

/* Where the user has not asked for it by name, one that is not there or does not start is no
 * failure, but is said. */
weft_status gpu_sdpa_open(weft_device *d, const weft_conf *conf)
{
    static const char *const names[] = {"libcudnn.so.9", NULL};
    const weft_host *host = d->m->host;
    const char *wish = conf->text(conf->ctx, "attention");
    const bool by_name = wish && strcmp(wish, "cudnn") == 0;
    void *so = gpu_open_library(conf, names);
    weft_status st = WEFT_ABSENT;
    if (!so && by_name)
        return gpu_fail(d->m, WEFT_ABSENT,
                        "device.attention = cudnn: libcudnn.so.9 cannot be opened; name its "
                        "directory in device.libraries or LD_LIBRARY_PATH");
    if (so)
        st = open_library(d, so);
    if (st != WEFT_OK && !by_name) {
        gpu_sdpa_close(d);
        host->log(host->ctx, WEFT_LOG_WARN,
                  so ? "cuDNN does not start, or is older than 9.10.2, so attention is by "
                       "our own kernels, which are slower; device.attention = cudnn "
                       "says why"
                     : "libcudnn.so.9 cannot be opened, so attention is by our own "
                       "kernels, which are slower; device.libraries names directories "
                       "to look in");
        return WEFT_OK;
    }
    if (st == WEFT_OK)
        d->sdpa->by_name = by_name;
    return st;
}

void gpu_sdpa_close(weft_device *d)
{
    if (!d->sdpa)
        return;
    if (d->sdpa->handle)
        d->sdpa->c.cudnnDestroy(d->sdpa->handle);
    d->m->host->free(d->m->host->ctx, d->sdpa);
    d->sdpa = NULL;
}

const char *gpu_sdpa_name(const weft_device *d)
{
    return !d->sdpa ? "own kernels" : d->sdpa->name;
}

/* --- sizes --- */

static bool serves(const struct gpu_sizes *z)
{
    return (z->dt == WEFT_BF16 || z->dt == WEFT_F16) && z->dim % 8 == 0 && z->dim <= 128 &&
           z->sequence > 1;
}

/* Does this version, of what it serves? */
static bool is_right(const struct gpu_sdpa *s, const struct gpu_sizes *z, bool backward)
{
    return !backward || s->version > WRONG_ENDS || z->sequence % TILE == 0;
}

static uint64_t whole(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Bytes of fp32 numbers, one a query and head, or one an element. */
static uint64_t row_bytes(const struct gpu_sizes *z)
{
    return whole((uint64_t)(z->rows * z->heads) * 4);
}

static uint64_t element_bytes(const struct gpu_sizes *z)
{
    return whole((uint64_t)(z->rows * z->heads * z->dim) * 4);
}

/* What cuDNN itself may ask for: backward, room for the gradients of keys and values of all heads
 * where heads share them, for another accumulator on older chips, and where the result is to be
 * deterministic for all scores in 16 bits, in tiles of 64 queries by 128 keys. */
static uint64_t rest_bytes(const struct gpu_sizes *z, bool backward, bool deterministic)
{
    const uint64_t queries = ((uint64_t)z->sequence + 63) / 64 * 64;
    const uint64_t keys = ((uint64_t)z->sequence + 127) / 128 * 128;
    const uint64_t pairs = (uint64_t)(z->rows / z->sequence * z->heads);
    uint64_t bytes = 1 << 20;
    if (backward)
        bytes += element_bytes(z) + (z->heads != z->kv_heads ? element_bytes(z) : 0);
    if (backward && deterministic)
        bytes += whole(pairs * queries * keys * 2);
    return bytes;
}

uint64_t gpu_sdpa_workspace(const struct gpu_sizes *z, bool backward, bool deterministic)
{
    if (!serves(z))
        return 0;
    const uint64_t sums = !backward ? 0 : row_bytes(z) + (deterministic ? 0 : element_bytes(z));
    return 256 + row_bytes(z) + sums + rest_bytes(z, backward, deterministic);
}

static struct sdpa_shape shape_of(const weft_prepared *p, bool backward)
{
    const struct gpu_sizes *z = &p->z;
    return (struct sdpa_shape){.sequences = z->rows / z->sequence,
                               .heads = z->heads,
                               .kv_heads = z->kv_heads,
                               .length = z->sequence,
                               .dim = z->dim,
                               .type = z->dt == WEFT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
                               .fused = z->fused,
                               .causal = z->causal,
                               .backward = backward,
                               .deterministic = p->deterministic};
}

/* --- plans --- */

static weft_status refuse(const weft_prepared *p, cudnnStatus_t r, const char *why)
{
    const weft_host *host = p->d->m->host;
    char text[512];
    snprintf(text, sizeof text,
             "op %s, %lld tokens in sequences of %lld, %lld heads of %lld: cuDNN says %s%s%s",
             p->op->id, (long long)p->z.rows, (long long)p->z.sequence, (long long)p->z.heads,
             (long long)p->z.dim, p->d->sdpa->c.cudnnGetErrorString(r), why[0] ? ", " : "", why);
    if (p->d->sdpa->by_name) /* a kernel of ours is not what was asked for */
        return gpu_fail(p->d->m, WEFT_USAGE, "device.attention = cudnn: %s", text);
    host->log(host->ctx, WEFT_LOG_WARN, text);
    return WEFT_UNSUPPORTED;
}

static weft_status build(weft_prepared *p, bool backward, struct ready *r)
{
    const struct sdpa_shape shape = shape_of(p, backward);
    const struct sdpa_target target = {.handle = p->d->sdpa->handle};
    char why[256] = "";
    r->sums = row_bytes(&p->z);
    r->dq_sums = r->sums + (backward ? row_bytes(&p->z) : 0);
    r->rest = r->dq_sums + (backward && !p->deterministic ? element_bytes(&p->z) : 0);
    const uint64_t cap = rest_bytes(&p->z, backward, p->deterministic);
    const cudnnStatus_t st =
        sdpa_build(&p->d->sdpa->c, &target, &shape, (int64_t)cap, &r->plan, why);
    return st == CUDNN_STATUS_SUCCESS ? WEFT_OK : refuse(p, st, why);
}

weft_status gpu_sdpa_ready(weft_prepared *p, const weft_opspec *spec, bool backward)
{
    const weft_host *host = p->d->m->host;
    if (!serves(&p->z))
        return p->d->sdpa->by_name ? refuse(p, CUDNN_STATUS_NOT_SUPPORTED,
                                            "it takes 16-bit operands, heads of a multiple of 8 "
                                            "elements up to 128, and more than one token")
                                   : WEFT_UNSUPPORTED;
    if (!is_right(p->d->sdpa, &p->z, backward))
        return refuse(p, CUDNN_STATUS_NOT_SUPPORTED,
                      "up to 9.15.0 its gradients want sequences of a multiple of 128 tokens");
    struct ready *r = host->alloc(host->ctx, sizeof *r, 0);
    if (!r)
        return gpu_fail(p->d->m, WEFT_NO_MEMORY, "op %s: no memory for cuDNN's plan", p->op->id);
    p->extra = r;
    weft_status st = build(p, backward, r);
    if (st == WEFT_OK && !gpu_try_op(p, spec))
        st = refuse(p, CUDNN_STATUS_EXECUTION_FAILED, "running the plan that it has made");
    if (st != WEFT_OK) {
        gpu_sdpa_drop(p->d, r);
        p->extra = NULL;
    }
    return st;
}

void gpu_sdpa_drop(const weft_device *d, void *ready)
{
    struct ready *r = ready;
    if (!r)
        return;
    sdpa_free(&d->sdpa->c, &r->plan);
    d->m->host->free(d->m->host->ctx, r);
}

/* --- running --- */

/* Tensors by number, and where they lie. */
struct pack {
    int64_t number[SDPA_TENSORS];
    void *at[SDPA_TENSORS];
    int64_t n;
};

static void add(struct pack *k, int64_t number, const void *at)
{
    k->number[k->n] = number;
    k->at[k->n++] = (void *)(uintptr_t)at;
}

/* Queries, keys and values, or their gradients: three operands, or one that has them beside each
 * other. */
static void add_heads(struct pack *k, const struct gpu_sizes *z, int64_t first, const void *q,
                      const void *key, const void *v)
{
    const int64_t part = z->heads * z->dim * 2; /* bytes */
    add(k, first, q);
    add(k, first + 1, z->fused ? (const char *)q + part : key);
    add(k, first + 2, z->fused ? (const char *)q + 2 * part : v);
}

static cudnnStatus_t execute(const weft_prepared *p, const struct ready *r, const struct pack *k,
                             void *ws, CUstream s)
{
    const struct sdpa_calls *c = &p->d->sdpa->c;
    cudnnBackendDescriptor_t v = NULL;
    cudnnStatus_t st = c->cudnnSetStream(p->d->sdpa->handle, (cudaStream_t)s);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &v);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendSetAttribute(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                         k->n, k->number);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendSetAttribute(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                         CUDNN_TYPE_VOID_PTR, k->n, k->at);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendSetAttribute(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                         1, &ws);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendFinalize(v);
    if (st == CUDNN_STATUS_SUCCESS)
        st = c->cudnnBackendExecute(p->d->sdpa->handle, r->plan.plan, v);
    if (v)
        c->cudnnBackendDestroyDescriptor(v);
    return st;
}

/* The statistics from one order to the other, in or out of the workspace. */
static weft_status turn(const weft_prepared *p, weft_stream *s, CUfunction f,
                        const struct gpu_job *j)
{
    const int64_t n = p->z.rows * p->z.heads;
    const struct gpu_grid grid = {(n + ROW_BLOCK - 1) / ROW_BLOCK, 1, ROW_BLOCK, 0};
    return gpu_launch(p->d, f, s, grid, j);
}

static weft_status run_plan(const weft_prepared *p, weft_stream *s, const struct pack *k, char *ws)
{
    const struct ready *r = p->extra;
    const cudnnStatus_t st = execute(p, r, k, ws + r->rest, s->cu);
    if (st == CUDNN_STATUS_SUCCESS)
        return WEFT_OK;
    char why[256] = "";
    p->d->sdpa->c.cudnnGetLastErrorString(why, sizeof why);
    return gpu_fail(p->d->m, WEFT_IO, "op %s: cuDNN says %s, %s", p->op->id,
                    p->d->sdpa->c.cudnnGetErrorString(st), why);
}

static weft_status run_forward(const weft_prepared *p, weft_stream *s, struct gpu_job *j)
{
    const float least = -INFINITY;
    struct pack k = {.n = 0};
    add_heads(&k, &p->z, SDPA_Q, j->in[0], j->in[1], j->in[2]);
    add(&k, SDPA_O, j->out[0]);
    add(&k, SDPA_STATS, j->ws);
    add(&k, SDPA_SCALE, &p->z.weight);
    if (p->z.causal)
        add(&k, SDPA_LEAST, &least);
    weft_status st = run_plan(p, s, &k, j->ws);
    return st != WEFT_OK ? st : turn(p, s, p->f[1], j);
}

static weft_status run_backward(const weft_prepared *p, weft_stream *s, struct gpu_job *j)
{
    const struct ready *r = p->extra;
    const float least = -INFINITY, one = 1;
    struct pack k = {.n = 0};
    add(&k, SDPA_DO, j->in[0]);
    add_heads(&k, &p->z, SDPA_Q, j->in[1], j->in[2], j->in[3]);
    add(&k, SDPA_O, j->in[p->z.fused ? 2 : 4]);
    add_heads(&k, &p->z, SDPA_DQ, j->out[0], j->out[1], j->out[2]);
    add(&k, SDPA_STATS, j->ws);
    add(&k, SDPA_SUM, j->ws + r->sums);
    if (!p->deterministic)
        add(&k, SDPA_DQ_SUM, j->ws + r->dq_sums);
    add(&k, SDPA_SCALE, &p->z.weight);
    if (p->z.causal)
        add(&k, SDPA_LEAST, &least);
    add(&k, SDPA_ONE, &one);
    weft_status st = turn(p, s, p->f[3], j);
    return st != WEFT_OK ? st : run_plan(p, s, &k, j->ws);
}

weft_status gpu_sdpa_run(const weft_prepared *p, weft_stream *s, bool backward,
                         const struct gpu_job *j)
{
    struct gpu_job mine = *j;
    mine.ws = (char *)(((uintptr_t)j->ws + 255) & ~(uintptr_t)255);
    return backward ? run_backward(p, s, &mine) : run_forward(p, s, &mine);
}
