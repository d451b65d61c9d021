/* lowrank: weights as w + B A, with B and A of low rank (LoRA, Hu et al., 2021), by a strategy that
 * brings no mesh axis: it rewrites the graph, and other strategies split the result.
 *
 * B starts as zeros and A as random numbers, so a job starts where it would start without. All
 * three are trained here. What an op makes from parameters alone is the same on every rank and in
 * every micro-batch: its gradient stays a partial sum until it has reached the parameters, so it
 * costs one sum a step, and placements shard it. */
#include <stdio.h>
#include <string.h>
#include <weft/strategy.h>

static const weft_option rank = {.struct_size = sizeof rank,
                                 .type = WEFT_OPT_INT,
                                 .key = "rank",
                                 .dflt = "2",
                                 .help = "columns of B, rows of A",
                                 .min = 1,
                                 .max = 4096};
static const weft_option roles = {.struct_size = sizeof roles,
                                  .type = WEFT_OPT_STRING,
                                  .key = "roles",
                                  .dflt = "ffn.up",
                                  .help = "the role of the weights"};
static const weft_option *const options[] = {&rank, &roles, NULL};

typedef struct product { /* y = x w, plus a bias */
    weft_opcall call;
    weft_tensor_info w;
    int64_t rank;
} product;

static weft_status make_param(const weft_builder *b, const product *p, const char *suffix,
                              const char *init, weft_axis rows, weft_axis columns, weft_tensor *out)
{
    char name[WEFT_MAX_NAME];
    const weft_shape shape = {.rank = 2, .axes = {rows, columns}};
    snprintf(name, sizeof name, "%.50s.%s", p->w.name, suffix);
    const weft_param_args args = {.struct_size = sizeof args,
                                  .flags = WEFT_PARAM_MATRIX,
                                  .name = name,
                                  .shape = &shape,
                                  .init = init,
                                  .role = "org.acme.lowrank"};
    return b->param(b->ctx, &args, out);
}

static weft_status emit(void *user, const weft_builder *b)
{
    const product *p = user;
    const weft_axis out = p->w.shape.axes[0], in = p->w.shape.axes[1], inner = {"rank", p->rank};
    weft_tensor up = 0, down = 0, both = 0, sum = 0, y = 0, operands[3];
    weft_status s = make_param(b, p, "up", "zeros", out, inner, &up);
    if (s == WEFT_OK)
        s = make_param(b, p, "down", "normal:0.1", in, inner, &down);
    if (s == WEFT_OK)
        s = b->op(b->ctx, "linear", NULL, 0, (weft_tensor[]){up, down}, 2, 0, &both, 1);
    if (s == WEFT_OK)
        s = b->op(b->ctx, "add", NULL, 0, (weft_tensor[]){p->call.in[1], both}, 2, 0, &sum, 1);
    if (s != WEFT_OK)
        return s;
    memcpy(operands, p->call.in, p->call.nin * sizeof *operands);
    operands[1] = sum;
    s = b->op(b->ctx, "linear", p->call.attrs, p->call.nattr, operands, p->call.nin, 0, &y, 1);
    return s == WEFT_OK ? b->assign(b->ctx, p->call.out[0], y, 0) : s;
}

/* Is op `i` a product with a weight of the role? */
static weft_status look_at(const weft_view *view, uint32_t i, const char *role, product *p,
                           int *found)
{
    const char *id = NULL;
    p->call = (weft_opcall){.struct_size = sizeof p->call};
    p->w = (weft_tensor_info){.struct_size = sizeof p->w};
    *found = 0;
    weft_status s = view->op(view->ctx, i, &id, &p->call);
    if (s != WEFT_OK || strcmp(id, "linear") != 0)
        return s;
    s = view->tensor(view->ctx, p->call.in[1], &p->w);
    *found = s == WEFT_OK && p->w.role && !strcmp(p->w.role, role) && p->w.shape.rank == 2;
    return s;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)module;
    product p = {.rank = conf->integer(conf->ctx, "rank")};
    const char *role = conf->text(conf->ctx, "roles");
    const uint32_t n = phase == WEFT_PHASE_SPLIT ? view->ops(view->ctx) : 0;
    weft_status s = WEFT_OK;
    for (uint32_t i = 0; s == WEFT_OK && i < n; i++) {
        int found = 0;
        s = look_at(view, i, role, &p, &found);
        if (s == WEFT_OK && found)
            s = edits->replace(edits->ctx, i, 0, emit, &p);
    }
    return s;
}

static const weft_strategy table = {.struct_size = sizeof table, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "acme.lowrank",
                                         .help = "weights as w + B A, B and A of low rank",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.lowrank", "1", "", components, weft_open_host, NULL);
