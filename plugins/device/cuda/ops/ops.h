/* ops.h: plans and runs that the table of ops.c names. What each does is said where it stands. */
#ifndef GPU_OPS_H
#define GPU_OPS_H

#include "gpu.h"

#define GPU_PLAN(name)                                                                             \
    weft_status name(const struct gpu_module *m, const struct gpu_op *op, const weft_opspec *spec, \
                     const weft_match *match, struct gpu_sizes *z, uint64_t *workspace)
#define GPU_RUN(name)                                                                              \
    weft_status name(weft_prepared *p, weft_stream *s, const void *const *in, void *const *out,    \
                     void *ws)

/* simple.c */
weft_status gpu_launch_rows(const weft_prepared *p, CUfunction f, weft_stream *s,
                            const struct gpu_job *j);

/* Cut the rows whose sums are formed apart; bytes of those sums. Then both kernels of it. */
uint64_t gpu_cut_rows(struct gpu_sizes *z);
weft_status gpu_launch_columns(const weft_prepared *p, const CUfunction f[2], uint32_t outputs,
                               weft_stream *s, const struct gpu_job *j);
GPU_PLAN(plan_rows);
GPU_PLAN(plan_teams);
GPU_PLAN(plan_columns);
GPU_PLAN(plan_embedding);
GPU_PLAN(plan_xent);
GPU_PLAN(plan_vocab);
GPU_PLAN(plan_flat);
GPU_PLAN(plan_sumsq);
GPU_PLAN(plan_interchange);
GPU_RUN(run_rows);
GPU_RUN(run_teams);
GPU_RUN(run_columns);
GPU_RUN(run_blocks);
GPU_RUN(run_xent);
GPU_RUN(run_loss);
GPU_RUN(run_flat);
GPU_RUN(run_sumsq);
GPU_RUN(run_interchange);

/* tune.c */
/* Milliseconds that an op takes at its best as it is now, on memory of our own; negative: no memory
 * for it, or it fails. */
float gpu_time_op(weft_prepared *p, const weft_opspec *spec);
/* Run it once on such memory, if there is some, so that its code is loaded; false: it fails. */
bool gpu_try_op(weft_prepared *p, const weft_opspec *spec);

/* rope.c */
GPU_PLAN(plan_rope);
weft_status ready_rope(weft_prepared *p, const weft_opspec *spec);
GPU_RUN(run_rope);
void drop_rope(weft_prepared *p);

/* embed.c */
GPU_PLAN(plan_embedding_dw);
GPU_RUN(run_embedding_dw);

/* attention.c */
GPU_PLAN(plan_attention);
GPU_PLAN(plan_attention_dx);
weft_status ready_attention(weft_prepared *p, const weft_opspec *spec);
GPU_RUN(run_attention);
void drop_attention(weft_prepared *p);

/* product.c */
#define PRODUCT_Y 1u  /* y = x w' + b */
#define PRODUCT_DX 2u /* dx = dy w */
#define PRODUCT_DW 3u /* dw = dy' x */
GPU_PLAN(plan_product);
weft_status ready_product(weft_prepared *p, const weft_opspec *spec);
GPU_RUN(run_product);
void drop_product(weft_prepared *p);

/* joined.c */
#define JOINED_GELU 1u
#define JOINED_RESIDUAL 2u
#define JOINED_GELU_DX 3u
#define JOINED_DW_DB 4u
#define JOINED_DB_DW 5u
GPU_PLAN(plan_joined);
weft_status ready_joined(weft_prepared *p, const weft_opspec *spec);
GPU_RUN(run_joined);
void drop_joined(weft_prepared *p);

/* ew.c */
GPU_PLAN(plan_ew);
weft_status ready_ew(weft_prepared *p, const weft_opspec *spec);
GPU_RUN(run_ew);
void drop_ew(weft_prepared *p);

/* known.c: the kernel that a program has of its own; NULL: none. */
const char *gpu_known_kernel(const struct ew_code *c, const struct ew_instr *step);

#endif
