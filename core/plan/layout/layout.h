/* plan/layout/layout.h: parameters, gradients and optimizer state in flat ranges of elements.
 *
 * All regions (compute copy, fp32 master, gradients, each state) have the same element index, so
 * one range of elements is one range in each. A block's parameters are contiguous: first matrices,
 * then the rest, each tensor aligned to 32 elements. A parameter that several stages use is a block
 * of its own, the same one at each of them, so that whatever cuts blocks cuts it alike. Only what
 * this stage uses has a place.
 *
 * A block may be cut over a mesh axis: of its state alone (FLAT_STATE), its gradients too, its
 * parameters too. It is then made of groups, ranges of parameters of one kind, and coordinate c
 * owns slice c of each. A region that has the own slices alone is shorter: it has element indices
 * of its own (at[level]). */
#ifndef PLAN_LAYOUT_LAYOUT_H
#define PLAN_LAYOUT_LAYOUT_H

#include "graph/graph.h"
#include "plan/layout/stage_map.h"

#include <weft/strategy.h>

#define FLAT_STATE WEFT_SHARD_STATE
#define FLAT_GRADS WEFT_SHARD_GRADS
#define FLAT_PARAMS WEFT_SHARD_PARAMS
#define FLAT_LEVELS 4u /* 0: nothing is cut */

typedef struct flat_param {
    const char *name;
    uint32_t block, flags; /* block: of `blocks` below */
    uint32_t group;        /* where the block is cut */
    bool not_owned;        /* another stage counts it in the norm and saves it */
    weft_shape local;
    uint64_t first, count; /* elements */
    const char *init;
    weft_shape whole;
    weft_place place[WEFT_MAX_MESH];
    uint64_t cut_axes;     /* bit a: mesh axis a splits it */
    uint64_t partial_axes; /* its gradient is partial over mesh axis a */
    uint64_t sum_axes;     /* over which its gradient is summed; also bits of groups */
    uint64_t every_axes;   /* of these, those over which that is done after every pass */
    uint64_t never_axes;   /* over which it stays in parts, by somebody's word */
} flat_param;

typedef struct flat_block {
    const char *name;
    uint64_t first, matrices_end, end; /* elements */
    uint64_t at[FLAT_LEVELS];          /* of `first`, in a region that is cut from level on */
    uint32_t first_param, params, matrices;
    uint32_t level, axis, parts,
        ahead; /* how far it is cut, over which mesh axis; see edits.shard() */
    uint32_t first_group, groups;
} flat_block;

typedef struct flat_group {
    uint32_t block, flags;
    bool not_owned;
    uint64_t at[FLAT_LEVELS], count; /* at[0]: whole; count: with padding */
    uint64_t sum_axes;
    uint64_t differ; /* mesh axes whose coordinates own different elements of it */
    uint64_t kept;   /* as in collective: of the sums after every pass */
} flat_group;

typedef struct flat_state {
    const char *name; /* suffix */
    uint64_t offset;
} flat_state;

typedef struct flat {
    VEC(flat_param) params;
    VEC(flat_block) blocks;
    VEC(flat_group) groups; /* of all blocks that are cut */
    VEC(flat_state) states;
    uint64_t size[FLAT_LEVELS];       /* elements of a region that is cut from level on */
    uint64_t compute, master, grads;  /* region offsets; master == compute in fp32 jobs */
    uint32_t compute_size, grad_size; /* bytes an element */
} flat;

/* List the parameters that this stage uses, block by block; their names go into `texts`. */
void plan_flat_list(const graph *g, const struct stage_map *stages, pool *texts, flat *out);

/* Set the places, after plan_shard_levels(). `most`: elements of a group of several parameters.
 * WEFT_USAGE if the model has too many parameters to address. */
weft_status plan_flat_place(flat *f, uint64_t most);

void plan_flat_free(flat *f);

/* Index of an element of a block that is not cut in a region that is cut from `level` on. */
uint64_t plan_flat_index(const flat *f, uint64_t element, uint32_t level);

/* The own slice of a group in a region that is cut from `level` on: where coordinate 0 has it, and
 * how much further on each next one. */
typedef struct flat_place_in {
    uint64_t at, shift;
} flat_place_in;
flat_place_in plan_flat_own(const flat *f, uint32_t group, uint32_t level, uint64_t region,
                            uint64_t size);

const flat_param *plan_flat_find(const flat *f, const char *name); /* NULL: not on this stage */
int plan_flat_block_of(const flat *f, const char *name);           /* -1: none */

/* Is the block a parameter that several stages use? */
bool plan_flat_shared(const flat *f, const struct stage_map *stages, uint32_t block);

/* Mesh axes over which no parameter's gradient is summed although each is partial over them. */
uint64_t plan_flat_unsummed_axes(const flat *f);

#endif
