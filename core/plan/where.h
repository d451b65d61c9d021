/* plan/where.h: where the members of the mesh's groups are. */
#ifndef PLAN_WHERE_H
#define PLAN_WHERE_H

#include "plan/plan.h"

#include <weft/coll.h>

#define REACH_ONE 0u   /* every group of the axis is on one machine */
#define REACH_APART 1u /* no two members share one */
#define REACH_BOTH 2u

/* How far the groups of a mesh axis reach. */
uint32_t where_axis(const spec *s, uint32_t axis);

/* The layout of a channel's groups; NULL where all are on one machine, or where groups lie in
 * different ways, since all share a plan. Of the pool. */
const comm_layout *where_channel(const spec *s, pool *p, const channel *c);

/* What the channel's link can do between any two members, and inside a machine: WEFT_LINK_... */
uint64_t where_caps(const spec *s, const spec_link *l);
/* The functions of a transport that brings its own collectives; NULL: it is a link. */
const weft_coll_table *where_coll(const spec_link *l);

/* Is the device's memory out of the link's reach? */
bool where_staged(const spec *s, const spec_link *l);
/* Does a transport of this kind reach it at all, whatever this machine can? */
bool where_reaches(const spec *s, const component *link);
uint64_t where_near_caps(const spec *s, const spec_link *l);

#endif
