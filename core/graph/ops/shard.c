/* graph/ops/shard.c: propagates a split through an op by axis names (see ops.h). */
#include <string.h>

#include "graph/ops/util.h"

typedef struct shard {
    const weft_builder *b;
    const weft_opcall *call;
    const weft_place *in;
    const graph_shard_rule *rule;
    weft_shape shape[WEFT_MAX_OPERANDS]; /* of the inputs */
    const char *axis;                    /* name of the axis that is split; NULL: none */
    uint32_t by;                         /* the first input that is split */
} shard;

static const char *input_name(const shard *s, uint32_t i)
{
    return s->b->name(s->b->ctx, s->call->in[i]);
}

static const char *split_axis(const shard *s, uint32_t i)
{
    return s->shape[i].axes[s->in[i].axis].name;
}

static char term_of(const shard *s, uint32_t i)
{
    const char *terms = s->rule->terms;
    return terms && i < strlen(terms) ? terms[i] : '-';
}

static bool any_of_kind(const shard *s, uint32_t kind, uint32_t *which)
{
    for (uint32_t i = 0; i < s->call->nin; i++)
        if (s->in[i].kind == kind) {
            *which = i;
            return true;
        }
    return false;
}

static weft_status read_shapes(shard *s)
{
    if (s->call->nin > WEFT_MAX_OPERANDS)
        return graph_op_fail(s->b, WEFT_INTERNAL, "an op has %u inputs", s->call->nin);
    for (uint32_t i = 0; i < s->call->nin; i++) {
        weft_status st = s->b->shape(s->b->ctx, s->call->in[i], &s->shape[i]);
        if (st != WEFT_OK)
            return st;
        if (s->in[i].kind == WEFT_SPLIT && s->in[i].axis >= s->shape[i].rank)
            return graph_op_fail(s->b, WEFT_INTERNAL, "%s is split along axis %u of %u",
                                 input_name(s, i), s->in[i].axis, s->shape[i].rank);
    }
    return WEFT_OK;
}

/* Checks that one axis name is split, and that every input that has it agrees. */
static weft_status one_axis(shard *s)
{
    if (!any_of_kind(s, WEFT_SPLIT, &s->by))
        return WEFT_OK;
    s->axis = split_axis(s, s->by);
    for (uint32_t i = 0; i < s->call->nin; i++) {
        bool split = s->in[i].kind == WEFT_SPLIT;
        if (split && strcmp(split_axis(s, i), s->axis))
            return graph_op_fail(s->b, WEFT_UNSUPPORTED,
                                 "%s is split along '%s' and %s along '%s' over the same mesh axis",
                                 input_name(s, s->by), s->axis, input_name(s, i), split_axis(s, i));
        if (!split && graph_op_axis(&s->shape[i], s->axis) >= 0)
            return graph_op_fail(
                s->b, WEFT_UNSUPPORTED,
                "%s is split along '%s' over the mesh axis, but %s has that axis whole",
                input_name(s, s->by), s->axis, input_name(s, i));
    }
    int at = graph_op_axis(&s->shape[0], s->axis);
    if (s->rule->only && (at < 0 || !(s->rule->only >> at & 1)))
        return graph_op_fail(s->b, WEFT_UNSUPPORTED,
                             "this op needs the axis '%s' whole, but %s is split along it", s->axis,
                             input_name(s, s->by));
    return WEFT_OK;
}

/* Every term must have the split axis, or the sum over coordinates would count it repeatedly. */
static weft_status check_sum(const shard *s)
{
    if (!s->rule->sums)
        return graph_op_fail(s->b, WEFT_UNSUPPORTED,
                             "this op cannot work on %s split along '%s', an axis that it joins",
                             input_name(s, s->by), s->axis);
    for (uint32_t i = 0; i < s->call->nin; i++) {
        bool has = term_of(s, i) == '-';
        for (uint32_t k = 0; k < s->call->nin; k++)
            has |= term_of(s, k) == term_of(s, i) && graph_op_axis(&s->shape[k], s->axis) >= 0;
        if (!has)
            return graph_op_fail(
                s->b, WEFT_UNSUPPORTED,
                "split along '%s' the result is a sum over the mesh axis, which would "
                "count %s once a coordinate; add it after the sum",
                s->axis, input_name(s, i));
    }
    return WEFT_OK;
}

static weft_status place_split(const shard *s, weft_place *out)
{
    for (uint32_t i = 0; i < s->call->nout; i++) {
        weft_shape shape;
        weft_status st = s->b->shape(s->b->ctx, s->call->out[i], &shape);
        if (st != WEFT_OK)
            return st;
        int at = graph_op_axis(&shape, s->axis);
        if (at < 0 && (st = check_sum(s)) != WEFT_OK)
            return st;
        out[i] = at < 0 ? (weft_place){WEFT_PARTIAL_SUM, 0, 0, 0}
                        : (weft_place){WEFT_SPLIT, (uint32_t)at, 0, 0};
    }
    return WEFT_OK;
}

/* Each term needs exactly one partial factor. */
static weft_status place_partial(const shard *s, uint32_t first, weft_place *out)
{
    for (uint32_t i = 0; i < s->call->nin; i++) {
        bool partial = s->in[i].kind == WEFT_PARTIAL_SUM;
        char term = term_of(s, i);
        if (!partial && term == '-')
            continue;
        uint32_t factors = 0;
        for (uint32_t k = 0; k < s->call->nin; k++)
            factors += term_of(s, k) == term && s->in[k].kind == WEFT_PARTIAL_SUM;
        if (term == '-' || factors > 1)
            return graph_op_fail(s->b, WEFT_UNSUPPORTED,
                                 "%s is still a partial sum over the mesh axis, and this op is not "
                                 "linear in it; sum it first",
                                 input_name(s, i));
        if (!factors)
            return graph_op_fail(
                s->b, WEFT_UNSUPPORTED,
                "%s is still a partial sum over the mesh axis; adding %s to it would "
                "count that once a coordinate; sum first",
                input_name(s, first), input_name(s, i));
    }
    for (uint32_t i = 0; i < s->call->nout; i++)
        out[i] = (weft_place){WEFT_PARTIAL_SUM, 0, 0, 0};
    return WEFT_OK;
}

static weft_status place_held(const shard *s, uint32_t first, weft_place *out)
{
    for (uint32_t i = 0; i < s->call->nin; i++) {
        bool held = s->in[i].kind == WEFT_HELD;
        if (held ? s->in[i].axis != s->in[first].axis : s->in[i].kind != WEFT_WHOLE)
            return graph_op_fail(
                s->b, WEFT_UNSUPPORTED,
                "%s is held by coordinate %u of the mesh axis alone, and %s is not there",
                input_name(s, first), s->in[first].axis, input_name(s, i));
    }
    for (uint32_t i = 0; i < s->call->nout; i++)
        out[i] = s->in[first];
    return WEFT_OK;
}

weft_status graph_op_shard(const weft_builder *b, const weft_opcall *call, const weft_place *in,
                           weft_place *out, const graph_shard_rule *rule)
{
    shard s = {.b = b, .call = call, .in = in, .rule = rule};
    uint32_t i;
    weft_status st = read_shapes(&s);
    if (st != WEFT_OK)
        return st;
    if (any_of_kind(&s, WEFT_HELD, &i))
        return place_held(&s, i, out);
    if (any_of_kind(&s, WEFT_PARTIAL_MAX, &i))
        return graph_op_fail(b, WEFT_UNSUPPORTED,
                             "%s is still a partial maximum over the mesh axis; complete it first",
                             input_name(&s, i));
    st = one_axis(&s);
    if (st != WEFT_OK)
        return st;
    bool partial = any_of_kind(&s, WEFT_PARTIAL_SUM, &i);
    if (partial && s.axis)
        return graph_op_fail(
            b, WEFT_UNSUPPORTED,
            "%s is split along '%s' and %s is a partial sum over the same mesh axis",
            input_name(&s, s.by), s.axis, input_name(&s, i));
    if (partial)
        return place_partial(&s, i, out);
    if (s.axis)
        return place_split(&s, out);
    for (i = 0; i < call->nout; i++)
        out[i] = (weft_place){WEFT_WHOLE, 0, 0, 0};
    return WEFT_OK;
}

/* Whether `name` is one of the words of `list`, "embed,head_dim". */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (; list; list = strchr(list, ',')) {
        list += *list == ',';
        if (!strncmp(list, name, n) && (!list[n] || list[n] == ','))
            return true;
    }
    return false;
}

weft_status graph_shard_by_names(const weft_builder *b, const weft_op *op, const char *id,
                                 const weft_opcall *call, const weft_place *in, weft_place *out)
{
    static const graph_shard_rule plain = {0};
    for (uint32_t i = 0; i < call->nin; i++) {
        weft_shape shape;
        weft_status st = b->shape(b->ctx, call->in[i], &shape);
        if (st != WEFT_OK)
            return st;
        if (in[i].kind == WEFT_SPLIT && in[i].axis < shape.rank &&
            listed(op->whole, shape.axes[in[i].axis].name))
            return graph_op_fail(b, WEFT_UNSUPPORTED,
                                 "%s needs the axis '%s' whole, but %s is split along it", id,
                                 shape.axes[in[i].axis].name, b->name(b->ctx, call->in[i]));
    }
    return graph_op_shard(b, call, in, out, &plain);
}
