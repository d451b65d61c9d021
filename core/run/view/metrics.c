/* run/view/metrics.c: see metrics.h. */
#include "run/view/metrics.h"

#include <math.h>
#include <stddef.h>

/* When a value is there. */
typedef enum presence { ALWAYS, IF_SKIPPED, IF_SCALED, IF_VERIFIED, IF_EVALUATED } presence;

typedef struct about {
    const char *name, *unit, *meaning;
    uint32_t offset; /* in metrics */
    bool whole;      /* a uint64_t there, else a double */
    bool counts;     /* WEFT_METRIC_COUNTER */
    presence when;
} about;

#define REAL(member, unit, when, meaning)                                                          \
    {                                                                                              \
#member, unit, meaning, offsetof(metrics, member), false, false, when                      \
    }
#define COUNTER(member, unit, when, meaning)                                                       \
    {                                                                                              \
#member, unit, meaning, offsetof(metrics, member), false, true, when                       \
    }
#define WHOLE(member, unit, when, meaning)                                                         \
    {                                                                                              \
#member, unit, meaning, offsetof(metrics, member), true, false, when                       \
    }

/* In the order in which sinks get them. */
static const about table[] = {
    REAL(loss, "", ALWAYS, "loss of the step, the mean over its tokens and all ranks"),
    REAL(grad_norm, "", ALWAYS, "norm of all gradients, before clipping"),
    REAL(lr, "", ALWAYS, "learning rate of the step"),
    WHOLE(tokens, "tokens", ALWAYS, "tokens of the step, all ranks"),
    REAL(step_ms, "ms", ALWAYS, "time of the step on rank 0, without evaluation and saving"),
    REAL(tokens_per_s, "tokens/s", ALWAYS, "tokens / step_ms"),
    REAL(mfu, "", ALWAYS,
         "operations of products and attention, forward and backward / time / the peak rate of all "
         "ranks (log.peak_gflops); 0: the peak is unknown"),
    WHOLE(comm_bytes, "bytes", ALWAYS, "bytes that rank 0 has sent in the step"),
    REAL(exposed_comm_ms, "ms", ALWAYS,
         "the part of step_ms in which rank 0 waited for communication"),
    WHOLE(peak_bytes, "bytes", ALWAYS, "memory of the busiest rank's plan"),
    REAL(compute_ms, "ms", ALWAYS, "the rest of step_ms"),
    REAL(bubble_ms, "ms", ALWAYS,
         "the part of step_ms in which rank 0 waited for another pipeline stage"),
    REAL(optimizer_ms, "ms", ALWAYS,
         "the part of step_ms after the last gradient: norm, clipping, update"),
    COUNTER(skipped, "steps", IF_SKIPPED,
            "steps so far that changed nothing, since their gradient norm was not finite"),
    REAL(scale, "", IF_SCALED, "loss scale after the step"),
    WHOLE(verify_bytes, "bytes", IF_VERIFIED,
          "bytes of parameters and states that rank 0 has hashed after the step, to compare them "
          "with "
          "the copies of other ranks (run.verify)"),
    REAL(verify_ms, "ms", IF_VERIFIED, "time of that comparison on rank 0, not in step_ms"),
    REAL(valid_loss, "", IF_EVALUATED, "loss on data.valid after the step"),
};

#define ROWS ((uint32_t)(sizeof table / sizeof *table))

static const char *const absences[] = {
    [ALWAYS] = "never",
    [IF_SKIPPED] = "while the loss is not scaled and no step was skipped",
    [IF_SCALED] = "while the loss is not scaled",
    [IF_VERIFIED] = "unless the step is followed by a comparison of copies",
    [IF_EVALUATED] = "unless the step is followed by an evaluation",
};

bool run_metrics_evaluated(const metrics *m)
{
    return m->valid_loss >= 0 || isnan(m->valid_loss);
}

static bool is_there(const metrics *m, presence when)
{
    switch (when) {
    case IF_SKIPPED: return m->skipped > 0 || m->scale > 0;
    case IF_SCALED: return m->scale > 0;
    case IF_VERIFIED: return m->verify_bytes > 0;
    case IF_EVALUATED: return run_metrics_evaluated(m);
    default: return true;
    }
}

static double value_of(const metrics *m, const about *a)
{
    const char *at = (const char *)m + a->offset;
    return a->whole ? (double)*(const uint64_t *)(const void *)at
                    : *(const double *)(const void *)at;
}

uint32_t run_metrics_most(uint32_t told)
{
    return ROWS + told;
}

uint32_t run_metrics_list(const metrics *m, weft_metric *out)
{
    uint32_t n = 0;
    for (const about *a = table; a < table + ROWS; a++)
        if (is_there(m, a->when))
            out[n++] = (weft_metric){a->name, a->unit, value_of(m, a),
                                     a->counts ? WEFT_METRIC_COUNTER : WEFT_METRIC_GAUGE, 0};
    for (uint32_t i = 0; i < m->ntold; i++)
        out[n++] = (weft_metric){m->told[i].name, "", m->told[i].value, WEFT_METRIC_GAUGE, 0};
    return n;
}

void run_metrics_print_page(FILE *out)
{
    fprintf(out,
            "# Every metric of a step\n\n"
            "Written by `weft config metrics`; a test compares it with the program.\n\n"
            "Rank 0 hands these values to the sinks that `[log] sinks` names, after every step, in "
            "this order. A gauge is a value of\nthe step; a counter grows from the begin of the "
            "run, also through a resume. A value may be infinite or not a number.\n\n"
            "| name | unit | kind | meaning | absent |\n|---|---|---|---|---|\n");
    for (const about *a = table; a < table + ROWS; a++)
        fprintf(out, "| `%s` | %s | %s | %s | %s |\n", a->name, a->unit,
                a->counts ? "counter" : "gauge", a->meaning, absences[a->when]);
    fprintf(out, "\n"
                 "Names with a dot are those of plugins. They follow in this order:\n\n"
                 "1. scalars that update rules and periodic lists assign: gauges, present in every "
                 "step;\n"
                 "2. values that plugins add through `weft.host.metrics/1` "
                 "([host.h](../sdk/include/weft/host.h)): gauges, absent in a step in\n"
                 "   which rank 0 has added none. Their meaning is described by the plugin.\n\n"
                 "The sink `jsonl` writes a line for each step into `OUT/metrics.jsonl`: `step`, "
                 "the values (`null` where JSON has no number),\n"
                 "`flops_rule` (what `mfu` counts) and `version` (of the line).\n");
}
