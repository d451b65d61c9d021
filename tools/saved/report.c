/* saved/report.c: see report.h. */
#include "saved/report.h"

#include "base/err.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

#define DIGITS 17 /* that give a double back */

static weft_status print(json_t *o, FILE *to)
{
    char *text = o ? json_dumps(o, JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(o);
    if (!text)
        return err_fail(WEFT_NO_MEMORY, "no memory for the JSON of the result");
    fprintf(to, "%s\n", text);
    free(text);
    return WEFT_OK;
}

static json_t *numbers(const int32_t *at, uint32_t n)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(a, json_integer(at[i]));
    return a;
}

static json_t *text_of(const saved_stream *s, uint64_t from, uint64_t to)
{
    return s ? json_stringn(s->text.at ? s->text.at + from : "", to - from) : json_null();
}

weft_status saved_report_sample(const saved_sampled *d, const saved_stream *text, FILE *to)
{
    json_t *o = json_object(), *logs = json_array();
    const double rest = (double)(d->ns - d->prompt_ns) * 1e-9;
    for (uint32_t i = 0; i < d->logs.n; i++)
        json_array_append_new(logs, json_real(d->logs.at[i]));
    json_object_set_new(o, "prompt", text_of(text, 0, d->prompt_bytes));
    json_object_set_new(o, "text", text_of(text, d->prompt_bytes, text ? text->text.n : 0));
    json_object_set_new(o, "prompt_ids", numbers(d->prompt.at, d->prompt.n));
    json_object_set_new(o, "ids", numbers(d->ids.at, d->ids.n));
    json_object_set_new(o, "log_probabilities", logs);
    json_object_set_new(o, "end", json_string(d->why));
    json_object_set_new(o, "forgotten", json_integer((json_int_t)d->forgotten));
    json_object_set_new(o, "cached", json_boolean(d->cached));
    json_object_set_new(o, "prompt_seconds", json_real((double)d->prompt_ns * 1e-9));
    json_object_set_new(o, "seconds", json_real(rest));
    return print(o, to);
}

static double bits(const saved_evaluated *d)
{
    return d->loss * (double)d->rows / (log(2) * (double)d->bytes);
}

weft_status saved_report_evaluation(const saved_evaluated *d, bool json, FILE *to)
{
    if (!json) {
        fprintf(to, "loss           %.9g\nperplexity     %.6g\n", d->loss, exp(d->loss));
        if (d->bytes)
            fprintf(to, "bits per byte  %.6g\n", bits(d));
        fprintf(to, "tokens         %" PRIu64 " in %" PRIu64 " samples, %.3g s\n", d->rows,
                d->samples, (double)d->ns * 1e-9);
        if (d->left_rows)
            fprintf(to, "left out       %" PRIu64 " tokens at the end, which fill no sample\n",
                    d->left_rows);
        return WEFT_OK;
    }
    json_t *o = json_object();
    const double perplexity = exp(d->loss);
    json_object_set_new(o, "loss", isfinite(d->loss) ? json_real(d->loss) : json_null());
    json_object_set_new(o, "perplexity",
                        isfinite(perplexity) ? json_real(perplexity) : json_null());
    json_object_set_new(o, "bits_per_byte",
                        d->bytes && isfinite(d->loss) ? json_real(bits(d)) : json_null());
    json_object_set_new(o, "samples", json_integer((json_int_t)d->samples));
    json_object_set_new(o, "tokens", json_integer((json_int_t)d->rows));
    json_object_set_new(o, "bytes", d->bytes ? json_integer((json_int_t)d->bytes) : json_null());
    json_object_set_new(o, "left_out", json_integer((json_int_t)d->left_rows));
    json_object_set_new(o, "seconds", json_real((double)d->ns * 1e-9));
    return print(o, to);
}
