/* run/settings.c: see settings.h. */
#include "run/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t count_of(const config *cfg, const char *key)
{
    return (uint64_t)config_int(cfg, key);
}

static run_save_mode save_mode(const char *word)
{
    return !strcmp(word, "on")    ? RUN_SAVE_BESIDE
           : !strcmp(word, "off") ? RUN_SAVE_INLINE
                                  : RUN_SAVE_AUTO;
}

/* "10-12", "7", or "" for none. */
static weft_status parse_steps(const config *cfg, uint64_t *first, uint64_t *last)
{
    const char *text = config_text(cfg, "log.trace_steps");
    char *end;
    *first = 1;
    if (!*text)
        return WEFT_OK;
    errno = 0;
    *first = *last = strtoull(text, &end, 10);
    if (*end == '-')
        *last = strtoull(end + 1, &end, 10);
    if (errno || *end || *text == '-' || *first < 1 || *last < *first || *last - *first > 100)
        return config_fail(cfg, "log.trace_steps",
                           "'%s' is not FIRST-LAST, at most 101 steps, such as 10-12", text);
    return WEFT_OK;
}

weft_status run_settings_read(const config *cfg, run_settings *out)
{
    *out = (run_settings){
        .name = config_text(cfg, "run.name"),
        .out = config_text(cfg, "run.out"),
        .seed = count_of(cfg, "run.seed"),
        .steps = count_of(cfg, "run.steps"),
        .deadline = config_real(cfg, "run.deadline"),
        .frozen_after = config_real(cfg, "run.frozen_after"),
        .join_timeout = config_real(cfg, "run.join_timeout"),
        .verify_every = count_of(cfg, "run.verify"),
        .eval_every = count_of(cfg, "train.eval_every"),
        .eval_batches = count_of(cfg, "train.eval_batches"),
        .save_every = count_of(cfg, "checkpoint.every"),
        .save_keep = (uint32_t)config_int(cfg, "checkpoint.keep"),
        .save_mode = save_mode(config_text(cfg, "checkpoint.async")),
        .save_timeout = config_real(cfg, "checkpoint.timeout"),
        .init = config_text(cfg, "checkpoint.init"),
        .trace_bytes = (uint64_t)(config_real(cfg, "log.trace_mb") * 1048576),
        .progress_every = strcmp(config_text(cfg, "log.progress"), "auto") != 0
                              ? count_of(cfg, "log.progress")
                              : PROGRESS_AUTO,
        .peak_flops = config_real(cfg, "log.peak_gflops") * 1e9,
    };
    return parse_steps(cfg, &out->trace_first, &out->trace_last);
}
