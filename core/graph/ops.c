/* graph/ops.c: ops by their ids, among those of the objects that a host uses. */
#include "graph/graph.h"

static const weft_op *find(void *ctx, const char *id, weft_op_self *self)
{
    const host_component *c = host_used_find(ctx, "weft.op/1", id);
    if (!c || host_open(ctx, c) != WEFT_OK)
        return NULL;
    self->module = c->module;
    self->conf = c->no_options;
    return c->table;
}

graph_ops graph_ops_of(host *h)
{
    return (graph_ops){find, h};
}
