/* plan/plan.h: the execution plan of a step: what a rank runs, computed before any rank exists.
 *
 * A plan has two levels. *Segments* are straight-line instructions, stored once for all equal
 * blocks and micro-batches; an operand is a base number and an offset. A rank executes *lists*:
 * call a segment with these bases, start a collective, wait for it, write a tensor. Every buffer
 * has a fixed offset in one arena; a step allocates nothing.
 *
 * All offsets are bytes from the arena's start. Ranks that differ only in coordinates share a plan;
 * with pipeline parallelism, each stage has its own plan. The ranks of a channel follow from the
 * mesh (plan_group). A *shift* is what a coordinate changes in an address: a base or a buffer is
 * `stride` bytes further for each step along a mesh axis.
 *
 * Planning is a sequence of passes over one plan, which build.c lists; a job that samples or
 * evaluates skips those of training and runs its own instead. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "graph/graph.h"
#include "resolve/spec.h"
#include "schedule/schedule.h"

#define BASE_ABSOLUTE 0u /* the arena's start */
#define BASE_PARAM 1u    /* the compute parameters of the call's block */
#define BASE_GRAD 2u     /* its gradients */
#define BASE_SAVED 3u    /* saved by its forward for its backward, of this micro-batch */
#define BASE_FRAME 4u    /* temporaries of this call */
#define BASE_FIRST 5u    /* first of the live-ins and live-outs, one base each */
#define MAX_BASES 40u

typedef struct plan_ref {
    uint32_t base, absent; /* absent: no address; only the shape is used, or the value is unused */
    uint64_t offset;
} plan_ref;

/* An op with its shapes, prepared once by the device; instructions of equal spec share it. */
typedef struct plan_kernel {
    weft_opspec spec;   /* arrays owned by the plan's pool */
    uint64_t workspace; /* upper bound in bytes, declared by the device */
    double flops;
    const weft_kernel *own;        /* a plugin's kernel; NULL: the device's */
    const char *from;              /* its name, or NULL */
    void *module;                  /* the plugin's */
    const weft_conf *conf;         /* likewise */
    uint64_t first[WEFT_MAX_MESH]; /* added to the attribute "first" per coordinate */
} plan_kernel;

typedef struct plan_instr {
    uint32_t kernel;
    uint32_t first_ref; /* index into plan.refs, nin + nout of them */
    uint32_t nin, nout;
} plan_instr;

typedef struct plan_segment {
    const char *name;
    uint32_t first, n; /* range of plan.instrs */
    uint32_t nbases;
    double flops;
} plan_segment;

#define ENTRY_CALL 1u
#define ENTRY_START 2u
#define ENTRY_WAIT 3u
#define ENTRY_WRITE 4u

typedef struct plan_entry {
    uint32_t kind;
    uint32_t what;       /* index of the segment, collective, collective, piece */
    uint32_t first_base; /* CALL: index into plan.bases, segment.nbases of them */
    uint32_t micro_batch;
    const char *name;  /* "forward block.3", "all-reduce grads 0-7087872" */
    uint32_t interval; /* 1 + index of the update interval whose steps run it; 0: all do */
    uint64_t live;     /* bytes of the arena that hold something then: regions, activations and
                          scratch, without the workspace and residuals */
} plan_entry;

/* The steps that update a class of parameters (edits.update_every): from + every, from + 2 every,
 * and so on, counted from 1. The other steps leave out their sums, norm and updates. `mean`: they
 * add their gradients up, and the update gets the mean. */
typedef struct plan_interval {
    uint64_t from;
    uint32_t every;
    bool mean;
    const char *owner;       /* the plugin that asks for it */
    uint32_t params;         /* of this stage */
    uint64_t elements;       /* of these, on a rank */
    const char *count, *low; /* scalars: updates, as "count" and "count.low" of all others */
} plan_interval;

/* What a stage has of a parameter group; elements of a rank. */
typedef struct plan_group_size {
    uint32_t params;
    uint64_t elements;
} plan_group_size;

typedef struct plan_list {
    const char *name; /* "step", "eval", "save"; where text is sampled with caches, "prompt" is
                         plan.step and "decode" plan.eval */
    VEC(plan_entry) entries;
    uint32_t tail;     /* first entry after the micro-batches: norm, scalars, updates; 0: none */
    uint32_t interval; /* of the entries that are added next */
} plan_list;

/* A list that runs after every `every`-th step. */
typedef struct plan_periodic_list {
    plan_list l;
    uint32_t every;
} plan_periodic_list;

/* An ordered set of ranks that communicate: for each rank, those that share all its coordinates but
 * the one on `mesh_axis`; with `ncoords` only those that have one of `coords` there (ascending).
 * All plans of a job have the same channels, in the same order. */
typedef struct plan_channel {
    const char *name; /* "dp.grads" */
    uint32_t mesh_axis, ncoords;
    const uint32_t *coords;     /* NULL: every coordinate */
    const char *algorithm;      /* a name, or rules: sched_rule() */
    uint32_t link;              /* index into spec.links */
    const sched_layout *layout; /* of each of its groups; NULL: one machine, or layouts differ */
} plan_channel;

typedef struct plan_collective {
    const char *name;
    uint32_t channel, kind, redop, dtype, root;
    uint64_t count;               /* elements, as weft/coll.h counts them */
    uint64_t in, out, scratch;    /* offsets */
    uint64_t in_shift, out_shift; /* added to in and out per coordinate on `shift_axis` */
    uint32_t shift_axis;
    uint64_t tag; /* identifies what is sent, equal at both ends: check.c */
    uint64_t scratch_bytes;
    uint64_t sent;     /* bytes the first rank of the group sends */
    uint64_t plain;    /* bytes it would send without compression */
    uint32_t compress; /* SCHED_PLAIN, ... */
    uint64_t residual; /* offset of the error-feedback residual; in host memory if scratch is */
    uint64_t residual_bytes;
    bool residual_used; /* the residual was used in this step already: the scalar "kept" no longer
                           scales it */
    const char *algorithm; /* chosen by the schedule */
} plan_collective;

/* Is it a send or a receive? Its two ends have separate requests. */
static inline bool plan_between_two(const plan_collective *c)
{
    return c->kind == WEFT_SEND || c->kind == WEFT_RECV;
}

/* A parameter or state as checkpoints and initialisation see it. It is divided in three ways, in
 * this order; plan_extent_of() combines them:
 *
 *   only    a mesh axis of which one coordinate has it: a pipeline stage
 *   split   mesh axes that split it into blocks; where several split the same tensor axis, the
 *           highest mesh axis splits first
 *   shard   the flattened block is at flat positions [pos, pos + n) of a group that is divided into
 *           slices of `slice` elements, one for each coordinate of a mesh axis
 *
 * A split gives each coordinate memory for ceil(size / n) rows; the last ones fill fewer or none.
 * Only tensor axis 0 may be split unevenly, so padding comes after the real elements; it stays
 * zero. `offset` and `copy` are the addresses of flat position 0 of the group, or of the first
 * element of the own slice, in a region that has only the own slice. */
typedef struct plan_piece {
    const char *name; /* "block.0.attn.qkv.w", "block.0.attn.qkv.w.m" */
    const char *param;
    const char *init;              /* NULL: zeros */
    weft_shape shape;              /* whole; fp32, or the type of a state */
    uint32_t only[WEFT_MAX_MESH];  /* [mesh axis] 1 + the coordinate that has it; 0: all have it */
    uint32_t split[WEFT_MAX_MESH]; /* [mesh axis] 1 + the tensor axis that it splits; 0: none */
    uint64_t replica_axes; /* bit a: coordinates of mesh axis a have replicas of their own value */
    bool sum;              /* the value is the sum of the replicas, whatever their number */
    uint32_t shard_axis;   /* 1 + the mesh axis of the slices; 0: not sharded */
    uint64_t pos, slice;   /* elements; pos 0 if the block is a group of its own */
    bool sliced, copy_sliced; /* the region has only the own slice: values; compute copy */
    uint64_t offset;          /* of the values: fp32, or the type of a state */
    uint64_t copy;            /* of the compute copy, or UINT64_MAX */
    uint32_t copy_dtype;
    uint32_t writer; /* which rank writes it: plan_writes(); or PLAN_WRITER_ELSEWHERE */
} plan_piece;
#define PLAN_WRITER_ELSEWHERE UINT32_MAX /* another stage's plan has its writer */

typedef struct plan_input_slot {
    const char *name;
    uint64_t offset, stride,
        elements;   /* of micro-batch 0; between them; per rank and micro-batch */
    uint64_t bytes; /* of these elements */
    uint32_t dtype; /* WEFT_F32 data in a 16-bit type is rounded when it is written */
    uint32_t rank;  /* 0: one number, the same on all ranks */
} plan_input_slot;

/* Whether checkpoints have a scalar, and what happens if it is missing. */
#define SCALAR_SAVED 1u     /* the checkpoint is not one of a job */
#define SCALAR_OPTIONAL 2u  /* it gets its initial value */
#define SCALAR_OF_PLUGIN 3u /* the same, and the log says so */

typedef struct plan_scalar_slot {
    const char *name;
    uint64_t offset;
    double value;   /* initial value */
    uint32_t saved; /* SCALAR_...; 0: not in checkpoints */
} plan_scalar_slot;

/* Keys or values of one attention, for all positions: this rank's [kv_heads, context, head_dim]. */
typedef struct plan_cache_slot {
    const char *name; /* "cache.0.k" */
    uint64_t offset, bytes;
} plan_cache_slot;

/* Bytes by purpose; they add up to `peak`, the size of the arena. `activations` has inputs,
 * scalars, workspace and gathered parameters as well (plan_regions_finish()). */
typedef struct plan_bytes {
    uint64_t params, grads, state, activations, comm, peak;
    uint64_t host; /* host memory beside the arena: staging, where no link reaches the device */
} plan_bytes;

/* plan.bases[base] is `stride` bytes further for each coordinate of the mesh axis. */
typedef struct plan_shift {
    uint32_t base, mesh_axis;
    uint64_t stride;
} plan_shift;

/* The forward or backward of a chunk for one micro-batch: the unit that a schedule orders. */
typedef struct plan_cell {
    uint32_t chunk, micro_batch;
    bool backward;
    double flops;
} plan_cell;

typedef struct plan {
    pool pool;
    const spec *spec;
    uint32_t stage; /* coordinate on the mesh axis of the stages; 0 without stages */
    const struct plan_zones *zones; /* while it is planned: what entries are live with */
    VEC(plan_shift) shifts;
    VEC(plan_kernel) kernels;
    VEC(plan_instr) instrs;
    VEC(plan_ref) refs;
    VEC(plan_segment) segments;
    VEC(uint64_t) bases;
    VEC(plan_channel) channels;
    VEC(plan_collective) collectives;
    VEC(plan_piece) pieces;
    VEC(plan_input_slot) inputs;
    VEC(plan_scalar_slot) scalars;
    VEC(plan_cache_slot) caches; /* counted in bytes.state */
    uint32_t chunk; /* rows of a prompt that the list "prompt" takes at once; 0: no caches */
    plan_list step, eval, save;
    VEC(plan_periodic_list) extra;
    VEC(plan_interval) intervals;
    VEC(plan_group_size) groups; /* of spec.groups */
    VEC(plan_cell) cells;        /* of the step, in order */
    plan_bytes bytes;
    uint64_t residual_bytes; /* error-feedback residuals: part of bytes.comm or bytes.host */
    uint64_t workspace;      /* offset of the workspace shared by all calls */
    uint64_t logits;         /* offset of the logits of a plan for sampling; with caches one row */
    uint64_t param_elements; /* of the model, without padding */
    double flops_step;       /* of one rank in a step: products and attention, no recomputation */
    const char *changes;     /* why results depend on the layout, one reason a line, or NULL */
    uint32_t dp_size, micro_batches; /* data-parallel ranks; micro-batches a step */
    uint64_t data_axes;              /* bit a: mesh axis a splits the batch */
    uint64_t cut_axes;               /* bit a: mesh axis a splits sequences */
    bool has_buckets;                /* [train] bucket_mb cuts sums of gradients */
    uint64_t digest;                 /* of this plan */
} plan;

/* Wall time of one pass of planning, over the plans of all stages. */
typedef struct plan_timing {
    const char *name;
    double seconds;
} plan_timing;

/* The plans of a job: one, or one a stage. */
typedef struct plan_set {
    const spec *spec;
    int32_t stage_axis; /* -1: the job has no stages */
    uint32_t n;
    plan *at;
    uint64_t digest;          /* equal on all ranks of a job */
    uint64_t peak;            /* of the rank with the most */
    VEC(plan_timing) timings; /* of the passes that ran, in order */
} plan_set;

/* A line "WHAT DIGEST" for each segment and list of the plan, then one for the rest: the first that
 * differs between two ranks says where their plans part. `stage` begins each line. [any] */
void plan_print_parts(const plan *p, const char *stage, FILE *to);

/* Plan the job. Pure: opens no device and communicates with no rank. `out` is initialised; free it
 * with plan_free() also after a failure. [plan] */
weft_status plan_build(const spec *s, plan_set *out);
void plan_free(plan_set *p);

/* Set p->digest from everything on which two ranks must agree. */
void plan_digest(plan *p);
const plan *plan_of(const plan_set *p, uint32_t rank);

/* The gradients of parameters with this update interval (0: none) are the sum of so many steps; 0:
 * of one. */
static inline uint32_t plan_interval_sums(const plan *p, uint32_t number)
{
    const plan_interval *x = number ? &p->intervals.at[number - 1] : NULL;
    return x && x->mean ? x->every : 0;
}

/* Does step number `step` run the entry? */
bool plan_runs(const plan *p, const plan_entry *e, uint64_t step);

/* Write the ranks of the channel that `rank` belongs to, in group order, into out[ranks of the
 * job]; returns how many, 0 if it is in none, and rank's own index in *me. */
uint32_t plan_group(const plan *p, uint32_t channel, uint32_t rank, uint32_t *out, uint32_t *me);

/* The schedule request of member `me` of the channel's group for a collective. */
void plan_request(const plan *p, const plan_collective *c, uint32_t me, sched_request *out);

/* The schedule of member `me`, by the algorithm that the plan chose (c->algorithm); nothing is
 * selected again. Not for transports with their own collectives. The caller frees it. [setup] */
weft_status plan_schedule(const plan *p, const plan_collective *c, uint32_t me,
                          sched_schedule **out);

/* Simulate the lists of all ranks on a machine without buffering: every list must reach its end,
 * with equal byte counts. The WEFT_USAGE error says which ranks hang where. [plan] */
weft_status plan_check(const plan_set *p);

uint64_t plan_scalar(const plan *p, const char *name); /* offset; UINT64_MAX: none */

/* The plan's bases with the shifts of `rank`; free() them. [plan] */
uint64_t *plan_bases(const plan *p, uint32_t rank);

/* What one rank has of a piece: elements [first, first + count) of a block of the whole tensor. */
typedef struct plan_extent {
    int64_t start[WEFT_MAX_AXES], size[WEFT_MAX_AXES]; /* the block, without padding */
    uint64_t first, count; /* of the block, flattened with the last axis fastest; 0: nothing */
    uint64_t offset, copy; /* of element `first`: value, compute copy; UINT64_MAX: not here */
} plan_extent;

#define PLAN_EXTENT_HELD 0u   /* whose values are in the arena */
#define PLAN_EXTENT_COPIED 1u /* whose compute copies are */
#define PLAN_EXTENT_OWNED 2u  /* whose values the rank updates and saves: its own slice */
void plan_extent_of(const plan *p, const plan_piece *x, uint32_t rank, uint32_t what,
                    plan_extent *out);

/* Whether `rank` writes its owned extent into checkpoints. Of the ranks that own the same extent
 * (they differ on mesh axes that do not divide the piece) exactly one does: the one with the
 * coordinates of x->writer on those axes. Of replicas that differ each is written. */
bool plan_writes(const plan *p, const plan_piece *x, uint32_t rank);

/* Where gradients are never summed over a mesh axis, its coordinates train separate replicas, which
 * are numbered: how many a piece has, and the number of the rank's. 1 and 0 where ranks agree. */
uint32_t plan_replicas(const plan *p, const plan_piece *x);
uint32_t plan_replica(const plan *p, const plan_piece *x, uint32_t rank);

/* Bytes that `rank` writes into a checkpoint, which are also those of the copy that
 * checkpoint.async makes in host memory; each tensor there begins at a cache line, so it takes
 * plan_saved_capacity() bytes. */
uint64_t plan_saved_bytes(const plan *p, uint32_t rank);
static inline uint64_t plan_saved_capacity(uint64_t bytes)
{
    return (bytes + 63) & ~(uint64_t)63;
}

/* Choose the writers of all pieces, balanced by bytes; the same on every rank. */
void plan_choose_writers(plan *p);

/* Which of the `dp_size` parts of a micro-batch `rank` has, and which part of its tokens, where
 * mesh axes split sequences. */
uint32_t plan_data_part(const plan *p, uint32_t rank);
uint32_t plan_token_part(const plan *p, uint32_t rank);

#endif
