/* check/device/device.h: what checks of devices share: a host, a module and, when asked, an open
 * device with an arena, host memory, two streams and two events.
 *
 * The arena may be memory that the host cannot access, so a check reads and writes it by copy()
 * alone, from and to the host memory of the device. The functions below end the check when a lawful
 * call fails. The whole check has one deadline for its events. */
#ifndef CHECK_DEVICE_DEVICE_H
#define CHECK_DEVICE_DEVICE_H

#include "check/harness/harness.h"

#include <weft/device.h>

#define CHECK_DEV_ARENA ((uint64_t)16 << 20)
#define CHECK_DEV_HALF ((uint64_t)8 << 20) /* where a second set of operands may begin */

typedef struct check_dev {
    check_run *run;
    const host_component *c;
    const weft_device_table *t;
    check_host *host, *other; /* of the file; of the device's file where that is another one */
    const weft_conf *conf;
    void *module;      /* of the device's file */
    weft_device *d;    /* NULL before check_dev_open() */
    char *base;        /* of the arena, CHECK_DEV_ARENA bytes, or twice that for ops */
    char *staging;     /* host memory of the device, CHECK_DEV_ARENA bytes */
    weft_stream *s[2]; /* streams and events: of check_dev_up() */
    weft_event *e[2];
    uint64_t until; /* ms: when an event is late */
    uint32_t limit; /* ms: which were allowed */
    /* Of checks of ops (ops.h) alone. */
    const host_component *kernel; /* computes instead of the device's own; NULL: the device's own */
    const weft_kernel *k;
    const char *who; /* for messages: the name of the device or kernel */
    void *kmodule;   /* of the kernel's file */
} check_dev;

/* A call of the table that gives a result. */
#define CHECK_DEV(w, member, ...) PLUGIN_GET((w)->t, member, __VA_ARGS__)

/* Load the file and call `fn` for each of its devices, with a module of its own that is open. What
 * is left open after `fn` is closed. */
void check_dev_each(check_run *r, void (*fn)(check_dev *w));

/* The same, for checks of the run half: `fn` is called with the device open, and only where probe()
 * finds one. check_dev_each_up() also takes arena, host memory, streams and events. */
void check_dev_each_open(check_run *r, void (*fn)(check_dev *w));
void check_dev_each_up(check_run *r, void (*fn)(check_dev *w));

/* The same for checks of ops: with check_bench_up(), or with `paper` as check_dev_each(). */
void check_bench_each(check_run *r, bool paper, void (*fn)(check_dev *b));

/* Up for ops, which are to give the same bits each time: `b` has run, host, other, c and module.
 * False, with a check_absent(), where the device does not work here. */
bool check_bench_up(check_dev *b);

const char *check_bench_why(const check_dev *b); /* what a host has recorded, or "" */

/* Ask probe(): whether the machine has the device; if not, check_absent() is told. Then open(). */
bool check_dev_open(check_dev *w);
void check_dev_up(check_dev *w, uint64_t arena); /* after check_dev_open() */
void check_dev_close(check_dev *w);              /* so that another device can be opened */

/* The call `member` returned `st`, which is WEFT_OK, or the check fails with the recorded reason.
 */
void check_dev_ok(check_dev *w, weft_status st, const char *member);

/* Work on a stream: `i` is 0 or 1. Source and destination are borrowed until it is settled. */
void check_dev_copy(check_dev *w, uint32_t i, void *to, const void *from, uint64_t bytes);
void check_dev_fill(check_dev *w, uint32_t i, void *to, int32_t byte, uint64_t bytes);

/* Record event `i` on stream `i`; wait for event `i`; both: all work of stream `i` is done. */
void check_dev_record(check_dev *w, uint32_t i);
void check_dev_reach(check_dev *w, uint32_t i);
void check_dev_wait(check_dev *w, uint32_t i);
void check_dev_limit(check_dev *w, uint32_t ms); /* from now on until an event is late */

/* The spec of out = a + b over `n` elements of fp32, a program of one step; it stays valid as long
 * as *kept. */
typedef struct check_dev_sum {
    weft_ew_program program;
    weft_operand line[2];
    weft_opspec spec;
} check_dev_sum;
const weft_opspec *check_dev_add(check_dev_sum *kept, int64_t n);

/* --- the checks --- */

/* absent.c */
void check_device_plan_only(check_run *r);
void check_device_reason(check_run *r);

/* memory.c */
void check_device_arena(check_run *r);
void check_device_huge(check_run *r);
void check_device_mapped(check_run *r);
void check_device_stray(check_run *r);
void check_device_sizes(check_run *r);

/* order.c */
void check_device_order(check_run *r);
void check_device_streams(check_run *r);
void check_device_events(check_run *r);
void check_device_back(check_run *r);
void check_device_close(check_run *r);

#endif
