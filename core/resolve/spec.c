/* resolve/spec.c: the job, resolved (see spec.h). */
#include "resolve/spec.h"

#include "base/err.h"
#include "config/combine.h"
#include "config/differ.h"
#include "resolve/transport.h"

#include <stdlib.h>
#include <string.h>

static const char *const strategy_ifaces[] = {"weft.strategy/1", NULL};
static const char *const device_ifaces[] = {"weft.device/1", NULL};
static const char *const rule_ifaces[] = {"weft.rule/1", NULL};
static const char *const placement_ifaces[] = {"weft.placement/1", NULL};

/* One component by the name that stands under `key`; its options join `section`. */
static weft_status find(spec *s, const char *kind, const char *name, const char *key,
                        const char *const *ifaces, const char *section, const component **out)
{
    weft_status st = host_find(s->host, kind, name, ifaces, out);
    if (st) {
        err_context("%s: %s", config_where(s->cfg, key), key);
        return st;
    }
    char *owner = pool_printf(&s->pool, "plugin %s", name);
    return config_add(s->cfg, section, owner, (*out)->options);
}

static const weft_option *const *axis_option(spec *s, const weft_mesh_axis *axis)
{
    weft_option *o = pool_alloc(&s->pool, sizeof *o);
    *o = (weft_option){.struct_size = sizeof *o,
                       .type = WEFT_OPT_AUTO_INT,
                       .key = axis->size_key,
                       .dflt = "auto",
                       .help = axis->help,
                       .min = 1,
                       .max = 1048576};
    const weft_option **list = pool_array(&s->pool, 2, sizeof *list);
    list[0] = o;
    return list;
}

#define WORD "abcdefghijklmnopqrstuvwxyz0123456789_"

static bool is_word(const char *text)
{
    const size_t n = text ? strnlen(text, WEFT_MAX_NAME) : 0;
    return n && n < WEFT_MAX_NAME && strspn(text, WORD) == n;
}

/* A mesh axis is constant data of the plugin, like its options. */
static weft_status check_axis(const component *c, const weft_mesh_axis *axis)
{
    if (axis->struct_size != sizeof *axis)
        return fail(WEFT_USAGE, "%s: strategy %s: a mesh axis of %u bytes; %zu is the size here",
                    c->path, c->name, axis->struct_size, sizeof *axis);
    if (!is_word(axis->name) || !is_word(axis->size_key))
        return fail(WEFT_USAGE,
                    "%s: strategy %s: the %s of a mesh axis is not made of a-z, 0-9 and '_', 1 to "
                    "%d bytes",
                    c->path, c->name, is_word(axis->name) ? "size_key" : "name", WEFT_MAX_NAME - 1);
    if (!axis->help || !*axis->help)
        return fail(WEFT_USAGE, "%s: strategy %s: the mesh axis %s has no line of help", c->path,
                    c->name, axis->name);
    if (axis->flags & ~WEFT_AXIS_SEQUENCE)
        return fail(WEFT_USAGE, "%s: strategy %s: the mesh axis %s has the unknown flags 0x%x",
                    c->path, c->name, axis->name, axis->flags & ~WEFT_AXIS_SEQUENCE);
    return WEFT_OK;
}

/* The INI keys of a strategy's mesh axes: a number, or auto. */
static weft_status add_axes(spec *s, const component *c)
{
    const weft_strategy *table = c->table;
    for (uint32_t i = 0; table->axes && table->axes[i]; i++) {
        const weft_mesh_axis *axis = table->axes[i];
        weft_status lawful = check_axis(c, axis);
        if (lawful)
            return lawful;
        if (s->mesh.n == WEFT_MAX_MESH)
            return fail(WEFT_UNSUPPORTED, "the job has more than %d mesh axes", WEFT_MAX_MESH);
        if (mesh_axis(&s->mesh, axis->name) >= 0)
            return combine_refuse(
                COMBINE_AXIS_TWICE, s->cfg, NULL,
                (combine_fact[]){{"parallel.strategy", 0, config_text(s->cfg, "parallel.strategy")},
                                 {"axis", 0, axis->name},
                                 {0}});
        s->size_key[s->mesh.n] = pool_printf(&s->pool, "parallel.%s", axis->size_key);
        s->sequence_axes |= (uint64_t)(axis->flags & WEFT_AXIS_SEQUENCE ? 1 : 0) << s->mesh.n;
        s->mesh.name[s->mesh.n++] = axis->name;
        weft_status st = config_add(s->cfg, "parallel", pool_printf(&s->pool, "plugin %s", c->name),
                                    axis_option(s, axis));
        if (st)
            return st;
    }
    return WEFT_OK;
}

#define MOST_LIST 1024u /* bytes of a list of strategies */

static weft_status check_flags(const component *c, const char *kind, uint32_t flags)
{
    return flags ? fail(WEFT_USAGE, "%s: the table of %s %s has flags 0x%x; 0 is expected", c->path,
                        kind, c->name, flags)
                 : WEFT_OK;
}

static weft_status check_unit(const component *c)
{
    const weft_rule *rule = c->table;
    if (rule->unit >= WEFT_UNIT_ELEMENT && rule->unit <= WEFT_UNIT_MATRIX)
        return WEFT_OK;
    return fail(WEFT_USAGE,
                "%s: update rule %s has unit = %u; there are WEFT_UNIT_ELEMENT (1), _TENSOR (2) "
                "and _MATRIX (3)",
                c->path, c->name, rule->unit);
}

/* The strategies of a list; one that stands for a list is replaced by it. */
static weft_status add_strategies(spec *s, const char *list, bool nested)
{
    char *rest = pool_text(&s->pool, list);
    for (char *word; (word = strsep(&rest, ","));) {
        const component *c;
        word += strspn(word, " \t");
        word[strcspn(word, " \t")] = 0;
        weft_status st =
            find(s, "parallel", word, "parallel.strategy", strategy_ifaces, "parallel", &c);
        if (st)
            return st;
        const weft_strategy *table = c->table;
        st = check_flags(c, "strategy", table->flags);
        if (st)
            return st;
        if (table->list && strnlen(table->list, MOST_LIST) == MOST_LIST)
            return fail(WEFT_USAGE, "%s: strategy %s stands for a list of %u bytes or more",
                        c->path, word, MOST_LIST);
        if (table->list && nested)
            return fail(WEFT_USAGE, "strategy %s stands for a list inside a list", word);
        if (table->list) {
            st = add_strategies(s, table->list, true);
            if (st)
                return st;
            continue;
        }
        if (s->nstrategies == WEFT_MAX_MESH)
            return fail(WEFT_UNSUPPORTED, "%s: more than %d strategies",
                        config_where(s->cfg, "parallel.strategy"), WEFT_MAX_MESH);
        s->strategies[s->nstrategies++].c = c;
        st = add_axes(s, c);
        if (st)
            return st;
    }
    return WEFT_OK;
}

static weft_status find_strategies(spec *s)
{
    const char *text = config_text(s->cfg, "parallel.strategy");
    return strcmp(text, "none") ? add_strategies(s, text, false) : WEFT_OK;
}

static void add_unused_axes(spec *s, const component *c)
{
    const weft_strategy *table = c->table;
    for (uint32_t i = 0; i < WEFT_MAX_MESH && table->axes && table->axes[i]; i++)
        if (check_axis(c, table->axes[i]) == WEFT_OK)
            (void)!config_add(s->cfg, "parallel", pool_printf(&s->pool, "plugin %s", c->name),
                              axis_option(s, table->axes[i]));
        else
            err_clear(); /* of a plugin that this job does not use */
}

static void add_unused(spec *s)
{
    const component **all;
    uint32_t n;
    if (host_list(s->host, &all, &n))
        return;
    for (uint32_t i = 0; i < n; i++) {
        if (!all[i]->iface || !strcmp(all[i]->kind, "comm"))
            continue;
        (void)!config_add(s->cfg, all[i]->kind, pool_printf(&s->pool, "plugin %s", all[i]->name),
                          all[i]->options);
        if (!strcmp(all[i]->iface, strategy_ifaces[0]))
            add_unused_axes(s, all[i]);
    }
}

static weft_status check_keys(spec *s)
{
    if (config_check(s->cfg) == WEFT_OK)
        return WEFT_OK;
    /* Keys of installed plugins that this job does not use may stand there, so that a backend is
     * swapped by editing one line. They are looked for only where a key was not known. */
    add_unused(s);
    return config_check(s->cfg);
}

static weft_status find_device(spec *s)
{
    return find(s, "device", config_text(s->cfg, "device.plugin"), "device.plugin", device_ifaces,
                "device", &s->device.c);
}

weft_status spec_check_config(config *cfg, host *h, spec *out)
{
    *out = (spec){.cfg = cfg, .host = h};
    const char *placement = config_text(cfg, "optim.placement");
    weft_status s = find_strategies(out);
    if (!s)
        s = find_device(out);
    if (!s)
        s = find(out, "optim", config_text(cfg, "optim.rule"), "optim.rule", rule_ifaces, "optim",
                 &out->rule.c);
    if (!s)
        s = check_unit(out->rule.c);
    if (!s)
        config_bind(cfg, "optim", out->rule.c->options);
    if (!s && strcmp(placement, "none"))
        s = find(out, "optim", placement, "optim.placement", placement_ifaces, "optim",
                 &out->placement.c);
    if (!s && out->placement.c)
        s = check_flags(out->placement.c, "placement",
                        ((const weft_placement *)out->placement.c->table)->flags);
    if (!s)
        s = transport_add_sections(out);
    return s ? s : check_keys(out);
}

/* --- the second half --- */

static weft_status open_plugin(spec *s, spec_plugin *p, const char *section)
{
    if (!p->c)
        return WEFT_OK;
    p->conf = config_conf(s->cfg, section, p->c->options);
    return host_open(s->host, p->c);
}

static weft_status open_all(spec *s)
{
    weft_status st = open_plugin(s, &s->device, "device");
    if (!st)
        st = open_plugin(s, &s->rule, "optim");
    if (!st)
        st = open_plugin(s, &s->placement, "optim");
    for (uint32_t i = 0; !st && i < s->nstrategies; i++)
        st = open_plugin(s, &s->strategies[i], "parallel");
    return st;
}

uint32_t spec_sizes(const spec *s)
{
    uint64_t n = 1;
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        uint64_t size = (uint64_t)config_int(s->cfg, s->size_key[a]);
        n = n * (size ? size : 1) > UINT32_MAX ? UINT32_MAX : n * (size ? size : 1);
    }
    return (uint32_t)n;
}

static weft_status size_mesh(spec *s)
{
    uint32_t left = s->ranks, open = WEFT_MAX_MESH;
    for (uint32_t a = 0; a < s->mesh.n; a++) {
        uint32_t n = (uint32_t)config_int(s->cfg, s->size_key[a]);
        s->mesh.size[a] = n ? n : 1;
        if (!n && open < WEFT_MAX_MESH)
            return combine_refuse(COMBINE_ONE_AUTO, s->cfg, s->size_key[a],
                                  (combine_fact[]){{"other", 0, s->size_key[open]}, {0}});
        if (!n)
            open = a;
        else if (left % n)
            return combine_refuse(
                COMBINE_SIZE, s->cfg, s->size_key[a],
                (combine_fact[]){
                    {"size", n, NULL}, {"ranks", s->ranks, NULL}, {"left", left, NULL}, {0}});
        else
            left /= n;
    }
    if (open < WEFT_MAX_MESH)
        s->mesh.size[open] = left;
    uint32_t n = mesh_ranks(&s->mesh);
    if (n != s->ranks)
        return combine_refuse(
            COMBINE_RANKS, s->cfg, NULL,
            (combine_fact[]){{"used", 0, pool_printf(&s->pool, "%u rank%s", n, n == 1 ? "" : "s")},
                             {"ranks", s->ranks, NULL},
                             {0}});
    return WEFT_OK;
}

static weft_status set_precision(spec *s)
{
    const char *precision = config_text(s->cfg, "train.precision");
    s->compute = !strcmp(precision, "fp32")   ? WEFT_F32
                 : !strcmp(precision, "bf16") ? WEFT_BF16
                                              : WEFT_F16;
    s->scaled = s->compute == WEFT_F16 && s->want == SPEC_TRAIN;
    int64_t scale = config_int(s->cfg, "train.loss_scale");
    s->loss_scale = !s->scaled ? 1 : scale ? (double)scale : 65536;
    s->scale_window = config_int(s->cfg, "train.scale_window");
    s->deterministic = config_int(s->cfg, "run.deterministic") != 0;
    bool compute = !strcmp(config_text(s->cfg, "train.accumulate"), "compute");
    s->grad_dtype = compute ? s->compute : WEFT_F32;
    s->recompute = config_recompute(config_text(s->cfg, "train.recompute"));
    s->clip = config_real(s->cfg, "train.clip");
    s->bucket_bytes = (uint64_t)(config_real(s->cfg, "train.bucket_mb") * 1048576.0);
    return WEFT_OK;
}

static weft_status set_model(spec *s, uint32_t vocab)
{
    const config *c = s->cfg;
    model_options *m = &s->model;
    m->family = config_text(c, "model.family");
    m->layers = config_int(c, "model.layers");
    m->heads = config_int(c, "model.heads");
    m->kv_heads = config_int(c, "model.kv_heads");
    m->embed = config_int(c, "model.embed");
    m->ffn = config_int(c, "model.ffn");
    m->context = config_int(c, "model.context");
    m->vocab = config_int(c, "model.vocab");
    const char *tied = config_text(c, "model.tied");
    m->tied = strcmp(tied, "auto") ? !strcmp(tied, "on") : MODEL_TIED_AUTO;
    m->rope_theta = config_real(c, "model.rope_theta");
    m->norm_eps = config_real(c, "model.norm_eps");
    m->dropout = config_real(c, "model.dropout");
    m->sequence = config_int(c, "train.sequence");
    s->batch = (uint64_t)config_int(c, "train.batch");
    s->microbatch = (uint64_t)config_int(c, "train.microbatch");
    if (!config_given(c, "train.sequence") && m->sequence > m->context)
        m->sequence = m->context;
    if (!m->vocab && !vocab)
        return combine_refuse(COMBINE_NO_VOCAB, c, NULL, (combine_fact[]){{0}});
    m->vocab = m->vocab ? m->vocab : vocab;
    if (vocab > m->vocab)
        return combine_refuse(
            COMBINE_VOCAB, c, NULL,
            (combine_fact[]){{"last", vocab - 1, NULL}, {"model.vocab", m->vocab, NULL}, {0}});
    if (m->sequence > m->context)
        return combine_refuse(COMBINE_SEQUENCE, c, NULL,
                              (combine_fact[]){{"train.sequence", m->sequence, NULL},
                                               {"model.context", m->context, NULL},
                                               {0}});
    if (m->embed % m->heads)
        return combine_refuse(COMBINE_HEADS, c, NULL,
                              (combine_fact[]){{"model.heads", m->heads, NULL},
                                               {"model.embed", m->embed, NULL},
                                               {0}});
    return WEFT_OK;
}

weft_status spec_resolve(spec *s, uint32_t ranks, uint32_t vocab, const spec_meeting *meeting,
                         int want)
{
    s->ranks = ranks;
    s->want = want;
    if (meeting)
        s->meeting = *meeting;
    weft_status st = set_precision(s);
    if (!st)
        st = set_model(s, vocab);
    if (!st)
        st = size_mesh(s);
    if (!st)
        st = open_all(s);
    if (!st)
        st = transport_choose(s);
    if (!st && want == SPEC_FORWARD) {
        s->microbatch = s->batch = 1;
        s->model.sequence = s->model.context;
    }
    return st;
}

weft_status spec_of_links(config *cfg, host *h, uint32_t ranks, const spec_meeting *meeting,
                          spec *out)
{
    *out = (spec){.cfg = cfg, .host = h, .ranks = ranks};
    if (meeting)
        out->meeting = *meeting;
    out->mesh = (mesh){.n = 1, .name[0] = "ranks", .size[0] = ranks};
    weft_status st = find_device(out);
    if (!st)
        st = transport_add_sections(out);
    if (!st)
        st = check_keys(out);
    if (!st)
        st = open_plugin(out, &out->device, "device");
    return st ? st : transport_choose(out);
}

void spec_free(spec *s)
{
    pool_free(&s->pool);
}
