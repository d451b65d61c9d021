/* run/valid.c: see valid.h. */
#include "run/valid.h"

#include "run/exec/arena.h"
#include "run/exec/walk.h"

/* A micro-batch of the validation samples from number `first` on; behind the last comes the first
 * again, for data of less than a batch. */
static weft_status read_samples(run_inputs *in, data_set *valid, uint64_t micro, uint64_t first)
{
    const uint64_t samples = valid->info.samples;
    weft_status st = WEFT_OK;
    for (uint64_t k = 0, n; st == WEFT_OK && k < micro; k += n) {
        const uint64_t sample = (first + k) % samples;
        n = micro - k < samples - sample ? micro - k : samples - sample;
        st = run_inputs_read(in, valid, sample, n, k);
    }
    return st;
}

uint64_t run_valid_batches(uint64_t wanted, uint64_t samples, uint64_t batch)
{
    const uint64_t whole = samples < batch ? 1 : samples / batch;
    return wanted < whole ? wanted : whole;
}

weft_status run_valid_loss(run_executor *e, run_inputs *in, data_set *valid, double *out)
{
    const spec *s = e->plan->spec;
    uint64_t batches = run_valid_batches(e->set->eval_batches, valid->info.samples, s->batch);
    uint64_t per_run = s->micro_batch * e->plan->dp_size, runs = batches * s->batch / per_run;
    uint64_t part = plan_data_part(e->plan, e->rank) * s->micro_batch;
    double sum = 0;
    for (uint64_t r = 0; r < runs; r++) {
        weft_status st = read_samples(in, valid, s->micro_batch, r * per_run + part);
        double loss;
        in->first_token = (int64_t)(r * per_run * (uint64_t)s->sequence);
        if (st == WEFT_OK)
            st = run_inputs_fill(e, 0, in);
        if (st == WEFT_OK)
            st = run_exec_list(e, &e->plan->eval);
        if (st == WEFT_OK)
            st = run_exec_scalar(e, "loss", &loss);
        if (st != WEFT_OK)
            return st;
        sum += loss;
    }
    *out = sum / (double)runs;
    return WEFT_OK;
}
