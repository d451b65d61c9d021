/* run/view/spans.h: spans that plugins put into the trace: "weft.host.trace/1".
 *
 * Plugins call from any thread, so a span is stored under a lock, and each thread has a lane of its
 * own in the trace. Outside traced steps nothing is stored and a call costs one load. */
#ifndef RUN_VIEW_SPANS_H
#define RUN_VIEW_SPANS_H

#include <stdint.h>

/* Threads of plugins that have a lane; spans of further ones are dropped. */
#define SPANS_LANES 8u

typedef struct run_spans run_spans;

typedef struct run_span {
    const char *name;
    uint64_t began, ended, step;
    uint32_t lane; /* below SPANS_LANES */
} run_span;

/* The table of "weft.host.trace/1" is run_spans_table(); it lives as long as the object. [setup] */
run_spans *run_spans_create(void);
void run_spans_free(run_spans *s); /* NULL is allowed */
const void *run_spans_table(run_spans *s);

/* From now on spans belong to `step`, or are not wanted (`on` 0). The first step that is wanted
 * allocates the room. [setup] */
void run_spans_step(run_spans *s, uint64_t step, int on);

/* Give the stored spans to `note`, and forget them. Returns how many did not fit. NULL is allowed.
 * [setup] */
uint64_t run_spans_take(run_spans *s, void (*note)(void *ctx, const run_span *span), void *ctx);

#endif
