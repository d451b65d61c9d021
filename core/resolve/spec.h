/* resolve/spec.h: the job, resolved: numbers checked against each other, plugins found, mesh laid
 * out.
 *
 * From here on nobody reads the INI for anything that shapes the plan. */
#ifndef RESOLVE_SPEC_H
#define RESOLVE_SPEC_H

#include "comm/comm.h"
#include "config/config.h"
#include "graph/graph.h"
#include "graph/model/model.h"
#include "host/host.h"
#include "job/site.h"

#include <stdio.h>
#include <weft/device.h>
#include <weft/link.h>
#include <weft/optim.h>
#include <weft/strategy.h>

#define SPEC_TRAIN 0
#define SPEC_FORWARD 1 /* logits of one sequence: sampling */

typedef struct spec_plugin {
    const component *c;
    const weft_conf *conf;
} spec_plugin;

/* The transport of a channel; with `near`, it is that between machines, and near that inside. */
typedef struct spec_link {
    const component *c;
    const weft_conf *conf;
    spec_plugin near; /* .c NULL: none */
    bool staged;      /* on some rank it cannot reach the device's memory, as others of it can */
} spec_link;

/* What the ranks of a job know of each other before they plan. Borrowed. */
typedef struct spec_meeting {
    const job_sites *sites;  /* NULL: all on one machine */
    job *job;                /* NULL: nobody is asked */
    const job_identity *who; /* of this rank; NULL: nothing is known of devices */
    bool on_paper;           /* nothing will run here: what this machine lacks may be planned for */
} spec_meeting;

typedef struct spec {
    config *cfg; /* borrowed */
    host *host;  /* borrowed */
    int want;    /* SPEC_... */
    uint32_t ranks;
    mesh mesh;
    const char *size_key[WEFT_MAX_MESH]; /* "parallel.dp": INI key of a mesh axis' size */
    uint64_t sequence_axes;              /* bit a: mesh axis a cuts sequences, not the batch */
    spec_plugin device, rule, placement; /* placement.c NULL: none */
    spec_plugin strategies[WEFT_MAX_MESH];
    uint32_t nstrategies;
    spec_meeting meeting;
    spec_link links[WEFT_MAX_MESH]; /* one a distinct transport, or pair of them */
    uint32_t nlinks;
    uint32_t axis_link[WEFT_MAX_MESH]; /* transport of a mesh axis */
    const char *axis_algorithm[WEFT_MAX_MESH];
    uint32_t axis_compress[WEFT_MAX_MESH];     /* COMM_PLAIN, ...: of sums of gradients */
    const char *compress_key[WEFT_MAX_MESH];   /* the key that says so */
    bool feedback;                             /* what compression takes away is kept */
    const comm_cost *axis_cost[WEFT_MAX_MESH]; /* NULL: its transport was not measured */
    uint64_t attached;       /* bit a: devices along mesh axis a map each other's arenas */
    const char *comm_choice; /* what auto chose and why, for the log; NULL: nothing to choose */
    model_options model;     /* batch and weight are set by the plan */
    uint64_t batch, microbatch;
    uint32_t compute, grad_dtype;
    double clip;
    bool scaled;          /* the loss is scaled, and how much changes from step to step */
    bool deterministic;   /* kernels are to give the same bits every time */
    double loss_scale;    /* at the start; 1 where it is not scaled */
    int64_t scale_window; /* good steps after which it doubles; 0: never */
    uint64_t bucket_bytes;
    const char *recompute; /* names of activations that backward makes again; NULL: none */
    pool pool;             /* of what the members above point to */
} spec;

/* Find what the job names (strategies, device, rule, placement, transports), add their keys, and
 * hold the whole INI against all keys. No module is opened. [setup] */
weft_status spec_check_config(config *cfg, host *h, spec *out);

/* After the above: open the modules and fill in the rest. `vocab` is what the data says (0: no
 * data). `meeting` NULL: one machine, and nobody to ask; with a job all its ranks come here.
 * [setup] [collective] */
weft_status spec_resolve(spec *s, uint32_t ranks, uint32_t vocab, const spec_meeting *meeting,
                         int want);

/* Only what moves bytes, for measuring without a model: one mesh axis, of all `ranks`, over
 * comm.plugin. Instead of the two above. [setup] */
weft_status spec_of_links(config *cfg, host *h, uint32_t ranks, const spec_meeting *meeting,
                          spec *out);

/* What the sizes of the mesh axes multiply to, `auto` counting as 1. After the first half. */
uint32_t spec_sizes(const spec *s);

void spec_free(spec *s);

#endif
