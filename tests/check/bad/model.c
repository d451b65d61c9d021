/* bad/model.c: a model family that classifies vectors, and its ways of failing. Each name of
 * model.expected breaks one rule. */
#include "faults.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <weft/expr.h>
#include <weft/model.h>

typedef struct module {
    const weft_host *host;
    const weft_field *fields; /* of the last describe() */
    unsigned built;
} module;

static _Thread_local bool has_opened;

static int byte_behind(const void *table, size_t size)
{
    return ((const volatile char *)table)[size];
}

/* The first field of numbers, with one axis. */
static const weft_field *numbers(const weft_field *fields, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (fields[i].dtype == WEFT_F32 && fields[i].rank == 1)
            return &fields[i];
    return NULL;
}

static weft_status describe(void *of, const weft_conf *conf, const weft_data_info *data,
                            weft_model_info *out)
{
    module *m = of;
    const uint64_t width = (uint64_t)conf->integer(conf->ctx, "width");
    weft_status st = WEFT_OK;
    if (width == 4096 && BAD == ENDS_AT_BOUND)
        exit(1);
    if (data && BAD != IGNORES_TAIL)
        st = weft_check_args(m->host, data, sizeof *data, 0);
    const weft_field *f = data && st == WEFT_OK ? numbers(data->fields, data->nfields) : NULL;
    if (st == WEFT_OK && !f)
        st = (m->host->fail)(m->host->ctx, WEFT_USAGE, "the data has no field of numbers");
    if (st != WEFT_OK)
        return st;
    m->fields = data->fields;
    const weft_model_info info = {
        sizeof info, 0, width * (uint64_t)f->axes[0].size + data->vocab * width, 0, data->vocab, 0};
    if (BAD == WRITES_BEHIND)
        memset((char *)out + sizeof *out, 0, 8);
    weft_give(out, &info);
    return WEFT_OK;
}

static weft_tensor input(weft_expr *e, const weft_model_args *args, const weft_field *f)
{
    weft_shape shape = {.dtype = f->dtype == WEFT_F32 ? 0 : f->dtype, .rank = f->rank + 1};
    weft_tensor out = 0;
    shape.axes[0] = (weft_axis){"tokens", args->batch * args->sequence};
    memcpy(shape.axes + 1, f->axes, f->rank * sizeof *f->axes);
    if (e->st == WEFT_OK)
        e->st = e->b->input(e->b->ctx,
                            &(weft_input_args){sizeof(weft_input_args), 0, f->name, &shape}, &out);
    return out;
}

static weft_tensor product(weft_expr *e, weft_tensor x, const char *name, weft_axis to,
                           weft_axis from)
{
    const weft_shape shape = {.rank = 2, .axes = {to, from}};
    const weft_param_args args = {sizeof args, WEFT_PARAM_MATRIX, name, &shape, "normal:0.1", NULL};
    weft_tensor w = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->param(e->b->ctx, &args, &w);
    return weft_op2(e, "linear", x, w);
}

static weft_tensor loss(weft_expr *e, const weft_model_args *args, weft_tensor x)
{
    static const weft_field classes = {.name = "targets", .dtype = WEFT_I32};
    const weft_attr scaled = WEFT_ATTR_REAL("weight", args->weight);
    weft_tensor out[2] = {0}, scale = 0;
    if (args->want == WEFT_MODEL_LOGITS)
        return x;
    weft_tensor targets = input(e, args, &classes);
    if (args->want == WEFT_MODEL_EVAL)
        return weft_op_with(e, "softmax_xent.loss", &scaled, 1, (weft_tensor[]){x, targets}, 2);
    if (e->st == WEFT_OK)
        e->st = e->b->scalar(e->b->ctx, "scale", 0, &scale);
    if (e->st == WEFT_OK)
        e->st = e->b->op(e->b->ctx, "softmax_xent", &scaled, 1, (weft_tensor[]){x, targets, scale},
                         3, 0, out, 2);
    return out[1];
}

static weft_status build(void *of, const weft_model_args *args, const weft_builder *b,
                         weft_tensor *out)
{
    module *m = of;
    weft_expr e = {b, weft_check_args(m->host, args, sizeof *args, 0)};
    if (e.st == WEFT_OK && BAD != IGNORES_WANT &&
        (args->want < WEFT_MODEL_TRAIN || args->want > WEFT_MODEL_LOGITS))
        e.st = weft_refuse_unknown(m->host);
    if (e.st != WEFT_OK)
        return e.st;
    if (BAD == BEHIND_BUILDER && byte_behind(b, sizeof *b) == 42)
        return WEFT_OK;
    if (BAD == BEHIND_ARGS && byte_behind(args, sizeof *args) == 42)
        return WEFT_OK;
    const weft_field *f = numbers(BAD == KEEPS_FIELDS ? m->fields : args->fields, args->nfields);
    const weft_conf *c = args->conf;
    const weft_axis width = {"width", c->integer(c->ctx, "width")},
                    classes = {"vocab", args->vocab};
    e.st = b->block(b->ctx, "all", 0);
    weft_tensor x = product(&e, input(&e, args, f), "in.w", width, f->axes[0]);
    x = weft_op1(&e, "gelu", x);
    x = product(&e, x, "out.w", classes, width);
    const bool again = (BAD == REMEMBERS && m->built++ > 2) || (BAD == THREAD_LOCAL && !has_opened);
    if (again)
        x = weft_op2(&e, "add", x, x);
    *out = loss(&e, args, x);
    return BAD == SWALLOWS && e.st > WEFT_INTERNAL ? WEFT_INTERNAL : e.st;
}

static const weft_option width = {.struct_size = sizeof width,
                                  .type = WEFT_OPT_INT,
                                  .key = "width",
                                  .dflt = "8",
                                  .help = "numbers between the two products",
                                  .min = 1,
                                  .max = 4096};
static const weft_option *const options[] = {&width, NULL};
static const weft_model_table table = {
    .struct_size = sizeof table, .describe = describe, .build = build};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.model/1",
                                         .name = "acme.model",
                                         .help = "two products",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

static weft_status open_module(const weft_host *host, void **out)
{
    weft_status st = WEFT_OK;
    module *m = weft_new(host, sizeof *m, &st);
    if (!m)
        return st;
    m->host = host;
    has_opened = true;
    *out = m;
    return WEFT_OK;
}

static void close_module(void *of)
{
    module *m = of;
    if (m)
        (m->host->free)(m->host->ctx, m);
}

WEFT_PLUGIN("org.acme.model", "1", "MIT", components, open_module, close_module);
