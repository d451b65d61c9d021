/* plan/plan.h: what a rank does in a step, before any rank exists.
 *
 * Two levels. *Segments* are straight-line instructions, written once for all blocks and passes
 * that are alike; an operand is a base number and an offset. *Lists* are what a rank walks: call a
 * segment with these bases, start a collective, wait for it, write a tensor. Every buffer has its
 * place in one arena, decided here; a step allocates nothing.
 *
 * All offsets are bytes from the arena's start. Ranks that differ only in coordinates share a plan;
 * where the blocks of the model are divided into stages, each stage has a plan of its own. Which
 * ranks a channel joins follows from the mesh (plan_group). What a coordinate changes in an address
 * is a *shift*: a base or a buffer that lies `stride` further for each step along a mesh axis.
 *
 * Planning is a sequence of passes over one plan (build.c); a job that only samples skips those of
 * training and has those of its logits instead. In order:
 *
 *   sharing         how many ranks share the data, from a first graph with the splits
 *   forward graph   the model of one micro-batch, split edits applied, placements propagated
 *   backward graph  gradients
 *   logits graph    the forward of one sequence (sampling)
 *   stage edits     which blocks are on which pipeline stage, in which order it works
 *   parameters      the parameters of this stage, block by block
 *   sync edits      sums of gradients, sharding, lists of plugins
 *   memory edits    activations that are kept or made again
 *   gradient sums   which gradient is summed over which mesh axes, and when
 *   compression     which of these sums travel in fewer bits
 *   shard levels    how far each block is sharded: state, gradients, parameters
 *   flat layout     element ranges of parameters and groups
 *   recomputation   nodes that backward makes again; gathers that are shared
 *   regions         inputs, compute copy and fp32 masters in the arena
 *   update rule     the graphs of the rule; the states that it has
 *   list states     the states that the lists of plugins have
 *   state regions   states and gradients in the arena
 *   liveness        which tensors share a place, are saved, or cross blocks
 *   micro-batches   forward and backward as a list, with sums, stages and gathers
 *   logits list     forward as a list (sampling)
 *   end of step     norm, scalars, updates, loss
 *   periodic lists  the lists of plugins
 *   save list       what each rank writes into a checkpoint
 *   eval graph      the forward of one micro-batch without gradients
 *   eval list       the same as a list
 *   memory          workspace, scratch and residuals; bytes by purpose
 *   channels        the same channels in the plans of all stages
 *   digest          the number that is equal on all ranks */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "graph/graph.h"
#include "resolve/spec.h"
#include "schedule/schedule.h"

#define BASE_ABSOLUTE 0u /* the arena's start */
#define BASE_PARAM 1u    /* the compute parameters of the call's block */
#define BASE_GRAD 2u     /* its gradients */
#define BASE_SAVED 3u    /* what its forward keeps for its backward, of this pass */
#define BASE_FRAME 4u    /* what lives inside this call alone */
#define BASE_FIRST 5u    /* from here on: tensors that cross calls, one base each */
#define MAX_BASES 40u

typedef struct ref {
    uint32_t base, absent; /* absent: only its shape is used, or nobody reads it: no address */
    uint64_t offset;
} ref;

/* An op with its shapes, prepared once by the device; instructions of equal spec share it. */
typedef struct kernel {
    weft_opspec spec;   /* arrays owned by the plan's pool */
    uint64_t workspace; /* bytes at most, as the device declared */
    double flops;
    const weft_kernel *own; /* of a plugin, for an op that the device has no kernel for; or NULL */
    void *module;           /* the plugin's */
    uint64_t first[WEFT_MAX_MESH]; /* what a coordinate adds to the attribute "first" */
} kernel;

typedef struct instr {
    uint32_t kernel;
    uint32_t first_ref; /* nin + nout of them in plan.refs */
    uint32_t nin, nout;
} instr;

typedef struct segment {
    const char *name;
    uint32_t first, n; /* in plan.instrs */
    uint32_t nbases;
    double flops;
} segment;

#define ENTRY_CALL 1u
#define ENTRY_START 2u
#define ENTRY_WAIT 3u
#define ENTRY_WRITE 4u

typedef struct entry {
    uint32_t kind;
    uint32_t what;       /* segment, collective, collective, piece */
    uint32_t first_base; /* CALL: segment.nbases of them in plan.bases */
    uint32_t pass;
    const char *name; /* "forward block.3", "all-reduce grads 0-7087872" */
} entry;

typedef struct list {
    const char *name; /* "step", "eval", "save" */
    VEC(entry) entries;
    uint32_t tail; /* the first entry behind the passes: norm, scalars, updates; 0: none */
} list;

/* One that runs after every `every`-th step. */
typedef struct periodic_list {
    list l;
    uint32_t every;
} periodic_list;

/* An ordered set of ranks that communicate: for each rank, those that share all its coordinates but
 * the one on `mesh_axis`; with `ncoords` only those that have one of `coords` there (ascending).
 * All plans of a job have the same channels, in the same order. */
typedef struct channel {
    const char *name; /* "dp.grads" */
    uint32_t mesh_axis, ncoords;
    const uint32_t *coords;     /* NULL: every coordinate */
    const char *algorithm;      /* a word, or rules: sched_rule() */
    uint32_t link;              /* index into spec.links */
    const sched_layout *layout; /* of each of its groups; NULL: one machine, or unlike ones */
} channel;

typedef struct collective {
    const char *name;
    uint32_t channel, kind, redop, dtype, root;
    uint64_t count;               /* elements, as weft/coll.h counts them */
    uint64_t in, out, scratch;    /* offsets */
    uint64_t in_shift, out_shift; /* what a coordinate on `shift_axis` adds to in and out */
    uint32_t shift_axis;
    uint64_t tag; /* of what is sent, to be the same at both ends: check.c */
    uint64_t scratch_bytes;
    uint64_t sent;     /* bytes the first rank of the group sends */
    uint64_t plain;    /* bytes it would send if nothing were compressed */
    uint32_t compress; /* SCHED_PLAIN, ... */
    uint64_t kept;     /* where: in host memory if its scratch is */
    uint64_t residual_bytes;
    bool again; /* in the same step: what is kept counts once, not by the scalar "kept" */
    const char *algorithm; /* that the schedule chose */
} collective;

/* Is it a send or a receive? Its two ends have a request each. */
static inline bool plan_between_two(const collective *c)
{
    return c->kind == WEFT_SEND || c->kind == WEFT_RECV;
}

/* A parameter or state as checkpoints and initialisation see it. Three things cut it, in this
 * order; plan_extent() puts them together:
 *
 *   only    a mesh axis of which one coordinate alone has it: a pipeline stage
 *   split   mesh axes that cut it into blocks; where several cut the same tensor axis the highest
 *           mesh axis cuts first
 *   shard   the block, flattened, lies at flat positions [pos, pos + n) of a group that is cut into
 *           slices of `slice` elements, one for each coordinate of a mesh axis
 *
 * A split gives each coordinate memory for ceil(size / n), of which the last ones fill fewer rows
 * or none. Tensor axis 0 alone may be split unevenly, so that padding lies behind the real
 * elements; it stays zero. `offset` and `copy` are where the flat position 0 of the group lies, or
 * the first one of the own slice, in a region that has the own slice alone. */
typedef struct piece {
    const char *name; /* "block.0.attn.qkv.w", "block.0.attn.qkv.w.m" */
    const char *param;
    const char *init;              /* NULL: zeros */
    weft_shape shape;              /* whole, fp32 */
    uint32_t only[WEFT_MAX_MESH];  /* [mesh axis] 1 + the coordinate that has it; 0: all have */
    uint32_t split[WEFT_MAX_MESH]; /* [mesh axis] 1 + the tensor axis that it cuts; 0: none */
    uint64_t apart;      /* bit a: coordinates of mesh axis a have values of their own: replicas */
    uint32_t shard_axis; /* 1 + the mesh axis of the slices; 0: not cut into slices */
    uint64_t pos, slice; /* elements; pos 0 where the block is a group of its own */
    bool sliced, copy_sliced; /* the region has the own slice alone: values; compute copy */
    uint64_t offset;          /* of the fp32 values */
    uint64_t copy;            /* of the compute copy, or UINT64_MAX */
    uint32_t copy_dtype;
    uint32_t writer; /* which of the replicas writes it: plan_writes(); or PLAN_WRITER_ELSEWHERE */
} piece;
#define PLAN_WRITER_ELSEWHERE UINT32_MAX /* the plan of other ranks has it written */

typedef struct input_slot {
    const char *name;
    uint64_t offset, stride, elements; /* of pass 0; between passes; of one rank's micro-batch */
} input_slot;

/* Whether checkpoints have a scalar, and what its absence in one means. */
#define SCALAR_SAVED 1u     /* the checkpoint is not one of a job */
#define SCALAR_OPTIONAL 2u  /* it begins with its value at the start */
#define SCALAR_OF_PLUGIN 3u /* the same, and the log says so */

typedef struct scalar_slot {
    const char *name;
    uint64_t offset;
    double value;  /* at the start */
    uint32_t kept; /* SCALAR_...; 0: it is in no checkpoint */
} scalar_slot;

/* Bytes by purpose; they add up to `peak`, the size of the arena. */
typedef struct plan_bytes {
    uint64_t params, grads, state, activations, comm, peak;
    uint64_t host; /* beside the arena: what is sent from a device that no link reaches */
} plan_bytes;

/* plan.bases[base] lies `stride` further for each coordinate of the mesh axis. */
typedef struct shift {
    uint32_t base, mesh_axis;
    uint64_t stride;
} shift;

/* A chunk's pass over a micro-batch: what a schedule orders. */
typedef struct plan_cell {
    uint32_t chunk, pass;
    bool backward;
    double flops;
} plan_cell;

typedef struct plan {
    pool pool;
    const spec *spec;
    uint32_t stage; /* coordinate on the mesh axis of the stages; 0 without stages */
    VEC(shift) shifts;
    VEC(kernel) kernels;
    VEC(instr) instrs;
    VEC(ref) refs;
    VEC(segment) segments;
    VEC(uint64_t) bases;
    VEC(channel) channels;
    VEC(collective) collectives;
    VEC(piece) pieces;
    VEC(input_slot) inputs;
    VEC(scalar_slot) scalars;
    list step, eval, save;
    VEC(periodic_list) extra;
    VEC(plan_cell) cells; /* of the step, in order */
    plan_bytes bytes;
    uint64_t kept;            /* of bytes.comm, or .host: what compressed sums keep */
    uint64_t workspace;       /* offset of the workspace shared by all calls */
    uint64_t logits;          /* offset of the logits of a forward-only plan */
    uint64_t param_elements;  /* of the model, without padding */
    double flops_step;        /* of one rank in a step: products and attention, no recomputation */
    const char *changes;      /* what makes results depend on the layout, one line each, or NULL */
    uint32_t sharing, passes; /* ranks that share the data; micro-batches a step */
    uint64_t data_axes;       /* bit a: the batch is split over mesh axis a */
    uint64_t cut_axes;        /* bit a: its sequences are */
    uint64_t digest;          /* of this plan */
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

/* Plan the job. Pure: no device is opened, no rank asked. `out` is initialised; free it with
 * plan_free() also after a failure. [plan] */
weft_status plan_build(const spec *s, plan_set *out);
void plan_free(plan_set *p);

/* Set p->digest from everything that two ranks must agree on. */
void plan_digest(plan *p);
const plan *plan_of(const plan_set *p, uint32_t rank);

/* Ranks of the channel that `rank` belongs to, in group order, into out[ranks of the job]; returns
 * how many, 0 when it is in none, and rank's own place in *me. */
uint32_t plan_group(const plan *p, uint32_t channel, uint32_t rank, uint32_t *out, uint32_t *me);

/* The request that member `me` of the channel's group makes of comm/ for a collective. */
void plan_request(const plan *p, const collective *c, uint32_t me, sched_request *out);

/* The schedule of member `me`, by the algorithm that the plan chose (c->algorithm); nothing is
 * selected again. Not for transports that bring their own collectives. The caller frees it. [setup]
 */
weft_status plan_schedule(const plan *p, const collective *c, uint32_t me, sched_schedule **out);

/* Run the lists of all ranks against each other on a machine that buffers nothing: every list must
 * reach its end with equal bytes. WEFT_USAGE says which ranks stand where. [plan] */
weft_status plan_check(const plan_set *p);

uint64_t plan_scalar(const plan *p, const char *name); /* offset; UINT64_MAX: none */

/* The plan's bases, moved by the coordinates of `rank`; free() them. [plan] */
uint64_t *plan_bases(const plan *p, uint32_t rank);

/* What one rank has of a piece: elements [first, first + count) of a block of the whole tensor. */
typedef struct extent {
    int64_t start[WEFT_MAX_AXES], size[WEFT_MAX_AXES]; /* the block, without padding */
    uint64_t first, count; /* of the block, flattened with the last axis fastest; 0: nothing */
    uint64_t offset, copy; /* of element `first`: fp32 value, compute copy; UINT64_MAX: not here */
} extent;

#define PLAN_EXTENT_HELD 0u   /* whose fp32 values are in the arena */
#define PLAN_EXTENT_COPIED 1u /* whose compute copies are */
#define PLAN_EXTENT_OWNED 2u  /* whose fp32 values the rank answers for: its own slice */
void plan_extent(const plan *p, const piece *x, uint32_t rank, uint32_t what, extent *out);

/* Whether `rank` writes its owned extent into checkpoints: of the ranks that own the same one,
 * those that differ on mesh axes which do not cut the piece, exactly one does, which has the
 * coordinates of x->writer there. Of replicas that differ each is written. */
bool plan_writes(const plan *p, const piece *x, uint32_t rank);

/* Where gradients are never summed over a mesh axis, its coordinates train replicas of their own,
 * which are numbered: how many a piece has, and which is the rank's. 1 and 0 where ranks agree. */
uint32_t plan_replicas(const plan *p, const piece *x);
uint32_t plan_replica(const plan *p, const piece *x, uint32_t rank);

/* Choose the writers of all pieces, evenly by bytes; the same on every rank. */
void plan_choose_writers(plan *p);

/* Which of the `sharing` parts of a micro-batch is `rank`'s, and which part of the tokens of that,
 * where mesh axes cut sequences. */
uint32_t plan_data_part(const plan *p, uint32_t rank);
uint32_t plan_token_part(const plan *p, uint32_t rank);

/* Bytes that a rank sends in a list by collectives of one kind (weft/coll.h), and its name. */
uint64_t plan_list_sent(const plan *p, const list *l, uint32_t kind);
const char *plan_kind_name(uint32_t kind);  /* for programs: "all_reduce" */
const char *plan_kind_title(uint32_t kind); /* for people: "all-reduce" */

/* The same in the list of the step, without those that plugins bring. */
uint64_t plan_sent(const plan *p, uint32_t kind);
uint64_t plan_plain(const plan *p, uint32_t kind); /* if nothing were compressed */

/* Bytes of all kinds that a rank sends in steps first ... last, counted from 1, with the lists that
 * plugins bring in those steps behind which they run. */
uint64_t plan_sent_in(const plan *p, uint64_t first, uint64_t last);

/* The idle share of the step's schedule when communication takes no time: of equal stages (forward
 * 1, backward 2), or with the plan's operations. plan_live: the most cells that a stage has gone
 * forward and not yet backward through. */
double plan_bubble(const plan_set *p, bool equal);
uint32_t plan_live(const plan *p);

/* --- output --- */
void plan_print_schedule(const plan_set *p, FILE *to);
void plan_print(const plan_set *p, FILE *to);

/* The passes of planning, in order, and the wall time of each. JSON: {"digest": TEXT, "passes":
 * [{"name": TEXT, "seconds": NUMBER}, ...]}. */
void plan_print_passes(const plan_set *p, FILE *to);
weft_status plan_print_passes_json(const plan_set *p, FILE *to);

weft_status plan_print_json(const plan_set *p, FILE *to);
void plan_print_list(const plan *p, uint32_t rank, FILE *to);
weft_status plan_print_list_json(const plan *p, uint32_t rank, FILE *to);

#endif
