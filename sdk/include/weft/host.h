/* weft/host.h: host tables beyond the small one in plugin.h, fetched by id with weft_host.iface().
 * A plugin must work without a table that the host lacks, or fail with a message; it never links a
 * weft library to get one.
 *
 *   "weft.host.tls/1"        authenticate a socket with the job's key
 *   "weft.host.component/1"  open another component of the job by its name: for wrappers
 *   "weft.host.trace/1"      put spans of time into the job's trace
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
     * transports ("weft.link/1", "weft.coll/1"); other interfaces are WEFT_UNSUPPORTED. Not inside
     * the plugin's open(): options are known from probe() on. [setup] */
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

    /* One span. `name` is at most 63 bytes of printable text and lives until close(). [any] */
    void (*span)(void *ctx, const char *name, uint64_t began_ns, uint64_t ended_ns);
} weft_host_trace;
WEFT_FREEZE(weft_host_trace, span, 40);

WEFT_EXTERN_C_END

#endif
