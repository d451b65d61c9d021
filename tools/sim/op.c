/* sim/op.c: the time of a kernel on a described device.
 *
 * A kernel has operations, which take flops / rate, and bytes, which take bytes / memory bandwidth;
 * it takes the longer of the two, because devices do both at once (the roofline model: Williams,
 * Waterman, Patterson, CACM 52, 2009), and the gap to the kernel before it.
 *
 * The rate of a product of M x N x K is peak * reach * K / (K + ramp) * rounds. The middle factor
 * is the start and the end of a tile, which do not depend on K; `rounds` is the share of processors
 * that have a tile, on average over the rounds: with 108 processors 120 tiles take two rounds.
 *
 * M, N and K follow from the number of operations and the size of the result, whatever the op is
 * called: N and M are the split of the result's axes that makes the fewest tiles, and K is
 * flops / (2 M N).
 *
 * Attention has two forms. Fused, it is a chain of products with the length of a head as inner
 * length; backward computes the scores again, so it does 2.5 times the forward operations and not
 * 2. Otherwise scores are a matrix in memory, the whole square of it, and pass through memory
 * several times: see SCORE_BYTES. */
#include "sim/sim.h"

#include <math.h>
#include <string.h>

/* Bytes for each score in memory, in a type of 2 bytes. Forward: the product writes 2; softmax
 * reads and writes 4; dropout reads 2 and writes 2 and a mask of 1; the product with the values
 * reads 2. Backward: the gradient is written (2); dropout reads 3 and writes 2; softmax reads 4 and
 * writes 2; the products for queries, keys and values read 6. */
#define SCORE_BYTES 13.0
#define SCORE_BYTES_BACKWARD 19.0

static double elements(const weft_operand *o)
{
    double n = 1;
    for (uint32_t i = 0; i < o->rank; i++)
        n *= (double)o->size[i];
    return n;
}

static double bytes_of(const weft_operand *o)
{
    return o->dtype ? elements(o) * weft_dtype_size(o->dtype) : 0; /* 0: nothing reads it */
}

static double all_bytes(const weft_opspec *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->nin; i++)
        sum += bytes_of(&s->in[i]);
    for (uint32_t i = 0; i < s->nout; i++)
        sum += bytes_of(&s->out[i]);
    return sum;
}

/* The operands of a product decide its rate: the narrowest type among the inputs. */
static double peak_of(const sim_device *d, const weft_opspec *s)
{
    uint32_t type = s->nin ? s->in[0].dtype : WEFT_F32;
    double peak = type == WEFT_BF16 ? d->bf16 : type == WEFT_F16 ? d->fp16 : d->fp32;
    return peak > 0 ? peak : fmax(d->fp32, fmax(d->fp16, d->bf16));
}

/* The share of processors with a tile, for a result of `rows` x `columns`. */
static double rounds_of(const sim_device *d, double tiles, double whole)
{
    if (d->units <= 0 || tiles <= 0)
        return 1;
    double rounds = ceil(tiles / d->units);
    return fmin(1, whole / (rounds * d->units));
}

/* The best over the ways to see the result as a matrix. */
static double best_rounds(const sim_device *d, const weft_operand *out)
{
    double total = elements(out), rows = 1, best = 0;
    for (uint32_t i = 0; i + 1 < out->rank; i++) {
        rows *= (double)out->size[i];
        double columns = total / rows;
        double tiles = ceil(rows / d->tile_rows) * ceil(columns / d->tile_columns);
        double whole = rows * columns / (d->tile_rows * d->tile_columns);
        best = fmax(best, rounds_of(d, tiles, whole));
    }
    return best > 0 ? best : 1;
}

static double ramp_of(const sim_device *d, double inner)
{
    return inner > 0 ? inner / (inner + d->ramp) : 1;
}

static const weft_operand *largest(const weft_operand *o, uint32_t n)
{
    const weft_operand *best = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (!best || elements(&o[i]) > elements(best))
            best = &o[i];
    return best;
}

static double product_seconds(const sim_device *d, const plan_kernel *k)
{
    const weft_operand *out = largest(k->spec.out, k->spec.nout);
    if (!out)
        return 0;
    double inner = k->flops / (2 * fmax(1, elements(out)));
    double rate = peak_of(d, &k->spec) * d->reach * ramp_of(d, inner) * best_rounds(d, out);
    return k->flops / rate;
}

static bool is_attention(const weft_opspec *s, bool *backward)
{
    *backward = !strcmp(s->id, "attention.dx");
    return *backward || !strcmp(s->id, "attention");
}

/* The plan counts the half of the scores that a causal pass needs, forward 4 and backward 8
 * operations for each score and feature of a head. */
static double attention_seconds(const sim_device *d, const plan_kernel *k, bool backward)
{
    const weft_operand *in = &k->spec.in[0];
    double head = in->rank ? (double)in->size[in->rank - 1] : 1;
    double peak = peak_of(d, &k->spec) * d->reach, sequence = 1, causal = 1;
    double bytes = d->bandwidth * d->stream;
    for (uint32_t i = 0; i < k->spec.nattr; i++) {
        if (!strcmp(k->spec.attrs[i].key, "sequence"))
            sequence = fmax(1, (double)k->spec.attrs[i].i);
        if (!strcmp(k->spec.attrs[i].key, "causal"))
            causal = k->spec.attrs[i].i ? 1 : 0;
    }
    double forward = backward ? k->flops / 2 : k->flops;
    if (d->attention == SIM_FUSED)
        return (backward ? 2.5 : 1) * forward / (peak * ramp_of(d, head));
    double square = causal > 0 ? 2 * forward : forward; /* the whole square */
    double scores = square / (4 * head);
    double one = square / 2 / (peak * ramp_of(d, head)) +
                 square / 2 / (peak * ramp_of(d, sequence)) + scores * SCORE_BYTES / bytes +
                 4 * d->launch;
    double two = square / (peak * ramp_of(d, head)) + square / (peak * ramp_of(d, sequence)) +
                 scores * SCORE_BYTES_BACKWARD / bytes + 6 * d->launch;
    return !backward ? one : d->attention == SIM_RECOMPUTED ? two + one : two;
}

double sim_op_seconds(const sim_device *d, const plan_kernel *k)
{
    bool backward;
    double bytes = all_bytes(&k->spec) / (d->bandwidth * d->stream), operations = 0;
    if (k->flops > 0)
        operations = is_attention(&k->spec, &backward) ? attention_seconds(d, k, backward)
                                                       : product_seconds(d, k);
    return fmax(bytes, operations) + d->launch;
}
