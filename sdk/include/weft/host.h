/* weft/host.h: host tables beyond the small one in plugin.h, fetched by id with weft_host.iface().
 * A plugin must work without a table that the host lacks, or fail with a message; it never links a
 * weft library to get one.
 *
 *   "weft.host.tls/1"        authenticate a socket with the job's key
 *   "weft.host.component/1"  open another component of the job by its name: for wrappers, and for
 *                            sources that need a tokenizer
 *   "weft.host.trace/1"      put spans of time into the job's trace
 *   "weft.host.kv/1"         exchange bytes with the other ranks while setting up
 *   "weft.host.metrics/1"    put values among the metrics of a step
 */
#ifndef WEFT_HOST_H
#define WEFT_HOST_H

#include <weft/plugin.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_tls weft_tls; /* one side of one connection; the host's */

/* TLS 1.3 with a key derived from the job's pre-shared key, over a connected stream socket that the
 * caller owns and has made non-blocking. Both sides must use the same `label`, which separates the
 * uses of the key; a peer without the key learns nothing, and none of its data is parsed. After the
 * handshake the caller either keeps the session and sends its payload through it (encrypted), or
 * ends it and uses the bare socket: the session leaves no byte of its own in the stream. */
typedef struct weft_host_tls {
    uint32_t struct_size, flags;
    void *ctx;

    /* Begin on descriptor `fd` as server or client. `label` is copied. [setup] [progress] */
    weft_status (*start)(void *ctx, int32_t fd, int32_t server, const char *label, weft_tls **out);

    /* Advance the handshake without blocking. WEFT_BUSY: call again when the socket is ready for
     * what wants() returns. A wrong key is WEFT_PEER with a message; WEFT_IO means that the
     * connection ended first, so a new one may succeed. [setup] [progress] */
    weft_status (*handshake)(weft_tls *t);

    /* 1: waits to read, 2: waits to write. [any] */
    int32_t (*wants)(const weft_tls *t);

    /* Transfer up to `bytes`; *done is the number transferred. WEFT_BUSY with *done 0 when the call
     * would block; the end of the stream is WEFT_PEER. [progress] */
    weft_status (*read)(weft_tls *t, void *to, uint64_t bytes, uint64_t *done);
    weft_status (*write)(weft_tls *t, const void *from, uint64_t bytes, uint64_t *done);

    /* Free the session; the socket stays open and is the caller's. NULL is allowed. [any] */
    void (*end)(weft_tls *t);
} weft_host_tls;
WEFT_FREEZE(weft_host_tls, end, 64);

/* --- "weft.host.component/1" ---
 *
 * A wrapper is a component that has another one do its work: it logs, delays or breaks the calls on
 * their way. It names the inner component by an option of its own, opens it here, and calls its
 * table with its module. The inner component has its own section of options ([comm.NAME] of a
 * transport), so a user sets them as without the wrapper.
 *
 * The host checks the inner plugin, opens its module once a job and closes it after the modules
 * that have opened it. Calls of the inner table keep the rules of their interface; the wrapper
 * calls them where the host would. A component that opens itself, also by way of others, is
 * WEFT_USAGE. */
typedef struct weft_component_args {
    uint32_t struct_size, flags;
    const char *iface; /* "weft.link/1" */
    const char *name;  /* "tcp" */
} weft_component_args;
WEFT_FREEZE(weft_component_args, name, 24);

typedef struct weft_component_ref {
    uint32_t struct_size, flags;
    const void *table; /* of the type that `iface` names; the host's copy, lives until close() */
    void *module;
    const weft_conf *conf; /* its options, parsed */
} weft_component_ref;
WEFT_FREEZE(weft_component_ref, conf, 32);

typedef struct weft_host_component {
    uint32_t struct_size, flags;
    void *ctx;

    /* Find, check and open. *out is zeroed by the caller, with its struct_size. This version opens
     * transports ("weft.link/1", "weft.coll/1") and, for sources of text, tokenizers
     * ("weft.tokenizer/1", with the options in [tokenizer]); other interfaces are WEFT_UNSUPPORTED.
     * Not inside the plugin's open(): options are known from probe() on. [setup] */
    weft_status (*open)(void *ctx, const weft_component_args *args, weft_component_ref *out);
} weft_host_component;
WEFT_FREEZE(weft_host_component, open, 24);

/* --- "weft.host.trace/1" ---
 *
 * The job's trace (`[log] trace_steps`) is a timeline of some steps of all ranks on one clock. A
 * plugin adds spans to it, on a lane of their own. Outside those steps enabled() is 0 and costs a
 * load, so a plugin asks it first. Spans beyond the room of a step are dropped and counted. */
typedef struct weft_host_trace {
    uint32_t struct_size, flags;
    void *ctx;

    /* 1 in a step that is traced. [any] */
    int32_t (*enabled)(void *ctx);

    /* Nanoseconds of the rank's monotonic clock. [any] */
    uint64_t (*now)(void *ctx);

    /* One span. `name` is at most 63 bytes of printable text, which lives until close() and does
     * not change. [any] */
    void (*span)(void *ctx, const char *name, uint64_t began_ns, uint64_t ended_ns);
} weft_host_trace;
WEFT_FREEZE(weft_host_trace, span, 40);

/* --- "weft.host.kv/1" ---
 *
 * Bytes among ranks over the job's store, which only ranks with the job's key reach: for libraries
 * that need an exchange before they can communicate themselves. Keys of a plugin are its own: those
 * of another plugin are others. In a job of one rank the table works too; while planning and after
 * the job's end every call is WEFT_UNSUPPORTED. A value has at most 64 KiB, all values of a job and
 * their keys 64 MiB. */
typedef struct weft_kv_gather {
    uint32_t struct_size, flags;
    const char *key; /* names this exchange: a rank uses it once a job. Groups that share no rank
                        may use the same */
    const uint32_t *members; /* [n] ranks of the job, ascending, this one among them; NULL: all */
    uint32_t n;              /* 0 is allowed for all */
    uint32_t reserved;       /* 0 */
    const void *in; /* `bytes` of this rank, the same number on all; may be this rank's in `out` */
    uint64_t bytes;
    void *out; /* [n * bytes], in the order of the members */
} weft_kv_gather;
WEFT_FREEZE(weft_kv_gather, out, 56);

typedef struct weft_host_kv {
    uint32_t struct_size, flags;
    void *ctx;
    uint32_t rank, ranks; /* of the job; while planning 0 */

    /* Publish. A key is 1 to 63 bytes of printable text, is set once and stays until the job ends;
     * setting it again is WEFT_USAGE. [setup] */
    weft_status (*put)(void *ctx, const char *key, const void *data, uint64_t bytes);

    /* Copy the value. *bytes is the room on entry and the number on return. WEFT_BUSY: no rank has
     * set it yet; a value that is longer than the room is WEFT_USAGE. Never waits. [setup] */
    weft_status (*get)(void *ctx, const char *key, void *out, uint64_t *bytes);

    /* All members call it; returns when all have, at most run.join_timeout later. A member that has
     * failed is WEFT_PEER, and is named. [setup] [collective] */
    weft_status (*all_gather)(void *ctx, const weft_kv_gather *args);
} weft_host_kv;
WEFT_FREEZE(weft_host_kv, all_gather, 48);

/* --- "weft.host.metrics/1" ---
 *
 * Values that a plugin adds to the metrics of the step that runs (or, between steps, of the next).
 * They reach the sinks (sink.h) on rank 0; values of other ranks are not sent. */
#define WEFT_METRICS_LAST 1u /* the last value of a step counts */
#define WEFT_METRICS_SUM 2u  /* values of a step are added */
#define WEFT_METRICS_MAX 3u  /* the largest of a step counts */

typedef struct weft_host_metrics {
    uint32_t struct_size, flags;
    void *ctx;

    /* A number for add(), never 0, the same for the same name. The name has a dot ("acme.retries"),
     * no space and at most 63 printable bytes, the unit at most 31 (NULL: none); `how` is
     * WEFT_METRICS_.... Another unit or `how` for a name is WEFT_USAGE. At most 256 names a job.
     * [setup] */
    weft_status (*declare)(void *ctx, const char *name, const char *unit, uint32_t how,
                           uint32_t flags, uint32_t *out);

    /* Takes no lock and no memory. An unknown number is ignored. [any] */
    void (*add)(void *ctx, uint32_t metric, double value);
} weft_host_metrics;
WEFT_FREEZE(weft_host_metrics, add, 32);

WEFT_EXTERN_C_END

#endif
