/* check/strategy/strategy.h: plans and runs with a strategy or placement, whose edits are watched;
 * private to this folder.
 *
 * The component is called through tables of the check: view and edits are the core's behind
 * functions that note each edit, refuse one of them, or make what was lent inaccessible. */
#ifndef CHECK_STRATEGY_STRATEGY_H
#define CHECK_STRATEGY_STRATEGY_H

#include "check/exercise/exercise.h"
#include "plan/plan.h"

#include <weft/optim.h>

#define CHECK_SPY_EDITS 256u
#define CHECK_SPY_UNKNOWN 99u /* a phase that no header defines */

typedef struct check_edit {
    uint32_t phase;
    const char *name; /* "split" */
    char axis[WEFT_MAX_NAME];
    uint32_t what; /* of shard */
    bool all;      /* shard: of all parameters */
} check_edit;

typedef struct check_spy {
    /* what it is about, for check_spy_each() */
    check_run *run;
    check_host *host;
    void *module;
    const host_component *c;
    const weft_conf *conf;
    /* wishes */
    bool poison;         /* what view and edits lend cannot be read after edit() */
    bool unknown;        /* each call of edit() is followed by one with an unknown phase */
    uint32_t refuse;     /* the edit with this number, from 1, is refused */
    weft_status refusal; /* with this status */
    /* what was seen; cleared by check_spy_plan() */
    check_edit edits[CHECK_SPY_EDITS];
    uint32_t n; /* edits */
    uint32_t phase;
    bool changes;         /* changes_results() was called */
    bool silent;          /* edit() failed, and neither it nor the core gave a reason */
    const char *refused;  /* the edit that was */
    weft_status answer;   /* of the edit() in which it was refused */
    weft_status odd;      /* of the first call with an unknown phase that was not WEFT_OK */
    const char *odd_edit; /* that such a call emitted */
    char data_axes[WEFT_MAX_MESH][WEFT_MAX_NAME]; /* that the placement may use */
    uint32_t ndata;
} check_spy;

/* Call `fn` for each component of the interface, with an open module. Strategies that are lists are
 * left out: their edit() is never called. */
void check_spy_each(check_run *r, const char *iface, void (*fn)(check_spy *s));

/* Tables that stand before the component's. */
extern const weft_strategy check_spy_strategy;
extern const weft_placement check_spy_placement;

/* A job with the component; 0: as usual. */
typedef struct check_job {
    uint32_t family;              /* 0 and on: installed families */
    uint32_t size[WEFT_MAX_MESH]; /* of each axis that the component brings; else of "batch" */
    uint32_t ranks;               /* that every size of the model is divisible by */
    uint32_t micro_batches;       /* of a step, a rank */
    uint32_t compute;             /* WEFT_BF16 */
    bool renamed;                 /* blocks and parameters have other names */
    uint32_t side;                /* of a second axis of the mesh that a placement may not use */
    const host_component *before, *after; /* other strategies: named before and after this one */
    bool without;                         /* no placement */
} check_job;

typedef struct check_planned {
    check_exercise d;
    spec s;
    plan_set p;
    config *options;
    host_component own;
    const char *family; /* its name */
    weft_status st;
    char why[1024]; /* the sentence of the failure */
    bool by_plugin; /* the component itself has recorded it */
} check_planned;

/* Plan and check the job. The result is in `out`, which check_planned_free() takes in any case. */
void check_spy_plan(check_spy *s, const check_job *job, check_planned *out);
void check_planned_free(check_planned *x);

/* The numbers of families: 0 to n - 1. */
uint32_t check_spy_families(check_spy *s);

/* A family whose blocks and parameters have other names; rename.c. */
void check_rename(struct spec *s);

uint32_t check_spy_axes(const check_spy *s); /* that the strategy brings */

/* --- runs: train.c --- */

#define CHECK_TRAIN_STEPS 12u

typedef struct check_trained {
    double loss[CHECK_TRAIN_STEPS], norm[CHECK_TRAIN_STEPS];
    bool ran;
    char why[1024]; /* the last line of what the job said, where it did not run to its end */
} check_trained;

/* Train with rank processes: axis `axis` of the strategy, or of an installed one that shares the
 * batch beside one that brings none, has `n` coordinates. `key`: an option that
 * has `value`; NULL: none. */
void check_train(check_spy *s, uint32_t family, uint32_t axis, uint32_t n, const char *key,
                 const char *value, check_trained *out);

/* Whether there is an axis to train over: one of its own, or such a strategy is installed. */
bool check_train_spreads(check_spy *s);

/* The largest difference of loss or norm, as a share. */
double check_train_apart(const check_trained *a, const check_trained *b);

/* --- checks --- */
void check_strategy_axes(check_run *r);         /* edits.c */
void check_strategy_alone(check_run *r);        /* edits.c */
void check_strategy_phases(check_run *r);       /* edits.c */
void check_strategy_refusals(check_run *r);     /* edits.c */
void check_strategy_names(check_run *r);        /* pure.c */
void check_strategy_ranks(check_run *r);        /* pure.c */
void check_strategy_handles(check_run *r);      /* pure.c */
void check_strategy_plans(check_run *r);        /* plans.c */
void check_strategy_train(check_run *r);        /* results.c */
void check_strategy_orders(check_run *r);       /* plans.c */
void check_strategy_replacements(check_run *r); /* plans.c */
void check_strategy_changes(check_run *r);      /* results.c */
void check_strategy_company(check_run *r);      /* plans.c */
void check_placement_edits(check_run *r);       /* placement.c */
void check_placement_bytes(check_run *r);       /* placement.c */

#endif
