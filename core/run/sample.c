/* run/sample.c: see sample.h.
 *
 * The forward list computes the logits of one sequence of model.context tokens; the next token is
 * sampled from the logits at the last position, and the whole sequence is computed again. There is
 * no KV cache, so this takes `context` times the work of one token; a model of the demo's size
 * still generates hundreds of tokens per second. */
#include "run/sample.h"

#include "base/err.h"
#include "base/number/half.h"
#include "base/number/rng.h"
#include "data/tokenizer.h"
#include "graph/inputs.h"
#include "host/watch.h"
#include "resolve/resolve.h"
#include "run/exec/arena.h"
#include "run/exec/walk.h"
#include "run/state/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sampler {
    config *cfg;
    host *host;
    spec spec;
    plan_set plans;
    executor exec;
    const sample_options *o;
    int32_t *tokens; /* [context] */
    int32_t *positions;
    float *logits;       /* [vocab] */
    void *raw;           /* [vocab] in the compute type */
    uint64_t n;          /* tokens so far, at most context */
    data_tokenizer text; /* .t NULL: prompt and output are numbers */
} sampler;

/* The text of the job that wrote the checkpoint for one rank that samples: without [parallel],
 * [comm] and sinks. */
static char *one_rank_text(const char *text)
{
    char *out = mem_alloc(strlen(text) + 1), *to = out;
    bool drop = false;
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        if (*line == '[')
            drop = !strncmp(line, "[parallel]", 10) || !strncmp(line, "[comm", 5) ||
                   !strncmp(line, "[sink", 5);
        if (!drop) {
            memcpy(to, line, n);
            to += n;
        }
        line += n;
    }
    *to = 0;
    return out;
}

/* Text is sampled from models that map tokens to logits of the next one. */
static weft_status open_spec(sampler *s, uint32_t vocab)
{
    static const weft_field fields[] = {{.name = "tokens", .dtype = WEFT_I32},
                                        {.name = "targets", .dtype = WEFT_I32}};
    const weft_data_info data = {
        .struct_size = sizeof data, .vocab = vocab, .nfields = 2, .fields = fields};
    weft_status st = resolve_spec(s->cfg, 1, &data, NULL, SPEC_FORWARD, &s->spec);
    if (st == WEFT_OK && (!s->spec.model.vocab || !s->spec.model.context))
        st = err_fail(WEFT_USAGE,
                      "model family %s has no vocabulary or no context: it continues no text",
                      s->spec.family.c->name);
    return st;
}

static bool is_default(const config *cfg, const char *section, const char *key)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", section, key);
    for (const config_section *c = config_core_sections(); c->name; c++)
        for (const weft_option *const *o = c->options; !strcmp(c->name, section) && *o; o++)
            if (!strcmp((*o)->key, key))
                return !strcmp(config_text(cfg, full), (*o)->dflt);
    return false;
}

/* The job's tokenizer. Jobs on token files of other programs name none, so one that is the default
 * has to have exactly the model's vocabulary; else tokens are numbers. */
static weft_status open_tokenizer(sampler *s)
{
    weft_status st = resolve_open_tokenizer(s->cfg, &s->spec);
    if (st == WEFT_OK)
        st = data_tokenizer_open(s->spec.tokenizer.c, s->spec.tokenizer.conf, &s->text);
    if (st != WEFT_OK) {
        if (!resolve_add_place(s->cfg, s->spec.tokenizer.c, "tokenizer"))
            err_context("%s", config_origin(s->cfg, "data.tokenizer"));
        return st;
    }
    const uint32_t vocab = s->text.info.vocab;
    if (is_default(s->cfg, "data", "tokenizer")) {
        if (vocab != s->spec.model.vocab)
            data_tokenizer_close(&s->text);
    } else if (vocab > s->spec.model.vocab) {
        return config_fail(s->cfg, "data.tokenizer", "it has %u ids, the model %u", vocab,
                           s->spec.model.vocab);
    }
    return WEFT_OK;
}

/* "tokenizer.vocab=FILE" */
static weft_status set(config *cfg, const char *line)
{
    char key[256];
    const size_t n = strcspn(line, "=");
    if (!line[n] || n >= sizeof key)
        return err_fail(WEFT_USAGE, "'%s' is not section.key=value", line);
    memcpy(key, line, n);
    key[n] = 0;
    return config_set(cfg, key, line + n + 1, NULL);
}

static weft_status open_model(sampler *s, const ckpt *c)
{
    char *text = one_rank_text(ckpt_job_text(c));
    weft_status st = config_load_text(text, ckpt_dir(c), &s->cfg);
    free(text);
    if (st != WEFT_OK)
        return st;
    const ckpt_piece *p;
    uint32_t n = ckpt_tensors(c, &p), vocab = 0;
    for (uint32_t i = 0; i < n;
         i++) /* with `vocab = 0` the size comes from the weights, not from the data */
        if (!strcmp(p[i].name, "embed.tok.w") && p[i].shape[0] < (1 << 24))
            vocab = (uint32_t)p[i].shape[0];
    host_limits_set(s->cfg);
    st = config_set(s->cfg, "log.sinks", "", "weft sample");
    for (uint32_t i = 0; st == WEFT_OK && i < s->o->noverrides; i++)
        st = set(s->cfg, s->o->overrides[i]);
    if (st == WEFT_OK)
        st = host_create(s->o->plugins ? s->o->plugins : config_raw(s->cfg, "run.plugins"),
                         &s->host);
    if (st == WEFT_OK)
        st = resolve_plugins(s->cfg, s->host, &s->spec);
    if (st == WEFT_OK)
        st = open_spec(s, vocab);
    if (st == WEFT_OK)
        st = open_tokenizer(s);
    return st != WEFT_OK ? st : plan_build(&s->spec, &s->plans);
}

static weft_status fill(sampler *s)
{
    for (uint32_t i = 0; i < s->plans.at[0].inputs.n; i++) {
        const input_slot *x = &s->plans.at[0].inputs.at[i];
        static const int64_t first_token = 0;
        const void *from = !strcmp(x->name, GRAPH_POSITIONS)     ? (const void *)s->positions
                           : !strcmp(x->name, GRAPH_FIRST_TOKEN) ? (const void *)&first_token
                                                                 : (const void *)s->tokens;
        weft_status st = run_exec_write(&s->exec, x->offset, from, x->bytes);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

static float widen(uint32_t dtype, const void *raw, uint64_t i)
{
    if (dtype == WEFT_F32)
        return ((const float *)raw)[i];
    uint16_t half = ((const uint16_t *)raw)[i];
    return dtype == WEFT_F16 ? f16_value(half) : bf16_value(half);
}

static weft_status run_model(sampler *s)
{
    uint64_t vocab = (uint64_t)s->spec.model.vocab, size = weft_dtype_size(s->spec.compute);
    weft_status st = fill(s);
    if (st == WEFT_OK)
        st = run_exec_list(&s->exec, &s->plans.at[0].eval);
    if (st == WEFT_OK)
        st = run_exec_read(&s->exec, s->plans.at[0].logits + (s->n - 1) * vocab * size, s->raw,
                           vocab * size);
    for (uint64_t i = 0; st == WEFT_OK && i < vocab; i++)
        s->logits[i] = widen(s->spec.compute, s->raw, i);
    return st;
}

static int descending(const void *x, const void *y)
{
    float a = *(const float *)x, b = *(const float *)y;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* The smallest logit among the `top` largest. */
static float threshold(const sampler *s, uint64_t vocab, float *sorted)
{
    if (!s->o->top || s->o->top >= vocab)
        return -INFINITY;
    memcpy(sorted, s->logits, vocab * sizeof *sorted);
    qsort(sorted, vocab, sizeof *sorted, descending);
    return sorted[s->o->top - 1];
}

static int32_t draw(const sampler *s, uint64_t index, float *sorted)
{
    uint64_t vocab = (uint64_t)s->spec.model.vocab;
    uint64_t best = 0;
    for (uint64_t i = 1; i < vocab; i++)
        if (s->logits[i] > s->logits[best])
            best = i;
    if (s->o->temperature <= 0)
        return (int32_t)best;
    float least = threshold(s, vocab, sorted);
    double sum = 0, top = s->logits[best];
    for (uint64_t i = 0; i < vocab; i++)
        if (s->logits[i] >= least)
            sum += exp((s->logits[i] - top) / s->o->temperature);
    double mark = rng_uniform(rng_key(s->o->seed, "sample"), index) * sum;
    for (uint64_t i = 0; i < vocab; i++) {
        if (s->logits[i] < least)
            continue;
        mark -= exp((s->logits[i] - top) / s->o->temperature);
        if (mark < 0)
            return (int32_t)i;
    }
    return (int32_t)best;
}

static weft_status print_token(const sampler *s, int32_t token, FILE *to)
{
    char bytes[DATA_TOKENIZER_BYTES];
    uint64_t n = 0;
    if (!s->text.t) {
        fprintf(to, "%" PRId32 " ", token);
        return WEFT_OK;
    }
    if ((uint32_t)token >= s->text.info.vocab) /* a model may have more ids than its tokenizer */
        return WEFT_OK;
    weft_status st = data_tokenizer_decode(&s->text, token, bytes, &n);
    if (st == WEFT_OK)
        fwrite(bytes, 1, n, to);
    return st;
}

static weft_status read_numbers(sampler *s)
{
    const uint64_t context = (uint64_t)s->spec.model.context;
    for (const char *p = s->o->prompt; *p && s->n < context;) {
        char *end;
        const int64_t token = strtoll(p, &end, 10);
        if (end == p || token < 0 || token >= s->spec.model.vocab)
            return err_fail(
                WEFT_USAGE,
                "the prompt '%s' must be token numbers below %lld, because the job names "
                "no tokenizer for the ids of its model",
                s->o->prompt, (long long)s->spec.model.vocab);
        s->tokens[s->n++] = (int32_t)token;
        for (p = end; *p == ' ' || *p == ','; p++)
            ;
    }
    return WEFT_OK;
}

/* Without a prompt, what a text begins with: the id for that, that between texts, or a new line. */
static weft_status read_prompt(sampler *s)
{
    const weft_tokenizer_info *i = &s->text.info;
    const char *p = *s->o->prompt ? s->o->prompt : "\n";
    const uint64_t bytes = strlen(p);
    weft_status st = WEFT_OK;
    if (!s->text.t) {
        st = read_numbers(s);
        s->n += st == WEFT_OK && !s->n; /* the id 0 */
        return st;
    }
    if (!*s->o->prompt && (i->begin || i->end)) {
        s->tokens[s->n++] = (int32_t)(i->begin ? i->begin : i->end) - 1;
        return WEFT_OK;
    }
    for (uint64_t at = 0, used, n;
         st == WEFT_OK && at < bytes && s->n < (uint64_t)s->spec.model.context;
         at += used, s->n += n)
        st = data_tokenizer_encode(&s->text, p + at, bytes - at, true, s->tokens + s->n,
                                   (uint64_t)s->spec.model.context - s->n, &used, &n);
    return st;
}

static weft_status write_text(sampler *s, FILE *to)
{
    uint64_t context = (uint64_t)s->spec.model.context;
    float *sorted = mem_alloc((uint64_t)s->spec.model.vocab * sizeof *sorted);
    weft_status st = read_prompt(s);
    for (uint64_t i = 0; st == WEFT_OK && i < s->n; i++)
        st = print_token(s, s->tokens[i], to);
    for (uint64_t i = 0; st == WEFT_OK && i < s->o->tokens; i++) {
        st = run_model(s);
        if (st != WEFT_OK)
            break;
        int32_t token = draw(s, i, sorted);
        if (s->n == context) { /* drop the older half */
            memmove(s->tokens, s->tokens + context / 2, (context - context / 2) * 4);
            s->n = context - context / 2;
        }
        s->tokens[s->n++] = token;
        st = print_token(s, token, to);
        fflush(to);
    }
    fputc('\n', to);
    free(sorted);
    return st;
}

static weft_status run(sampler *s, const ckpt *c, FILE *to)
{
    weft_status st = open_model(s, c);
    if (st != WEFT_OK)
        return st;
    job_identity alone = {.ranks = 1, .local_ranks = 1};
    uint64_t context = (uint64_t)s->spec.model.context, vocab = (uint64_t)s->spec.model.vocab;
    s->tokens = mem_alloc(context * 4);
    s->positions = mem_alloc(context * 4);
    s->logits = mem_alloc(vocab * 4);
    s->raw = mem_alloc(vocab * 4);
    for (uint64_t i = 0; i < context; i++)
        s->positions[i] = (int32_t)i;
    st = run_exec_create(&s->plans.at[0], s->cfg, NULL, &alone, NULL, &s->exec);
    if (st == WEFT_OK)
        st = run_weights_load(&s->exec, &s->plans, c);
    return st != WEFT_OK ? st : write_text(s, to);
}

weft_status run_sample_checkpoint(const char *dir, const sample_options *o, FILE *to)
{
    ckpt *c;
    sampler s = {.o = o};
    weft_status st = ckpt_open(dir, &c);
    if (st != WEFT_OK)
        return st;
    st = run(&s, c, to);
    run_exec_destroy(&s.exec, 0);
    plan_free(&s.plans);
    data_tokenizer_close(&s.text);
    resolve_free(&s.spec);
    host_destroy(s.host);
    config_destroy(s.cfg);
    free(s.tokens);
    free(s.positions);
    free(s.logits);
    free(s.raw);
    ckpt_close(c);
    return st;
}
