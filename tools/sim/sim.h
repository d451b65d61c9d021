/* sim/sim.h: how long a step takes on machines that need not be here.
 *
 * A discrete-event simulation of the lists that `weft train` walks. Input is the plans of a job and
 * a description of a cluster; output is when each rank does what. Pure: no device, no other rank,
 * no clock, and the same answer on every machine.
 *
 * Which ranks: ranks that differ in a coordinate only have the same list, and the same times as
 * long as all machines are equal. So one rank per plan is walked: the one whose coordinates are 0
 * on every axis but that of the stages. Operations along other axes start at once on all members.
 *
 * What a rank has:
 *   compute stream   calls follow one another; a call takes the sum of its instructions (op.c)
 *   channels         operations of a channel follow one another, and start no earlier than the
 *                    compute stream has reached their entry, on all members (walk.c)
 *   lanes            two for each level of links, out and in: operations whose slowest links are of
 *                    one level share it, that is, they follow one another
 * A wait holds the compute stream until the operation has ended; that is how operations become
 * exposed, and pipelines idle. What an operation takes by its algorithm and links: net.c.
 *
 * Nothing in here knows a model, a layout or a plugin: a number belongs to a device or to a link.
 * docs/FORESIGHT.md says what is modelled and what is not. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "plan/plan.h"

#include <stdio.h>

#define SIM_LEVELS 8u /* the most levels of links */

/* One level of links: it joins groups of the level below (devices, for the innermost) to groups of
 * `devices` devices, consecutive in the numbering of ranks. Each group below has `ports`
 * connections of `bandwidth` bytes/s in each direction into this level; its members share them. */
typedef struct sim_link {
    char name[WEFT_MAX_NAME];
    uint64_t devices; /* UINT64_MAX: all */
    double ports, bandwidth;
    double oversubscription; /* the level carries 1 / this of what the ports can, at once */
    double reach;            /* share of the bandwidth that long messages reach */
    double latency;          /* seconds of a step, in the protocol for long messages */
    double short_latency;    /* likewise, in the one for short messages ... */
    double short_reach;      /* ... which reaches this share of the bandwidth */
    double error;            /* relative error of times over it, one standard deviation */
} sim_link;

#define SIM_FUSED 0u      /* attention keeps scores on the chip */
#define SIM_STORED 1u     /* scores go through memory, and are kept for backward */
#define SIM_RECOMPUTED 2u /* likewise, and backward computes them again */

/* A device, described. Rates are per second: FLOPs, bytes. */
typedef struct sim_device {
    char name[WEFT_MAX_NAME];
    double memory;            /* bytes that a job can use */
    double bandwidth, stream; /* of the memory; share that long kernels reach */
    double fp32, fp16, bf16;  /* peak of products by the type of the operands; 0: it has none */
    double reach;             /* share of the peak that the largest products reach */
    double ramp;  /* inner length of a product at which half of that is reached: start and end of
                     a tile of the result cost as much as so many of its inner steps */
    double units; /* processors: tiles of a product are given to them in rounds; 0: any number */
    double tile_rows, tile_columns; /* of a tile */
    double launch;                  /* seconds between one kernel and the next */
    double copy;                    /* bytes/s between its memory and the host's */
    uint32_t attention;             /* SIM_FUSED, ... */
    double error;                   /* relative error of kernel times, one standard deviation */
} sim_device;

typedef struct sim_cluster {
    char name[WEFT_MAX_NAME];
    uint64_t per_machine; /* devices of a machine */
    uint64_t machines;    /* 0: as many as the job needs */
    sim_device device;
    sim_link links[SIM_LEVELS]; /* innermost first; the last one joins all */
    uint32_t nlinks;
} sim_cluster;

/* Read a cluster file (docs/FORESIGHT.md): INI with [cluster], [accelerator] and a section
 * [link.NAME] for each level. WEFT_USAGE with file and line. [setup] */
weft_status sim_cluster_read(const char *path, sim_cluster *out);
/* The same from text; `name` is for messages. */
weft_status sim_cluster_parse(const char *text, const char *name, sim_cluster *out);

/* Seconds that the device takes for a kernel: for its operations or its bytes, whichever takes
 * longer, and the gap before it. [any] */
double sim_op_seconds(const sim_device *d, const plan_kernel *k);

/* The links of a group of ranks, as one of them sees them. */
typedef struct sim_route {
    uint32_t ranks;             /* members */
    uint32_t level;             /* the outermost level that the group crosses: its lane */
    uint32_t slowest;           /* the level with the least bandwidth for the group */
    double rate[SIM_LEVELS];    /* bytes/s in one direction through the boundary of a group below
                                   the level, shared with the other groups of the axis that cross
                                   there, too; 0: the group does not cross the level */
    double machine_rate;        /* the same of a whole machine's boundary; 0: not crossed */
    const sim_cluster *cluster; /* borrowed */
} sim_route;

/* The route among `n` ranks that differ in their coordinate on `mesh_axis`; [0] is the one that
 * asks. [plan] */
void sim_route_make(const sim_cluster *c, const graph_mesh *m, uint32_t mesh_axis,
                    const uint32_t *ranks, uint32_t n, sim_route *out);

/* Seconds of an operation of `bytes` (in and out, the larger) as a library of collectives does it:
 * a ring in the better of two protocols, or for all-reduces a tree. [any] */
double sim_library_seconds(const sim_route *r, uint32_t kind, double bytes);

/* Seconds of a collective of the plan by the algorithm that the plan chose; where that is the
 * library's own, as above. `me`: the member that asks. [plan] */
double sim_collective_seconds(const plan *p, const plan_collective *c, uint32_t me,
                              const sim_route *r);

/* What one rank did in a step, in seconds. The parts add up to the step. */
typedef struct sim_rank {
    uint32_t rank;
    double compute;                /* forward, backward and recomputation */
    double tail;                   /* after the micro-batches: norm, scalars, updates */
    double exposed[WEFT_MAX_MESH]; /* waits for operations along a mesh axis that were under way */
    double bubble;                 /* waits for other stages, and the end of the step */
    double busy[WEFT_MAX_MESH];    /* operations along a mesh axis, exposed or not */
    double end;
} sim_rank;

/* An interval of a rank's timeline: lane 0 is the compute stream, lane 1 + c is channel c. */
typedef struct sim_event {
    uint32_t rank, lane;
    double begin, end;
    const char *name; /* of the plan's entry: borrowed */
} sim_event;

typedef struct sim_result {
    VEC(sim_rank) ranks; /* one per plan */
    VEC(sim_event) events;
    double seconds, error; /* of a step; one standard deviation, by the errors of the parts */
    double tokens;         /* of a step, whole job */
    double flops;          /* of a step, mean rank: products and attention, no recomputation */
    double peak_flops;     /* of a rank per second */
    uint32_t worst_link[WEFT_MAX_MESH]; /* the slowest level of each mesh axis */
} sim_result;

/* Walk the lists `step` of all plans; `trace` keeps the events. WEFT_USAGE: the cluster is too
 * small for the job, or its device has no products of the job's type. Free with sim_free() also
 * after a failure. [plan] */
weft_status sim_run(const plan_set *set, const sim_cluster *c, bool trace, sim_result *out);
void sim_free(sim_result *r);

/* The mean rank's parts, which add up to r->seconds. */
sim_rank sim_mean(const sim_result *r);

/* For people; as JSON (docs/FORESIGHT.md has the fields); the timeline for ui.perfetto.dev. */
void sim_print(const plan_set *set, const sim_cluster *c, const sim_result *r, FILE *to);
weft_status sim_print_json(const plan_set *set, const sim_cluster *c, const sim_result *r,
                           FILE *to);
weft_status sim_write_trace(const plan_set *set, const sim_result *r, const char *path);

/* What limits the step, as a sentence. */
void sim_limits(const plan_set *set, const sim_cluster *c, const sim_result *r, char *text,
                size_t capacity);

#endif
