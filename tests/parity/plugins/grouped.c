/* Strategies beside tp that communicate over groups of tp's mesh axis, in a GPT-2:
 *
 *   test.grouped  hidden values of the ffn: the parts of {0, 1} change places, then those of all
 * but coordinate 1 go round by one; an op copies; and both ways back. The maxima of the loss: first
 * of {0, 1}, then, by the core, of all. Nothing changes but where parts lie in between, so that
 * every bit is that of tp alone. test.lost     the way back is left out: other hidden values meet
 * other weights test.summed, test.joined, test.whole  what cannot be over a group */
#include <stdbool.h>
#include <string.h>
#include <weft/coll.h>
#include <weft/plugin.h>
#include <weft/strategy.h>

#define AXIS "tp"
#define PAIR "test.pair"
#define OTHERS "test.others"

typedef struct job {
    const weft_opcall *old;
    const char *what; /* the name of the strategy */
    uint32_t ranks;
} job;

static bool is(const job *j, const char *what)
{
    return !strcmp(j->what, what);
}

static weft_status over(const weft_builder *b, uint32_t kind, uint32_t redop, const char *group,
                        const char *axis, uint32_t root, weft_tensor *t)
{
    const weft_comm_args args = {sizeof args, 0, kind, redop, group, axis, root, 0};
    return b->comm(b->ctx, &args, *t, t);
}

static weft_status there(const weft_builder *b, const job *j, weft_tensor *t)
{
    weft_status st = over(b, WEFT_SHIFT, 0, PAIR, NULL, 1, t);
    return st == WEFT_OK && j->ranks > 2 ? over(b, WEFT_SHIFT, 0, OTHERS, NULL, 1, t) : st;
}

static weft_status back(const weft_builder *b, const job *j, weft_tensor *t)
{
    weft_status st = WEFT_OK;
    if (j->ranks > 2)
        st = over(b, WEFT_SHIFT, 0, OTHERS, NULL, j->ranks - 2, t);
    return st == WEFT_OK ? over(b, WEFT_SHIFT, 0, PAIR, NULL, 1, t) : st;
}

static weft_status emit_gelu(void *user, const weft_builder *b)
{
    const job *j = user;
    const weft_opcall *old = j->old;
    weft_tensor y, z = 0;
    weft_status st = b->op(b->ctx, "gelu", old->attrs, old->nattr, old->in, old->nin, 0, &y, 1);
    if (st == WEFT_OK && is(j, "test.joined"))
        st = over(b, WEFT_ALL_GATHER, 0, PAIR, "ffn", 0, &y);
    if (st == WEFT_OK && is(j, "test.summed"))
        st = over(b, WEFT_ALL_REDUCE, WEFT_SUM, PAIR, NULL, 0, &y);
    if (st == WEFT_OK && is(j, "test.whole"))
        st = over(b, WEFT_ALL_REDUCE, WEFT_MAX, PAIR, NULL, 0, &y);
    if (st == WEFT_OK)
        st = there(b, j, &y);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "copy", NULL, 0, &y, 1, 0, &z, 1);
    if (st == WEFT_OK && !is(j, "test.lost"))
        st = back(b, j, &z);
    return st == WEFT_OK ? b->assign(b->ctx, old->out[0], z, 0) : st;
}

static weft_status emit_max(void *user, const weft_builder *b)
{
    const weft_opcall *old = ((const job *)user)->old;
    weft_tensor m;
    weft_status st = b->op(b->ctx, "xent.max", old->attrs, old->nattr, old->in, old->nin, 0, &m, 1);
    if (st == WEFT_OK)
        st = over(b, WEFT_ALL_REDUCE, WEFT_MAX, PAIR, NULL, 0, &m);
    return st == WEFT_OK ? b->assign(b->ctx, old->out[0], m, 0) : st;
}

static weft_status make_groups(const weft_edits *edits, uint32_t n)
{
    uint32_t coords[64] = {0, 1};
    weft_status st = edits->group(edits->ctx, PAIR, AXIS, coords, 2, 0);
    for (uint32_t i = 1; i + 1 < n && i < 63; i++)
        coords[i] = i + 1;
    return st == WEFT_OK && n > 2 ? edits->group(edits->ctx, OTHERS, AXIS, coords, n - 1, 0) : st;
}

static weft_status change(const char *what, uint32_t phase, const weft_view *view,
                          const weft_edits *edits)
{
    const uint32_t n = view->mesh(view->ctx, AXIS);
    if (phase != WEFT_PHASE_SPLIT || n < 2)
        return WEFT_OK;
    weft_status st = make_groups(edits, n);
    const uint32_t ops = view->ops(view->ctx);
    for (uint32_t i = 0; st == WEFT_OK && i < ops; i++) {
        const char *id;
        weft_opcall call = {.struct_size = sizeof call};
        job j = {&call, what, n};
        st = view->op(view->ctx, i, &id, &call);
        if (st == WEFT_OK && !strcmp(id, "gelu"))
            st = edits->replace(edits->ctx, i, 0, emit_gelu, &j);
        else if (st == WEFT_OK && !strcmp(id, "xent.max"))
            st = edits->replace(edits->ctx, i, 0, emit_max, &j);
    }
    return st;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)module;
    return change(conf->component->name, phase, view, edits);
}

static const weft_strategy table = {.struct_size = sizeof table, .edit = edit};

#define STRATEGY(name_)                                                                            \
    static const weft_component name_ = {.struct_size = sizeof(weft_component),                    \
                                         .iface = "weft.strategy/1",                               \
                                         .name = "test." #name_,                                   \
                                         .help = "communicates over groups of tp",                 \
                                         .table = &table};
STRATEGY(grouped)
STRATEGY(lost)
STRATEGY(summed)
STRATEGY(joined)
STRATEGY(whole)
static const weft_component *const components[] = {&grouped, &lost, &summed, &joined, &whole, NULL};

WEFT_PLUGIN("weft.test.grouped", "0", "", components, weft_open_host, NULL);
