/* cpu.h: the parts of the cpu device and their interfaces.
 *
 *   plugin.c            manifest, options, the plan half
 *   machine/device.c    the run half: open, streams, events, copies, prepared ops
 *   machine/topo.c      the cores of this rank, and pinning (hwloc)
 *   machine/claim.c     cores that other processes are pinned to
 *   machine/group.c     CPU quota of control groups
 *   machine/isa.c       selects the kernels' instruction set; names for the log
 *   machine/par.c       parallel regions of kernels
 *   pool/               the threads, as a library that also serves oneDNN's OpenMP calls
 *   machine/arena.c     the arena and host memory
 *   ops/ops.c           the table of ops
 *   ops/product.c       linear and its gradients (oneDNN)
 *   ops/product_tiled.c ... in bf16 by a kernel of our own, where there is AMX
 *   ops/simple.c        ops that are one parallel run of a kernel, with pre- and post-processing
 *   ops/axis.c          sums, maxima and broadcasts along an axis
 *   ops/cached.c        attention and rotary embedding over caches of keys and values
 *   ops/random.c        random numbers and dropout: how their elements are numbered
 *   ops/rope.c          rotary embedding: its table of angles
 *   ops/ew.c, chain.c   compile elementwise programs for kern/ew.c
 *   ops/scalar.c        scalar values of elementwise programs
 *   kern/               the kernels, compiled once per instruction set */
#ifndef CPU_H
#define CPU_H

#include "kern/kern.h"
#include "pool/pool.h"
#include <dnnl.h>
#include <hwloc.h>
#include <stdbool.h>
#include <weft/device.h>
#include <weft/match.h>

struct cpu_module {
    const weft_host *host;
};

/* The host's fail() with a format; returns `code`. */
__attribute__((format(printf, 3, 4))) weft_status
cpu_fail(const struct cpu_module *m, weft_status code, const char *format, ...);

/* --- topo.c --- */
struct cpu_topo {
    hwloc_topology_t tree;
    hwloc_cpuset_t *core;  /* [threads] the core of each; NULL: not pinned */
    int32_t *number;       /* [threads] logical numbers of these cores */
    int *lock;             /* [threads] claim.c: lock descriptors; -1: none */
    hwloc_cpuset_t share;  /* union of the cores */
    hwloc_cpuset_t before; /* the opening thread's binding, restored at close */
    int32_t threads;
};
weft_status cpu_topo_open(struct cpu_topo *t, const struct cpu_module *m,
                          const weft_device_args *args);
void cpu_topo_close(struct cpu_topo *t, const struct cpu_module *m);
void cpu_topo_pin_worker(const struct cpu_topo *t, int32_t thread);

/* --- claim.c --- */

/* Choose and lock `want` of the `n` cores that no other process is pinned to, in order from number
 * `first`, with wrap-around. Their numbers go to `chosen`, the locks to `lock`. False, with nothing
 * locked, when there are fewer. [setup] */
bool cpu_claim_cores(hwloc_cpuset_t *core, int32_t n, int32_t first, int32_t want, int32_t *chosen,
                     int *lock);
void cpu_claim_drop(int *lock, int32_t n);

/* --- isa.c --- */
weft_status cpu_kernel_sets(void *module, const weft_conf *conf, char *text, uint64_t *bytes);
/* `agreed`: the set that all ranks have; NULL: as `asked`, the value of device.isa, says. */
weft_status cpu_isa_choose(const struct cpu_module *m, const char *asked, const char *agreed,
                           const struct cpu_kernels **out);
void cpu_isa_brand(char *out, size_t cap); /* "AMD EPYC 9654 ..." */
const char *cpu_isa_products(void);        /* instruction set of oneDNN: "avx512_bf16" */

/* --- scalar.c: scalar values, on the host side --- */
float cpu_get_one(const void *p, uint32_t dtype);
void cpu_put_one(void *p, uint32_t dtype, float x);
float cpu_apply(uint32_t ew, float a, float b, float c); /* WEFT_EW_... */

/* --- the device --- */
struct cpu_block { /* memory that is freed at close */
    struct cpu_block *next;
    void *base, *map; /* map: for munmap(); NULL: from host->alloc() */
    uint64_t bytes;
    int fd;
};

struct weft_stream {
    weft_device *d;
    struct weft_stream *next;
};

struct weft_event {
    weft_device *d;
    struct weft_event *next;
};

struct weft_device {
    struct cpu_module *m;
    const struct cpu_kernels *kernels;
    struct cpu_topo topo;
    int32_t threads;
    cpu_pool *pool;
    dnnl_engine_t engine;
    dnnl_stream_t queue;
    char *scratch; /* [threads][scratch_each], grown by prepare */
    uint64_t scratch_each;
    void *product_scratch; /* oneDNN's scratchpad, if the plan's workspace is too small */
    uint64_t product_bytes;
    void *wide; /* fp32 copies of 16-bit operands, if oneDNN has no kernel for them */
    uint64_t wide_bytes;
    struct cpu_block *blocks;
    weft_stream *streams;
    weft_event *events;
    weft_prepared *prepared;
    char text[160];
};

/* --- arena.c --- */
weft_status cpu_arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd);
weft_status cpu_host_memory(weft_device *d, uint64_t bytes, void **out);
void cpu_free_blocks(weft_device *d);

/* --- par.c --- */

/* Run k over items [0, items) with all threads, or on this thread if items <= few. */
void cpu_par(weft_device *d, cpu_kernel *k, const struct cpu_job *j, int64_t items, int64_t few);
weft_status cpu_start_threads(weft_device *d);       /* [setup] */
weft_status cpu_check_threads(const weft_device *d); /* does oneDNN use them? [setup] */
weft_status cpu_scratch_reserve(weft_device *d, uint64_t each);

/* Grow *p to at least `bytes`; its contents are lost. [setup] */
weft_status cpu_grow(weft_device *d, void **p, uint64_t *have, uint64_t bytes);

/* --- ops.c --- */
struct weft_prepared {
    const struct cpu_op *op;
    weft_device *d;
    struct weft_prepared *next, **link;
    struct cpu_args a;
    uint64_t workspace;
    void *extra; /* the op's own data; freed by its drop() */
};

struct cpu_op {
    const char *id, *in,
        *out; /* patterns of weft/match.h; NULL: plan() checks the operands itself */

    /* Fill the sizes and the workspace cap from the spec; shapes fit the patterns. [plan] */
    weft_status (*plan)(const struct cpu_module *m, const struct cpu_op *op,
                        const weft_opspec *spec, const weft_match *match, struct cpu_args *a,
                        uint64_t *workspace);
    weft_status (*ready)(weft_prepared *p, const weft_opspec *spec); /* OPT [setup] */
    weft_status (*run)(weft_prepared *p, const void *const *in, void *const *out, void *ws);
    void (*drop)(weft_prepared *p); /* OPT */
    size_t kernel;                  /* simple.c: offset of the kernel in struct cpu_kernels */
    uint32_t form; /* product.c: PRODUCT_...; ew.c: WEFT_EW_... of an op that is one step */
    uint32_t from; /* replaces an earlier line of the same id for calls with this many inputs */
};
weft_status cpu_op_plan(const struct cpu_module *m, const weft_opspec *spec,
                        const struct cpu_op **op, struct cpu_args *a, uint64_t *workspace);

#endif
