/* The ops that come with weft, loaded as the plugin that they are. Include cmocka.h before it. */
#ifndef BUILTIN_H
#define BUILTIN_H

#include <stddef.h>

#include "graph/graph.h"

/* A host of the process that uses them alone. */
static inline host *builtin_host(void)
{
    static host *h;
    if (!h) {
        assert_int_equal(host_create(NULL, &h), WEFT_OK);
        assert_int_equal(host_use_ops(h), WEFT_OK);
    }
    return h;
}

static inline graph_ops builtin_ops(void)
{
    return graph_ops_of(builtin_host());
}

/* By number, in the order of the manifest; NULL behind the last. */
static inline const char *builtin_id(uint32_t i)
{
    const host_component *c = host_own_op(builtin_host(), i);
    return c ? c->name : NULL;
}

static inline const weft_op *builtin_op(const char *id)
{
    const host_component *c = host_used_find(builtin_host(), "weft.op/1", id);
    return c ? c->table : NULL;
}

#endif
