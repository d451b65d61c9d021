/* plan/build.h: what the files of plan/ share while a plan is built; nobody else includes it. */
#ifndef PLAN_BUILD_H
#define PLAN_BUILD_H

#include "plan/plan.h"

struct stage_map;

/* --- layout.c: parameters, gradients and state in flat ranges of elements ---
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
#define FLAT_STATE WEFT_SHARD_STATE
#define FLAT_GRADS WEFT_SHARD_GRADS
#define FLAT_PARAMS WEFT_SHARD_PARAMS
#define FLAT_LEVELS 4u /* 0: nothing is cut */

typedef struct flat_param {
    const char *name;
    uint32_t block, flags; /* block: of `blocks` below */
    uint32_t group;        /* where the block is cut */
    bool guest;            /* another stage counts it in the norm and saves it */
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
    bool guest;
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

void flat_list(const graph *g, const struct stage_map *stages, pool *texts, flat *out);
weft_status flat_place(flat *f, uint64_t most); /* a group with several parameters: at most so many
                                                   elements */

/* Index of an element of a block that is not cut in a region that is cut from `level` on. */
uint64_t flat_index(const flat *f, uint64_t element, uint32_t level);

/* The own slice of a group in a region that is cut from `level` on: where coordinate 0 has it, and
 * how much further on each next one. */
typedef struct flat_place_in {
    uint64_t at, shift;
} flat_place_in;
flat_place_in flat_own(const flat *f, uint32_t group, uint32_t level, uint64_t region,
                       uint64_t size);
const flat_param *flat_find(const flat *f, const char *name);
int flat_block_of(const flat *f, const char *name); /* -1: none */

typedef struct group_edit { /* a channel over some coordinates of an axis, by name */
    const char *name;
    uint32_t mesh_axis, n;
    const uint32_t *coords;
} group_edit;

typedef VEC(group_edit) group_list;

#define FIRST_GROUP 32u /* where a mesh axis is asked for, FIRST_GROUP + i is group i */

/* --- space.c: offsets --- */
typedef struct hole {
    uint64_t at, bytes;
} hole;
typedef struct space { /* best fit over a growing range, for buffers taken and given back in order
                        */
    VEC(hole) holes;
    uint64_t top; /* highest byte ever used */
} space;
uint64_t space_take(space *s, uint64_t bytes);
void space_give(space *s, uint64_t at, uint64_t bytes);

typedef struct lifetime {
    uint64_t bytes, offset;
    uint32_t from, to; /* first and last moment, both included */
} lifetime;
uint64_t lifetimes_place(lifetime *l, uint32_t n); /* sets offsets; returns the bytes they need */

/* --- lower.c: one block in one pass --- */
typedef struct item { /* a segment, or communication between two of them */
    bool comm;
    uint32_t segment;
    const char *name;
    uint32_t kind, mesh_axis, redop, dtype, root;
    uint64_t count;
    ref in, out;
} item;

typedef struct crossing { /* what base BASE_FIRST + k stands for */
    weft_tensor tensor;   /* 0: parameters or gradients of another flat block */
    uint32_t flat_block, grad;
} crossing;

typedef struct routine {
    VEC(item) items;
    crossing cross[MAX_BASES];
    uint32_t ncross;
    bool params, grads; /* touches those of its own block */
    uint64_t frame;
} routine;

typedef struct sync_state sync_state;
typedef struct update_state update_state;
struct each_state;

typedef struct builder {
    plan *p;
    sync_state *sync;
    update_state *update;
    struct each_state *each;           /* rules of a unit larger than an element */
    struct rule_scalars *rule_scalars; /* what the rule assigns to scalars; NULL: no graph yet */
    const struct stage_map *stages;
    const group_list *groups;
    uint64_t *param_at, *grad_at; /* [flat block] arena offset that its bases stand for */
    uint64_t loss_axes;           /* mesh axes over which the loss is partial */
    weft_tensor keep;             /* still there when the list has ended; 0: none */
    graph *g;
    flat *f;
    VEC(uint64_t) saved;     /* [block] bytes of its saved slot */
    uint64_t *saved_at;      /* [tensor] offset in its block's slot, UINT64_MAX: not saved */
    weft_tensor *root;       /* [tensor] the tensor whose place it shares */
    uint64_t *scalar_at;     /* [tensor] arena offset of a scalar, UINT64_MAX */
    space activations, comm; /* transient zones, relative to their start */
    space host;              /* the same in host memory, of collectives that go through it */
    uint64_t kept[2];        /* bytes that compressed sums keep, in the arena and in host memory */
    uint64_t zone;           /* where the zone of activations starts */
    bool *first_sum;         /* [node] writes a sum for the first time in a pass */
    uint32_t *reads;         /* [tensor] how often its elements are an operand of a node */
    VEC(uint32_t) gathers;   /* of updated parameters, in flight */
} builder;

/* Places shared by outputs that may lie over inputs; what each block keeps. Once a graph. */
weft_status lower_prepare(builder *b);
void lower_finish(builder *b);
weft_tensor root_of(const builder *b, weft_tensor t); /* whose place it shares */

/* The instructions of `block` in the phases of `phases` (bits 1 << PHASE_...). `first`: sums are
 * written, not added to. Equal segments are shared. */
weft_status lower_block(builder *b, uint32_t block, uint32_t phases, bool first, const char *name,
                        routine *out);

weft_operand lower_operand(const graph *g, weft_tensor t);

/* --- join.c: what becomes one instruction: a node, or several that the device does as one --- */
#define JOIN_MOST 4u
#define JOIN_ATTRS 16u
typedef struct unit {
    uint32_t n, node[JOIN_MOST]; /* of the graph, in order */
    const char *id;              /* the joined op; NULL: the one node's own */
    uint32_t nin, nout;          /* of the joined op ... */
    weft_tensor in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS]; /* ... out 0: nobody reads it */
} unit;
typedef VEC(unit) unit_list;

/* `nodes` of one block, in order; the units in the order in which they are to be done. */
weft_status join_nodes(const builder *b, const uint32_t *nodes, uint32_t n, bool first,
                       unit_list *out);
bool node_adds(const builder *b, uint32_t at, bool first); /* are its outputs added to? */
bool node_shape_only(const node *n, uint32_t k); /* of input k it reads the shape and no number */

/* The call of a joined op; false: it has more attributes than a call takes, or one twice. */
typedef struct unit_call {
    weft_operand io[2 * WEFT_MAX_OPERANDS];
    weft_attr attrs[JOIN_ATTRS];
    weft_opspec op; /* into the above */
} unit_call;
bool unit_spec(const builder *b, const unit *u, bool adds, unit_call *out);

/* One kernel with its need, shared when equal; one instruction. */
weft_status plan_kernel(plan *p, const weft_opspec *spec, double flops,
                        const uint64_t first[WEFT_MAX_MESH], uint32_t *out);
uint32_t segment_begin(plan *p, const char *name);
weft_status segment_add(plan *p, uint32_t seg, const weft_opspec *spec, double flops,
                        const ref *refs);
/* ... whose attribute "first" a coordinate of mesh axis a raises by first[a]. */
weft_status segment_add_at(plan *p, uint32_t seg, const weft_opspec *spec, double flops,
                           const ref *refs, const uint64_t first[WEFT_MAX_MESH]);
uint32_t segment_end(plan *p, uint32_t seg, uint32_t nbases); /* the equal one, if there is one */

/* --- edits.c: what strategies and placements asked for --- */
typedef struct stage_order {
    uint32_t n;
    const weft_work *work; /* NULL: forward and backward of each micro-batch in turn */
} stage_order;

struct stage_map {
    int32_t axis;            /* mesh axis of the stages; -1: none */
    uint32_t mine;           /* the stage that is being planned */
    uint32_t chunks;         /* of each stage */
    uint32_t *stage, *chunk; /* [block] */
    uint32_t blocks;
    stage_order *orders; /* [stage] */
    const char *owner;
};

typedef struct sync_edit {
    const char *glob, *owner;
    uint32_t mesh_axis, when; /* or FIRST_GROUP + the group */
    uint64_t bucket_bytes;
    bool overrides; /* a placement's: of what a strategy said for the axis */
} sync_edit;

typedef struct store_edit {
    const char *glob, *owner;
    uint32_t what, mesh_axis, ahead;
} store_edit;

typedef struct list_edit {
    const char *name;
    uint32_t every, n;
    node *nodes;
} list_edit;

typedef struct edit_state {
    graph *g;
    const spec *s;
    pool *pool;
    const char *owner; /* plugin that is emitting */
    uint32_t phase;
    uint64_t passes;
    VEC(sync_edit) syncs;
    VEC(store_edit) stores;
    VEC(list_edit) lists;
    bool placing;       /* it is the placement that emits */
    uint32_t edits;     /* that the plugin has emitted in this call */
    weft_status failed; /* of an edit in this call, and why */
    const char *why;
    group_list groups;
    struct stage_map stages;
    char *changes;
} edit_state;

weft_status edits_run(edit_state *e, uint32_t phase);

/* --- edit_arguments.c: what plugins hand to edits, checked before it is used --- */
#define EDITS_MOST 16384u              /* edits of one call of edit() */
#define EDITS_MOST_GLOB 4096u          /* bytes of a name with signs */
#define EDITS_MOST_LINE 1024u          /* bytes of a line for the user ... */
#define EDITS_MOST_TEXT 16384u         /* ... and of all lines */
weft_edits edits_table(edit_state *e); /* checks, then calls what follows */
void edits_begin(edit_state *e);       /* before a plugin's edit() ... */
/* ... and after: what it returned. An edit that failed fails, whatever the plugin returns. */
weft_status edits_answer(edit_state *e, weft_status s);
/* `what` is NULL, or `e` is: a look that cannot be. */
weft_status edits_null(const edit_state *e, const char *call, const char *what);

weft_status e_split(void *ctx, const char *tensors, const char *axis, const char *mesh_name);
weft_status e_replace(void *ctx, uint32_t op, weft_emit emit, void *user);
weft_status e_sync(void *ctx, const char *params, const char *mesh_name, uint32_t when,
                   uint64_t bucket_bytes);
weft_status e_store(void *ctx, uint32_t what, const char *params, const char *axis, uint32_t ahead);
weft_status e_keep(void *ctx, const char *tensors, uint32_t how, const char *axis);
weft_status e_carry(void *ctx, const char *params, uint32_t versions);
weft_status e_changes(void *ctx, const char *text);
weft_status edits_in_phase(const edit_state *e, uint32_t phase, const char *edit);
weft_status edits_axis(const edit_state *e, const char *name, uint32_t *out);
void edits_tell(edit_state *e,
                const char *line); /* what makes results depend on the layout; once */
bool edits_told(const edit_state *e, const char *owner); /* has the plugin told of something? */

/* --- extra.c: lists that plugins bring --- */
weft_status e_list(void *ctx, const char *name, uint32_t every, weft_emit emit, void *user);
weft_status extra_states(builder *b, const edit_state *e); /* which they keep; before regions */
weft_status build_extra(builder *b, const edit_state *e);

/* --- stages.c: which blocks live where, and in which order a stage works --- */
weft_status e_stage(void *ctx, const char *blocks, const char *axis, uint32_t stage,
                    uint32_t chunk);
weft_status e_order(void *ctx, const char *axis, uint32_t stage, const weft_work *work, uint32_t n);
weft_status e_group(void *ctx, const char *name, const char *axis, const uint32_t *coords,
                    uint32_t n);
weft_status stages_finish(edit_state *e); /* every block has a stage, every cell its order */
uint32_t stage_of(const struct stage_map *m, uint32_t block);
bool stage_here(const struct stage_map *m, uint32_t block);
bool stage_shared(const builder *b, uint32_t number); /* a flat block that several stages use */

/* --- lists.c: a list in the making --- */
typedef struct work {
    uint32_t block, pass;
    bool backward,
        first;     /* first: of this block in this direction; sums are written, not added to */
    uint32_t cell; /* works of one (chunk, pass, direction) belong together */
} work;

typedef struct walk {
    builder *b;
    list *l;
    uint32_t passes;
    bool train;
    routine *routines; /* [block][backward][first] */
    work *works;
    uint32_t nworks;
    uint32_t *last_use;   /* [tensor][pass] 1 + work */
    uint32_t *grads_done; /* [flat block] 1 + the last work that adds to its gradients */
    uint64_t *place;      /* [tensor][pass] 1 + offset in the zone */
    uint8_t *held;        /* [tensor][pass] sends that still read it: the last wait gives it back */
    uint64_t *slot;       /* [block][pass] offset of the saved slot in the zone */
    struct boundary *boundary;
    struct shard_walk *shard;
} walk;

routine *walk_routine(const walk *w, const work *x);
uint64_t walk_bytes(const walk *w, weft_tensor t);

/* --- boundary.c: what goes from stage to stage --- */
weft_status boundary_prepare(walk *w);
weft_status boundary_before(walk *w, uint32_t at); /* what work `at` needs is here */
weft_status boundary_after(walk *w, uint32_t at);  /* what it made is on its way */
weft_status boundary_finish(walk *w);
void boundary_free(walk *w);

entry *list_add(plan *p, list *l, uint32_t kind, uint32_t what, uint32_t pass, const char *name);
void list_call(plan *p, list *l, uint32_t seg, const uint64_t *bases, uint32_t nbases,
               uint32_t pass, const char *name);
/* Base `base` of the call that was added last lies `stride` further for each coordinate. */
void list_shift(plan *p, const list *l, uint32_t base, uint32_t mesh_axis, uint64_t stride);
weft_status build_passes(builder *b, list *l, bool train, uint32_t passes);

/* --- sync.c: gradients in buckets, summed while backward still computes --- */
typedef struct bucket {
    uint64_t first, end; /* elements */
    uint64_t axes;       /* mesh axes still to be summed over, bit a */
    uint32_t group;      /* 1 + the group that it is, of a block that is cut; 0: whole elements */
    uint32_t pending;    /* 1 + the collective in flight; 0: none */
    bool guest;          /* counted at another stage */
} bucket;

struct sync_state {
    VEC(bucket) buckets;
    uint64_t bucket_elements; /* at most */
    bucket open;              /* grows downwards until it is full */
};

/* Where the scratch of a channel's collectives is taken from and given back to. */
space *scratch_space(builder *b, uint32_t channel);

weft_status sync_prepare(builder *b, edit_state *e); /* who is summed over what */
weft_status sync_work_done(walk *w, uint32_t at);    /* sums what is final after work `at` */
weft_status sync_flush(builder *b, list *l);
weft_status sync_finish(builder *b, list *l, bucket *k);
weft_status sync_group(builder *b, list *l, uint32_t group,
                       uint64_t axes); /* a bucket of its own */
uint32_t grads_channel(const builder *b, uint32_t axis);
uint32_t plan_channel(plan *p, const char *what, uint32_t mesh_axis);
uint32_t plan_channel_size(const plan *p, uint32_t number);
uint32_t plan_channel_some(plan *p, const char *name, uint32_t mesh_axis, const uint32_t *coords,
                           uint32_t n);
/* A collective like `like`, whose scratch is taken from the communication zone. */
weft_status plan_collective(builder *b, const collective *like, uint32_t *out);
weft_status sync_scalar(builder *b, list *l, const char *scalar, uint64_t axes);

/* --- apart.c: gradients that are never summed over a mesh axis --- */
weft_status apart_check(const builder *b, edit_state *e); /* did somebody mean it? */
uint64_t apart_axes(const flat *f); /* over which this goes for all parameters */

/* --- compress.c: sums that travel in fewer bits --- */
/* The refusals, and a word of warning; after sync_prepare(). */
weft_status compress_prepare(const builder *b, edit_state *e);
void compress_sum(builder *b, collective *c, uint32_t axis,
                  bool again);                                    /* again: in this step already */
void compress_keep(builder *b, collective *c);                    /* memory for what it keeps */
weft_status compress_plain(const comm_request *r, collective *c); /* what it would send */
void compress_finish(plan *p, const builder *b); /* the memory goes behind all other */

/* --- store.c, shard.c: what is cut over a mesh axis --- */
weft_status store_prepare(builder *b, const edit_state *e); /* how far each block is cut */
weft_status shard_begin(walk *w);
weft_status shard_before(walk *w, uint32_t at); /* what work `at` reads and adds to is there */
weft_status shard_after(walk *w, uint32_t at);  /* what nobody needs now is given back */
weft_status shard_finish(walk *w);
void shard_free(walk *w);
bool shard_every_pass(const builder *b, weft_tensor grad);      /* written afresh in each pass */
weft_status shard_updated(builder *b, list *l, uint32_t group); /* its parameters are gathered */
weft_status shard_gathered(builder *b, list *l);

/* --- straight.c: a small graph, written straight into a list --- */
typedef struct straight_home { /* where a tensor is: on coordinate c of `axis` at + c * shift */
    uint64_t at, shift;
    uint32_t axis, dtype;
} straight_home;

typedef struct straight_job {
    const char *name;
    weft_tensor gate; /* 0: none */
    /* Where a parameter, gradient or state is; false for a temporary. */
    bool (*find)(void *ctx, weft_tensor t, straight_home *out);
    void *ctx;
} straight_job;

weft_status straight_lower(builder *b, list *l, graph *g, uint32_t first, uint32_t end,
                           const straight_job *what);

/* --- together.c: several of them, whose sums of single numbers go together --- */
typedef struct straight_work {
    graph *g;
    uint32_t first, end;
    straight_job job;
} straight_work;
/* As many from `w` on as can wait for each other without more memory than the passes took, and at
 * least one; *done says how many. */
weft_status straight_lower_some(builder *b, list *l, const straight_work *w, uint32_t n,
                                uint32_t *done);

/* --- norm.c, update.c, step.c: what follows the passes --- */
weft_status build_norm(builder *b, list *l); /* finishes the sums of gradients */
weft_status update_prepare(builder *b);      /* the rule's graphs and its states */
void update_finish(builder *b);

/* What update.c and update_each.c share: the rule's graph, and where its tensors are. */
#define RULE_SCALAR 0u
#define RULE_PARAM 1u
#define RULE_GRAD 2u
#define RULE_COPY 3u
#define RULE_STATE 4u /* + index into flat.states */
bool rule_by_element(const builder *b);
weft_status rule_graph(builder *b, graph *g, weft_tensor param, weft_tensor grad, weft_tensor copy,
                       uint32_t flags, weft_tensor *gate);
uint32_t rule_state(builder *b, const char *full); /* index of the state "p.SUFFIX" */
flat_place_in rule_region(const builder *b, uint32_t from, uint64_t first, uint32_t slice_of,
                          uint32_t *dtype); /* slice_of: 1 + the group; 0: whole */
weft_status each_prepare(builder *b);
weft_status each_updates(builder *b, list *l);
void each_finish(builder *b);
weft_status build_updates(builder *b, list *l);

/* --- rule_scalars.c: scalars that a rule assigns, once a step --- */

/* Take the assignments to scalars out of a graph of the rule; all graphs have to agree. */
weft_status rule_scalars_take(builder *b, graph *g, weft_tensor gate);
weft_status rule_scalars_assign(builder *b, list *l); /* behind all updates */
bool scalar_assigned(const graph *g, const node *n);
weft_status scalar_may_be_assigned(const graph *g, const node *n, const char *who);

weft_status build_end_of_step(builder *b, list *l); /* norm, scalars, updates */
weft_status build_save(builder *b);
weft_status clear_loss(builder *b, list *l); /* on stages that do not write it */
uint64_t loss_axes(const builder *b);
void plan_digest(plan *p);
uint64_t scalar_offset(builder *b, const char *name, double start);
void scalar_keep(builder *b, const char *name, uint32_t kept); /* SCALAR_... of plan.h */

#endif
