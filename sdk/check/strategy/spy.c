/* check/strategy/spy.c: tables before those of a strategy or placement: they note edits, refuse
 * one, and take back what was lent. See strategy.h. */
#include "check/strategy/strategy.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    check_spy *s;
    const weft_view *v;
    const weft_edits *e;
    weft_view view;
    weft_edits edits;
    char *lent; /* copies for the call of edit() that runs */
    size_t used;
} at;
#define LENT (64u << 20) /* bytes of addresses; only what is used takes memory */

/* --- edits --- */

/* Notes an edit; returns whether it goes on to the core. */
static bool note(const char *name, const char *axis, uint32_t what, bool all)
{
    check_spy *s = at.s;
    if (s->n < CHECK_SPY_EDITS) {
        check_edit *x = &s->edits[s->n];
        *x = (check_edit){.phase = s->phase, .name = name, .what = what, .all = all};
        snprintf(x->axis, sizeof x->axis, "%s", axis ? axis : "");
    }
    s->n++;
    s->changes |= !strcmp(name, "changes_results");
    if (s->phase == CHECK_SPY_UNKNOWN) {
        s->odd_edit = name;
        return false;
    }
    if (s->n == s->refuse) {
        s->refused = name;
        (void)err_fail(s->refusal, "the check refuses edit %u, %s()", s->n, name);
        return false;
    }
    return true;
}

static weft_status kept_back(void)
{
    return at.s->phase == CHECK_SPY_UNKNOWN ? WEFT_OK : at.s->refusal;
}

#define GO(name, axis, what, all, ...)                                                             \
    (note(#name, axis, what, all) ? at.e->name(at.e->ctx, __VA_ARGS__) : kept_back())

static weft_status e_split(void *ctx, const char *tensors, const char *axis, const char *mesh_axis,
                           uint32_t flags)
{
    (void)ctx;
    return GO(split, mesh_axis, 0, false, tensors, axis, mesh_axis, flags);
}

static weft_status e_replace(void *ctx, uint32_t op, uint32_t flags, weft_emit emit, void *user)
{
    (void)ctx;
    return GO(replace, NULL, op, false, op, flags, emit, user);
}

static weft_status e_group(void *ctx, const char *name, const char *mesh_axis,
                           const uint32_t *coords, uint32_t n, uint32_t flags)
{
    (void)ctx;
    return GO(group, mesh_axis, 0, false, name, mesh_axis, coords, n, flags);
}

static weft_status e_stage(void *ctx, const char *blocks, const char *mesh_axis, uint32_t stage,
                           uint32_t chunk, uint32_t flags)
{
    (void)ctx;
    return GO(stage, mesh_axis, 0, false, blocks, mesh_axis, stage, chunk, flags);
}

static weft_status e_order(void *ctx, const char *mesh_axis, uint32_t stage, const weft_work *work,
                           uint32_t n, uint32_t flags)
{
    (void)ctx;
    return GO(order, mesh_axis, 0, false, mesh_axis, stage, work, n, flags);
}

static weft_status e_sync(void *ctx, const char *params, const char *mesh_axis, uint32_t when,
                          uint64_t bucket_bytes, uint32_t flags)
{
    (void)ctx;
    return GO(sync, mesh_axis, 0, false, params, mesh_axis, when, bucket_bytes, flags);
}

static weft_status e_shard(void *ctx, uint32_t what, const char *params, const char *mesh_axis,
                           uint32_t ahead, uint32_t flags)
{
    (void)ctx;
    return GO(shard, mesh_axis, what, params && !strcmp(params, "*"), what, params, mesh_axis,
              ahead, flags);
}

static weft_status e_periodic_list(void *ctx, const char *name, uint32_t every, uint32_t flags,
                                   weft_emit emit, void *user)
{
    (void)ctx;
    return GO(periodic_list, NULL, 0, false, name, every, flags, emit, user);
}

static weft_status e_activations(void *ctx, const char *tensors, uint32_t how,
                                 const char *mesh_axis, uint32_t flags)
{
    (void)ctx;
    return GO(activations, mesh_axis, 0, false, tensors, how, mesh_axis, flags);
}

static weft_status e_weight_versions(void *ctx, const char *params, uint32_t versions,
                                     uint32_t flags)
{
    (void)ctx;
    return GO(weight_versions, NULL, 0, false, params, versions, flags);
}

static weft_status e_update_every(void *ctx, const char *params, uint32_t every, uint64_t from,
                                  uint32_t flags)
{
    (void)ctx;
    return GO(update_every, NULL, 0, false, params, every, from, flags);
}

static weft_status e_changes_results(void *ctx, const char *text, uint32_t flags)
{
    (void)ctx;
    return GO(changes_results, NULL, 0, false, text, flags);
}

/* --- what the view lends --- */

/* A copy that take_back() makes inaccessible. */
static const void *lend(const void *from, size_t bytes)
{
    if (!at.s->poison || !from || !bytes)
        return from;
    if (!at.lent) {
        at.lent = mmap(NULL, LENT, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        at.used = 0;
        if (at.lent == MAP_FAILED)
            check_fail("no memory for what a call is lent");
    }
    char *to = at.lent + at.used;
    at.used += (bytes + 15) / 16 * 16;
    if (at.used > LENT)
        check_fail("a call of edit() reads more than %u MiB of names", LENT >> 20);
    memcpy(to, from, bytes);
    return to;
}

static const char *lend_text(const char *from)
{
    return from ? lend(from, strlen(from) + 1) : NULL;
}

/* The addresses stay reserved, so that nothing else comes to lie there. */
static void take_back(void)
{
    if (at.lent)
        mprotect(at.lent, LENT, PROT_NONE);
    at.lent = NULL;
}

static weft_status v_tensor(void *ctx, weft_tensor t, weft_tensor_info *out)
{
    (void)ctx;
    const weft_status st = at.v->tensor(at.v->ctx, t, out);
    if (st != WEFT_OK)
        return st;
    out->name = lend_text(out->name);
    out->role = lend_text(out->role);
    for (uint32_t i = 0; i < out->shape.rank; i++)
        out->shape.axes[i].name = lend_text(out->shape.axes[i].name);
    return st;
}

static const char *v_block(void *ctx, uint32_t i)
{
    (void)ctx;
    return lend_text(at.v->block(at.v->ctx, i));
}

static weft_status v_op(void *ctx, uint32_t op, const char **id, weft_opcall *call)
{
    (void)ctx;
    const weft_status st = at.v->op(at.v->ctx, op, id, call);
    if (st != WEFT_OK)
        return st;
    if (id)
        *id = lend_text(*id);
    if (call) {
        call->in = lend(call->in, call->nin * sizeof *call->in);
        call->out = lend(call->out, call->nout * sizeof *call->out);
        call->attrs = lend(call->attrs, call->nattr * sizeof *call->attrs);
    }
    return st;
}

/* --- the calls --- */

static void stand_before(check_spy *s, const weft_view *v, const weft_edits *e)
{
    at.s = s;
    at.v = v;
    at.e = e;
    at.view = *v; /* with the core's ctx, which the other members take */
    at.view.tensor = v_tensor;
    at.view.block = v_block;
    at.view.op = v_op;
    at.edits = (weft_edits){sizeof at.edits,   e->flags,          &at,
                            e_split,           e_replace,         e_group,
                            e_stage,           e_order,           e_sync,
                            e_shard,           e_periodic_list,   e_activations,
                            e_weight_versions, e_changes_results, e_update_every};
}

static weft_status spy_edit(void *of, const weft_conf *conf, uint32_t phase, const weft_view *view,
                            const weft_edits *edits)
{
    check_spy *s = of;
    const weft_strategy *t = s->c->table;
    const bool had = s->refused;
    stand_before(s, view, edits);
    s->phase = phase;
    const weft_status st =
        PLUGIN_GET(t, edit, s->module, conf, phase, lend(&at.view, sizeof at.view),
                   lend(&at.edits, sizeof at.edits));
    take_back();
    if (s->refused && !had)
        s->answer = st;
    s->silent |= st != WEFT_OK && !s->host->why[0] && !*err_text();
    if (st == WEFT_OK && s->unknown) {
        s->phase = CHECK_SPY_UNKNOWN;
        const weft_status odd =
            PLUGIN_GET(t, edit, s->module, conf, CHECK_SPY_UNKNOWN, &at.view, &at.edits);
        s->odd = s->odd == WEFT_OK ? odd : s->odd;
    }
    return st;
}

const weft_strategy check_spy_strategy = {.struct_size = sizeof check_spy_strategy,
                                          .edit = spy_edit};

static weft_status spy_place(void *of, const weft_conf *conf, const weft_placement_args *args)
{
    check_spy *s = of;
    const weft_placement *t = s->c->table;
    const bool had = s->refused;
    stand_before(s, args->view, args->edits);
    s->phase = WEFT_PHASE_SYNC;
    for (s->ndata = 0; s->ndata < WEFT_MAX_MESH && args->mesh_axes[s->ndata]; s->ndata++)
        snprintf(s->data_axes[s->ndata], sizeof *s->data_axes, "%s", args->mesh_axes[s->ndata]);
    weft_placement_args own = *args;
    own.view = lend(&at.view, sizeof at.view);
    own.edits = lend(&at.edits, sizeof at.edits);
    const weft_status st = PLUGIN_GET(t, edit, s->module, conf, lend(&own, sizeof own));
    take_back();
    if (s->refused && !had)
        s->answer = st;
    return st;
}

const weft_placement check_spy_placement = {.struct_size = sizeof check_spy_placement,
                                            .edit = spy_place};

/* --- components --- */

static check_host lent_host;

void check_spy_each(check_run *r, const char *iface, void (*fn)(check_spy *s))
{
    static check_spy s;
    const weft_manifest *m = check_manifest(r);
    uint32_t lists = 0, done = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const host_component *c = r->components[i];
        const weft_strategy *t = c->table;
        if (strcmp(c->iface, iface))
            continue;
        if (!strcmp(iface, "weft.strategy/1") && t->list) {
            lists++;
            continue;
        }
        check_host_begin(&lent_host, "the host");
        memset(&s, 0, sizeof s);
        s.run = r;
        s.host = &lent_host;
        s.c = c;
        if (check_open(m, &lent_host, &s.module) != WEFT_OK)
            check_fail("open() failed: %s", lent_host.why);
        s.conf = check_conf(&lent_host, c);
        fn(&s);
        check_close(m, s.module);
        check_host_end(&lent_host);
        done++;
    }
    if (lists && !done)
        check_not_applicable("it is a list of other strategies; its edit() is never called");
}

uint32_t check_spy_axes(const check_spy *s)
{
    const weft_strategy *t = s->c->table;
    uint32_t n = 0;
    if (!strcmp(s->c->iface, "weft.placement/1"))
        return 1;
    while (t->axes && t->axes[n] && n < WEFT_MAX_MESH)
        n++;
    return n;
}
