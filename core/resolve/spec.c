/* resolve/spec.c: fill in a spec from the checked INI. */
#include "base/err.h"
#include "config/constraints.h"
#include "resolve/internal.h"

#include <string.h>

static resolve_state resolver_of(config *cfg, const resolve_meeting *meeting, spec *s)
{
    resolve_state r = {.cfg = cfg, .spec = s};
    if (meeting)
        r.meeting = *meeting;
    const job_hosts *hosts = r.meeting.hosts;
    if (hosts)
        s->hosts = (spec_host_map){hosts->machines, hosts->machine, hosts->distance,
                                   hosts->cpu_ranks, hosts->cpu_rank};
    return r;
}

static weft_status open_plugin(resolve_state *r, spec_plugin *p, const char *section)
{
    if (!p->c)
        return WEFT_OK;
    p->conf = config_conf(r->cfg, section, p->c->own);
    return host_open(r->spec->host, p->c);
}

static weft_status open_all(resolve_state *r)
{
    weft_status st = open_plugin(r, &r->spec->device, "device");
    if (st == WEFT_OK)
        st = open_plugin(r, &r->spec->rule, "optim");
    if (st == WEFT_OK)
        st = open_plugin(r, &r->spec->placement, "optim");
    for (uint32_t i = 0; st == WEFT_OK && i < r->spec->nstrategies; i++)
        st = open_plugin(r, &r->spec->strategies[i], "parallel");
    return st;
}

uint32_t resolve_sizes(const config *cfg, const spec *s)
{
    uint64_t n = 1;
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        uint64_t size = (uint64_t)config_int(cfg, s->size_key[a]);
        n = n * (size ? size : 1) > UINT32_MAX ? UINT32_MAX : n * (size ? size : 1);
    }
    return (uint32_t)n;
}

static weft_status size_mesh(resolve_state *r)
{
    uint32_t left = r->spec->ranks, open = WEFT_MAX_MESH;
    for (uint32_t a = 0; a < r->spec->mesh.n; a++) {
        uint32_t n = (uint32_t)config_int(r->cfg, r->spec->size_key[a]);
        r->spec->mesh.size[a] = n ? n : 1;
        if (!n && open < WEFT_MAX_MESH)
            return config_refuse(CONSTRAINT_ONE_AUTO, r->cfg, r->spec->size_key[a],
                                 (config_fact[]){{"other", 0, r->spec->size_key[open]}, {0}});
        if (!n)
            open = a;
        else if (left % n)
            return config_refuse(
                CONSTRAINT_SIZE, r->cfg, r->spec->size_key[a],
                (config_fact[]){
                    {"size", n, NULL}, {"ranks", r->spec->ranks, NULL}, {"left", left, NULL}, {0}});
        else
            left /= n;
    }
    if (open < WEFT_MAX_MESH)
        r->spec->mesh.size[open] = left;
    uint32_t n = graph_mesh_ranks(&r->spec->mesh);
    if (n != r->spec->ranks)
        return config_refuse(
            CONSTRAINT_RANKS, r->cfg, NULL,
            (config_fact[]){
                {"used", 0, pool_printf(&r->spec->pool, "%u rank%s", n, n == 1 ? "" : "s")},
                {"ranks", r->spec->ranks, NULL},
                {0}});
    return WEFT_OK;
}

static void set_precision(const config *c, spec *s)
{
    s->precision = config_text(c, "train.precision");
    s->compute = !strcmp(s->precision, "fp32")   ? WEFT_F32
                 : !strcmp(s->precision, "bf16") ? WEFT_BF16
                                                 : WEFT_F16;
    s->scaled = s->compute == WEFT_F16 && s->want == SPEC_TRAIN;
    int64_t scale = config_int(c, "train.loss_scale");
    s->loss_scale = !s->scaled ? 1 : scale ? (double)scale : 65536;
    s->scale_window = config_int(c, "train.scale_window");
    s->deterministic = config_int(c, "run.deterministic") != 0;
    bool compute = !strcmp(config_text(c, "train.accumulate"), "compute");
    s->grad_dtype = compute ? s->compute : WEFT_F32;
}

static void set_schedule(const config *c, spec_schedule *out)
{
    const char *kind = config_text(c, "optim.schedule");
    out->kind = !strcmp(kind, "cosine")   ? SPEC_COSINE
                : !strcmp(kind, "linear") ? SPEC_LINEAR
                                          : SPEC_CONSTANT;
    out->lr = config_real(c, "optim.lr");
    out->min_lr = config_real(c, "optim.min_lr");
    out->warmup = (double)config_int(c, "optim.warmup");
    out->steps = (double)config_int(c, "run.steps");
}

static void set_training(const resolve_state *r)
{
    const config *c = r->cfg;
    spec *s = r->spec;
    set_precision(c, s);
    set_schedule(c, &s->schedule);
    s->recompute = config_recompute(config_text(c, "train.recompute"));
    s->clip = config_real(c, "train.clip");
    s->bucket_bytes = (uint64_t)(config_real(c, "train.bucket_mb") * 1048576.0);
}

/* Store the place of each key that a later error may name, as config_fail() writes it. */
static void keep_origins(resolve_state *r)
{
    static const char *const keys[] = {"train.batch", "optim.placement", "comm.compress"};
    spec *s = r->spec;
    s->origins = pool_array(&s->pool, 3 + s->mesh.n, sizeof *s->origins);
    for (uint32_t i = 0; i < 3 + s->mesh.n; i++) {
        const char *key = i < 3 ? keys[i] : s->compress_key[i - 3];
        s->origins[s->norigins++] = (spec_origin){key, config_origin(r->cfg, key)};
    }
}

weft_status resolve_spec(config *cfg, uint32_t ranks, const weft_data_info *data,
                         const resolve_meeting *meeting, int want, spec *s)
{
    resolve_state r = resolver_of(cfg, meeting, s);
    s->ranks = ranks;
    s->want = want;
    s->batch = (uint64_t)config_int(cfg, "train.batch");
    s->micro_batch = (uint64_t)config_int(cfg, "train.microbatch");
    weft_status st = resolve_model(&r, data);
    set_training(&r);
    s->seed = (uint64_t)config_int(cfg, "run.seed");
    if (st == WEFT_OK)
        st = size_mesh(&r);
    if (st == WEFT_OK)
        st = open_all(&r);
    if (st == WEFT_OK)
        st = resolve_group_values(&r);
    if (st == WEFT_OK)
        st = resolve_kernel_set(&r);
    if (st == WEFT_OK)
        st = resolve_transports(&r);
    if (st == WEFT_OK)
        keep_origins(&r);
    if (want == SPEC_FORWARD || want == SPEC_GENERATE) {
        s->micro_batch = s->batch = 1;
        s->sequence = s->model.context ? s->model.context : s->sequence;
    }
    return st;
}

weft_status resolve_links(config *cfg, host *h, uint32_t ranks, const resolve_meeting *meeting,
                          spec *out)
{
    *out = (spec){.host = h, .ranks = ranks};
    out->mesh = (graph_mesh){.n = 1, .name[0] = "ranks", .size[0] = ranks};
    resolve_state r = resolver_of(cfg, meeting, out);
    resolve_serve_components(&r);
    weft_status st = resolve_device(&r);
    if (st == WEFT_OK)
        st = resolve_sections(&r);
    if (st == WEFT_OK)
        st = resolve_use(&r);
    if (st == WEFT_OK)
        st = resolve_check_keys(&r);
    if (st == WEFT_OK)
        st = open_plugin(&r, &out->device, "device");
    return st == WEFT_OK ? resolve_transports(&r) : st;
}

weft_status resolve_axis(config *cfg, const resolve_meeting *meeting, spec *s, uint32_t axis)
{
    resolve_state r = resolver_of(cfg, meeting, s);
    return resolve_axis_transport(&r, axis);
}

void resolve_free(spec *s)
{
    pool_free(&s->pool);
}

/* --- errors that the plan reports --- */

static const char *origin_of(const spec *s, const char *key)
{
    for (uint32_t i = 0; i < s->norigins; i++)
        if (!strcmp(s->origins[i].key, key))
            return s->origins[i].text;
    return key;
}

weft_status resolve_refuse(const spec *s, config_constraint rule, const char *key,
                           const config_fact *facts)
{
    weft_status st = config_refuse(rule, NULL, NULL, facts);
    err_context("%s", origin_of(s, key));
    return st;
}
