/* resolve/spec.h: a resolved job: checked numbers, opened plugins, mesh sizes, transports.
 *
 * A spec is the only input of the plan. It has everything that determines a plan, so that planning
 * reads no INI, communicates with no rank and opens no plugin. resolve.h fills it in. Text is
 * borrowed from the config and the host, which must outlive it. */
#ifndef RESOLVE_SPEC_H
#define RESOLVE_SPEC_H

#include "config/constraints.h"
#include "graph/graph.h"
#include "host/host.h"
#include "schedule/schedule.h"

#include <weft/device.h>
#include <weft/link.h>
#include <weft/model.h>
#include <weft/optim.h>
#include <weft/strategy.h>

#define SPEC_TRAIN 0
#define SPEC_FORWARD 1  /* logits of one whole sequence */
#define SPEC_GENERATE 2 /* logits of the next rows of a sequence, with caches: sampling */
#define SPEC_EVAL 3     /* the loss, without gradients and states */

#define SPEC_SINKS 8u /* the most of a job */

typedef struct spec_plugin {
    const host_component *c;
    const weft_conf *conf;
} spec_plugin;

/* The transport of a mesh axis. With `intra` there are two: `intra` intra-node, this one
 * inter-node. */
typedef struct spec_link {
    const host_component *c;
    const weft_conf *conf;
    spec_plugin intra; /* .c NULL: none */
    bool staged;       /* on some rank it cannot access device memory: data is staged */
    bool checked;      /* messages have checksums; then no peer's memory is mapped */
} spec_link;

/* Host map: which ranks share a machine. The arrays are borrowed. */
typedef struct spec_host_map {
    uint32_t machines;
    const uint32_t *machine; /* [ranks] from 0; NULL: all ranks are on one machine */
    const uint32_t
        *distance;      /* [ranks] NUMA distance of a rank's cores to the network; 0: unknown */
    uint32_t cpu_ranks; /* ranks that share this rank's CPU affinity; 0: unknown */
    uint32_t cpu_rank;  /* this rank's number among them */
} spec_host_map;

#define SPEC_CONSTANT 0u
#define SPEC_LINEAR 1u
#define SPEC_COSINE 2u

/* Learning-rate schedule: linear warm-up to `lr`, then decay to `min_lr` at the last step. */
typedef struct spec_schedule {
    uint32_t kind; /* SPEC_CONSTANT, ... */
    double lr, min_lr;
    double warmup, steps; /* steps of the warm-up; of the run */
} spec_schedule;

#define SPEC_GROUPS 16u /* the most of a job */

/* A parameter group, [optim.NAME]: what the update of the parameters that match is built with. */
typedef struct spec_group {
    const char *name, *params; /* names with wildcards */
    const char *where;         /* place of the key params, for messages */
    const weft_conf *conf;     /* the options of the rule */
    double rate, share;        /* peak learning rate; as a multiple of that of [optim] */
} spec_group;

/* A key and its place in the INI, as printed in messages: "job.ini:12: train.batch". */
typedef struct spec_origin {
    const char *key, *text;
} spec_origin;

typedef struct spec {
    host *host; /* borrowed */
    int want;   /* SPEC_... */
    uint32_t ranks;
    graph_mesh mesh;
    const char *size_key[WEFT_MAX_MESH]; /* "parallel.dp": INI key of a mesh axis' size */
    uint64_t sequence_axes;              /* bit a: mesh axis a splits sequences, not the batch */
    uint64_t batch_axes;                 /* bit a: mesh axis a splits the batch */
    uint64_t undeclared_axes; /* bit a: the strategy does not say what ranks share along it */
    spec_plugin device, rule, placement; /* placement.c NULL: none */
    spec_plugin strategies[WEFT_MAX_MESH];
    uint32_t nstrategies;
    const char *kernel_set; /* of the device, on all ranks; NULL: the device's own choice */
    const host_component *sinks[SPEC_SINKS]; /* of log.sinks; not open */
    uint32_t nsinks;
    spec_host_map hosts;
    spec_link links[WEFT_MAX_MESH]; /* one per distinct transport or pair of transports */
    uint32_t nlinks;
    uint32_t axis_link[WEFT_MAX_MESH]; /* transport of a mesh axis */
    const char *axis_algorithm[WEFT_MAX_MESH];
    const char *algorithm_place[WEFT_MAX_MESH]; /* the key that sets it, and where */
    uint32_t axis_compress[WEFT_MAX_MESH];      /* SCHED_PLAIN, ...: for gradient sums */
    const char *compress_key[WEFT_MAX_MESH];    /* the key that sets it */
    const char *compress;                       /* value of comm.compress */
    bool feedback;                              /* compression has error feedback */
    const sched_cost *axis_cost[WEFT_MAX_MESH]; /* measured; NULL: not measured */
    uint64_t peer_imported;        /* bit a: devices along mesh axis a import each other's arenas */
    const char *comm_choice;       /* what auto chose, for the log; NULL: nothing to choose */
    const char *comm_why;          /* why it did not choose the others; NULL: there are none */
    spec_plugin source, tokenizer; /* the tokenizer is opened only where text is read */
    spec_plugin family;
    weft_model_info model;    /* what the family says of itself */
    int64_t sequence;         /* rows of a sample */
    const weft_field *fields; /* [nfields] of the data; NULL: planning without data */
    uint32_t nfields;
    uint64_t batch, micro_batch;
    uint64_t seed; /* run.seed */
    uint32_t compute, grad_dtype;
    const char *precision; /* name of `compute` in the INI */
    double clip;
    spec_schedule schedule;
    spec_group groups[SPEC_GROUPS];
    uint32_t ngroups;
    bool scaled;          /* dynamic loss scaling */
    bool deterministic;   /* kernels must be bitwise reproducible */
    double loss_scale;    /* initial; 1 without scaling */
    int64_t scale_window; /* good steps after which it doubles; 0: never */
    uint64_t bucket_bytes;
    const char *recompute; /* names of activations that backward recomputes; NULL: none */
    spec_origin *origins;  /* keys that errors of the plan may name */
    uint32_t norigins;
    pool pool; /* owns the arrays above */
} spec;

/* WEFT_USAGE with the message of a constraint, after the place of `key`. For errors that only the
 * plan can detect; `key` is train.batch, optim.placement or one of s->compress_key. [plan] */
weft_status resolve_refuse(const spec *s, config_constraint rule, const char *key,
                           const config_fact *facts);

/* Note what ranks share along the next mesh axis of the spec. [setup] */
void resolve_axis_flags(spec *s, const weft_mesh_axis *axis);

#endif
