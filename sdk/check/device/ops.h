/* check/device/ops.h: what checks of ops share: calls of ops with their values, a device on which
 * they are run, and an image of the memory that a run sees.
 *
 * A call (check/reference/call.h) comes from three places: an example that is built from the doc of
 * the op (ops_example.c; its result is not compared), a case whose result the reference gives
 * (ops_case.c), or an elementwise program of the check itself. A
 * bench (a check_dev that check_bench_up() has made ready) runs calls on a device of the file, or a
 * kernel of the file for a device. A rule (check_ops_rule) looks at one call on one bench, so
 * devices (67 to 88) and kernels (179) are held to the same rules.
 *
 * Operands lie in the arena between red zones, behind them the workspace. After a run all of that
 * memory is copied back and compared. As in link/link.h, functions without a result end the check
 * when a lawful call fails. */
#ifndef CHECK_DEVICE_OPS_H
#define CHECK_DEVICE_OPS_H

#include "check/device/device.h"
#include "check/reference/reference.h"
#include "graph/graph.h"

/* --- examples from docs: ops_example.c --- */

/* Example `number` of an op, with operands of the compute type `dtype`; false: there are no more.
 * `op` is weft's own or from the file. */
bool check_example(const char *id, const weft_op *op, uint32_t number, uint32_t dtype,
                   check_call *out);

/* The same with other sizes and values. *lawful: infer() of the op takes these sizes and
 * attributes. */
#define CHECK_EXAMPLE_SIZES 5u
typedef struct check_example_how {
    int64_t size[CHECK_EXAMPLE_SIZES],
        rest;      /* of the letters, as they appear, and of further ones */
    double lo, hi; /* of values */
    graph_ops ops;
} check_example_how;
bool check_example_how_of(const check_example_how *how, const char *id, const weft_op *op,
                          uint32_t number, uint32_t dtype, bool *lawful, check_call *out);

/* The same for a chain of two of weft's own ops, as the op `name` that a device fuses them to. Each
 * pair of examples has a number; *fits is false where the two do not fit together. */
bool check_example_chain(const host_component *const *ops, uint32_t join, const char *name,
                         uint32_t number, uint32_t dtype, bool *fits, check_call *out);

/* --- cases with results: ops_case.c --- */

typedef struct check_sizes {
    int64_t n, rows, in, out; /* n: of ops on all elements */
} check_sizes;

/* Case `number`, with results and slack; false: there are no more. */
bool check_case(uint32_t number, const check_sizes *z, uint32_t dtype, check_call *out);

/* By how much a step of a program may be off. */
double check_case_slack(uint32_t ew, double result);

/* --- the memory of a run: ops_image.c --- */

#define CHECK_RED 256u             /* bytes of a red zone */
#define CHECK_HALF CHECK_DEV_ARENA /* of the arena */

typedef struct check_image {
    uint64_t in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS], workspace, bytes; /* offsets; size */
    uint64_t capacity;                                                        /* of the workspace */
    unsigned char *was, *is;                                          /* before and after the run */
    bool absent_in[WEFT_MAX_OPERANDS], absent_out[WEFT_MAX_OPERANDS]; /* run() gets NULL */
} check_image;

/* --- a device: ops_bench.c --- */

/* Does query() accept the call? `need` may be NULL. */
bool check_bench_accepts(check_dev *b, const check_call *c, weft_requirements *need);
weft_status check_bench_query(check_dev *b, const check_call *c, weft_requirements *need);
void check_bench_clear(check_dev *b); /* forget the records */

/* prepare() of a call that query() accepts; and the status alone. */
weft_status check_bench_try(check_dev *b, const check_call *c, void **out);
void *check_bench_prepare(check_dev *b, const check_call *c);
void check_bench_release(check_dev *b, void *prepared);

/* Lay out and fill the memory of a run: with check_image_end() it is freed. lay() alone is false
 * where it does not fit. ops_image.c */
bool check_image_lay(const check_call *c, uint64_t workspace, check_image *m);
void check_image_fill(const check_call *c, check_image *m);
void check_image_begin(check_dev *b, const check_call *c, check_image *m);
void check_image_end(check_image *m);

/* Copy m->was into a half (0, 1) of the arena; put a run on stream 0 or 1; wait for both streams;
 * copy the half into m->is. */
void check_bench_put(check_dev *b, const check_image *m, uint32_t half);
void check_bench_run(check_dev *b, void *prepared, const check_call *c, const check_image *m,
                     uint32_t half, uint32_t stream);
void check_bench_wait(check_dev *b);
void check_bench_get(check_dev *b, check_image *m, uint32_t half);

/* All of that for one run; begins the image, unless the caller has. */
void check_bench_compute(check_dev *b, const check_call *c, check_image *m);

/* Compare m->is with the values of the call. ops_image.c */
void check_image_right(check_dev *b, const check_call *c, const check_image *m);

/* The first byte in which the outputs of two images of one call differ; false: none does. */
bool check_image_differ(const check_call *c, const check_image *a, const check_image *b,
                        uint32_t *output, uint64_t *element);

/* --- rules: a call that query() accepts, on a bench that is up --- */

typedef void (*check_ops_rule)(check_dev *b, check_call *c);
void check_call_agrees(check_dev *b, check_call *c);  /* 67, ops_plan.c */
void check_call_bound(check_dev *b, check_call *c);   /* 68, ops_zone.c */
void check_call_same(check_dev *b, check_call *c);    /* 84, ops_bits.c */
void check_call_inputs(check_dev *b, check_call *c);  /* 85, ops_zone.c */
void check_call_outside(check_dev *b, check_call *c); /* 86, ops_zone.c */
void check_call_streams(check_dev *b, check_call *c); /* 87, ops_bits.c */
void check_call_null(check_dev *b, check_call *c);    /* 88, ops_zone.c */

/* Call the rule for every example of weft's own ops and every case that the device accepts. The
 * check is not applicable where there is none. ops_all.c */
void check_ops_all(check_dev *b, check_ops_rule rule);

/* Call `fn` for every pair of weft's own ops of which the core may ask fuse(), with each join. */
typedef void (*check_ops_pair)(check_dev *b, const host_component *const *ops, uint32_t join);
void check_ops_pairs(check_dev *b, check_ops_pair fn);

/* --- checks --- */
void check_ops_agree(check_run *r);         /* ops_plan.c */
void check_ops_bound(check_run *r);         /* ops_zone.c */
void check_ops_unknown(check_run *r);       /* ops_plan.c */
void check_ops_fuse(check_run *r);          /* ops_plan.c */
void check_ops_results(check_run *r);       /* ops_result.c */
void check_ops_sizes(check_run *r);         /* ops_result.c */
void check_ops_accumulate(check_run *r);    /* ops_result.c */
void check_ops_deterministic(check_run *r); /* ops_bits.c */
void check_ops_inputs(check_run *r);        /* ops_zone.c */
void check_ops_outside(check_run *r);       /* ops_zone.c */
void check_ops_streams(check_run *r);       /* ops_bits.c */
void check_ops_absent(check_run *r);        /* ops_zone.c */
void check_ops_programs(check_run *r);      /* ops_ew.c */
void check_ops_gate(check_run *r);          /* ops_ew.c */
void check_ops_special(check_run *r);       /* ops_ew.c */

#endif
