/* comm/bridge.h: two transports as one link: `intra` intra-node, `inter` inter-node. */
#ifndef COMM_BRIDGE_H
#define COMM_BRIDGE_H

#include "host/host.h"

#include <weft/link.h>

/* `machine` [args->ranks] is the host map; borrowed, as the components are. *table becomes the
 * functions of *out, which are valid until its destroy(). [setup] */
weft_status comm_bridge_create(const host_component *intra, const weft_conf *intra_conf,
                               const host_component *inter, const weft_link_args *args,
                               const uint32_t *machine, const weft_link_table **table,
                               weft_link **out);

#endif
