/* run/state/weights.c: see weights.h. */
#include "run/state/weights.h"

#include "base/err.h"
#include "base/log.h"
#include "base/number/half.h"
#include "run/exec/arena.h"
#include "run/save/pieces.h"
#include "run/state/local.h"
#include "run/state/replica.h"
#include "run/state/residual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- checkpoints --- */

#define SCALAR RUN_SAVE_SCALAR

/* How many replicas of the piece the checkpoint has. */
static uint32_t saved_replicas(const ckpt *c, const plan_piece *p)
{
    char name[REPLICA_NAME];
    uint32_t n = 0;
    while (ckpt_has(c, run_replica_name(p, n, name)))
        n++;
    return n;
}

/* to += from, n numbers as a gradient has them. */
static void add_up(uint32_t dtype, void *to, const void *from, uint64_t n)
{
    float *sum = to;
    uint16_t *half = to;
    const uint16_t *more = from;
    for (uint64_t i = 0; i < n; i++)
        if (dtype == WEFT_F32)
            sum[i] += ((const float *)from)[i];
        else if (dtype == WEFT_BF16)
            half[i] = bf16_from(bf16_value(half[i]) + bf16_value(more[i]));
        else
            half[i] = f16_from(f16_value(half[i]) + f16_value(more[i]));
}

typedef struct saved {
    const run_executor *e;
    const ckpt *c;
    float *more; /* [LOCAL_CHUNK] */
} saved;

/* Reads into v[want->count] what this rank has of a piece. Where the number of replicas differs,
 * the first one gets the sum of all that were saved if it is the sum that counts, and the others 0;
 * else those that are missing start as copies of the first. */
static weft_status read_replicas(const saved *s, const plan_piece *p, ckpt_piece *want, float *v)
{
    const run_executor *e = s->e;
    const ckpt *c = s->c;
    char name[REPLICA_NAME];
    const uint32_t mine = plan_replica(e->plan, p, e->rank), n = p->sum ? saved_replicas(c, p) : 1;
    if (!p->sum || n == plan_replicas(e->plan, p)) {
        want->name = run_replica_name(p, mine, name);
        want->name = ckpt_has(c, want->name) ? want->name : p->name;
        return ckpt_read(c, want, v);
    }
    memset(v, 0, want->count * sizeof *v);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < n && !mine; i++) {
        want->name = run_replica_name(p, i, name);
        st = ckpt_read(c, want, s->more);
        if (st == WEFT_OK)
            add_up(p->shape.dtype, v, s->more, want->count);
    }
    return st;
}

/* Training from such values skips every step, or spreads them. */
static weft_status check_finite(const ckpt *c, const ckpt_piece *x, const float *v)
{
    bool finite = true;
    for (uint64_t i = 0; i < x->count; i++)
        finite &= isfinite(v[i]) != 0;
    if (finite)
        return WEFT_OK;
    return err_fail(WEFT_DATA,
                    "checkpoint %s: tensor %s has values that are not finite, so nothing can go on "
                    "from it; take an earlier checkpoint",
                    ckpt_dir(c), x->name);
}

static weft_status read_piece(void *from, const plan_piece *p, ckpt_piece *want, float *v)
{
    const saved *s = from;
    weft_status st = read_replicas(s, p, want, v);
    if (st == WEFT_OK && s->e->plan->spec->want == SPEC_TRAIN && p->shape.dtype == WEFT_F32 &&
        !p->sum) /* a sum may be that of a step to skip */
        st = check_finite(s->c, want, v);
    return st;
}

static bool wanted(const plan_set *plans, const char *name)
{
    name = run_replica_base_name(name);
    if (run_residual_is_name(name) || !strncmp(name, SCALAR, strlen(SCALAR)))
        return true;
    for (uint32_t k = 0; k < plans->n; k++)
        for (uint32_t i = 0; i < plans->at[k].pieces.n; i++)
            if (!strcmp(plans->at[k].pieces.at[i].name, name))
                return true;
    return false;
}

/* Warns about a scalar that this job does not use: the loss was scaled, or a plugin's list of
 * another layout used it. */
static void tell_left_out(const plan_set *plans, const ckpt *c, const char *name)
{
    const size_t prefix = strlen(SCALAR);
    bool known = strncmp(name, SCALAR, prefix) || log_rank() > 0;
    known |= !strcmp(name, SCALAR "scale") || !strcmp(name, SCALAR "scale.good");
    for (uint32_t i = 0; !known && i < plans->at[0].scalars.n; i++)
        known = plans->at[0].scalars.at[i].saved &&
                !strcmp(plans->at[0].scalars.at[i].name, name + prefix);
    if (!known)
        log_line(WEFT_LOG_WARN, "%s has the scalar %s, which this job does not use: it is ignored",
                 ckpt_dir(c), name + prefix);
}

/* A training job uses every tensor of a checkpoint; a surplus one belongs to another model or
 * update rule. */
static weft_status nothing_over(const plan_set *plans, const ckpt *c)
{
    const ckpt_piece *has;
    uint32_t n = plans->spec->want == SPEC_TRAIN ? ckpt_tensors(c, &has) : 0;
    for (uint32_t i = 0; i < n; i++)
        tell_left_out(plans, c, has[i].name);
    for (uint32_t i = 0; i < n; i++)
        if (!wanted(plans, has[i].name))
            return err_fail(
                WEFT_USAGE,
                "checkpoint %s has tensor %s, which this job does not have: [model] and "
                "the plugin of [optim] must be those that were saved; checkpoint.init begins a run "
                "from the weights alone",
                ckpt_dir(c), has[i].name);
    return WEFT_OK;
}

/* A count of steps or of updates is whole, and exact up to 2^48 (plan/optim/step.c). */
static weft_status check_counter(const ckpt *c, const char *name, float value)
{
    const size_t n = strlen(name);
    const bool low = n > 4 && !strcmp(name + n - 4, ".low"); /* the rounding error of one */
    const bool counts = !strcmp(name, "skipped") || !strncmp(name, "count", 5);
    if (!counts || (value == floorf(value) && fabsf(value) <= 0x1p48f && (low || value >= 0)))
        return WEFT_OK;
    return err_fail(WEFT_DATA,
                    "checkpoint %s: the scalar %s is %g; it counts steps, so it is a whole number "
                    "from 0 to 2^48",
                    ckpt_dir(c), name, value);
}

static weft_status load_scalar(run_executor *e, const ckpt *c, const plan_scalar_slot *x)
{
    ckpt_piece want;
    char name[RUN_SAVE_SCALAR_NAME];
    float value;
    run_save_describe_scalar(x, name, &want);
    if (x->saved != SCALAR_SAVED && !ckpt_has(c, name)) {
        if (x->saved == SCALAR_OF_PLUGIN && !e->rank)
            log_line(WEFT_LOG_WARN, "%s does not have the scalar %s: it starts at %g", ckpt_dir(c),
                     x->name, x->value);
        return WEFT_OK;
    }
    weft_status st = ckpt_read(c, &want, &value);
    if (st == WEFT_OK)
        st = check_counter(c, x->name, value);
    return st != WEFT_OK ? st : run_exec_write(e, x->offset, &value, sizeof value);
}

weft_status run_weights_load(run_executor *e, const plan_set *plans, const ckpt *c)
{
    saved from = {e, c, mem_alloc(LOCAL_CHUNK * sizeof(float))};
    const run_source s = {.what = "the checkpoint is loaded", .read = read_piece, .from = &from};
    const bool train = plans->spec->want == SPEC_TRAIN;
    weft_status st = nothing_over(plans, c);
    if (st == WEFT_OK && train)
        run_replica_warn(e, c);
    if (st == WEFT_OK)
        st = run_local_load(e, &s);
    for (uint32_t i = 0; st == WEFT_OK && i < e->plan->scalars.n && train; i++)
        if (e->plan->scalars.at[i].saved)
            st = load_scalar(e, c, &e->plan->scalars.at[i]);
    if (st == WEFT_OK && train)
        st = run_residual_load(e, c);
    free(from.more);
    return st;
}
