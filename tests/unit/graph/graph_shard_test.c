/* Is a split that an op accepts right?
 *
 * For every op that comes with weft and every combination of whole, split and partial inputs over a
 * mesh axis of two: where the op accepts it, each coordinate's part is computed by plain loops from
 * its parts of the inputs, and the parts, put together as the op says its outputs lie, must be the
 * result of the whole op. What must be accepted is listed besides. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/number/rng.h"
#include "graph/graph.h"
#include <weft/shard.h>

#include <test.h>

#include "builtin.h"
#include "op_eval.h"

#define SIZE 2 /* coordinates of the mesh axis */
#define LIMIT 4096

typedef struct example {
    const char *id;
    const char *in[7];  /* axes of each input, a letter each (sizes in size_of()); ":i" ids, ":l" a
                         * number */
    const char *accept; /* splits that must work, as axis letters; "+k": partial input k; "@c1": the
                         * op is along axis c, number 1 */
} example;

/* t tokens, c channels, o and p outputs, q three, h heads, g kv_heads, d head_dim, v vocabulary.
 * A capital H asks for a split along h and g together. */
static const example examples[] = {
    {"linear", {"tc", "oc"}, "tco+0+1"},
    {"linear", {"tc", "oc", "o"}, "to"},
    {"linear", {"thd", "ophd"}, "thdop+0+1"},
    {"linear.dx", {"to", "oc"}, "toc+0+1"},
    {"linear.dw", {"to", "tc"}, "toc+0+1"},
    {"bmm", {"htc", "hoc"}, "htco+0+1"},
    {"bmm", {"hgtc", "hgoc"}, "hgtco+0+1"},
    {"bmm.dx", {"hto", "hoc"}, "htoc+0+1"},
    {"bmm.dw", {"hto", "htc"}, "htoc+0+1"},
    {"colsum", {"to"}, "to+0"},
    {"layernorm", {"tc", "c", "c"}, "t"},
    {"layernorm.dx", {"tc", "tc", "c", "t", "t"}, "t+0"},
    {"layernorm.dw", {"tc", "tc", "t", "t"}, "t+0"},
    {"attention", {"tqhd"}, "th"},
    {"attention.dx", {"thd", "tqhd", "thd", "th"}, "th+0"},
    {"attention", {"thd", "tgd", "tgd"}, "tH"},
    {"attention.dx", {"thd", "thd", "tgd", "tgd", "thd", "th"}, "tH+0"},
    {"attention", {"tqhd", "t:i"}, "th"},
    {"attention.dx", {"thd", "tqhd", "thd", "th", "t:i"}, "th+0"},
    {"attention", {"thd", "tgd", "tgd", "t:i"}, "tH"},
    {"attention.dx", {"thd", "thd", "tgd", "tgd", "thd", "th", "t:i"}, "tH+0"},
    {"rmsnorm", {"tc", "c"}, "t"},
    {"rmsnorm.dx", {"tc", "tc", "c", "t"}, "t+0"},
    {"rmsnorm.dw", {"tc", "tc", "t"}, "t+0"},
    {"rmsnorm", {"thc", "c"}, "th"},
    {"rmsnorm.dx", {"thc", "thc", "c", "th"}, "th+0"},
    {"rmsnorm.dw", {"thc", "thc", "th"}, "th+0"},
    {"rope", {"thd"}, "th+0"},
    {"rope", {"thd", "t:i"}, "th+0"},
    {"cache.write", {"gvd", "tgd", "t:i"}, "g"},
    {"cache.write", {"hvd", "tqhd", "t:i"}, "h"},
    {"attention.cached", {"thd", "gvd", "gvd", "t:i"}, "tH"},
    {"attention.cached", {"tqhd", "hvd", "hvd", "t:i"}, "th"},
    {"swiglu", {"tc", "tc"}, "tc+1"},
    {"swiglu.dx", {"tc", "tc", "tc"}, "tc+0"},
    {"embedding", {"vc", "t:i"}, "vct+0"},
    {"embedding.dw", {"tc", "t:i", "vc"}, "vct+0"},
    {"softmax_xent", {"tv", "t:i", ""}, "t"},
    {"softmax_xent.loss", {"tv", "t:i"}, "t"},
    {"xent.max", {"tv"}, "tv"},
    {"xent.sums", {"tv", "t:i", "t"}, "tv"},
    {"xent.finish", {"tv", "t:i", "t", "tp", ""}, "tv"},
    {"xent.loss", {"t:i", "t", "tp"}, "t"},
    {"gelu", {"tc", "c"}, "tc"},
    {"gelu", {"tc"}, "tc"},
    {"gelu.dx", {"tc", "tc", "c"}, "tc+0"},
    {"gelu.dx", {"tc", "tc"}, "tc+0"},
    {"bias_residual", {"tc", "c", "tc"}, "tc"},
    {"random", {":l", "tc"}, "tc+1"},
    {"random", {":l", "thd"}, "thd+1"},
    {"random", {"", "ophd"}, "ophd+1"},
    {"dropout", {"tc", ":l"}, "tc"},
    {"dropout", {"thd", ":l"}, "thd"},
    {"dropout", {"tc", ":l", "c"}, "tc"},
    {"dropout", {"tophd", ":l", "ophd", "tophd"}, "tophd"},
    {"accumulate", {"tc"}, "tc+0"},
    {"sumsq", {"tc"}, "tc"},
    {"cast", {"tc"}, "tc"},
    {"sum_axis", {"tcd"}, "tcd+0@t0"},
    {"sum_axis", {"tcd"}, "tcd+0@c1"},
    {"sum_axis", {"tcd"}, "tcd+0@d2"},
    {"sum_axis", {"t"}, "t+0@t0"},
    {"max_axis", {"tcd"}, "tcd@t0"},
    {"max_axis", {"tcd"}, "tcd@d2"},
    {"max_axis", {"t"}, "t@t0"},
    {"broadcast", {"td", "tcd"}, "tcd+0@c1"},
    {"broadcast", {"cd", "tcd"}, "tcd+0@t0"},
    {"broadcast", {"", "t"}, "t+0@t0"},
    {"repeat", {"td"}, "td+0@c1"},
    {"repeat", {"td"}, "td+0@c2"},
    {"repeat", {""}, "+0@c0"},
    {"copy", {"tc"}, "tc+0"},
    {"neg", {"tc"}, "tc+0"},
    {"add", {"tc", "tc"}, "tc"},
    {"add", {"tc", ""}, "tc"},
    {"sub", {"tc", "tc"}, "tc"},
    {"mul", {"tc", "tc"}, "tc+0+1"},
    {"mul", {"tc", ""}, "tc+0+1"},
    {"div", {"tc", "tc"}, "tc+0"},
    {"min", {"tc", "tc"}, "tc"},
    {"max", {"tc", "tc"}, "tc"},
    {"sqrt", {"tc"}, "tc"},
    {"abs", {"tc"}, "tc"},
    {"sign", {"tc"}, "tc"},
    {"exp", {"tc"}, "tc"},
    {"log", {"tc"}, "tc"},
    {"pow", {"tc", "tc"}, "tc"},
    {"select", {"tc", "tc", "tc"}, "tc"},
    {"less", {"tc", "tc"}, "tc"},
    {"finite", {"tc"}, "tc"},
    {"cos", {"tc"}, "tc"},
    {"round", {"tc"}, "tc"},
    {"floor", {"tc"}, "tc"},
};
#define EXAMPLES (sizeof examples / sizeof *examples)

static const char *name_of(char axis)
{
    static const char *const names[] = {"tokens", "c", "o", "p", "q", "h", "g", "d", "v"};
    return names[strchr("tcopqhgdv", axis) - "tcopqhgdv"];
}

static int64_t size_of(char axis)
{
    static const char letters[] = "tcopqhgdv";
    static const int64_t sizes[] = {8, 6, 4, 2, 3, 4, 2, 4, 6};
    return sizes[strchr(letters, axis) - letters];
}

static const weft_attr attrs[] = {
    {.key = "eps", .f = 1e-3}, {.key = "sequence", .i = 4},
    {.key = "causal", .i = 1}, {.key = "weight", .f = 0.25},
    {.key = "p", .f = 0.5},    {.key = "stream", .i = 0x123456789abcdef},
    {.key = "seed", .i = 77}};
#define ATTRS (sizeof attrs / sizeof *attrs)

/* The op's attributes: those of `attrs`, or where it has own ones those alone. */
static uint32_t attrs_of(const example *e, weft_attr a[ATTRS])
{
    static const weft_attr i32 = WEFT_ATTR_INT("dtype", WEFT_I32);
    const char *axis = strchr(e->accept, '@');
    memcpy(a, attrs, sizeof attrs);
    if (!strcmp(e->id, "cast"))
        a[0] = i32;
    else if (axis)
        a[0] = (weft_attr)WEFT_ATTR_INT(name_of(axis[1]), axis[2] - '0');
    else
        return ATTRS;
    a[1] = (weft_attr)WEFT_ATTR_INT("size", axis ? size_of(axis[1]) : 0);
    return strcmp(e->id, "repeat") ? 1 : 2;
}

/* One op in a graph of its own, with values for its inputs and the whole result. */
typedef struct bench {
    graph_mesh mesh;
    graph g;
    const weft_op *op;
    weft_attr attrs[ATTRS];
    weft_opcall call;
    weft_tensor in[7], out[3];
    weft_shape is[7], os[3];
    double x[7][LIMIT], y[3][LIMIT];
} bench;

static weft_shape shape_of(const char *axes)
{
    const char *type = strchr(axes, ':');
    weft_shape s = {.dtype = !type ? WEFT_F32 : type[1] == 'l' ? WEFT_I64 : WEFT_I32};
    for (; *axes && *axes != ':'; axes++)
        s.axes[s.rank++] = (weft_axis){name_of(*axes), size_of(*axes)};
    return s;
}

/* Positive numbers, fit for logarithms; ids below the vocabulary; a large number of a token. */
static void fill(double *x, const weft_shape *s, uint64_t key)
{
    for (int64_t i = 0; i < eval_elements(s); i++)
        x[i] = s->dtype == WEFT_I32   ? (double)rng_below(key, (uint64_t)i, (uint64_t)size_of('v'))
               : s->dtype == WEFT_I64 ? 0x123456789p0
                                      : 0.2 + rng_uniform(key, (uint64_t)i);
}

static void run(const bench *w, const weft_attr *a, uint32_t nattr, const weft_shape *is,
                const weft_shape *os, double (*x)[LIMIT], double (*y)[LIMIT])
{
    check_call c;
    eval_begin_op(&c, examples[w->g.now.block].id, a, nattr);
    for (uint32_t i = 0; i < w->call.nin; i++)
        check_call_from(&c, is[i], x[i]);
    for (uint32_t i = 0; i < w->call.nout; i++)
        check_call_to(&c, os[i], y[i]);
    eval_op(&c);
}

static bench *set_up(uint32_t e)
{
    bench *w = calloc(1, sizeof *w);
    w->mesh = (graph_mesh){.n = 1, .name = {"m"}, .size = {SIZE}};
    graph_init(&w->g, &w->mesh, builtin_ops(), WEFT_F32, WEFT_F32);
    w->g.now.block = e;
    uint32_t nin = 0, nout = 3;
    weft_builder b = graph_builder(&w->g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    for (; nin < 7 && examples[e].in[nin]; nin++) {
        char name[16];
        snprintf(name, sizeof name, "in.%u", nin);
        w->is[nin] = shape_of(examples[e].in[nin]);
        w->in[nin] = graph_add(&w->g, name, WEFT_T_ACTIVATION, &w->is[nin]);
        fill(w->x[nin], &w->is[nin], rng_key(e, name));
    }
    w->op = builtin_op(examples[e].id);
    assert_non_null(w->op);
    const uint32_t n = attrs_of(&examples[e], w->attrs);
    assert_int_equal(w->op->infer(&self, w->attrs, n, w->is, nin, w->os, &nout), WEFT_OK);
    assert_int_equal(b.op(b.ctx, examples[e].id, w->attrs, n, w->in, nin, 0, w->out, nout),
                     WEFT_OK);
    w->call = (weft_opcall){sizeof w->call, n, w->attrs, nin, nout, w->in, w->out, NULL};
    run(w, w->attrs, n, w->is, w->os, w->x, w->y);
    return w;
}

static void tear_down(bench *w)
{
    graph_free(&w->g);
    free(w);
}

static weft_status ask(const bench *w, const weft_place *in, weft_place *out)
{
    weft_builder b = graph_builder((graph *)&w->g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    const char *id = examples[w->g.now.block].id;
    return w->op->shard ? w->op->shard(&self, &w->call, "tp", SIZE, in, out)
                        : weft_shard_by_names(&b, w->op->whole, id, &w->call, in, out);
}

/* Copy coordinate c's part of `whole` to `part`, or back when `join`. */
static void cut(const weft_shape *s, uint32_t axis, int c, double *whole, double *part, int join)
{
    int64_t inner = 1, size = s->axes[axis].size, half = size / SIZE;
    for (uint32_t i = axis + 1; i < s->rank; i++)
        inner *= s->axes[i].size;
    for (int64_t i = 0; i < eval_elements(s) / SIZE; i++) {
        int64_t outer = i / (half * inner), rest = i % (half * inner);
        double *at = &whole[outer * size * inner + c * half * inner + rest];
        *(join ? at : &part[i]) = join ? part[i] : *at;
    }
}

/* Coordinate c's part of every input. Parts of a partial sum differ wildly. */
static void take_parts(bench *w, const weft_place *place, int c, weft_shape *is, double (*x)[LIMIT])
{
    for (uint32_t i = 0; i < w->call.nin; i++) {
        is[i] = w->is[i];
        memcpy(x[i], w->x[i], sizeof x[i]);
        if (place[i].kind == WEFT_SPLIT) {
            cut(&w->is[i], place[i].axis, c, w->x[i], x[i], 0);
            is[i].axes[place[i].axis].size /= SIZE;
        }
        for (int64_t k = 0; place[i].kind == WEFT_PARTIAL_SUM && k < eval_elements(&is[i]); k++) {
            double share = rng_normal(99, (uint64_t)k);
            x[i][k] = c ? x[i][k] - share : share;
        }
    }
}

static void join_parts(const bench *w, const weft_place *place, int c, double (*y)[LIMIT],
                       double (*sum)[LIMIT])
{
    for (uint32_t i = 0; i < w->call.nout; i++) {
        if (place[i].kind == WEFT_SPLIT)
            cut(&w->os[i], place[i].axis, c, sum[i], y[i], 1);
        for (int64_t k = 0; place[i].kind != WEFT_SPLIT && k < eval_elements(&w->os[i]); k++)
            sum[i][k] = place[i].kind == WEFT_WHOLE         ? y[i][k]
                        : place[i].kind == WEFT_PARTIAL_MAX ? fmax(sum[i][k], y[i][k])
                                                            : sum[i][k] + y[i][k];
    }
}

/* The attributes of coordinate c's part, of shapes `is`. */
static uint32_t part_attrs(const bench *w, const weft_shape *is, int c, weft_attr *a)
{
    static const char *const keys[] = {"whole.0", "whole.1", "whole.2", "whole.3", "whole.4"};
    uint32_t n = w->call.nattr;
    int64_t distance = 1, first = 0;
    memcpy(a, w->attrs, sizeof w->attrs);
    if (!w->op->first_input)
        return n;
    const weft_shape *whole = &w->is[w->op->first_input - 1], *part = &is[w->op->first_input - 1];
    for (uint32_t k = whole->rank; k-- > 0; distance *= whole->axes[k].size) {
        const int64_t begin = c * (whole->axes[k].size - part->axes[k].size);
        if (w->op->flags & WEFT_OP_NUMBERED)
            a[n++] = (weft_attr)WEFT_ATTR_INT(keys[k], whole->axes[k].size);
        first += w->op->flags & WEFT_OP_NUMBERED ? begin * distance
                 : k == w->op->first_axis        ? begin
                                                 : 0;
    }
    a[n++] = (weft_attr)WEFT_ATTR_INT("first", first);
    return n;
}

/* The parts of an accepted placement, computed and joined, against the whole. */
static void check_parts(bench *w, const weft_place *in, const weft_place *out)
{
    static double x[7][LIMIT], y[3][LIMIT], sum[3][LIMIT];
    const example *e = &examples[w->g.now.block];
    weft_builder b = graph_builder(&w->g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    memset(sum, 0, sizeof sum);
    for (int c = 0; c < SIZE; c++) {
        weft_shape is[7], os[3];
        uint32_t nout = 3;
        weft_attr a[ATTRS + 6];
        take_parts(w, in, c, is, x);
        const uint32_t n = part_attrs(w, is, c, a);
        assert_int_equal(w->op->infer(&self, a, n, is, w->call.nin, os, &nout), WEFT_OK);
        run(w, a, n, is, os, x, y);
        join_parts(w, out, c, y, sum);
    }
    for (uint32_t i = 0; i < w->call.nout; i++)
        for (int64_t k = 0; k < eval_elements(&w->os[i]); k++)
            if (!(fabs(sum[i][k] - w->y[i][k]) <= 1e-9 * (1 + fabs(w->y[i][k]))))
                fail_msg("%s, output %u, element %lld: %g in parts, %g whole", e->id, i,
                         (long long)k, sum[i][k], w->y[i][k]);
}

/* Is this placement on the example's list? */
static void must_accept(const bench *w, weft_place *in, weft_place *out, char axis, int partial)
{
    const example *e = &examples[w->g.now.block];
    for (uint32_t i = 0; i < w->call.nin; i++) {
        const char *at = axis ? strpbrk(e->in[i], axis == 'H' ? "hg" : (char[]){axis, 0}) : NULL;
        in[i] = at ? (weft_place){WEFT_SPLIT, (uint32_t)(at - e->in[i]), 0, 0} : (weft_place){0};
        if (!axis && (int)i == partial)
            in[i].kind = WEFT_PARTIAL_SUM;
    }
    if (ask(w, in, out) != WEFT_OK)
        fail_msg("%s refuses '%c' %d: %s", e->id, axis ? axis : '+', partial, err_text());
}

TEST(listed_splits_are_accepted)
{
    for (uint32_t e = 0; e < EXAMPLES; e++) {
        bench *w = set_up(e);
        for (const char *p = examples[e].accept; *p && *p != '@'; p++) {
            weft_place in[7] = {0}, out[3] = {0};
            if (*p == '+')
                must_accept(w, in, out, 0, *++p - '0');
            else
                must_accept(w, in, out, *p, -1);
        }
        tear_down(w);
    }
}

/* Odometer over placements: whole, partial, or split along each axis, for every input. */
static bool next_places(const bench *w, weft_place *in)
{
    for (uint32_t i = 0; i < w->call.nin; i++) {
        if (in[i].kind == WEFT_WHOLE && w->is[i].dtype == WEFT_F32) {
            in[i].kind = WEFT_PARTIAL_SUM;
            return true;
        }
        uint32_t axis = in[i].kind == WEFT_SPLIT ? in[i].axis + 1 : 0;
        for (; axis < w->is[i].rank; axis++)
            if (w->is[i].axes[axis].size % SIZE == 0) {
                in[i] = (weft_place){WEFT_SPLIT, axis, 0, 0};
                return true;
            }
        in[i] = (weft_place){0};
    }
    return false;
}

TEST(accepted_splits_are_right)
{
    uint32_t accepted = 0, refused = 0;
    for (uint32_t e = 0; e < EXAMPLES; e++) {
        bench *w = set_up(e);
        weft_place in[7] = {0};
        do {
            weft_place out[3] = {0};
            weft_status st = ask(w, in, out);
            if (st == WEFT_OK)
                check_parts(w, in, out);
            else
                assert_int_equal(st, WEFT_UNSUPPORTED);
            accepted += st == WEFT_OK;
            refused += st != WEFT_OK;
        } while (next_places(w, in));
        tear_down(w);
    }
    assert_in_range(accepted, 2 * EXAMPLES, 1000);
    assert_in_range(refused, 1000, 100000);
}

TEST(every_op_is_in_the_list)
{
    uint32_t n = 0;
    for (const char *id; (id = builtin_id(n)); n++) {
        uint32_t e = 0;
        while (e < EXAMPLES && strcmp(examples[e].id, id))
            e++;
        if (e == EXAMPLES && !eval_relabels(id)) /* graph_axes_test.c has these */
            fail_msg("no example splits %s", id);
        assert_ptr_not_equal(builtin_op(id), NULL);
    }
    assert_in_range(n, 30, 100);
    assert_null(builtin_op("linear.d"));
}

TEST(sequences_are_not_cut)
{
    uint32_t e = 0;
    while (strcmp(examples[e].id, "attention"))
        e++;
    bench *w = set_up(e);
    weft_place in = {WEFT_SPLIT, 0, 0, 0}, out[3];
    weft_builder b = graph_builder(&w->g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    assert_int_equal(w->op->shard(&self, &w->call, "tp", 2, &in, out), WEFT_OK);
    assert_int_equal(w->op->shard(&self, &w->call, "tp", 4, &in, out), WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "would cut a sequence of 4 tokens"));
    tear_down(w);
}

TEST(held_and_maxima)
{
    bench *w = set_up(0);
    weft_place in[2] = {{WEFT_HELD, 1, 0, 0}, {WEFT_WHOLE, 0, 0, 0}}, out[3];
    assert_int_equal(ask(w, in, out), WEFT_OK);
    assert_int_equal(out[0].kind, WEFT_HELD);
    assert_int_equal(out[0].axis, 1);
    in[1] = (weft_place){WEFT_HELD, 0, 0, 0};
    assert_int_equal(ask(w, in, out), WEFT_UNSUPPORTED);
    in[0] = (weft_place){WEFT_PARTIAL_MAX, 0, 0, 0};
    in[1] = (weft_place){WEFT_WHOLE, 0, 0, 0};
    assert_int_equal(ask(w, in, out), WEFT_UNSUPPORTED);
    tear_down(w);
}

/* A plugin's op without shard(): its `whole` list is kept, partial inputs are refused. */
TEST(an_op_by_names_alone)
{
    bench *w = set_up(0);
    weft_op op = *w->op;
    op.whole = "embed,o";
    weft_builder b = graph_builder(&w->g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    weft_place split_t[2] = {{WEFT_SPLIT, 0, 0, 0}}, split_o[2] = {{0}, {WEFT_SPLIT, 0, 0, 0}},
               out[3];
    weft_place split_c[2] = {{WEFT_SPLIT, 1, 0, 0}, {WEFT_SPLIT, 1, 0, 0}},
               partial[2] = {{WEFT_PARTIAL_SUM, 0, 0, 0}};
    assert_int_equal(weft_shard_by_names(&b, op.whole, "acme", &w->call, split_t, out), WEFT_OK);
    assert_int_equal(out[0].kind, WEFT_SPLIT);
    assert_int_equal(weft_shard_by_names(&b, op.whole, "acme", &w->call, split_o, out),
                     WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "acme needs the axis 'o' whole, but in.1"));
    assert_int_equal(weft_shard_by_names(&b, op.whole, "acme", &w->call, split_c, out),
                     WEFT_UNSUPPORTED);
    assert_int_equal(weft_shard_by_names(&b, op.whole, "acme", &w->call, partial, out),
                     WEFT_UNSUPPORTED);
    tear_down(w);
}
