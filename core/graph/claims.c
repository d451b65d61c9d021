/* graph/claims.c: what the shard() of an op answers, checked.
 *
 * No later pass would detect an impossible placement: kernels would run on mismatched sizes. A
 * split must divide evenly, or continue along an axis that an input is already split along (whose
 * padding is zero); a coordinate may hold an output alone only where it holds an input. */
#include "base/err.h"
#include "graph/arguments.h"
#include "host/call.h"

#include <string.h>
#include <weft/shard.h>

/* Whether an input is split along an axis of this size and name; a copy may name it otherwise. */
static bool goes_on(const graph *g, const graph_node *n, const weft_place *in,
                    const weft_axis *axis)
{
    for (uint32_t k = 0; k < n->nin; k++) {
        const weft_shape *s = &graph_tensor_at(g, n->in[k])->shape;
        if (in[k].kind == WEFT_SPLIT && in[k].axis < s->rank &&
            s->axes[in[k].axis].size == axis->size &&
            (n->op->ew == WEFT_EW_COPY || !strcmp(s->axes[in[k].axis].name, axis->name)))
            return true;
    }
    return false;
}

static weft_status check_split(const graph *g, const graph_node *n, uint32_t a, uint32_t output,
                               const weft_place *in, uint32_t axis)
{
    const graph_tensor *t = graph_tensor_at(g, n->out[output]);
    const uint32_t size = g->mesh->size[a];
    if (axis >= t->shape.rank)
        return err_fail_in(WEFT_USAGE, ERR_OP, n->id,
                           "its shard() splits output %u along axis %u over %s, and it has %u",
                           output, axis, g->mesh->name[a], t->shape.rank);
    int64_t here = t->shape.axes[axis].size; /* the axes before `a` have been settled */
    for (uint32_t other = 0; other < a; other++)
        if (t->place[other].kind == WEFT_SPLIT && t->place[other].axis == axis)
            here = (here + g->mesh->size[other] - 1) / g->mesh->size[other];
    if (here % size == 0 || goes_on(g, n, in, &t->shape.axes[axis]))
        return WEFT_OK;
    return err_fail_in(WEFT_USAGE, ERR_OP, n->id,
                       "its shard() splits output %u over %s = %u along '%s', which has %lld "
                       "elements here; that does not come out even",
                       output, g->mesh->name[a], size, t->shape.axes[axis].name, (long long)here);
}

static weft_status check_claim(const graph *g, const graph_node *n, uint32_t a, uint32_t output,
                               const weft_place *in, weft_place p)
{
    bool held = false;
    for (uint32_t k = 0; k < n->nin; k++)
        held |= in[k].kind == WEFT_HELD && in[k].axis == p.axis;
    if (p.kind > WEFT_HELD) /* the last of them */
        return err_fail_in(WEFT_USAGE, ERR_OP, n->id,
                           "its shard() places output %u in the unknown way %u", output, p.kind);
    if (p.kind == WEFT_SPLIT)
        return check_split(g, n, a, output, in, p.axis);
    if (p.kind == WEFT_HELD && !held)
        return err_fail_in(WEFT_USAGE, ERR_OP, n->id,
                           "its shard() says that coordinate %u of %s alone has output %u, and it "
                           "holds no input alone",
                           p.axis, g->mesh->name[a], output);
    if (p.flags || p.reserved)
        return err_fail_in(WEFT_UNSUPPORTED, ERR_OP, n->id,
                           "its shard() sets flags 0x%x in the placement of output %u; this "
                           "version of weft knows none",
                           p.flags | p.reserved, output);
    if (p.kind != WEFT_HELD && p.axis)
        return err_fail_in(WEFT_USAGE, ERR_OP, n->id,
                           "its shard() names axis %u of output %u, which is not split; 0 is "
                           "expected",
                           p.axis, output);
    return WEFT_OK;
}

static weft_status ask(graph *g, const graph_node *n, uint32_t a, const weft_opcall *call,
                       const weft_place *in, weft_place *out)
{
    const graph_session outer = g->now;
    const weft_builder b = graph_builder(g);
    const weft_op_self self = graph_op_self(n, &b);
    memset(out, 0, n->nout * sizeof *out);
    if (!n->op->shard)
        return weft_shard_by_names(&b, n->op->whole, n->id, call, in, out);
    g->now.looking = "shard";
    weft_status st =
        PLUGIN_CALL(n->op, shard, &self, call, g->mesh->name[a], g->mesh->size[a], in, out);
    st = graph_check_return(st, ERR_OP, n->id, "shard");
    g->now = outer;
    return st;
}

weft_status graph_shard_node(graph *g, uint32_t i, uint32_t a, weft_place *out)
{
    const graph_node n = g->nodes.at[i];
    const weft_opcall call = {sizeof call, n.nattr, n.attrs, n.nin, n.nout, n.in, n.out, NULL};
    weft_place in[WEFT_MAX_OPERANDS] = {0};
    for (uint32_t k = 0; k < n.nin; k++)
        in[k] = graph_tensor_at(g, n.in[k])->place[a];
    weft_status st = ask(g, &n, a, &call, in, out);
    for (uint32_t k = 0; st == WEFT_OK && n.op->shard && k < n.nout; k++)
        st = check_claim(g, &n, a, k, in, out[k]);
    return st;
}
