/* resolve/topology.h: where the members of the mesh's groups are. */
#ifndef RESOLVE_TOPOLOGY_H
#define RESOLVE_TOPOLOGY_H

#include "resolve/spec.h"

#include <weft/coll.h>

#define REACH_ONE 0u   /* every group of the axis is on one machine */
#define REACH_APART 1u /* no two members share one */
#define REACH_BOTH 2u

/* How far the groups of a mesh axis reach. */
uint32_t where_axis(const spec *s, uint32_t axis);

/* For each rank, the ranks that share all its coordinates but the one on `mesh_axis`; with
 * `ncoords` only those that have one of `coords` there (ascending). */
typedef struct rank_group {
    uint32_t mesh_axis, ncoords;
    const uint32_t *coords; /* NULL: every coordinate */
} rank_group;

/* The layout that all these groups have; NULL where all are on one machine, or where their layouts
 * differ, since all share a plan. Of the pool. [plan] */
const comm_layout *where_group(const spec *s, pool *p, const rank_group *c);

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
