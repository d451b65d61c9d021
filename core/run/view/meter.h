/* run/view/meter.h: values that plugins add to the metrics of a step: "weft.host.metrics/1".
 *
 * Any thread adds at any time, also within a step, so a value is one atomic word that is changed by
 * compare-and-swap; a bit pattern that no value has says that there is none. Declaring takes a
 * lock. */
#ifndef RUN_VIEW_METER_H
#define RUN_VIEW_METER_H

#include <stdint.h>
#include <weft/sink.h>

#define METER_MAX 256u /* names in a job */

typedef struct run_meter run_meter; /* opaque */

/* The weft_host_metrics is run_meter_table(); it lives as long as the object. [setup] */
run_meter *run_meter_create(void);
void run_meter_free(run_meter *m); /* NULL is allowed */
const void *run_meter_table(run_meter *m);

/* Take the values that were added since the last call, in the order of declaration; returns how
 * many. Room: METER_MAX. Names of `taken`, which are metrics already, are left out. [compute] */
uint32_t run_meter_collect(run_meter *m, const weft_metric *taken, uint32_t n, weft_metric *out);

#endif
