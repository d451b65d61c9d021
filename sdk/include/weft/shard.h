/* weft/shard.h: how a split passes through an op by the names of axes, for the shard() of an op
 * (weft/op.h).
 *
 * weft_shard_by_names() is what the core does for an op whose shard() is NULL. An op whose algebra
 * allows more says so by a rule. That of y = x w + b, which adds up over the axes that x and w
 * share:
 *
 *   return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "aab", .sums = 1});
 *
 *   - Inputs may be split along one axis name only; every input that has the axis is split on it.
 *   - Every output that has the axis is split on it. One without it is a partial sum, if the op
 *     sums and every one of its terms has the axis: a term without it would be counted once a
 *     coordinate.
 *   - Partial sums are passed on when nothing is split and every term has exactly one partial
 *     factor. Partial maxima never are.
 *   - A tensor that only one coordinate has stays there.
 *
 * Anything else is WEFT_UNSUPPORTED with a message. Nothing is kept between calls. All [plan].
 */
#ifndef WEFT_SHARD_H
#define WEFT_SHARD_H

#include <weft/op.h>

#include <stdio.h>
#include <string.h>

WEFT_EXTERN_C_BEGIN

/* Algebraic properties of an op besides its axes; all zero: none.
 *
 * `terms` has one character an input. The op is a sum of terms, each a product that is linear in
 * its factors: inputs with the same letter are factors of one term ("aab" is x times w plus b); '-'
 * is an input in which the op is not linear. NULL: linear in none. */
typedef struct weft_shard_rule {
    const char *terms;
    uint32_t only; /* axes of input 0 along which a split is valid, one bit each; 0: any axis */
    uint32_t sums; /* 1: the op adds up over an axis that an output lacks */
} weft_shard_rule;

/* A call, for the functions below. */
typedef struct weft_shard_state {
    const weft_builder *b;
    const weft_opcall *call;
    const weft_place *in;
    const weft_shard_rule *rule;
    weft_shape shape[WEFT_MAX_OPERANDS]; /* of the inputs */
    const char *axis;                    /* name of the axis that is split; NULL: none */
    uint32_t by;                         /* the first input that is split */
    char why[1024];                      /* the message of a failure */
} weft_shard_state;

static inline weft_status weft_shard_refuse(const weft_shard_state *s)
{
    return s->b->fail(s->b->ctx, WEFT_UNSUPPORTED, s->why);
}

static inline weft_place weft_shard_place(uint32_t kind, uint32_t axis)
{
    weft_place p;
    memset(&p, 0, sizeof p);
    p.kind = kind;
    p.axis = axis;
    return p;
}

/* Index of the axis `name` in `s`, or -1. */
static inline int32_t weft_shard_axis(const weft_shape *s, const char *name)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (!strcmp(s->axes[i].name, name))
            return (int32_t)i;
    return -1;
}

static inline const char *weft_shard_name(const weft_shard_state *s, uint32_t i)
{
    return s->b->name(s->b->ctx, s->call->in[i]);
}

static inline const char *weft_shard_split(const weft_shard_state *s, uint32_t i)
{
    return s->shape[i].axes[s->in[i].axis].name;
}

static inline char weft_shard_term(const weft_shard_state *s, uint32_t i)
{
    const char *terms = s->rule->terms;
    return (char)(terms && i < strlen(terms) ? terms[i] : '-');
}

/* The first input of that placement; their number: none has it. */
static inline uint32_t weft_shard_first(const weft_shard_state *s, uint32_t kind)
{
    uint32_t i = 0;
    while (i < s->call->nin && s->in[i].kind != kind)
        i++;
    return i;
}

static inline weft_status weft_shard_shapes(weft_shard_state *s)
{
    if (s->call->nin > WEFT_MAX_OPERANDS)
        return s->b->fail(s->b->ctx, WEFT_INTERNAL, "a call has more inputs than an op may have");
    for (uint32_t i = 0; i < s->call->nin; i++) {
        weft_status st = s->b->shape(s->b->ctx, s->call->in[i], &s->shape[i]);
        if (st != WEFT_OK)
            return st;
        if (s->in[i].kind != WEFT_SPLIT || s->in[i].axis < s->shape[i].rank)
            continue;
        snprintf(s->why, sizeof s->why, "%s is split along axis %u of %u", weft_shard_name(s, i),
                 s->in[i].axis, s->shape[i].rank);
        return s->b->fail(s->b->ctx, WEFT_INTERNAL, s->why);
    }
    return WEFT_OK;
}

/* Checks that one axis name is split, and that every input that has it agrees. */
static inline weft_status weft_shard_one_axis(weft_shard_state *s)
{
    s->axis = NULL;
    s->by = weft_shard_first(s, WEFT_SPLIT);
    if (s->by == s->call->nin)
        return WEFT_OK;
    s->axis = weft_shard_split(s, s->by);
    for (uint32_t i = 0; i < s->call->nin; i++) {
        const int32_t split = s->in[i].kind == WEFT_SPLIT;
        const char *by = weft_shard_name(s, s->by), *other = weft_shard_name(s, i);
        if (split && strcmp(weft_shard_split(s, i), s->axis)) {
            snprintf(s->why, sizeof s->why,
                     "%s is split along '%s' and %s along '%s' over the same mesh axis", by,
                     s->axis, other, weft_shard_split(s, i));
            return weft_shard_refuse(s);
        }
        if (!split && weft_shard_axis(&s->shape[i], s->axis) >= 0) {
            snprintf(s->why, sizeof s->why,
                     "%s is split along '%s' over the mesh axis, but %s has that axis whole", by,
                     s->axis, other);
            return weft_shard_refuse(s);
        }
    }
    const int32_t at = weft_shard_axis(&s->shape[0], s->axis);
    if (!s->rule->only || (at >= 0 && s->rule->only >> at & 1))
        return WEFT_OK;
    snprintf(s->why, sizeof s->why, "this op needs the axis '%s' whole, but %s is split along it",
             s->axis, weft_shard_name(s, s->by));
    return weft_shard_refuse(s);
}

/* Every term must have the split axis, or the sum over coordinates would count it repeatedly. */
static inline weft_status weft_shard_check_sum(weft_shard_state *s)
{
    if (!s->rule->sums) {
        snprintf(s->why, sizeof s->why,
                 "this op cannot work on %s split along '%s', an axis that it joins",
                 weft_shard_name(s, s->by), s->axis);
        return weft_shard_refuse(s);
    }
    for (uint32_t i = 0; i < s->call->nin; i++) {
        int32_t has = weft_shard_term(s, i) == '-';
        for (uint32_t k = 0; k < s->call->nin; k++)
            has |= weft_shard_term(s, k) == weft_shard_term(s, i) &&
                   weft_shard_axis(&s->shape[k], s->axis) >= 0;
        if (has)
            continue;
        snprintf(s->why, sizeof s->why,
                 "split along '%s' the result is a sum over the mesh axis, which would "
                 "count %s once a coordinate; add it after the sum",
                 s->axis, weft_shard_name(s, i));
        return weft_shard_refuse(s);
    }
    return WEFT_OK;
}

static inline weft_status weft_shard_pass_split(weft_shard_state *s, weft_place *out)
{
    for (uint32_t i = 0; i < s->call->nout; i++) {
        weft_shape shape;
        weft_status st = s->b->shape(s->b->ctx, s->call->out[i], &shape);
        if (st != WEFT_OK)
            return st;
        const int32_t at = weft_shard_axis(&shape, s->axis);
        if (at < 0 && (st = weft_shard_check_sum(s)) != WEFT_OK)
            return st;
        out[i] = at < 0 ? weft_shard_place(WEFT_PARTIAL_SUM, 0)
                        : weft_shard_place(WEFT_SPLIT, (uint32_t)at);
    }
    return WEFT_OK;
}

/* Each term needs exactly one partial factor; `first` is the first partial input. */
static inline weft_status weft_shard_pass_partial(weft_shard_state *s, uint32_t first,
                                                  weft_place *out)
{
    for (uint32_t i = 0; i < s->call->nin; i++) {
        const int32_t partial = s->in[i].kind == WEFT_PARTIAL_SUM;
        const char term = weft_shard_term(s, i);
        if (!partial && term == '-')
            continue;
        uint32_t factors = 0;
        for (uint32_t k = 0; k < s->call->nin; k++)
            factors += weft_shard_term(s, k) == term && s->in[k].kind == WEFT_PARTIAL_SUM;
        if (term != '-' && factors == 1)
            continue;
        if (term == '-' || factors)
            snprintf(s->why, sizeof s->why,
                     "%s is still a partial sum over the mesh axis, and this op is not "
                     "linear in it; sum it first",
                     weft_shard_name(s, i));
        else
            snprintf(s->why, sizeof s->why,
                     "%s is still a partial sum over the mesh axis; adding %s to it would "
                     "count that once a coordinate; sum first",
                     weft_shard_name(s, first), weft_shard_name(s, i));
        return weft_shard_refuse(s);
    }
    for (uint32_t i = 0; i < s->call->nout; i++)
        out[i] = weft_shard_place(WEFT_PARTIAL_SUM, 0);
    return WEFT_OK;
}

/* `first` is the first input that one coordinate alone has. */
static inline weft_status weft_shard_pass_held(weft_shard_state *s, uint32_t first, weft_place *out)
{
    for (uint32_t i = 0; i < s->call->nin; i++) {
        const int32_t held = s->in[i].kind == WEFT_HELD;
        if (held ? s->in[i].axis == s->in[first].axis : s->in[i].kind == WEFT_WHOLE)
            continue;
        snprintf(s->why, sizeof s->why,
                 "%s is held by coordinate %u of the mesh axis alone, and %s is not there",
                 weft_shard_name(s, first), s->in[first].axis, weft_shard_name(s, i));
        return weft_shard_refuse(s);
    }
    for (uint32_t i = 0; i < s->call->nout; i++)
        out[i] = s->in[first];
    return WEFT_OK;
}

/* The placements of the outputs of a call along one mesh axis, by the rule. */
static inline weft_status weft_shard(const weft_builder *b, const weft_opcall *call,
                                     const weft_place *in, weft_place *out,
                                     const weft_shard_rule *rule)
{
    weft_shard_state s;
    s.b = b;
    s.call = call;
    s.in = in;
    s.rule = rule;
    weft_status st = weft_shard_shapes(&s);
    if (st != WEFT_OK)
        return st;
    const uint32_t held = weft_shard_first(&s, WEFT_HELD);
    const uint32_t most = weft_shard_first(&s, WEFT_PARTIAL_MAX);
    const uint32_t sum = weft_shard_first(&s, WEFT_PARTIAL_SUM);
    if (held < call->nin)
        return weft_shard_pass_held(&s, held, out);
    if (most < call->nin) {
        snprintf(s.why, sizeof s.why,
                 "%s is still a partial maximum over the mesh axis; complete it first",
                 weft_shard_name(&s, most));
        return weft_shard_refuse(&s);
    }
    st = weft_shard_one_axis(&s);
    if (st != WEFT_OK)
        return st;
    if (sum < call->nin && s.axis) {
        snprintf(s.why, sizeof s.why,
                 "%s is split along '%s' and %s is a partial sum over the same mesh axis",
                 weft_shard_name(&s, s.by), s.axis, weft_shard_name(&s, sum));
        return weft_shard_refuse(&s);
    }
    if (sum < call->nin)
        return weft_shard_pass_partial(&s, sum, out);
    if (s.axis)
        return weft_shard_pass_split(&s, out);
    for (uint32_t i = 0; i < call->nout; i++)
        out[i] = weft_shard_place(WEFT_WHOLE, 0);
    return WEFT_OK;
}

/* Whether `name` is one of the words of `list`, "embed,head_dim". */
static inline int32_t weft_shard_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (; list; list = strchr(list, ',')) {
        list += *list == ',';
        if (!strncmp(list, name, n) && (!list[n] || list[n] == ','))
            return 1;
    }
    return 0;
}

/* The same without a rule, for an op that needs the axes `whole` (weft_op.whole); `id` is for
 * messages. */
static inline weft_status weft_shard_by_names(const weft_builder *b, const char *whole,
                                              const char *id, const weft_opcall *call,
                                              const weft_place *in, weft_place *out)
{
    weft_shard_rule plain;
    memset(&plain, 0, sizeof plain);
    for (uint32_t i = 0; i < call->nin; i++) {
        weft_shape shape;
        char why[512];
        weft_status st = b->shape(b->ctx, call->in[i], &shape);
        if (st != WEFT_OK)
            return st;
        if (in[i].kind != WEFT_SPLIT || in[i].axis >= shape.rank ||
            !weft_shard_listed(whole, shape.axes[in[i].axis].name))
            continue;
        snprintf(why, sizeof why, "%s needs the axis '%s' whole, but %s is split along it", id,
                 shape.axes[in[i].axis].name, b->name(b->ctx, call->in[i]));
        return b->fail(b->ctx, WEFT_UNSUPPORTED, why);
    }
    return weft_shard(b, call, in, out, &plain);
}

WEFT_EXTERN_C_END

#endif
