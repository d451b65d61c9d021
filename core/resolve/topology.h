/* resolve/topology.h: the topology of groups: which members share a machine, and their transport's
 * capabilities.
 *
 * Pure functions of a spec: its host map and transports. All threads may call them. */
#ifndef RESOLVE_TOPOLOGY_H
#define RESOLVE_TOPOLOGY_H

#include "resolve/spec.h"

#include <weft/coll.h>

#define REACH_INTRA 0u /* intra-node: every group of the axis is on one machine */
#define REACH_INTER 1u /* inter-node: no two members of a group share a machine */
#define REACH_MIXED 2u /* groups span machines, and some members share one */

/* Whether the groups of a mesh axis are intra-node, inter-node or both: REACH_... */
uint32_t resolve_reach(const spec *s, uint32_t axis);

/* For each rank, the ranks that share all its coordinates but the one on `mesh_axis`; with
 * `ncoords` only those that have one of `coords` there (ascending). */
typedef struct resolve_rank_group {
    uint32_t mesh_axis, ncoords;
    const uint32_t *coords; /* NULL: every coordinate */
} resolve_rank_group;

/* The layout of all these groups; NULL if all are on one machine, or if their layouts differ, since
 * all share a plan. Allocated from the pool. [plan] */
const sched_layout *resolve_group_layout(const spec *s, pool *p, const resolve_rank_group *c);

/* Capabilities of the transport between any two members: WEFT_LINK_...; 0 for a library of
 * collectives. */
uint64_t resolve_link_caps(const spec *s, const spec_link *l);
/* The functions of a transport with its own collectives; NULL: it is a link. */
const weft_coll_table *resolve_collective_library(const spec_link *l);
/* Whether libraries of collectives work on host memory in this job: the device's memory is the
 * host's. Otherwise they work on the device's streams. */
bool resolve_is_on_host(const spec *s);

/* Whether device data is staged in host memory, because the transport cannot access device
 * memory. */
bool resolve_is_staged(const spec *s, const spec_link *l);
/* Whether a transport of this kind can access the device's memory, on any machine. */
bool resolve_reaches_device(const spec *s, const host_component *link);
/* resolve_link_caps() between members that share a machine. */
uint64_t resolve_intra_caps(const spec *s, const spec_link *l);

#endif
