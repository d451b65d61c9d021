/* saved/sample.c: see sample.h. */
#include "saved/sample.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "saved/next.h"
#include "saved/report.h"
#include "saved/stream.h"
#include "tokens/tokenizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sampler {
    saved_job saved;
    saved_next next;
    const saved_sample_options *o;
    data_tokenizer text; /* .t NULL: prompt and output are numbers */
    saved_stream out;
    saved_sampled done; /* what has been generated */
} sampler;

/* --- the model --- */

/* The text of a saved job has every key, so one that is as by default may not have been given. */
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
    config *cfg = s->saved.cfg;
    spec *p = &s->saved.j.spec;
    weft_status st = resolve_open_tokenizer(cfg, p);
    if (st == WEFT_OK)
        st = data_tokenizer_open(p->tokenizer.c, p->tokenizer.conf, &s->text);
    if (st != WEFT_OK) {
        if (!resolve_add_place(cfg, p->tokenizer.c, "tokenizer"))
            err_context("%s", config_origin(cfg, "data.tokenizer"));
        return st;
    }
    const uint32_t vocab = s->text.info.vocab;
    if (is_default(cfg, "data", "tokenizer")) {
        if (vocab != p->model.vocab)
            data_tokenizer_close(&s->text);
    } else if (vocab > p->model.vocab) {
        return config_fail(cfg, "data.tokenizer", "it has %u ids, the model %u", vocab,
                           p->model.vocab);
    }
    return WEFT_OK;
}

/* Text is sampled from models that map tokens to logits of the next one. */
static weft_status plan_model(sampler *s)
{
    static const weft_field fields[] = {{.name = "tokens", .dtype = WEFT_I32},
                                        {.name = "targets", .dtype = WEFT_I32}};
    const weft_data_info data = {.struct_size = sizeof data,
                                 .vocab = saved_vocab(&s->saved),
                                 .nfields = 2,
                                 .fields = fields};
    const spec *p = &s->saved.j.spec;
    weft_status st = saved_plan(&s->saved, &data, s->o->uncached ? SPEC_FORWARD : SPEC_GENERATE);
    if (st == WEFT_UNSUPPORTED && !s->o->uncached) {
        if (!s->saved.who.rank)
            log_line(WEFT_LOG_WARN,
                     "no cache of keys and values: %s; every token costs a pass over the whole "
                     "context",
                     err_text());
        err_clear();
        st = saved_plan(&s->saved, &data, SPEC_FORWARD);
    }
    if (st == WEFT_OK && (!p->model.vocab || !p->model.context))
        st = err_fail(WEFT_USAGE,
                      "model family %s has no vocabulary or no context: it continues no text",
                      p->family.c->name);
    return st;
}

/* --- the prompt --- */

static weft_status read_numbers(sampler *s)
{
    for (const char *p = s->o->prompt; *p;) {
        char *end;
        const int64_t token = strtoll(p, &end, 10);
        if (end == p || token < 0 || token >= s->saved.j.spec.model.vocab)
            return err_fail(
                WEFT_USAGE, "the prompt '%.200s' must be token numbers below %lld%s", s->o->prompt,
                (long long)s->saved.j.spec.model.vocab,
                s->o->ids
                    ? ""
                    : ", because the job names no tokenizer for the ids of its model: name it "
                      "with data.tokenizer=NAME and the keys of that plugin, such as "
                      "data.tokenizer=hf tokenizer.file=tokenizer.json");
        *vec_push(&s->done.prompt) = (int32_t)token;
        for (p = end; *p == ' ' || *p == ',' || *p == '\n'; p++)
            ;
    }
    return WEFT_OK;
}

/* A piece of text with more ids than there is room for would be cut at any character: room for all
 * of it, as weft data has. */
static weft_status encode(sampler *s)
{
    const char *p = *s->o->prompt ? s->o->prompt : "\n";
    const uint64_t bytes = strlen(p), capacity = bytes + 64;
    int32_t *ids = mem_alloc(capacity * sizeof *ids);
    weft_status st = WEFT_OK;
    for (uint64_t at = 0, used, n; st == WEFT_OK && at < bytes; at += used) {
        st = tokens_encode(&s->text, p + at, bytes - at,
                           WEFT_TEXT_LAST | (at ? 0 : WEFT_TEXT_FIRST), ids, capacity, &used, &n);
        for (uint64_t i = 0; st == WEFT_OK && i < n; i++)
            *vec_push(&s->done.prompt) = ids[i];
    }
    free(ids);
    return st;
}

/* As data.h frames a document: the id for its beginning, unless it is that of the end, too. */
static void begin_text(sampler *s)
{
    const weft_tokenizer_info *i = &s->text.info;
    if (i->begin && i->begin != i->end)
        *vec_push(&s->done.prompt) = (int32_t)i->begin - 1;
}

/* Without a prompt, what a text begins with: the id for that, that between texts, or a new line. */
static weft_status read_prompt(sampler *s)
{
    const weft_tokenizer_info *i = &s->text.info;
    weft_status st = WEFT_OK;
    if (!s->text.t || s->o->ids)
        st = read_numbers(s);
    else if (!*s->o->prompt && (i->begin || i->end))
        *vec_push(&s->done.prompt) = (int32_t)(i->begin ? i->begin : i->end) - 1;
    else {
        begin_text(s);
        st = encode(s);
    }
    if (st == WEFT_OK && !s->done.prompt.n)
        *vec_push(&s->done.prompt) = 0;
    const uint64_t n = s->done.prompt.n, context = s->next.context;
    if (st == WEFT_OK && n > context && !s->saved.who.rank)
        log_line(WEFT_LOG_WARN,
                 "the prompt has %" PRIu64 " tokens and the model a context of %" PRIu64
                 ": it sees the last %" PRIu64,
                 n, context, context);
    for (uint64_t k = n > context ? n - context : 0; st == WEFT_OK && k < n; k++)
        saved_next_append(&s->next, s->done.prompt.at[k]);
    return st;
}

/* --- output --- */

/* A model may have more ids than its tokenizer: those have no text. */
static weft_status write_token(sampler *s, int32_t token, bool *stop)
{
    char bytes[TOKENS_ID_BYTES];
    uint64_t n = 0;
    weft_status st = WEFT_OK;
    *stop = false;
    if (!s->text.t) {
        n = (uint64_t)snprintf(bytes, sizeof bytes, "%" PRId32 " ", token);
    } else if ((uint32_t)token < s->text.info.vocab) {
        st = tokens_decode(&s->text, token, bytes, &n);
    }
    if (st == WEFT_OK)
        *stop = saved_stream_add(&s->out, bytes, n);
    return st;
}

/* A prompt in words is printed as it came, without what the tokenizer puts in front of a text. */
static weft_status write_prompt(sampler *s)
{
    weft_status st = WEFT_OK;
    const bool words = s->text.t && !s->o->ids && *s->o->prompt;
    bool stop;
    if (words)
        (void)saved_stream_add(&s->out, s->o->prompt, strlen(s->o->prompt));
    for (uint32_t i = 0; !words && st == WEFT_OK && i < s->done.prompt.n; i++)
        st = write_token(s, s->done.prompt.at[i], &stop);
    s->done.prompt_bytes = s->out.text.n;
    s->out.stop = s->o->stop;
    s->out.nstop = s->o->nstop;
    return st;
}

static bool is_end(const sampler *s, int32_t token)
{
    return s->text.t && !s->o->past_end && s->text.info.end &&
           (uint32_t)token == s->text.info.end - 1;
}

/* --- one token after the other --- */

/* A family may give -inf to ids that never come. */
static weft_status check_logits(const sampler *s, uint64_t i)
{
    const saved_next *x = &s->next;
    bool some = false, wrong = false;
    for (uint64_t k = 0; k < x->vocab; k++) {
        some |= isfinite(x->logits[k]);
        wrong |= isnan(x->logits[k]) || (isinf(x->logits[k]) && x->logits[k] > 0);
    }
    return some && !wrong ? WEFT_OK
                          : err_fail(WEFT_IO,
                                     "the logits of token %" PRIu64
                                     " behind the prompt are not finite: the weights have values "
                                     "that are not, or train.precision cannot hold the "
                                     "activations; no text comes of that",
                                     i + 1);
}

/* What nobody reads is not computed. */
static weft_status check_output(const sampler *s)
{
    return s->out.error
               ? err_fail(WEFT_IO, "the text cannot be written: %s", strerror(s->out.error))
               : WEFT_OK;
}

static weft_status one_token(sampler *s, uint64_t i, double *capacity)
{
    saved_next *x = &s->next;
    bool stop = false;
    weft_status st = saved_next_logits(x);
    if (st == WEFT_OK)
        st = check_logits(s, i);
    if (st != WEFT_OK)
        return st;
    if (!i)
        s->done.prompt_ns = clock_ns() - s->done.began;
    const int32_t token = saved_draw_token(&s->o->draw, x->logits, x->vocab, i, capacity);
    if (is_end(s, token)) {
        s->done.why = "end";
        return WEFT_OK;
    }
    *vec_push(&s->done.ids) = token;
    if (s->o->json)
        *vec_push(&s->done.logs) = saved_draw_log_probability(x->logits, x->vocab, token);
    saved_next_append(x, token);
    st = write_token(s, token, &stop);
    s->done.why = stop ? "stop" : s->done.why;
    return st == WEFT_OK ? check_output(s) : st;
}

static weft_status generate(sampler *s)
{
    double *capacity = mem_alloc(s->next.vocab * sizeof *capacity);
    weft_status st = WEFT_OK;
    s->done.began = clock_ns();
    for (uint64_t i = 0; st == WEFT_OK && i < s->o->tokens && !s->done.why; i++)
        st = one_token(s, i, capacity);
    s->done.ns = clock_ns() - s->done.began;
    s->done.why = s->done.why ? s->done.why : "tokens";
    s->done.forgotten = s->next.forgotten;
    s->done.cached = s->saved.plan->chunk > 0;
    free(capacity);
    return st;
}

static weft_status run(sampler *s, FILE *to)
{
    weft_status st = saved_open(&s->o->saved, &s->saved);
    if (st == WEFT_OK)
        st = plan_model(s);
    if (st == WEFT_OK)
        st = open_tokenizer(s);
    if (st == WEFT_OK)
        st = saved_load(&s->saved);
    if (st != WEFT_OK)
        return st;
    s->out.to = s->o->json || s->saved.who.rank ? NULL : to;
    s->out.keep = s->o->json;
    saved_next_open(&s->saved, &s->next);
    st = read_prompt(s);
    if (st != WEFT_OK)
        return st;
    st = write_prompt(s);
    if (st == WEFT_OK)
        st = check_output(s);
    if (st == WEFT_OK)
        st = generate(s);
    saved_stream_end(&s->out);
    if (s->out.to && !s->out.error) {
        fputc('\n', s->out.to);
        fflush(s->out.to);
    }
    if (s->next.forgotten && !s->saved.who.rank) /* not within the text */
        log_line(WEFT_LOG_WARN,
                 "the context of %" PRIu64
                 " tokens is full: the older half is forgotten, now and whenever it is full again",
                 s->next.context);
    if (st == WEFT_OK && s->o->json && !s->saved.who.rank)
        st = saved_report_sample(&s->done, s->text.t ? &s->out : NULL, to);
    return st;
}

int saved_sample(const saved_sample_options *o, FILE *to)
{
    sampler s = {.o = o};
    const weft_status st = run(&s, to);
    saved_next_close(&s.next);
    saved_stream_free(&s.out);
    free(s.done.prompt.at);
    free(s.done.ids.at);
    free(s.done.logs.at);
    data_tokenizer_close(&s.text);
    return saved_close(&s.saved, st);
}
