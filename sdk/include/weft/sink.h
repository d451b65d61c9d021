/* weft/sink.h: where a run's metrics and events go, "weft.sink/1".
 *
 * A job names its sinks: `[log] sinks = jsonl, acme.prometheus`. Each is opened on rank 0, gets the
 * values of every step and the events of the run, and is closed at the end. `jsonl` writes
 * OUT/metrics.jsonl; others serve, send or draw.
 *
 * The training loop waits for a sink. metrics() and event() therefore copy what they need and
 * return within microseconds; a sink whose output is slow, or may block, gives it to a thread of
 * its own and drops what that thread does not manage.
 *
 * A failure of a sink ends no run. When metrics() or event() fails, the sink is closed, the log
 * says so once, and the run goes on without it; open() with WEFT_IO (a port that is taken, a full
 * disk) has the same effect. Any other status of open() says that the job is wrong, and ends it
 * before its first step. A sink that can go on later logs a warning itself, once, and returns
 * WEFT_OK.
 */
#ifndef WEFT_SINK_H
#define WEFT_SINK_H

#include <weft/plugin.h>

WEFT_EXTERN_C_BEGIN

typedef struct weft_sink weft_sink; /* opaque, the plugin's: one open sink */

typedef struct weft_sink_args {
    uint32_t struct_size, flags;
    uint32_t rank, ranks;
    const char *job; /* run.name */
    const char *out; /* the run's folder, which exists; a sink writes files only inside it, unless
                        an option of its own says otherwise */
    uint64_t after;  /* the run continues after this step, and what a sink has of later ones is
                        void; 0: it begins */
    const weft_conf *conf; /* [sink.NAME] */
} weft_sink_args;
WEFT_FREEZE(weft_sink_args, conf, 48);

/* What a value is. */
#define WEFT_METRIC_GAUGE 1u   /* this step's */
#define WEFT_METRIC_COUNTER 2u /* grows from the run's begin, a resumed one included */

/* One value of a step. Passed in arrays: never grows. Values that were not measured in this step
 * are absent; a value may be infinite or not a number. */
typedef struct weft_metric {
    const char *name; /* "loss"; a plugin's own have a dot ("acme.load"). docs/METRICS.md has all */
    const char *unit; /* "ms", "bytes", "tokens/s", "" */
    double value;
    uint32_t kind, flags; /* WEFT_METRIC_... */
} weft_metric;
WEFT_FREEZE(weft_metric, flags, 32);

/* Something that happened between steps. A "checkpoint" is reported when it is complete: `step` is
 * the one it holds, and where saves are written beside the steps, later steps may be reported
 * before. "saving" comes before the checkpoint of `step` begins: a sink that a resumed run relies
 * on sees to it that what it has of this step and earlier ones is out, but never waits long. */
typedef struct weft_event {
    uint32_t struct_size, flags;
    const char *name; /* "begin", "resume", "evaluation", "saving", "checkpoint", "skipped", "stop",
                         "end" */
    const char *text; /* one line for people; of the "end" of a failed job: why */
    uint64_t step;    /* after which; 0: before the first */
    uint64_t time_ns; /* since 1970, UTC */
} weft_event;
WEFT_FREEZE(weft_event, time_ns, 40);

/* Calls of one sink come from one thread at a time, in the order of the steps. */
typedef struct weft_sink_table {
    uint32_t struct_size, flags;

    /* [setup] */
    weft_status (*open)(void *module, const weft_sink_args *args, weft_sink **out);

    /* Values of a step that is complete, in an order that stays the same as long as the values do.
     * Between steps, where a plugin may allocate. [compute] */
    weft_status (*metrics)(weft_sink *s, uint64_t step, const weft_metric *values, uint32_t n,
                           uint32_t flags);

    /* OPT. Unknown names are no error. [setup] [compute] */
    weft_status (*event)(weft_sink *s, const weft_event *e);

    /* What was accepted is out, or is lost with a warning. After a failure of the job too. NULL
     * allowed. [setup] */
    void (*close)(weft_sink *s);
} weft_sink_table;
WEFT_FREEZE(weft_sink_table, close, 40);

WEFT_EXTERN_C_END

#endif
