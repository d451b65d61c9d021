/* run/view/metrics.c: see metrics.h. */
#include "run/view/metrics.h"

#include <math.h>
#include <stddef.h>

/* When a value is there. */
typedef enum presence {
    ALWAYS,
    IF_SKIPPED,
    IF_SCALED,
    IF_VERIFIED,
    IF_EVALUATED,
    IF_SAVING,
    IF_SAVED,
    IF_EXCHANGED
} presence;

typedef struct about {
    const char *name, *unit, *meaning;
    uint32_t offset; /* in metrics */
    bool whole;      /* a uint64_t there, else a double */
    bool counts;     /* WEFT_METRIC_COUNTER */
    presence when;
} about;

#define REAL(member, unit, when, meaning)                                                          \
    {                                                                                              \
#member, unit, meaning, offsetof(run_metrics, member), false, false, when                  \
    }
#define COUNTER(member, unit, when, meaning)                                                       \
    {                                                                                              \
#member, unit, meaning, offsetof(run_metrics, member), false, true, when                   \
    }
#define WHOLE(member, unit, when, meaning)                                                         \
    {                                                                                              \
#member, unit, meaning, offsetof(run_metrics, member), true, false, when                   \
    }

#define OF_RANKS(member, text, unit, meaning)                                                      \
    {                                                                                              \
        "ranks." text, unit, meaning, offsetof(run_metrics, ranks.member), true, false,            \
            IF_EXCHANGED                                                                           \
    }
#define SPREAD_OF(text, at, unit, what, more)                                                      \
    {"ranks." text ".max", unit,  what " of the rank where it is highest",                         \
     SPREAD_AT(at, max),   false, false,                                                           \
     IF_EXCHANGED},                                                                                \
        {"ranks." text ".min", unit,  "the same of the rank where it is lowest",                   \
         SPREAD_AT(at, min),   false, false,                                                       \
         IF_EXCHANGED},                                                                            \
        {"ranks." text ".mean", unit, "the mean of all ranks", SPREAD_AT(at, mean), false, false,  \
         IF_EXCHANGED},                                                                            \
    {                                                                                              \
        "ranks." text ".max_rank", "", "the rank where it is highest" more,                        \
            SPREAD_AT(at, max_rank), true, false, IF_EXCHANGED                                     \
    }
#define SPREAD_AT(at, member) offsetof(run_metrics, ranks.part[at].member)

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
    WHOLE(resident_bytes, "bytes", ALWAYS,
          "the most memory that rank 0's process has had resident so far: beside the plan that of "
          "the program, its libraries and copies for saves"),
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
    REAL(save_stop_ms, "ms", IF_SAVING,
         "time before the step, beside step_ms, in which rank 0 stood still for a save: it waited "
         "for an earlier one, and copied; where saves are not asynchronous it wrote, too"),
    REAL(save_copy_ms, "ms", IF_SAVING, "the part of save_stop_ms that the copy took"),
    REAL(save_write_ms, "ms", IF_SAVED,
         "time from the begin to the end of the save that was completed last, on all ranks"),
    OF_RANKS(steps, "steps", "steps",
             "how many steps, this one the last, the values below are means of"),
    OF_RANKS(slowest, "slowest", "",
             "the rank with the most work: compute_ms and optimizer_ms; others wait for it"),
    SPREAD_OF("step_ms", METRICS_STEP, "ms", "step_ms", ""),
    SPREAD_OF("compute_ms", METRICS_COMPUTE, "ms", "compute_ms", ""),
    SPREAD_OF("exposed_comm_ms", METRICS_EXPOSED, "ms", "exposed_comm_ms",
              "; it waits for others, so it is seldom the slow one"),
    SPREAD_OF("bubble_ms", METRICS_BUBBLE, "ms", "bubble_ms", ""),
    SPREAD_OF("optimizer_ms", METRICS_OPTIMIZER, "ms", "optimizer_ms", ""),
    SPREAD_OF("resident_bytes", METRICS_RESIDENT, "bytes", "resident_bytes", ""),
    SPREAD_OF("comm_bytes", METRICS_SENT, "bytes", "comm_bytes", ""),
};

#define ROWS ((uint32_t)(sizeof table / sizeof *table))

static const char *const absences[] = {
    [ALWAYS] = "never",
    [IF_SKIPPED] = "while the loss is not scaled and no step was skipped",
    [IF_SCALED] = "while the loss is not scaled",
    [IF_VERIFIED] = "unless the step is followed by a comparison of copies",
    [IF_EVALUATED] = "unless the step is followed by an evaluation",
    [IF_SAVING] = "unless a save began since the step before",
    [IF_EXCHANGED] = "with one rank, and unless the ranks exchanged their times after the step",
    [IF_SAVED] = "unless a save was completed since the step before",
};

bool run_metrics_evaluated(const run_metrics *m)
{
    return m->valid_loss >= 0 || isnan(m->valid_loss);
}

static bool is_there(const run_metrics *m, presence when)
{
    switch (when) {
    case IF_SKIPPED: return m->skipped > 0 || m->scale > 0;
    case IF_SCALED: return m->scale > 0;
    case IF_VERIFIED: return m->verify_bytes > 0;
    case IF_EVALUATED: return run_metrics_evaluated(m);
    case IF_SAVING: return m->save_stop_ms > 0;
    case IF_SAVED: return m->save_write_ms > 0;
    case IF_EXCHANGED: return m->ranks.steps > 0;
    default: return true;
    }
}

static double value_of(const run_metrics *m, const about *a)
{
    const char *at = (const char *)m + a->offset;
    return a->whole ? (double)*(const uint64_t *)(const void *)at
                    : *(const double *)(const void *)at;
}

uint32_t run_metrics_max(uint32_t told)
{
    return ROWS + WEFT_MAX_MESH + told;
}

uint32_t run_metrics_list(const run_metrics *m, weft_metric *out)
{
    uint32_t n = 0;
    for (const about *a = table; a < table + ROWS; a++)
        if (is_there(m, a->when))
            out[n++] = (weft_metric){a->name, a->unit, value_of(m, a),
                                     a->counts ? WEFT_METRIC_COUNTER : WEFT_METRIC_GAUGE, 0};
    for (uint32_t i = 0; i < m->naxes; i++)
        out[n++] = (weft_metric){m->axes[i].name, "ms", m->axes[i].value, WEFT_METRIC_GAUGE, 0};
    for (uint32_t i = 0; i < m->nscalars; i++)
        out[n++] = (weft_metric){m->told[i].name, "", m->told[i].value, WEFT_METRIC_GAUGE, 0};
    return n;
}

void run_metrics_print_table(FILE *out)
{
    fprintf(out, "| name | unit | kind | meaning | absent |\n|---|---|---|---|---|\n");
    for (const about *a = table; a < table + ROWS; a++)
        fprintf(out, "| `%s` | %s | %s | %s | %s |\n", a->name, a->unit,
                a->counts ? "counter" : "gauge", a->meaning, absences[a->when]);
}
