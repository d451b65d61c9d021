/* saved/evaluate.c: see evaluate.h. */
#include "saved/evaluate.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/lengthy.h"
#include "base/log.h"
#include "run/exec/arena.h"
#include "run/exec/walk.h"
#include "run/inputs.h"
#include "run/valid.h"
#include "saved/report.h"
#include "tokens/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    saved_job saved;
    const saved_evaluate_options *o;
    run_inputs inputs;
    data_tokenizer text; /* .t NULL: bytes are not counted */
    uint32_t *bytes;     /* [vocab] of each id */
    uint64_t each;       /* samples of a run, over the whole data-parallel job */
    uint64_t wraps;      /* samples, behind which the first comes again */
    saved_evaluated done;
    double sum; /* of the losses of runs, each times its samples */
    lengthy progress;
} evaluation;

/* --- set-up --- */

static weft_status open_data(evaluation *e)
{
    run_prepared *j = &e->saved.j;
    weft_status st = resolve_open_source(e->saved.cfg, &j->spec);
    if (st == WEFT_OK)
        st = data_set_open(j->spec.source.c, j->spec.source.conf, WEFT_DATA_VALID,
                           (uint64_t)config_int(e->saved.cfg, "run.seed"), &j->valid);
    if (st != WEFT_OK) {
        if (!resolve_add_place(e->saved.cfg, j->spec.source.c, "data"))
            err_context("%s", config_origin(e->saved.cfg, "data.source"));
        return st;
    }
    return j->valid.set ? WEFT_OK
                        : err_fail(WEFT_USAGE, "the job of the checkpoint names no data for "
                                               "validation: name it with --data FILE");
}

/* Bytes of a token's text are counted where the job's tokenizer has the ids of the data. */
static weft_status open_tokenizer(evaluation *e)
{
    run_prepared *j = &e->saved.j;
    weft_status st = resolve_open_tokenizer(e->saved.cfg, &j->spec);
    if (st == WEFT_OK)
        st = data_tokenizer_open(j->spec.tokenizer.c, j->spec.tokenizer.conf, &e->text);
    if (st != WEFT_OK || e->text.info.vocab != j->valid.info.vocab) {
        if (st == WEFT_OK && e->text.info.vocab == j->spec.model.vocab && !e->saved.who.rank)
            log_line(WEFT_LOG_WARN,
                     "the data has a vocabulary of %lld, and the model and its tokenizer one of "
                     "%lld: another tokenizer has written it",
                     (long long)j->valid.info.vocab, (long long)j->spec.model.vocab);
        err_clear();
        data_tokenizer_close(&e->text);
        return WEFT_OK;
    }
    const uint32_t vocab = e->text.info.vocab;
    e->bytes = mem_alloc(vocab * sizeof *e->bytes);
    for (uint32_t i = 0; st == WEFT_OK && i < vocab; i++) {
        char out[TOKENS_ID_BYTES];
        uint64_t n = 0;
        if (i + 1 != e->text.info.begin && i + 1 != e->text.info.end)
            st = tokens_decode(&e->text, (int32_t)i, out, &n);
        e->bytes[i] = (uint32_t)n;
    }
    return st;
}

/* Rows behind the last whole sample, for data whose samples are windows of a file. */
static weft_status count_rows(evaluation *e)
{
    data_set *d = &e->saved.j.valid;
    const uint64_t sequence = (uint64_t)e->saved.j.spec.sequence;
    uint64_t rows = 0;
    weft_status st = WEFT_OK;
    if (!d->info.rows && sequence > 1 && data_set_describe(d, 1) == WEFT_OK)
        rows = d->info.samples;
    err_clear();
    st = data_set_describe(d, sequence);
    if (st == WEFT_OK && rows > d->info.samples * sequence)
        e->done.left_rows = rows - d->info.samples * sequence;
    return st;
}

static weft_status open_all(evaluation *e)
{
    saved_job *s = &e->saved;
    weft_status st = saved_open(&e->o->saved, s);
    if (st == WEFT_OK)
        st = open_data(e);
    weft_data_info data = s->j.valid.info;
    const uint32_t vocab = st == WEFT_OK ? saved_vocab(s) : 0;
    data.vocab = vocab > data.vocab ? vocab : data.vocab; /* `vocab = 0`: that of the weights */
    if (st == WEFT_OK)
        st = saved_plan(s, &data, SPEC_EVAL);
    if (st == WEFT_OK)
        st = count_rows(e);
    if (st == WEFT_OK)
        st = open_tokenizer(e);
    if (st == WEFT_OK)
        st = saved_load(s);
    if (st != WEFT_OK)
        return st;
    run_inputs_take(&e->inputs, s->plan);
    e->each = s->j.spec.micro_batch * s->plan->dp_size;
    e->wraps = s->j.valid.info.samples;
    return WEFT_OK;
}

/* --- runs --- */

/* Of the tokens of a run, for the progress line. */
static uint64_t run_bytes(const evaluation *e)
{
    return e->each * (uint64_t)e->saved.j.spec.sequence * sizeof(int32_t);
}

/* Place `k` of a run has sample first + k mod `distinct`. */
static weft_status read_run(evaluation *e, uint64_t first, uint64_t distinct)
{
    saved_job *s = &e->saved;
    const uint64_t micro = s->j.spec.micro_batch;
    const uint64_t part = plan_data_part(s->plan, s->who.rank) * micro;
    weft_status st = WEFT_OK;
    for (uint64_t k = 0; st == WEFT_OK && k < micro; k++)
        st = run_inputs_read(&e->inputs, &s->j.valid, (first + (part + k) % distinct) % e->wraps, 1,
                             k);
    e->inputs.first_token = (int64_t)(first * (uint64_t)s->j.spec.sequence);
    return st == WEFT_OK ? run_inputs_fill(&s->exec, 0, &e->inputs) : st;
}

static weft_status one_run(evaluation *e, uint64_t first, uint64_t distinct, double *loss)
{
    weft_status st = read_run(e, first, distinct);
    if (st == WEFT_OK)
        st = run_exec_list(&e->saved.exec, &e->saved.plan->eval);
    if (st == WEFT_OK)
        st = run_exec_scalar(&e->saved.exec, "loss", loss);
    if (st == WEFT_OK && !isfinite(*loss))
        st = err_fail(WEFT_IO,
                      "the loss of the %llu samples from sample %llu on is not finite (%g): the "
                      "weights have values that are not, or train.precision cannot hold the "
                      "activations",
                      (unsigned long long)distinct, (unsigned long long)(first % e->wraps), *loss);
    e->done.samples += distinct;
    return st;
}

/* As training does: whole batches, the mean of equal runs. */
static weft_status batches(evaluation *e)
{
    const uint64_t batch = e->saved.j.spec.batch;
    const uint64_t n = run_valid_batches(e->o->batches, e->wraps, batch);
    double sum = 0, loss = 0;
    weft_status st = WEFT_OK;
    if (batch % e->each)
        return err_fail(WEFT_USAGE,
                        "--batches: train.batch = %llu is no multiple of the %llu samples that "
                        "the ranks take at once",
                        (unsigned long long)batch, (unsigned long long)e->each);
    const uint64_t runs = n * batch / e->each;
    for (uint64_t r = 0; st == WEFT_OK && r < runs; r++) {
        st = one_run(e, r * e->each, e->each, &loss);
        sum += loss;
        lengthy_add(&e->progress, run_bytes(e));
    }
    e->done.loss = sum / (double)runs;
    return st;
}

/* The largest number of places that divides a run and is at most `left`. */
static uint64_t part_of_run(uint64_t each, uint64_t left)
{
    uint64_t n = left;
    while (each % n)
        n--;
    return n;
}

static weft_status every_sample(evaluation *e)
{
    const uint64_t runs = e->wraps / e->each;
    uint64_t at = runs * e->each;
    double sum = 0, loss = 0, rest = 0;
    weft_status st = WEFT_OK;
    for (uint64_t r = 0; st == WEFT_OK && r < runs; r++) {
        st = one_run(e, r * e->each, e->each, &loss);
        sum += loss;
        lengthy_add(&e->progress, run_bytes(e));
    }
    e->done.loss = sum / (double)(runs ? runs : 1);
    if (st != WEFT_OK || at == e->wraps)
        return st;
    for (uint64_t n; st == WEFT_OK && at < e->wraps; at += n) {
        n = part_of_run(e->each, e->wraps - at);
        st = one_run(e, at, n, &loss);
        rest += loss * (double)n;
    }
    e->done.loss = (sum * (double)e->each + rest) / (double)e->wraps;
    return st;
}

/* --- bytes --- */

static const int32_t *targets_of(const evaluation *e)
{
    const spec *s = &e->saved.j.spec;
    for (uint32_t i = 0; i < s->nfields; i++)
        if (!strcmp(s->fields[i].name, "targets") && s->fields[i].dtype == WEFT_I32 &&
            !s->fields[i].rank)
            return e->inputs.field[i];
    return NULL;
}

/* Rank 0 reads the samples once more: each rank has only had its own. */
static weft_status count_bytes(evaluation *e)
{
    saved_job *s = &e->saved;
    const int32_t *targets = targets_of(e);
    const uint64_t sequence = (uint64_t)s->j.spec.sequence;
    weft_status st = WEFT_OK;
    if (!e->bytes || !targets || s->who.rank)
        return WEFT_OK;
    for (uint64_t i = 0; st == WEFT_OK && i < e->done.samples; i++) {
        st = run_inputs_read(&e->inputs, &s->j.valid, i % e->wraps, 1, 0);
        for (uint64_t k = 0; st == WEFT_OK && k < sequence; k++)
            e->done.bytes += targets[k] >= 0 && (uint32_t)targets[k] < e->text.info.vocab
                                 ? e->bytes[targets[k]]
                                 : 0;
    }
    return st;
}

static weft_status run(evaluation *e, FILE *to)
{
    weft_status st = open_all(e);
    if (st != WEFT_OK)
        return st;
    const uint64_t began = clock_ns();
    lengthy_begin(&e->progress, "the model is evaluated", (e->wraps / e->each + 1) * run_bytes(e));
    st = e->o->batches ? batches(e) : every_sample(e);
    e->done.ns = clock_ns() - began;
    if (st == WEFT_OK)
        st = count_bytes(e);
    e->done.rows = e->done.samples * (uint64_t)e->saved.j.spec.sequence;
    return st != WEFT_OK || e->saved.who.rank ? st
                                              : saved_report_evaluation(&e->done, e->o->json, to);
}

int saved_evaluate(const saved_evaluate_options *o, FILE *to)
{
    evaluation e = {.o = o};
    const weft_status st = run(&e, to);
    run_inputs_free(&e.inputs);
    data_tokenizer_close(&e.text);
    free(e.bytes);
    return saved_close(&e.saved, st);
}
