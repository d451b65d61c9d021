/* saved/report.h: what `weft sample` and `weft eval` say to programs: one JSON object. */
#ifndef SAVED_REPORT_H
#define SAVED_REPORT_H

#include "saved/stream.h"

#include <weft/base.h>

typedef struct saved_sampled {
    VEC(int32_t) prompt, ids;
    VEC(double) logs;      /* of each id: log-probability in the model, at temperature 1 */
    uint64_t prompt_bytes; /* of the text, which goes on with what was generated */
    uint64_t forgotten;    /* tokens that fell out of the context */
    const char *why;       /* it ended: "tokens", "end" or "stop" */
    bool cached;
    uint64_t began, prompt_ns, ns; /* until the first logits; in all */
} saved_sampled;

/* {"prompt", "text": "...", "prompt_ids", "ids": [...], "log_probabilities": [...], "end":
 * "tokens", ...}; `text` NULL: there is no tokenizer, and "prompt" and "text" are null. [any] */
weft_status saved_report_sample(const saved_sampled *d, const saved_stream *text, FILE *to);

typedef struct saved_evaluated {
    double loss;                       /* mean of a row, natural logarithm */
    uint64_t samples, rows, left_rows; /* evaluated; in the data behind the last whole sample */
    uint64_t bytes;                    /* of the text of the rows; 0: not known */
    uint64_t ns;
} saved_evaluated;

/* {"loss", "perplexity", "bits_per_byte": null or a number, "samples", "tokens", ...}, or lines for
 * people. [any] */
weft_status saved_report_evaluation(const saved_evaluated *d, bool json, FILE *to);

#endif
