/* plan/transport.h: which transport carries which mesh axis. */
#ifndef PLAN_TRANSPORT_H
#define PLAN_TRANSPORT_H

#include "plan/spec.h"

/* Make the sections [comm.AXIS] and [comm.PLUGIN] known, with their keys. */
weft_status transport_add_sections(spec *s);

/* Settle the transport of every mesh axis with more than one rank. A named one that cannot be used
 * is an error; `auto` takes the best score among those whose probe says yes. */
weft_status transport_choose(spec *s, bool same_machine);

#endif
