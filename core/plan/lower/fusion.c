/* plan/lower/fusion.c: op fusion: adjacent ops that the device runs as one (fuse(), weft/device.h).
 *
 * A chain grows op by op. A candidate's first input is the output of the last member, or that
 * member's first input; the device must name the longer chain and have a kernel for its operands.
 * Then the candidate moves up to the chain, or the chain down to it: an op that is passed must not
 * write memory that a moved op reads or writes, nor read memory that one writes. No op moves past
 * communication.
 *
 * A result that only members read gets no memory. Memory is assigned afterwards, in the new order.
 * Outputs that are accumulated into are fused only with others of that kind, because one flag
 * applies to all. Each of n nodes between communication is tried with each other one, and each
 * fused one is compared with those between: O(n^2), n is a few tens. */
#include "plan/lower/fusion.h"

#include "base/err.h"
#include "host/call.h"

#include <string.h>

typedef struct fusing {
    const plan_builder *b;
    const uint32_t *nodes;
    uint32_t n;
    bool first;
    uint32_t *at; /* [n] current position of the node */
    bool *taken;  /* [n] a member of a unit */
} fusing;

static const graph_node *node_at(const fusing *j, uint32_t i)
{
    return &j->b->g->nodes.at[j->nodes[i]];
}

/* --- can these be fused? --- */

static bool fusable(const graph_node *n)
{
    return !(n->op->flags & (WEFT_OP_ELEMENTWISE | WEFT_OP_SHAPE_LAST)) && !n->op->first_input &&
           n->nin && n->nout;
}

/* How the outputs of a node are written: 0 plain, 1 first write of a sum, 2 accumulated into; 3:
 * mixed. */
static uint32_t written(const fusing *j, uint32_t i)
{
    const graph_node *n = node_at(j, i);
    uint32_t sums = 0;
    for (uint32_t k = 0; k < n->nout; k++)
        sums += graph_tensor_at(j->b->g, n->out[k])->sum;
    if (!sums)
        return 0;
    return sums < n->nout || !(n->op->flags & WEFT_OP_ACCUMULATES)
               ? 3
               : 1 + plan_node_adds(j->b, j->nodes[i], j->first);
}

static bool made_by(const fusing *j, const plan_unit *u, uint32_t members, weft_tensor t)
{
    for (uint32_t m = 0; m < members; m++)
        for (uint32_t k = 0; k < j->b->g->nodes.at[u->node[m]].nout; k++)
            if (j->b->g->nodes.at[u->node[m]].out[k] == t)
                return true;
    return false;
}

/* Is it read outside of the unit? */
static bool wanted(const fusing *j, const plan_unit *u, weft_tensor t)
{
    const graph *g = j->b->g;
    uint32_t reads = 0;
    for (uint32_t m = 0; m < u->n; m++)
        for (uint32_t k = 0; k < g->nodes.at[u->node[m]].nin; k++)
            reads += g->nodes.at[u->node[m]].in[k] == t;
    return graph_tensor_at(g, t)->kind != WEFT_T_ACTIVATION || t == j->b->live.result ||
           reads < j->b->live.reads[t];
}

static bool add_once(plan_unit *u, weft_tensor t)
{
    for (uint32_t k = 0; k < u->nin; k++)
        if (u->in[k] == t)
            return true;
    if (u->nin == WEFT_MAX_OPERANDS)
        return false;
    u->in[u->nin++] = t;
    return true;
}

/* Set the operands of the fused op; false: too many, or two overlap. */
static bool set_operands(const fusing *j, plan_unit *u)
{
    const plan_builder *b = j->b;
    u->nin = u->nout = 0;
    for (uint32_t m = 0; m < u->n; m++) {
        const graph_node *n = &b->g->nodes.at[u->node[m]];
        for (uint32_t k = 0; k < n->nin; k++)
            if (!made_by(j, u, m, n->in[k]) && !add_once(u, n->in[k]))
                return false;
        for (uint32_t k = 0; k < n->nout; k++) {
            if (u->nout == WEFT_MAX_OPERANDS)
                return false;
            u->out[u->nout++] = wanted(j, u, n->out[k]) ? n->out[k] : 0;
        }
    }
    for (uint32_t k = 0; k < u->nout; k++)
        for (uint32_t i = 0; u->out[k] && i < u->nin + k; i++) {
            const weft_tensor other = i < u->nin ? u->in[i] : u->out[i - u->nin];
            if (other && plan_root_of(b, other) == plan_root_of(b, u->out[k]))
                return false;
        }
    return true;
}

/* --- can they be moved together? --- */

/* Does x write memory that y reads or writes? */
static bool disturbs(const plan_builder *b, const graph_node *x, const graph_node *y)
{
    for (uint32_t i = 0; i < x->nout; i++)
        for (uint32_t k = 0; k < y->nin + y->nout; k++)
            if (!(k < y->nin && graph_node_shape_only(y, k)) &&
                plan_root_of(b, x->out[i]) ==
                    plan_root_of(b, k < y->nin ? y->in[k] : y->out[k - y->nin]))
                return true;
    return false;
}

/* Can the nodes in `moved` pass all nodes between two positions? */
static bool free_way(const fusing *j, uint32_t from, uint32_t to, const uint32_t *moved, uint32_t n)
{
    for (uint32_t i = 0; i < j->n; i++)
        for (uint32_t m = 0; m < n && j->at[i] > from && j->at[i] < to; m++) {
            const graph_node *x = node_at(j, i), *y = node_at(j, moved[m]);
            if (disturbs(j->b, x, y) || disturbs(j->b, y, x))
                return false;
        }
    return true;
}

/* --- queries to the device --- */

static bool add_attrs(const graph_node *n, weft_attr *attrs, uint32_t *nattr)
{
    for (uint32_t i = 0; i < n->nattr; i++) {
        for (uint32_t k = 0; k < *nattr; k++)
            if (!strcmp(attrs[k].key, n->attrs[i].key))
                return false;
        if (*nattr == FUSE_ATTRS)
            return false;
        attrs[(*nattr)++] = n->attrs[i];
    }
    return true;
}

bool plan_unit_spec(const plan_builder *b, const plan_unit *u, bool adds, plan_unit_call *c)
{
    *c = (plan_unit_call){.op = {.struct_size = sizeof c->op, .id = u->id}};
    for (uint32_t m = 0; m < u->n; m++)
        if (!add_attrs(&b->g->nodes.at[u->node[m]], c->attrs, &c->op.nattr))
            return false;
    for (uint32_t k = 0; k < u->nin + u->nout; k++) {
        const weft_tensor t = k < u->nin ? u->in[k] : u->out[k - u->nin];
        c->io[k] = t ? plan_lower_operand(b->g, t) : (weft_operand){0};
    }
    c->op.flags = adds ? WEFT_SPEC_ACCUMULATE : 0;
    c->op.flags |= b->p->spec->deterministic ? WEFT_SPEC_DETERMINISTIC : 0;
    c->op.attrs = c->attrs;
    c->op.nin = u->nin;
    c->op.nout = u->nout;
    c->op.in = c->io;
    c->op.out = c->io + u->nin;
    return true;
}

static uint32_t how(const graph_node *before, const graph_node *n)
{
    return n->in[0] == before->out[0]  ? WEFT_FUSE_CHAINED
           : n->in[0] == before->in[0] ? WEFT_FUSE_SHARED_INPUT
                                       : 0;
}

/* The device's name for the chain; NULL: not supported. */
static const char *name_of(const fusing *j, const plan_unit *u)
{
    const spec_plugin *d = &j->b->p->spec->device;
    const weft_device_table *table = d->c->table;
    const char *ids[FUSE_MAX] = {0};
    uint32_t joins[FUSE_MAX] = {0};
    for (uint32_t m = 0; m < u->n; m++) {
        const graph_node *n = &j->b->g->nodes.at[u->node[m]];
        ids[m] = n->id;
        joins[m] = m ? how(&j->b->g->nodes.at[u->node[m - 1]], n) : 0;
        if (m && !joins[m])
            return NULL;
    }
    return PLUGIN_GET(table, fuse, d->c->module, d->conf, ids, joins, u->n);
}

/* Does the device have a kernel for these operands? */
static weft_status ask_need(const fusing *j, const plan_unit *u, bool adds, bool *yes)
{
    const spec_plugin *d = &j->b->p->spec->device;
    const weft_device_table *table = d->c->table;
    weft_requirements need = {.struct_size = sizeof need};
    plan_unit_call c;
    *yes = plan_unit_spec(j->b, u, adds, &c);
    weft_status st = *yes ? PLUGIN_ASK(table, query, d->c->module, d->conf, &c.op, &need) : WEFT_OK;
    if (st == WEFT_UNSUPPORTED) {
        err_clear();
        *yes = false;
        st = WEFT_OK;
    }
    if (st != WEFT_OK)
        err_context("device %s, op %s", d->c->name, u->id);
    return st;
}

/* --- chains --- */

/* Try to add node i to the unit, whose members are `members`. */
static weft_status try_one(fusing *j, plan_unit *u, uint32_t *members, uint32_t i, bool *joined)
{
    plan_unit longer = *u;
    longer.node[longer.n++] = j->nodes[i];
    *joined = false;
    const uint32_t kind = written(j, i), place = j->at[members[0]];
    if (kind == 3 || kind != written(j, members[0]) || !(longer.id = name_of(j, &longer)) ||
        !set_operands(j, &longer))
        return WEFT_OK;
    const bool up = free_way(j, place, j->at[i], &i, 1);
    if (!up && !free_way(j, place, j->at[i], members, u->n))
        return WEFT_OK;
    weft_status st = ask_need(j, &longer, kind == 2, joined);
    if (st != WEFT_OK || !*joined)
        return st;
    members[u->n] = i;
    *u = longer;
    j->taken[i] = true;
    for (uint32_t m = 0, to = up ? place : j->at[i]; m < u->n; m++)
        j->at[members[m]] = to;
    return WEFT_OK;
}

static weft_status grow(fusing *j, uint32_t first, plan_unit *u)
{
    uint32_t members[FUSE_MAX] = {first};
    bool joined = true;
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && joined && u->n < FUSE_MAX) {
        joined = false;
        for (uint32_t i = members[u->n - 1] + 1;
             st == WEFT_OK && !joined && i < j->n && node_at(j, i)->op; i++)
            if (!j->taken[i] && fusable(node_at(j, i)))
                st = try_one(j, u, members, i, &joined);
    }
    return st;
}

static plan_unit single(const graph *g, uint32_t node)
{
    const graph_node *n = &g->nodes.at[node];
    plan_unit u = {.n = 1, .node = {node}, .id = n->id, .nin = n->nin, .nout = n->nout};
    memcpy(u.in, n->in, n->nin * sizeof *n->in);
    memcpy(u.out, n->out, n->nout * sizeof *n->out);
    return u;
}

static void sort_units(const fusing *j, const plan_unit *of, const uint32_t *lead, uint32_t n,
                       plan_unit_list *out)
{
    for (uint32_t place = 0; place < j->n; place++)
        for (uint32_t k = 0; k < n; k++)
            if (j->at[lead[k]] == place)
                out->at[out->n++] = of[k];
}

weft_status plan_fuse_nodes(const plan_builder *b, const uint32_t *nodes, uint32_t n, bool first,
                            pool *memory, plan_unit_list *out)
{
    fusing j = {.b = b,
                .nodes = nodes,
                .n = n,
                .first = first,
                .at = pool_array(memory, n, sizeof *j.at),
                .taken = pool_array(memory, n, sizeof *j.taken)};
    const weft_device_table *table = b->p->spec->device.c->table;
    weft_status st = WEFT_OK;
    uint32_t units = 0;
    plan_unit *of = pool_array(memory, n, sizeof *of);
    uint32_t *lead = pool_array(memory, n, sizeof *lead);
    for (uint32_t i = 0; i < n; i++)
        j.at[i] = i;
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
        if (j.taken[i])
            continue;
        plan_unit *u = &of[units];
        *u = single(b->g, nodes[i]);
        lead[units++] = i;
        if (table->fuse && node_at(&j, i)->op && fusable(node_at(&j, i)))
            st = grow(&j, i, u);
    }
    out->at = pool_array(memory, units, sizeof *out->at);
    sort_units(&j, of, lead, units, out);
    return st;
}
