/* plan/layout/layout.h: parameters, gradients and optimizer state in flat ranges of elements.
 *
 * All regions (compute copy, fp32 master, gradients, each state) share one element index, so a
 * range of elements is a range in each of them. A block's parameters are contiguous: first
 * matrices, then the rest, each tensor aligned to 32 elements. A parameter that several stages use
 * is a block of its own, the same one on each of them, so that it is sharded the same way on all.
 * Only what this stage uses is placed.
 *
 * A block may be sharded over a mesh axis: its state (FLAT_STATE), also its gradients, also its
 * parameters. It then consists of groups, ranges of parameters of one kind; coordinate c owns slice
 * c of each. A region with only the own slices is shorter and has its own element indices
 * (at[level]).
 *
 * A state of an elementwise rule or of a list is such a region (plan_flat_state): every parameter
 * has it. A rule of whole parameters declares states for each parameter, of any type and axes; each
 * has memory of its own (plan_own_state). States with all axes of the parameter are sharded: a
 * coordinate has the slice that it updates. All other states are replicated. */
#ifndef PLAN_LAYOUT_LAYOUT_H
#define PLAN_LAYOUT_LAYOUT_H

#include "graph/graph.h"
#include "plan/layout/stage_map.h"

#include <weft/strategy.h>

struct plan_builder;

#define FLAT_STATE WEFT_SHARD_STATE
#define FLAT_GRADS WEFT_SHARD_GRADS
#define FLAT_PARAMS WEFT_SHARD_PARAMS
#define FLAT_LEVELS 4u /* 0: nothing is sharded */

typedef struct plan_flat_param {
    const char *name, *role; /* role: weft_param_args.role, or NULL */
    uint32_t block, flags;   /* block: index into `blocks` below */
    uint32_t group;          /* if the block is sharded */
    bool not_owned;          /* another stage counts it in the norm and saves it */
    weft_shape local;
    uint64_t first, count; /* elements */
    const char *init;
    weft_shape whole;
    weft_place place[WEFT_MAX_MESH];
    uint64_t cut_axes;     /* bit a: mesh axis a splits it */
    uint64_t partial_axes; /* its gradient is partial over mesh axis a */
    uint64_t sum_axes;     /* mesh axes over which its gradient is summed; also bits of groups */
    uint64_t every_axes;   /* of these, those over which it is summed after every micro-batch */
    uint64_t never_axes;   /* those over which it stays partial, as an edit says */
    uint32_t interval;     /* of its updates: 1 + index into plan.intervals; 0: each step */
    uint32_t rule_group;   /* 1 + index into spec.groups; 0: none */
    bool adds; /* each micro-batch adds to its gradient, which the end of the step clears */
} plan_flat_param;

typedef struct plan_flat_block {
    const char *name;
    uint64_t first, matrices_end, end; /* elements */
    uint64_t at[FLAT_LEVELS];          /* of `first`, in a region that is sharded from level on */
    uint32_t first_param, params, matrices;
    uint32_t level, axis, parts,
        ahead; /* how far it is sharded, over which mesh axis; see edits.shard() */
    uint32_t first_group, groups;
} plan_flat_block;

typedef struct plan_flat_group {
    uint32_t block, flags;
    uint32_t interval, rule_group; /* as in plan_flat_param */
    bool not_owned;
    uint64_t at[FLAT_LEVELS], count; /* at[0]: unsharded; count: with padding */
    uint64_t sum_axes;
    uint64_t differ;   /* mesh axes whose coordinates own different elements of it */
    uint64_t residual; /* as in collective: residual of the sums after every micro-batch */
} plan_flat_group;

typedef struct plan_flat_state {
    const char *name; /* suffix */
    const char *init; /* NULL: zeros */
    uint32_t dtype;
    uint64_t offset;
} plan_flat_state;

typedef struct plan_own_state {
    const char *name; /* suffix */
    const char *init; /* NULL: zeros */
    uint32_t param;   /* index into `params` */
    bool sliced;      /* as the group of its parameter */
    weft_shape whole;
    weft_place place[WEFT_MAX_MESH];
    uint64_t elements; /* in memory, of the slice if sliced */
    uint64_t offset;
} plan_own_state;

typedef struct plan_flat {
    VEC(plan_flat_param) params;
    VEC(plan_flat_block) blocks;
    VEC(uint64_t) param_names, block_names; /* digests of their names, in their order */
    VEC(plan_flat_group) groups;            /* of all sharded blocks */
    VEC(plan_flat_state) states;
    VEC(plan_own_state) own_states;   /* those of a parameter next to each other */
    uint64_t size[FLAT_LEVELS];       /* elements of a region that is sharded from level on */
    uint64_t compute, master, grads;  /* region offsets; master == compute in fp32 jobs */
    uint32_t compute_size, grad_size; /* bytes an element */
} plan_flat;

/* List the parameters that this stage uses, block by block; their names go into `texts`. */
void plan_flat_list(const graph *g, const struct plan_stage_map *stages, pool *texts,
                    plan_flat *out);

/* Set level, axis, parts and ahead of each block of b->f from the edits, after the axes of the sums
 * are known. Edits that contradict each other are WEFT_USAGE; what this version cannot do is
 * WEFT_UNSUPPORTED. (shard_level.c) */
weft_status plan_shard_levels(struct plan_builder *b);

/* Set the offsets, after plan_shard_levels(). `max`: elements of a group of several parameters.
 * WEFT_USAGE if the model has too many parameters to address. */
weft_status plan_flat_place(plan_flat *f, uint64_t max);

void plan_flat_free(plan_flat *f);

/* Index of an element of an unsharded block in a region that is sharded from `level` on. */
uint64_t plan_flat_index(const plan_flat *f, uint64_t element, uint32_t level);

/* The own slice of a group in a region that is sharded from `level` on: its index on coordinate 0,
 * and the distance between coordinates. */
typedef struct plan_flat_slice {
    uint64_t at, shift;
} plan_flat_slice;
plan_flat_slice plan_flat_own(const plan_flat *f, uint32_t group, uint32_t level, uint64_t region,
                              uint64_t size);

const plan_flat_param *plan_flat_find(const plan_flat *f,
                                      const char *name); /* NULL: not on this stage */
/* The parameter of which the tensor is the gradient; NULL: it is none, or not on this stage. */
plan_flat_param *plan_flat_of_grad(const plan_flat *f, const graph *g, weft_tensor grad);
int plan_flat_block_of(const plan_flat *f, const char *name); /* -1: none */

/* Index of the region of states of this suffix; -1: none. */
int plan_flat_state_of(const plan_flat *f, const char *suffix);

/* Add a region of states for `x`, unless there is one; false: there is, of another type or initial
 * value. */
bool plan_flat_state_add(plan_flat *f, pool *texts, const char *suffix, const graph_tensor *x);

/* Is the block a parameter that several stages use? */
bool plan_flat_shared(const plan_flat *f, const struct plan_stage_map *stages, uint32_t block);

/* Mesh axes over which every gradient is partial and none is summed. */
uint64_t plan_flat_unsummed_axes(const plan_flat *f);

#endif
