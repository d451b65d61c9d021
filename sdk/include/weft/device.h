/* weft/device.h: a compute device, interface "weft.device/1".
 *
 * In two halves. The plan half answers without driver or hardware, so that `weft plan` works on any
 * machine: is there a kernel for this op, and how much workspace may it take at most. The run half
 * has memory, streams, events, copies and prepared ops.
 *
 * Order of life: open -> arena -> stream, event -> prepare* -> (run, copy, record, ...)* -> close.
 *
 * Everything a step touches lies in one arena, allocated once from the plan's size. The arena is
 * exportable, so that a transport may register it with a NIC or map it into another rank.
 *
 * Work is ordered by streams. A call on a stream may return before the work has finished; a device
 * that computes on the calling thread has streams whose work is always finished. Device waits for
 * device by event (await); the host polls an event (query); the device waits for the host by a flag
 * (flag_wait) or, where it has none, the host holds the dependants back.
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

/* One operand of one rank: element type and sizes, dense, row-major. rank 0 is one element. */
typedef struct weft_operand {
    uint32_t dtype, rank;
    int64_t size[WEFT_MAX_AXES];
} weft_operand;
WEFT_FREEZE(weft_operand, size, 56);

#define WEFT_SPEC_ACCUMULATE 1u    /* outputs += result instead of = result */
#define WEFT_SPEC_DETERMINISTIC 2u /* the same bits every time */

/* An op with everything known but the addresses. */
typedef struct weft_opspec {
    uint32_t struct_size, flags; /* WEFT_SPEC_... */
    const char *id;              /* "linear.dw" */
    const weft_attr *attrs;
    uint32_t nattr, nin, nout, reserved;
    const weft_operand *in, *out;   /* [nin], [nout] */
    const weft_ew_program *program; /* of the op "ew"; else NULL */
} weft_opspec;
WEFT_FREEZE(weft_opspec, program, 64);

typedef struct weft_need {
    uint32_t struct_size, flags;
    uint64_t workspace; /* bytes at most, aligned to 64; the plan reserves them */
} weft_need;
WEFT_FREEZE(weft_need, workspace, 16);

typedef struct weft_device_args {
    uint32_t struct_size, flags;      /* flags: WEFT_SPEC_DETERMINISTIC or 0 */
    uint32_t local_rank, local_ranks; /* ranks of this job on this machine share its cores, GPUs */
    const weft_conf *conf;
} weft_device_args;
WEFT_FREEZE(weft_device_args, conf, 24);

/* What a device can do. */
#define WEFT_DEV_HOST_MEMORY 1u /* its memory is the host's: a link may touch the arena */
#define WEFT_DEV_EXPORT_FD 2u   /* arena() can give a descriptor that another process can map */
#define WEFT_DEV_CAPTURE 4u     /* capture_begin ... replay work */
#define WEFT_DEV_FLAGS 8u       /* flag_wait and flag_set work */

typedef struct weft_device_table {
    uint32_t struct_size, reserved;
    uint64_t caps; /* WEFT_DEV_... */

    /* --- plan half: no driver, no hardware; pure --- */

    /* WEFT_OK and the need, or WEFT_UNSUPPORTED when there is no kernel for this spec. [plan] */
    weft_status (*need)(void *module, const weft_conf *conf, const weft_opspec *spec,
                        weft_need *out);

    /* Name of one op that does what `ids` do in a row (each feeding the next), or NULL. OPT [plan]
     */
    const char *(*fuse)(void *module, const char *const *ids, uint32_t n);

    /* --- run half --- */

    /* Score 0 with a recorded reason when this machine has no such device. [setup] */
    weft_status (*probe)(void *module, const weft_conf *conf, int32_t *score);
    weft_status (*open)(void *module, const weft_device_args *args,
                        weft_device **out);  /* [setup] */
    void (*close)(weft_device *d);           /* frees all that is left; NULL allowed. [setup] */
    const char *(*describe)(weft_device *d); /* one line for the log; the plugin's. [any] */

    /* The one allocation: zeroed, aligned to 2 MiB at least. With `want_fd` also a descriptor in
     * *fd that maps the same bytes in another process (it stays the device's); otherwise *fd is -1.
     * [setup] */
    weft_status (*arena)(weft_device *d, uint64_t bytes, int32_t want_fd, void **base, int32_t *fd);

    /* Host memory that copies are fast from; freed by close. [setup] */
    weft_status (*host_memory)(weft_device *d, uint64_t bytes, void **out);

    /* Streams and events, freed by close. `priority` higher runs first where that exists. [setup]
     */
    weft_status (*stream)(weft_device *d, int32_t priority, weft_stream **out);
    weft_status (*event)(weft_device *d, weft_event **out);
    weft_status (*record)(weft_event *e, weft_stream *s); /* [compute] */
    weft_status (*await)(weft_stream *s,
                         weft_event *e); /* later work of s waits for e. [compute] */
    weft_status (*query)(weft_event *e); /* OK: reached; BUSY: not yet. [compute] [progress] */

    /* Any space to any, ordered on the stream. [compute] [setup] */
    weft_status (*copy)(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes);
    weft_status (*fill)(weft_device *d, weft_stream *s, void *to, int32_t byte, uint64_t bytes);

    /* An op made ready: kernels chosen, primitives built. `spec` is borrowed for the call. run()
     * takes one address an operand and a workspace of at least need.workspace bytes. [setup],
     * [compute] */
    weft_status (*prepare)(weft_device *d, const weft_opspec *spec, weft_prepared **out);
    void (*release)(weft_prepared *p);
    weft_status (*run)(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,
                       void *workspace);

    /* A host-visible 32-bit flag at `flag`: the stream waits until it holds at least v; the stream
     * writes v when it gets there. OPT with WEFT_DEV_FLAGS [compute] */
    weft_status (*flag_wait)(weft_stream *s, const uint32_t *flag, uint32_t v);
    weft_status (*flag_set)(weft_stream *s, uint32_t *flag, uint32_t v);

    /* Record what is run on the stream between begin and end, and run it again later in one call.
     * OPT with WEFT_DEV_CAPTURE [setup], [compute] */
    weft_status (*capture_begin)(weft_stream *s);
    weft_status (*capture_end)(weft_stream *s, weft_capture **out);
    weft_status (*replay)(weft_capture *c, weft_stream *s);

    /* The driver's own stream (a cudaStream_t), for coll/1 and kernel/1; NULL where there is none.
     * OPT [any] */
    void *(*native)(weft_stream *s);
} weft_device_table;
WEFT_FREEZE(weft_device_table, native, 208);

WEFT_EXTERN_C_END

#endif
