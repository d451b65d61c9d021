/* run/save/pieces.h: what one rank writes into a checkpoint, and where that is in memory.
 *
 * The list is made once, before the first step, because the plan fixes all addresses. A save reads
 * the values in place (run_save_view) or copies them first (run_save_copy). */
#ifndef RUN_SAVE_PIECES_H
#define RUN_SAVE_PIECES_H

#include "ckpt/ckpt.h"
#include "run/exec/executor.h"

typedef struct run_save_piece {
    ckpt_piece what;  /* without data */
    const void *host; /* its values in host memory; NULL: they are in the arena */
    uint64_t offset;  /* in the arena */
    uint64_t at;      /* in the copy: bytes from its start */
} run_save_piece;

typedef struct run_save_pieces {
    run_save_piece *at;
    uint32_t n;
    uint64_t bytes;  /* of the copy of all */
    ckpt_piece *out; /* [n] the same with data, for the writer */
    pool pool;       /* owns the arrays and names */
} run_save_pieces;

/* Collect what this rank writes. Free with run_save_free(). [setup] */
void run_save_collect(run_executor *e, run_save_pieces *out);
void run_save_free(run_save_pieces *s);

/* Set the data of s->out to the values in place; `copies` owns those that the host cannot read in
 * place. [setup] */
weft_status run_save_view(run_executor *e, run_save_pieces *s, pool *copies);

/* Copy all values to `copy`, s->bytes long, with up to `threads` threads, and set the data of
 * s->out to it. Returns when the copy is complete. [setup] */
weft_status run_save_copy(run_executor *e, run_save_pieces *s, char *copy, uint32_t threads);

/* The name and type under which a checkpoint has an extent of a piece, or a scalar. [any] */
#define RUN_SAVE_SCALAR "scalar."
#define RUN_SAVE_SCALAR_NAME (WEFT_MAX_NAME + 8)
void run_save_describe(const plan_piece *p, const plan_extent *x, ckpt_piece *out);
void run_save_describe_scalar(const plan_scalar_slot *x, char name[RUN_SAVE_SCALAR_NAME],
                              ckpt_piece *out);

#endif
