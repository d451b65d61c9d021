/* ops.h: the plan and run functions that the table of ops.c refers to; each is described at its
 * definition. */
#ifndef CPU_OPS_H
#define CPU_OPS_H

#include "cpu.h"

#define CPU_PLAN(name)                                                                             \
    weft_status name(const struct cpu_module *m, const struct cpu_op *op, const weft_opspec *spec, \
                     const weft_match *match, struct cpu_args *a, uint64_t *workspace)
#define CPU_RUN(name)                                                                              \
    weft_status name(weft_prepared *p, const void *const *in, void *const *out, void *ws)

/* simple.c */
CPU_PLAN(plan_rows);
CPU_PLAN(plan_embedding);
CPU_PLAN(plan_embedding_dw);
CPU_PLAN(plan_attention);
CPU_PLAN(plan_xent);
CPU_PLAN(plan_vocab);
CPU_PLAN(plan_flat);
CPU_PLAN(plan_cast);
CPU_PLAN(plan_sumsq);
CPU_PLAN(plan_interchange);
weft_status ready_attention(weft_prepared *p, const weft_opspec *spec);
CPU_RUN(run_rows);
CPU_RUN(run_columns);
CPU_RUN(run_embedding_dw);
CPU_RUN(run_attention);
CPU_RUN(run_xent);
CPU_RUN(run_flat);
CPU_RUN(run_sumsq);
CPU_RUN(run_interchange);

/* cached.c */
CPU_PLAN(plan_cache_write);
CPU_PLAN(plan_attention_cached);
weft_status ready_attention_cached(weft_prepared *p, const weft_opspec *spec);
CPU_RUN(run_cache_write);
CPU_RUN(run_attention_cached);
bool product_is_row(const weft_prepared *p); /* is it y of one row? */
CPU_RUN(product_row_run);

/* axis.c */
CPU_PLAN(plan_reduce);
CPU_PLAN(plan_broadcast);
CPU_RUN(run_reduce);
CPU_RUN(run_broadcast);

/* rope.c */
CPU_PLAN(plan_rope);
weft_status ready_rope(weft_prepared *p, const weft_opspec *spec);
void drop_rope(weft_prepared *p);

/* random.c */
CPU_PLAN(plan_random);
CPU_RUN(run_random);

/* product.c */
#define PRODUCT_Y 1u  /* y = x w' + b */
#define PRODUCT_DX 2u /* dx = dy w */
#define PRODUCT_DW 3u /* dw = dy' x */
CPU_PLAN(plan_product);
weft_status product_ready(weft_prepared *p, const weft_opspec *spec);
CPU_RUN(product_run);
void product_drop(weft_prepared *p);

/* product_tiled.c */

/* Whether products of m rows and n columns are computed by kern/product.c. */
bool product_is_tiled(const weft_prepared *p, int64_t m, int64_t n);

/* `product`: its sizes; it is divided among the threads here. [setup] */
weft_status product_tiled_ready(weft_prepared *p, struct cpu_product *product, int64_t batch);
weft_status product_tiled_run(const weft_prepared *p, const void *const *in, void *const *out);

/* ew.c */
CPU_PLAN(plan_ew);
weft_status ready_ew(weft_prepared *p, const weft_opspec *spec);
CPU_RUN(run_ew);
void drop_ew(weft_prepared *p);

/* chain.c */
void cpu_ew_chain(struct ew_code *c);

#endif
