/* gpu.h: the parts of the cuda device and their interfaces.
 *
 *   plugin.c                 manifest, options, the plan half
 *   driver/driver.c          libcuda, opened at run time
 *   driver/device.c          open, close, device name
 *   driver/memory.c          the arena (virtual-memory API), pinned host memory, own device memory
 *   driver/stream.c          streams, events, copies, flags, captures
 *   driver/image.c           kernel images, looked up by name; launches
 *   ops/ops.c                the table of ops
 *   ops/simple.c             ops that are one or two launches
 *   ops/embed.c              the gradient of an embedding: a sort, then sums
 *   ops/ew.c                 compiles elementwise programs
 *   ops/joined.c             op fusion: products with cuBLASLt epilogues
 *   blas/product.c           matrix products: cuBLASLt, or an own kernel
 *   blas/tune.c              selects cuBLASLt's algorithm; times ops
 *   attention/attention.c    cuDNN, or own kernels
 *   attention/sdpa.c         cuDNN: supported cases and calls; sdpa_graph.c builds its graphs
 *   kern/                    the kernels; kern/job.h is the host-device interface */
#ifndef GPU_H
#define GPU_H

#include "driver/driver.h"
#include "kern/job.h"
#include <stdbool.h>
#include <weft/device.h>
#include <weft/match.h>

struct gpu_module {
    const weft_host *host;
};

/* The host's fail() with a format; returns `code`. */
__attribute__((format(printf, 3, 4))) weft_status
gpu_fail(const struct gpu_module *m, weft_status code, const char *format, ...);

/* --- the device --- */

struct gpu_block { /* memory to give back at close */
    struct gpu_block *next;
    CUdeviceptr base;
    uint64_t bytes;                      /* that are reserved */
    CUmemGenericAllocationHandle handle; /* mapped there; 0: none */
    void *host;                          /* pinned memory, or NULL */
    bool plain;                          /* base is cuMemAlloc()'s */
    int fd;
};

struct weft_stream {
    weft_device *d;
    struct weft_stream *next;
    CUstream cu;
};

struct weft_event {
    weft_device *d;
    struct weft_event *next;
    CUevent cu;
};

struct weft_capture {
    weft_device *d;
    struct weft_capture *next;
    CUgraphExec exec;
};

#define GPU_IMAGES 10
struct gpu_blas;
struct gpu_sdpa;

struct weft_device {
    struct gpu_module *m;
    const struct gpu_driver *cu;
    CUdevice gpu;
    CUcontext context;
    CUmodule images[GPU_IMAGES];
    int32_t processors, arch; /* multiprocessors; 90: compute capability 9.0 */
    int32_t shared;           /* most bytes of shared memory of a block */
    bool deterministic, graphs, tf32, tune;
    bool said_no_memory;   /* to try ops on */
    struct gpu_blas *blas; /* NULL: none is asked for */
    struct gpu_sdpa *sdpa; /* NULL: none, or none is asked for */
    struct gpu_block *blocks;
    weft_stream *streams;
    weft_event *events;
    weft_capture *captures;
    weft_prepared *prepared;
    char text[256];
};

/* Make the device's context the calling thread's. Each call from the host begins with it. */
weft_status gpu_enter(weft_device *d);

/* WEFT_OK, or a record of what the driver says to `what` ("copying 4096 bytes"). */
weft_status gpu_check(weft_device *d, CUresult r, const char *what);

/* Which GPU is that of a rank of this machine: into d->gpu. */
weft_status gpu_find(weft_device *d, uint32_t local_rank);

/* --- memory.c --- */
weft_status gpu_own_memory(weft_device *d, uint64_t bytes, CUdeviceptr *out); /* not zeroed */
void gpu_free_memory(weft_device *d, CUdeviceptr p);                          /* 0 is allowed */
void gpu_free_blocks(weft_device *d);

/* Host memory of ours to memory of the device, at set-up. */
weft_status gpu_upload(weft_device *d, CUdeviceptr to, const void *from, uint64_t bytes);

/* --- image.c --- */
weft_status gpu_load_images(weft_device *d);
void gpu_unload_images(weft_device *d);

/* The kernel of that name; '*' in it is replaced by the element type's name. */
weft_status gpu_find_kernel(weft_device *d, const char *name, uint32_t dtype, CUfunction *out);

struct gpu_grid {
    int64_t x, y; /* blocks */
    uint32_t threads, shared;
};
weft_status gpu_launch(weft_device *d, CUfunction f, weft_stream *s, struct gpu_grid grid,
                       const void *job);

/* --- ops.c --- */
bool gpu_is_float(uint32_t dtype);
#define GPU_KERNELS 6
struct weft_prepared {
    const struct gpu_op *op;
    weft_device *d;
    struct weft_prepared *next, **link;
    struct gpu_sizes z;
    uint32_t nin, nout;
    bool deterministic; /* WEFT_SPEC_DETERMINISTIC */
    uint64_t workspace;
    CUfunction f[GPU_KERNELS]; /* of op->kernels */
    void *extra;               /* the op's own; freed by its drop() */
};

struct gpu_op {
    const char *id, *in,
        *out; /* patterns of weft/match.h; NULL: plan() looks at the operands itself */
    const char *kernels[GPU_KERNELS]; /* names, as gpu_find_kernel() takes them */

    /* Fill the sizes and the workspace cap from the spec; shapes fit the patterns. [plan] */
    weft_status (*plan)(const struct gpu_module *m, const struct gpu_op *op,
                        const weft_opspec *spec, const weft_match *match, struct gpu_sizes *z,
                        uint64_t *workspace);
    weft_status (*ready)(weft_prepared *p, const weft_opspec *spec); /* OPT [setup] */
    weft_status (*run)(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *ws);
    void (*drop)(weft_prepared *p); /* OPT */
    uint32_t
        form; /* product.c, joined.c: which product; ew.c: WEFT_EW_... of an op that is one step */
    uint32_t from; /* goes before an earlier line of the same id for calls with so many inputs */
};
weft_status gpu_op_plan(const struct gpu_module *m, const weft_opspec *spec,
                        const struct gpu_op **op, struct gpu_sizes *z, uint64_t *workspace);

/* The operands and sizes of a run, for a kernel. */
struct gpu_job gpu_job_of(const weft_prepared *p, const void *const *in, void *const *out,
                          void *ws);

/* --- blas.c, sdpa.c: libraries that the device opens; a NULL in the device is one that is not. The
 * names say in one word who does the work --- */
weft_status gpu_blas_open(weft_device *d, const weft_conf *conf);
void gpu_blas_close(weft_device *d);
const char *gpu_blas_name(const weft_device *d);
weft_status gpu_sdpa_open(weft_device *d, const weft_conf *conf);
void gpu_sdpa_close(weft_device *d);
const char *gpu_sdpa_name(const weft_device *d);

/* The first of `names`, a NULL-ended list, that one of the directories of `device.libraries` or
 * the loader has; NULL: none. */
void *gpu_open_library(const weft_conf *conf, const char *const *names);

#endif
