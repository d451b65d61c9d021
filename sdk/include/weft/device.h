/* weft/device.h: a compute device, interface "weft.device/1".
 *
 * It has two halves. The plan half needs no driver or hardware, so `weft plan` works on any
 * machine: whether there is a kernel for an op, and how much workspace it takes at most. The run
 * half has memory, streams, events, copies and prepared ops.
 *
 * Order of calls: open -> arena -> stream, event -> prepare* -> (run, copy, record, ...)* -> close.
 *
 * All memory of a step is in one arena, allocated once with the plan's size. The arena is
 * exportable, so that a transport may register it with a NIC or map it into another rank, or the
 * device of another rank may map it (import_peer): then the devices run collectives as their own
 * copies and sums.
 *
 * Streams order the work. A call on a stream may return before the work has finished; a device that
 * computes on the calling thread has streams whose work is always finished. Streams wait for each
 * other by event (stream_wait); the host polls an event (event_query); the device waits for the
 * host by a flag (flag_wait) or, where it has none, the host delays the dependent work.
 *
 * One thread at a time enters a device, but not always the same one: thread-local driver state (a
 * current context) must be set again in each call. Work that fails after its call has returned is
 * reported as WEFT_IO by some later call on the device, and from then on by all.
 */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <weft/op.h>
#include <weft/plugin.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_device weft_device; /* all opaque, the plugin's */
typedef struct weft_stream weft_stream;
typedef struct weft_event weft_event;
typedef struct weft_prepared weft_prepared;
typedef struct weft_capture weft_capture;

/* One operand of one rank: element type and sizes, dense, row-major. rank 0 is one element. Passed
 * in arrays: never grows. */
typedef struct weft_operand {
    uint32_t dtype, rank;
    uint32_t flags, reserved; /* 0: dense, row-major */
    int64_t size[WEFT_MAX_AXES];
} weft_operand;
WEFT_FREEZE(weft_operand, size, 80);

#define WEFT_SPEC_ACCUMULATE 1u    /* outputs += result instead of = result */
#define WEFT_SPEC_DETERMINISTIC 2u /* the same bits every time */

/* An op with everything known except the addresses. */
typedef struct weft_opspec {
    uint32_t struct_size, flags; /* WEFT_SPEC_... */
    const char *id;              /* "linear.dw" */
    const weft_attr *attrs;
    uint32_t nattr, nin, nout, reserved;
    const weft_operand *in, *out;   /* [nin], [nout]: last operands that are absent do not count */
    const weft_ew_program *program; /* of the op "ew"; else NULL */
} weft_opspec;
WEFT_FREEZE(weft_opspec, program, 64);

typedef struct weft_requirements {
    uint32_t struct_size, flags;
    uint64_t workspace; /* bytes at most, aligned to 64; the plan reserves them */
} weft_requirements;
WEFT_FREEZE(weft_requirements, workspace, 16);

typedef struct weft_device_args {
    uint32_t struct_size, flags; /* flags: WEFT_SPEC_DETERMINISTIC or 0 */
    /* Ranks of this job that share the machine's GPUs; for a device in host memory those that share
     * one set of CPUs (the same affinity mask). */
    uint32_t local_rank, local_ranks;
    const weft_conf *conf;
    /* Since 0.10: the name of the kernels to compute with, one of those that kernel_sets() gave;
     * NULL: the device's own choice. Set only for a device that has kernel_sets(). */
    const char *kernel_set;
} weft_device_args;
WEFT_FREEZE(weft_device_args, kernel_set, 32);

/* Capabilities. Links and coll plugins get the low 32 bits. */
#define WEFT_DEV_HOST_MEMORY 1u    /* its memory is the host's: a link may access the arena */
#define WEFT_DEV_EXPORT_FD 2u      /* arena() can give a descriptor of the kind WEFT_FD_MAP */
#define WEFT_DEV_CAPTURE 4u        /* capture_begin ... replay work */
#define WEFT_DEV_FLAGS 8u          /* flag_wait and flag_set work */
#define WEFT_DEV_CUDA_MEMORY 16u   /* its memory is CUDA's, in one address space with the host's */
#define WEFT_DEV_EXPORT_CUDA 32u   /* ... a descriptor of the kind WEFT_FD_CUDA */
#define WEFT_DEV_EXPORT_DMABUF 64u /* ... of the kind WEFT_FD_DMABUF */
#define WEFT_DEV_IMPORT_PEER 128u  /* ipc_domain, import_peer; with FLAGS, EXPORT_CUDA or _FD */

/* Kinds of arena descriptors; the first byte of each is that of the arena. */
#define WEFT_FD_MAP 1    /* mmap() in another process */
#define WEFT_FD_CUDA 2   /* cuMemImportFromShareableHandle() in another process */
#define WEFT_FD_DMABUF 3 /* a dma-buf: registration with a NIC, in this process */

/* How an op of a chain connects to the op before it (fuse). */
#define WEFT_FUSE_CHAINED 1u      /* its input 0 is output 0 of the op before */
#define WEFT_FUSE_SHARED_INPUT 2u /* its input 0 is input 0 of the op before */

typedef struct weft_device_table {
    uint32_t struct_size, reserved;
    uint64_t caps; /* WEFT_DEV_... */

    /* --- plan half: no driver, no hardware; pure --- */

    /* WEFT_OK and the need (by weft_give()), or WEFT_UNSUPPORTED when there is no kernel for this
     * spec. Planning calls it from one thread, before and without open(). [plan] */
    weft_status (*query)(void *module, const weft_conf *conf, const weft_opspec *spec,
                         weft_requirements *out);

    /* Op fusion: name of one op that replaces the chain `ids`, or NULL; joins[i] is WEFT_FUSE_...,
     * 0 for the first. Chains grow op by op: after NULL no longer chain is asked for. The fused op
     * reads each tensor from outside the chain once, in order of first use, and writes the outputs
     * of all members in order, none in place; an output that nothing reads has element type 0 in
     * the spec, and run() gets NULL for it. Accumulating outputs are fused only with each other. It
     * has the attributes of all members; chains with a duplicate key are not asked for. query()
     * then says whether it serves these sizes, otherwise the members stay separate. A constant
     * string. OPT [plan] */
    const char *(*fuse)(void *module, const weft_conf *conf, const char *const *ids,
                        const uint32_t *joins, uint32_t n);

    /* --- run half --- */

    /* Score 0 when this machine has no such device: the reason is recorded by weft_host.fail(), and
     * the call returns WEFT_OK. [setup] */
    weft_status (*probe)(void *module, const weft_conf *conf, int32_t *score);
    weft_status (*open)(void *module, const weft_device_args *args,
                        weft_device **out);  /* [setup] */
    void (*close)(weft_device *d);           /* frees all that is left; NULL allowed. [setup] */
    const char *(*describe)(weft_device *d); /* one line for the log; the plugin's. [any] */

    /* The only allocation, freed by close: zeroed, aligned to at least 2 MiB, WEFT_NO_MEMORY when
     * it does not fit. `want_fd` is 0, with *fd then -1, or the kind of descriptor (WEFT_FD_...) to
     * return in *fd: the device owns and closes it. [setup] */
    weft_status (*arena)(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd);

    /* Host memory with fast device copies, where flags may be placed; freed by close. [setup] */
    weft_status (*host_memory)(weft_device *d, uint64_t bytes, void **out);

    /* Streams and events, freed by close. `priority` higher runs first where that exists. [setup]
     */
    weft_status (*stream)(weft_device *d, int32_t priority, weft_stream **out);
    weft_status (*event)(weft_device *d, weft_event **out);

    /* An event refers to its latest record, and counts as reached before the first. [compute] */
    weft_status (*record)(weft_event *e, weft_stream *s, uint32_t flags);

    /* Later work of s waits for e. [compute] */
    weft_status (*stream_wait)(weft_stream *s, weft_event *e, uint32_t flags);

    /* WEFT_OK: the event is reached; WEFT_BUSY: not yet. [compute] [progress] */
    weft_status (*event_query)(weft_event *e, uint32_t flags);

    /* Between any memory spaces, ordered on the stream; both are borrowed until the stream has
     * passed it. In a step, host memory is that of host_memory(); other host memory may block.
     * [compute] [setup] */
    weft_status (*copy)(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                        uint32_t flags);
    weft_status (*fill)(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes,
                        uint32_t flags);

    /* Prepare an op: choose kernels (by timing, if you like, in memory of its own), build
     * primitives. release() is called when no run is in flight; NULL is allowed. [setup] */
    weft_status (*prepare)(weft_device *d, const weft_opspec *spec, weft_prepared **out);
    void (*release)(weft_prepared *p);

    /* One address per operand: `in` has spec.nin entries and `out` spec.nout, and what lies behind
     * them is undefined. Each operand and the workspace (requirements.workspace bytes) is aligned
     * to 64. An output overwrites an input only as the op's in_place says. The arrays are
     * borrowed for the call; runs of one prepared op may be in flight on several streams. [compute]
     */
    weft_status (*run)(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *workspace, uint32_t flags);

    /* A 32-bit flag in host_memory(), 4-byte aligned: flag_wait lets the stream wait until it holds
     * at least v, compared as (int32_t)(*flag - v) >= 0; flag_set writes v when the stream gets
     * there, after all its earlier work is visible to the host. OPT with WEFT_DEV_FLAGS
     * [compute] */
    weft_status (*flag_wait)(weft_stream *s, const uint32_t *flag, uint32_t v, uint32_t flags);
    weft_status (*flag_set)(weft_stream *s, uint32_t *flag, uint32_t v, uint32_t flags);

    /* Record what is enqueued on the stream between begin and end instead of running it, with fixed
     * addresses and flag values; streams that wait for an event recorded inside belong to the
     * recording and must be joined (waited for) before the end. When end() fails the recording is
     * over. Freed by close. OPT with WEFT_DEV_CAPTURE [setup] */
    weft_status (*capture_begin)(weft_stream *s, uint32_t flags);
    weft_status (*capture_end)(weft_stream *s, weft_capture **out);

    /* Replay a recording, in order on the stream. OPT with WEFT_DEV_CAPTURE [compute] */
    weft_status (*replay)(weft_capture *c, weft_stream *s, uint32_t flags);

    /* The driver's own stream (a cudaStream_t), for coll/1 and kernel/1; NULL where there is none.
     * OPT [any] */
    void *(*native_stream)(weft_stream *s);

    /* The IPC domain of a rank's arena, as a text; *bytes is the room on entry (64 at least) and
     * the length on return, without a zero: ranks of one machine with the same text may
     * import_peer() each other's arenas. Called before open(), when all inputs of the plan are
     * settled. WEFT_UNSUPPORTED with a recorded reason where import is impossible. OPT with
     * WEFT_DEV_IMPORT_PEER [setup] */
    weft_status (*ipc_domain)(void *module, const weft_device_args *args, char *text,
                              uint64_t *bytes);

    /* The arena of another process, mapped into this device's addresses until close(): copies and
     * prepared ops read and write it like the local one. `bytes` and `fd` are those of arena() in
     * that process, of the kind WEFT_FD_CUDA where the device has that, else WEFT_FD_MAP; the
     * caller keeps the descriptor. What the other device did before a flag_set() is visible to work
     * that begins here after that flag was seen. OPT with WEFT_DEV_IMPORT_PEER [setup] */
    weft_status (*import_peer)(weft_device *d, int32_t fd, uint64_t bytes, void **base);

    /* Since 0.10. The sets of kernels that this machine can run and the options allow, narrowest
     * first, as a text: "v2|v3|v4"; *bytes is the room on entry (128 at least) and the length on
     * return, without a zero. Two sets may give results that differ in the last bits, and replicas
     * that compute alike have to stay equal: all ranks open with the widest set that every rank
     * has, weft_device_args.kernel_set. WEFT_ABSENT with a recorded reason where the options ask
     * for what this machine lacks. Called before open(). OPT [setup] */
    weft_status (*kernel_sets)(void *module, const weft_conf *conf, char *text, uint64_t *bytes);
} weft_device_table;
WEFT_FREEZE(weft_device_table, kernel_sets, 232);

WEFT_EXTERN_C_END

#endif
