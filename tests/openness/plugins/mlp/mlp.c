/* acme.mlp: a model family for vectors, as a third party would write it: a classifier of rows of
 * numbers.
 *
 *   x = gelu (W1 field1 + W2 field2 + ... + b)     one W for each WEFT_F32 field of the data
 *   x = x + down (gelu (up x + b))                 `layers` times
 *   loss = cross-entropy (head x + b, targets)
 *
 * It asks the data for names and shapes: any data with WEFT_F32 fields of any axes, and a WEFT_I32
 * field "targets" with the class of a row, can be learned. The axes `ffn` and `vocab` and the roles
 * are those that strategies look for, so tensor and pipeline parallelism work. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft/expr.h>
#include <weft/model.h>

static weft_status refuse(void *module, const char *text)
{
    const weft_host *host = (const weft_host *)module;
    return (host->fail)(host->ctx, WEFT_USAGE, text);
}

/* Numbers in a row of a field. */
static uint64_t numbers(const weft_field *f)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < f->rank; k++)
        n *= (uint64_t)f->axes[k].size;
    return n;
}

static weft_status mlp_describe(void *module, const weft_conf *conf, const weft_data_info *data,
                                weft_model_info *out)
{
    const uint64_t embed = (uint64_t)conf->integer(conf->ctx, "embed"),
                   ffn = (uint64_t)conf->integer(conf->ctx, "ffn"),
                   layers = (uint64_t)conf->integer(conf->ctx, "layers");
    weft_data_info d = {0};
    uint64_t in = 0;
    int targets = 0;
    if (!data)
        return refuse(module, "family acme.mlp takes its inputs and classes from the data: the job "
                              "needs a data source with fields of WEFT_F32");
    weft_status st = weft_check_args((const weft_host *)module, data, sizeof d, 0);
    if (st != WEFT_OK)
        return st;
    weft_take(&d, sizeof d, data);
    for (uint32_t i = 0; i < d.nfields; i++) {
        const weft_field *f = &d.fields[i];
        in += f->dtype == WEFT_F32 ? numbers(f) : 0;
        targets |= f->dtype == WEFT_I32 && !f->rank && !strcmp(f->name, "targets");
    }
    if (!in || !targets || !d.vocab)
        return refuse(module, "family acme.mlp needs data with at least one field of WEFT_F32, and "
                              "the class of each row in a field 'targets' of WEFT_I32 []");
    const weft_model_info info = {.struct_size = sizeof info,
                                  .params = in * embed + embed +
                                            layers * (2 * ffn * embed + ffn + embed) +
                                            d.vocab * (embed + 1),
                                  .vocab = d.vocab};
    weft_give(out, &info);
    return WEFT_OK;
}

/* --- the graph --- */

#define NAME (WEFT_MAX_NAME + 16) /* a name that is too long is the builder's to refuse */

typedef struct mlp {
    weft_expr e;
    const weft_model_args *args;
} mlp;

static void block(mlp *m, const char *name)
{
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->block(m->e.b->ctx, name, 0);
}

static weft_axis rows(const mlp *m)
{
    return (weft_axis){"tokens", m->args->batch * m->args->sequence};
}

static weft_tensor input(mlp *m, const weft_field *f)
{
    weft_shape shape = {.dtype = f->dtype == WEFT_F32 ? 0 : f->dtype, .rank = f->rank + 1};
    weft_tensor out = 0;
    shape.axes[0] = rows(m);
    memcpy(shape.axes + 1, f->axes, f->rank * sizeof *f->axes);
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->input(
            m->e.b->ctx, &(weft_input_args){sizeof(weft_input_args), 0, f->name, &shape}, &out);
    return out;
}

static weft_tensor param(mlp *m, const char *name, const char *role, weft_shape shape)
{
    char init[40] = "zeros";
    double in = 1;
    weft_tensor out = 0;
    for (uint32_t k = 1; k < shape.rank; k++)
        in *= (double)shape.axes[k].size;
    const int matrix = strcmp(role, "bias") != 0;
    if (matrix)
        snprintf(init, sizeof init, "normal:%.9g", 1 / sqrt(in));
    uint32_t flags = matrix ? WEFT_PARAM_MATRIX : 0;
    if (!strcmp(shape.axes[0].name, "vocab"))
        flags |= WEFT_PARAM_PAD;
    const weft_param_args args = {sizeof args, flags, name, &shape, init, role};
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->param(m->e.b->ctx, &args, &out);
    return out;
}

/* The weight PREFIX.w [out, in..] and the bias PREFIX.b [out]. */
static weft_tensor weight(mlp *m, const char *prefix, const char *role, weft_axis out,
                          const weft_axis *in, uint32_t nin)
{
    char name[NAME];
    weft_shape shape = {.rank = nin + 1, .axes = {out}};
    memcpy(shape.axes + 1, in, nin * sizeof *in);
    snprintf(name, sizeof name, "%s.w", prefix);
    return param(m, name, role, shape);
}

static weft_tensor bias(mlp *m, const char *prefix, weft_axis out)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s.b", prefix);
    return param(m, name, "bias", (weft_shape){.rank = 1, .axes = {out}});
}

static weft_tensor read_fields(mlp *m, weft_axis embed)
{
    weft_tensor x = 0;
    block(m, "embed");
    for (uint32_t i = 0; i < m->args->nfields; i++) {
        const weft_field *f = &m->args->fields[i];
        char prefix[NAME - 4];
        if (f->dtype != WEFT_F32)
            continue;
        snprintf(prefix, sizeof prefix, "embed.%s", f->name);
        weft_tensor v = input(m, f);
        weft_tensor w = weight(m, prefix, "com.acme.mlp.in", embed, f->axes, f->rank);
        v = weft_op2(&m->e, "linear", v, w);
        x = x ? weft_op2(&m->e, "add", x, v) : v;
    }
    return weft_op2(&m->e, "gelu", x, bias(m, "embed", embed));
}

static weft_tensor hidden(mlp *m, int64_t number, weft_tensor x, weft_axis embed, weft_axis ffn)
{
    char name[32], up[48], down[48];
    snprintf(name, sizeof name, "block.%lld", (long long)number);
    snprintf(up, sizeof up, "%s.up", name);
    snprintf(down, sizeof down, "%s.down", name);
    block(m, name);
    weft_tensor y = weft_op2(&m->e, "linear", x, weight(m, up, "ffn.up", ffn, &embed, 1));
    y = weft_op2(&m->e, "gelu", y, bias(m, up, ffn));
    y = weft_op2(&m->e, "linear", y, weight(m, down, "ffn.down", embed, &ffn, 1));
    return weft_op3(&m->e, "bias_residual", y, bias(m, down, embed), x);
}

static weft_tensor classes(mlp *m, weft_tensor x, weft_axis embed)
{
    static const weft_field field = {.name = "targets", .dtype = WEFT_I32};
    const weft_axis vocab = {"vocab", m->args->vocab};
    const weft_attr scaled = WEFT_ATTR_REAL("weight", m->args->weight);
    weft_tensor out[2] = {0}, scale = 0;
    block(m, "head");
    weft_tensor w = weight(m, "head", "head", vocab, &embed, 1);
    x = weft_op3(&m->e, "linear", x, w, bias(m, "head", vocab));
    if (m->args->want == WEFT_MODEL_LOGITS)
        return x;
    weft_tensor targets = input(m, &field);
    if (m->args->want == WEFT_MODEL_EVAL)
        return weft_op_with(&m->e, "softmax_xent.loss", &scaled, 1, (weft_tensor[]){x, targets}, 2);
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->scalar(m->e.b->ctx, "scale", 0, &scale);
    if (m->e.st == WEFT_OK)
        m->e.st = m->e.b->op(m->e.b->ctx, "softmax_xent", &scaled, 1,
                             (weft_tensor[]){x, targets, scale}, 3, 0, out, 2);
    return out[1];
}

static weft_status mlp_build(void *module, const weft_model_args *args, const weft_builder *b,
                             weft_tensor *out)
{
    weft_status st = weft_check_args((const weft_host *)module, args, sizeof *args, 0);
    if (st == WEFT_OK && (args->want < WEFT_MODEL_TRAIN || args->want > WEFT_MODEL_LOGITS))
        st = weft_refuse_unknown((const weft_host *)module);
    const weft_conf *c = args->conf;
    const weft_axis embed = {"embed", c->integer(c->ctx, "embed")},
                    ffn = {"ffn", c->integer(c->ctx, "ffn")};
    mlp m = {{b, st}, args};
    weft_tensor x = read_fields(&m, embed);
    for (int64_t i = 0; i < c->integer(c->ctx, "layers"); i++)
        x = hidden(&m, i, x, embed, ffn);
    x = classes(&m, x, embed);
    if (m.e.st == WEFT_OK)
        *out = x;
    return m.e.st;
}

/* --- the plugin --- */

static const weft_option layers = {.struct_size = sizeof layers,
                                   .type = WEFT_OPT_INT,
                                   .key = "layers",
                                   .dflt = "2",
                                   .help = "hidden layers",
                                   .min = 1,
                                   .max = 1024};
static const weft_option embed = {.struct_size = sizeof embed,
                                  .type = WEFT_OPT_INT,
                                  .key = "embed",
                                  .dflt = "32",
                                  .help = "width of what the layers add to",
                                  .min = 1,
                                  .max = 65536};
static const weft_option ffn = {.struct_size = sizeof ffn,
                                .type = WEFT_OPT_INT,
                                .key = "ffn",
                                .dflt = "64",
                                .help = "inner width of a layer",
                                .min = 1,
                                .max = 65536};
static const weft_option *const options[] = {&layers, &embed, &ffn, NULL};

static const weft_model_table table = {
    .struct_size = sizeof table, .describe = mlp_describe, .build = mlp_build};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.model/1",
                                         .name = "acme.mlp",
                                         .help = "a classifier of vectors, whatever their fields",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("com.acme.mlp", "1.0", "MIT", components, weft_open_host, NULL);
