/* plugins/parallel/tp: tensor parallelism (Shoeybi et al., "Megatron-LM", 2019).
 *
 * The coordinates of the mesh axis "tp" process the same tokens, each with a shard of every weight.
 * The strategy only says along which of its axes each weight is split:
 *
 *   heads, kv_heads   queries, keys and values by heads; the output projection by its inputs
 *   ffn               first projection by columns, second projection by rows
 *   vocab, context    embedding tables and head by rows; padded to a multiple of the coordinates
 *
 * Tensors without these axes (norms, and the biases that are added to the residual stream) are
 * replicated. The rest is propagated: a product with split inputs yields a partial sum, which is
 * all-reduced before any op that is not linear in it: twice a block forward and, for the gradients
 * of the inputs of the split products, twice backward. A table split by rows yields a partial sum
 * as well, each row from the rank that holds it.
 *
 * The loss is replaced by a vocabulary-parallel one: the logits are never gathered; two all-reduces
 * of 4 and 8 bytes a token take their place (op/builtin/vocab_loss.c).
 *
 * With `sequence = on` the partial sums are split along the tokens (sequence parallelism), so that
 * norms and the residual stream are sharded, not replicated: each all-reduce becomes a
 * reduce-scatter and an all-gather. Gathered tensors are not kept: backward gathers them again.
 * Gradients of norms and of those biases are then partial sums, synced at the end of the step.
 *
 * Cost, in tensors of tokens x embed a block and micro-batch: 4 all-reduces; with sequence 10
 * halves of one, 4 forward and 6 backward. This communication is not overlapped with computation,
 * so it loses where links are slow: keep tp within a machine. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <weft/strategy.h>

#include <stdbool.h>

#define AXIS "tp"

static const weft_mesh_axis axis = {
    sizeof axis, WEFT_AXIS_MODEL, AXIS, AXIS,
    "ranks that share every matrix; divides model.heads, model.kv_heads and model.ffn"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};

static const weft_option sequence = {.struct_size = sizeof sequence,
                                     .type = WEFT_OPT_BOOL,
                                     .key = "sequence",
                                     .dflt = "off",
                                     .help = "with tp: norms and the residual stream are divided "
                                             "along the tokens"};
static const weft_option *const options[] = {&sequence, NULL};

/* Axes along which weights are split, and the key with each axis's size; NULL: it may be padded. A
 * tensor is split along the first of them that it has. */
static const struct {
    const char *name, *key;
} cuts[] = {{"heads", "model.heads"},
            {"kv_heads", "model.kv_heads"},
            {"ffn", "model.ffn"},
            {"vocab", NULL},
            {"context", NULL}};
#define CUTS (sizeof cuts / sizeof *cuts)

typedef struct splitting {
    const weft_host *host;
    const weft_view *view;
    const weft_edits *edits;
    uint32_t ranks;
    int sequence;
} splitting;

__attribute__((format(printf, 2, 3))) static weft_status refuse(const splitting *s,
                                                                const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return s->host->fail(s->host->ctx, WEFT_USAGE, text);
}

static bool has_axis(const weft_shape *shape, const char *name)
{
    for (uint32_t i = 0; i < shape->rank; i++)
        if (!strcmp(shape->axes[i].name, name))
            return true;
    return false;
}

/* The axis along which a parameter is split: an index into `cuts`, or CUTS for none. */
static size_t cut_of(const weft_shape *shape)
{
    size_t c = 0;
    while (c < CUTS && !has_axis(shape, cuts[c].name))
        c++;
    return c;
}

static weft_status look(const splitting *s, weft_tensor t, weft_shape *shape, const char **name,
                        uint32_t *kind)
{
    weft_tensor_info info = {.struct_size = sizeof info};
    const weft_status st = s->view->tensor(s->view->ctx, t, &info);
    *shape = info.shape;
    *name = info.name;
    *kind = info.kind;
    return st;
}

/* The parameter `t`, and the axis along which it is split; CUTS: it is not. */
static weft_status look_at_weight(const splitting *s, weft_tensor t, weft_shape *shape,
                                  const char **name, size_t *c)
{
    uint32_t kind = 0;
    weft_status st = look(s, t, shape, name, &kind);
    *c = st == WEFT_OK && kind == WEFT_T_PARAM ? cut_of(shape) : CUTS;
    return st;
}

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The sizes that have to be divided, in the order of `cuts`; 0: the model has no such axis. */
static weft_status find_sizes(const splitting *s, int64_t sizes[CUTS])
{
    weft_status st = WEFT_OK;
    for (weft_tensor t = 1; st == WEFT_OK && t <= s->view->tensors(s->view->ctx); t++) {
        weft_shape shape;
        const char *name;
        size_t c = CUTS;
        st = look_at_weight(s, t, &shape, &name, &c);
        for (uint32_t i = 0; st == WEFT_OK && c < CUTS && cuts[c].key && i < shape.rank; i++)
            if (!strcmp(shape.axes[i].name, cuts[c].name))
                sizes[c] = divisor(sizes[c], shape.axes[i].size);
    }
    return st;
}

/* "2, 4, 8": the sizes of the axis that divide all of `common`. */
static void list_divisors(int64_t common, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "1");
    for (int64_t n = 2; n <= common && n <= 256 && used + 8 < size; n++)
        if (common % n == 0)
            used += (size_t)snprintf(out + used, size - used, ", %lld", (long long)n);
}

/* A refusal names all sizes at once, so that the next try fits every one of them. */
static weft_status check_sizes(const splitting *s, const int64_t sizes[CUTS])
{
    char legal[160], all[160] = "";
    int64_t common = 0;
    size_t used = 0;
    for (size_t c = 0; c < CUTS; c++)
        if (sizes[c]) {
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s = %lld", used ? ", " : "",
                                     cuts[c].key, (long long)sizes[c]);
            common = divisor(common, sizes[c]);
        }
    if (common % s->ranks == 0)
        return WEFT_OK;
    list_divisors(common, legal, sizeof legal);
    return refuse(s,
                  "the mesh axis tp has %u ranks (parallel.tp, or if that is auto what the other "
                  "axes leave), which do not divide all sizes that are split (%s): for this model "
                  "parallel.tp may be %s%s",
                  s->ranks, all, legal,
                  common == 1 ? "; give the model sizes that have a divisor in common" : "");
}

static weft_status cut_weights(const splitting *s)
{
    int64_t sizes[CUTS] = {0};
    weft_status st = find_sizes(s, sizes);
    if (st == WEFT_OK)
        st = check_sizes(s, sizes);
    for (weft_tensor t = 1; st == WEFT_OK && t <= s->view->tensors(s->view->ctx); t++) {
        weft_shape shape;
        const char *name;
        size_t c = CUTS;
        st = look_at_weight(s, t, &shape, &name, &c);
        if (st == WEFT_OK && c < CUTS)
            st = s->edits->split(s->edits->ctx, name, cuts[c].name, AXIS, 0);
    }
    return st;
}

/* --- the loss --- */

typedef struct loss {
    const weft_opcall *call;
    int with_grad;
    int64_t vocab;
} loss;

static double weight_of(const weft_opcall *call)
{
    for (uint32_t i = 0; i < call->nattr; i++)
        if (!strcmp(call->attrs[i].key, "weight"))
            return call->attrs[i].f;
    return 1;
}

static int64_t valid_of(const weft_opcall *call, int64_t columns)
{
    for (uint32_t i = 0; i < call->nattr; i++)
        if (!strcmp(call->attrs[i].key, "valid") && call->attrs[i].i)
            return call->attrs[i].i;
    return columns;
}

/* The maximum and the sums are partial; ops that read them get them all-reduced first. */
static weft_status emit_loss(void *user, const weft_builder *b)
{
    const loss *l = user;
    const weft_tensor *in = l->call->in, *out = l->call->out;
    const weft_attr attrs[] = {{.key = "valid", .i = valid_of(l->call, l->vocab)},
                               {.key = "weight", .f = weight_of(l->call)}};
    weft_tensor max, sums, made[2] = {0};
    weft_status st = b->op(b->ctx, "xent.max", attrs, 1, in, 1, 0, &max, 1);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "xent.sums", attrs, 1, (weft_tensor[]){in[0], in[1], max}, 3, 0, &sums,
                   1);
    if (st == WEFT_OK && l->with_grad)
        st = b->op(b->ctx, "xent.finish", attrs, 2, (weft_tensor[]){in[0], in[1], max, sums, in[2]},
                   5, 0, made, 2);
    else if (st == WEFT_OK)
        st = b->op(b->ctx, "xent.loss", attrs, 2, (weft_tensor[]){in[1], max, sums}, 3, 0, made, 1);
    for (uint32_t i = 0; st == WEFT_OK && i < l->call->nout; i++)
        st = b->assign(b->ctx, out[i], made[i], 0);
    return st;
}

static weft_status replace_losses(const splitting *s)
{
    weft_status st = WEFT_OK;
    uint32_t ops = s->view->ops(s->view->ctx);
    for (uint32_t i = 0; st == WEFT_OK && i < ops; i++) {
        const char *id, *name;
        weft_opcall call = {.struct_size = sizeof call};
        weft_shape logits;
        uint32_t kind;
        st = s->view->op(s->view->ctx, i, &id, &call);
        if (st != WEFT_OK || (strcmp(id, "softmax_xent") && strcmp(id, "softmax_xent.loss")))
            continue;
        st = look(s, call.in[0], &logits, &name, &kind);
        if (st != WEFT_OK || !has_axis(&logits, "vocab"))
            continue;
        loss l = {&call, call.nout == 2, logits.axes[1].size};
        st = s->edits->replace(s->edits->ctx, i, 0, emit_loss, &l);
    }
    return st;
}

/* --- sequence parallelism: partial sums are split along the tokens --- */

typedef struct marks { /* [tensor] each */
    char *readers;     /* how many ops read it, up to two */
    char *partial;     /* a partial sum */
    char *wanted;      /* to be split along the tokens */
} marks;

/* Does this op yield a partial sum: a product with split inputs, rows of a split table, or the sum
 * of two partial sums that no other op reads? */
static weft_status leaves_sum(const splitting *s, const char *id, const weft_opcall *call,
                              const marks *m, int *out)
{
    weft_shape weight, y;
    const char *name;
    uint32_t kind;
    int table = !strcmp(id, "embedding"), product = !strcmp(id, "linear");
    *out = !strcmp(id, "add");
    for (uint32_t k = 0; k < call->nin; k++)
        *out &= m->partial[call->in[k]] && m->readers[call->in[k]] == 1;
    if (!table && !product)
        return WEFT_OK;
    weft_status st = look(s, call->in[product], &weight, &name, &kind);
    if (st == WEFT_OK)
        st = look(s, call->out[0], &y, &name, &kind);
    size_t c = st != WEFT_OK ? CUTS : cut_of(&weight);
    *out = c < CUTS && !has_axis(&y, cuts[c].name);
    return st;
}

static weft_status find_sums(const splitting *s, const marks *m)
{
    weft_status st = WEFT_OK;
    uint32_t ops = s->view->ops(s->view->ctx);
    for (uint32_t i = 0; st == WEFT_OK && i < 2 * ops;
         i++) { /* first the readers, then the partial sums */
        const char *id;
        weft_opcall call = {.struct_size = sizeof call};
        int sum = 0;
        st = s->view->op(s->view->ctx, i % ops, &id, &call);
        for (uint32_t k = 0; st == WEFT_OK && i < ops && k < call.nin; k++)
            m->readers[call.in[k]] += m->readers[call.in[k]] < 2;
        if (st != WEFT_OK || i < ops)
            continue;
        st = leaves_sum(s, id, &call, m, &sum);
        for (uint32_t k = 0; st == WEFT_OK && k < call.nin; k++)
            m->wanted[call.in[k]] |= m->partial[call.in[k]] && !sum;
        if (st == WEFT_OK && sum)
            m->partial[call.out[0]] = 1;
    }
    return st;
}

static weft_status cut_sequence(const splitting *s)
{
    uint64_t n = (uint64_t)s->view->tensors(s->view->ctx) + 1;
    char *room = s->host->alloc(s->host->ctx, 3 * n, 0);
    if (!room)
        return s->host->fail(s->host->ctx, WEFT_NO_MEMORY, "no memory to plan with");
    const marks m = {room, room + n, room + 2 * n};
    weft_status st = find_sums(s, &m);
    for (weft_tensor t = 1; st == WEFT_OK && t < n; t++) {
        weft_shape shape;
        const char *name;
        uint32_t kind;
        if (m.wanted[t] && (st = look(s, t, &shape, &name, &kind)) == WEFT_OK)
            st = s->edits->split(s->edits->ctx, name, shape.axes[0].name, AXIS, 0);
    }
    s->host->free(s->host->ctx, room);
    return st;
}

static weft_status tp_edit(void *module, const weft_conf *conf, uint32_t phase,
                           const weft_view *view, const weft_edits *edits)
{
    splitting s = {module, view, edits, view->mesh(view->ctx, AXIS),
                   conf->integer(conf->ctx, "sequence") != 0};
    if (s.ranks < 2)
        return WEFT_OK;
    if (phase == WEFT_PHASE_SYNC)
        return edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_LAST, 0, 0);
    if (phase != WEFT_PHASE_SPLIT)
        return WEFT_OK;
    weft_status st = cut_weights(&s);
    if (st == WEFT_OK && s.sequence)
        st = cut_sequence(&s);
    return st != WEFT_OK ? st : replace_losses(&s);
}

static const weft_strategy table = {.struct_size = sizeof table, .axes = axes, .edit = tp_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "tp",
                                         .help = "tensor parallelism: every rank has a part of "
                                                 "each matrix and works on all tokens",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.tp", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
