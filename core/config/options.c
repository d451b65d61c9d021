/* config/options.c: the core's own sections. The parser, `weft plugins`, docs/CONFIG.md and every
 * default come from this one table. */
#include <stddef.h>
#include <string.h>

#include "config/config.h"

#define HUGE_BOUND 1e18 /* "no upper bound": value.c then says "at least" */
#define OPTION(type, key, dflt, help, choices, min, max)                                           \
    &(const weft_option)                                                                           \
    {                                                                                              \
        sizeof(weft_option), type, key, dflt, help, choices, min, max                              \
    }
#define TEXT(key, dflt, help) OPTION(WEFT_OPT_STRING, key, dflt, help, NULL, 0, 0)
#define FLAG(key, dflt, help) OPTION(WEFT_OPT_BOOL, key, dflt, help, NULL, 0, 0)
#define INT(key, dflt, min, max, help) OPTION(WEFT_OPT_INT, key, dflt, help, NULL, min, max)
#define AUTO(key, dflt, min, max, help) OPTION(WEFT_OPT_AUTO_INT, key, dflt, help, NULL, min, max)
#define REAL(key, dflt, min, max, help) OPTION(WEFT_OPT_REAL, key, dflt, help, NULL, min, max)
#define SECONDS(key, dflt, min, max, help) OPTION(WEFT_OPT_SECONDS, key, dflt, help, NULL, min, max)
#define CHOICE(key, dflt, choices, help) OPTION(WEFT_OPT_CHOICE, key, dflt, help, choices, 0, 0)

static const weft_option *const run_options[] = {
    TEXT("name", "demo", "name of the job, for people"),
    TEXT("out", "runs/demo", "folder for metrics, trace, checkpoints and flight records"),
    INT("seed", "1", 0, HUGE_BOUND, "initial weights and the data order depend on it"),
    INT("steps", "200", 1, 1e12, "updates to do"),
    FLAG("deterministic", "off", "the same layout twice gives the same bits, on every device"),
    TEXT("key", "", "file with the job's key (weft key -o FILE), for ranks started by others"),
    TEXT("plugins", "", "folders DIR:DIR that are searched for plugins first"),
    SECONDS("frozen_after", "5", 0.1, 86400,
            "a rank without a sign of life for so long has failed"),
    SECONDS("deadline", "60", 0.1, 86400, "no wait inside a step lasts longer"),
    SECONDS("join_timeout", "60", 0.1, 86400, "all ranks have to meet within it"),
    NULL,
};

static const weft_option *const model_options[] = {
    CHOICE("family", "gpt2", "gpt2|llama", "which transformer is built"),
    INT("layers", "12", 1, 1024, "transformer blocks"),
    INT("heads", "12", 1, 65536, "attention heads"),
    AUTO("kv_heads", "auto", 1, 65536, "heads of keys and values; auto: as many as heads"),
    INT("embed", "768", 1, 1048576, "width of the residual stream"),
    INT("ffn", "3072", 1, 4194304, "inner width of the feed-forward part"),
    INT("context", "1024", 1, 16777216, "longest sequence, in tokens"),
    INT("vocab", "50257", 0, 16777216, "tokens known; 0: what the data says"),
    CHOICE("tied", "auto", "auto|on|off",
           "the head shares the weights of the embedding; auto: in gpt2 on, in llama off"),
    REAL("rope_theta", "10000", 1e-6, 1e18, "llama: base of the angles that encode positions"),
    REAL("norm_eps", "1e-5", 1e-12, 1, "added to the variance before normalisations divide by it"),
    REAL("dropout", "0", 0, 0.99, "probability that an activation is dropped while training"),
    NULL,
};

static const weft_option *const data_options[] = {
    TEXT("train", "", "token file to learn from (weft data makes one)"),
    TEXT("valid", "", "token file to evaluate on; empty: no evaluation"),
    NULL,
};

static const weft_option *const train_options[] = {
    INT("batch", "32", 1, 16777216, "sequences a step, whole job"),
    INT("microbatch", "4", 1, 1048576, "sequences a pass, a data-parallel rank"),
    INT("sequence", "1024", 1, 16777216, "tokens a sequence, up to model.context"),
    CHOICE("precision", "bf16", "fp32|bf16|fp16", "type that passes compute in"),
    AUTO("loss_scale", "auto", 1, 1LL << 40,
         "fp16: what the loss gradient is first multiplied by; auto: 65536"),
    INT("scale_window", "2000", 0, 1e6,
        "fp16: good steps after which the loss scale doubles; 0: it only falls"),
    REAL("clip", "1.0", 0, HUGE_BOUND, "largest global gradient norm; 0: no clipping"),
    CHOICE("recompute", "none", "none|block|selective",
           "backward computes again: nothing, all activations of a block, those of attention"),
    INT("eval_every", "50", 0, 1e12, "evaluate after every so many steps; 0: never"),
    INT("eval_batches", "10", 1, 1e9, "batches an evaluation"),
    CHOICE("accumulate", "fp32", "fp32|compute", "type that gradients are kept and summed in"),
    REAL("bucket_mb", "25", 0.001, 65536, "MiB of gradients that are reduced together"),
    NULL,
};

static const weft_option *const parallel_options[] = {
    TEXT("strategy", "none", "none, or a list of strategies: tp, pp, dp"),
    NULL,
};

static const weft_option *const optim_options[] = {
    TEXT("rule", "adamw", "update rule"),
    TEXT("placement", "none", "what of state, gradients and parameters is sharded; none: nothing"),
    REAL("lr", "6e-4", 0, 1e6, "peak learning rate"),
    CHOICE("schedule", "cosine", "constant|cosine|linear", "learning rate after the warm-up"),
    INT("warmup", "100", 0, 1e12, "steps in which the learning rate rises from 0"),
    REAL("min_lr", "0", 0, 1e6, "learning rate at the last step"),
    NULL,
};

static const weft_option *const comm_options[] = {
    TEXT("plugin", "auto", "transport of every mesh axis that [comm.AXIS] does not set apart"),
    TEXT("near", "auto",
         "transport inside a machine, of an axis that reaches over several: none: plugin's; auto: "
         "the best if plugin is auto, else none"),
    TEXT("algorithm", "auto",
         "collective algorithm: auto, ring, halving, doubling, direct, exchange, mapped, tree, "
         "double_tree, chain, bruck, hierarchical; or rules KIND[:FROM-TO]=NAME, of which the "
         "first that holds decides: all_reduce:0-64K=doubling, all_reduce=ring, *=auto"),
    TEXT("tuned", "", "file of weft tune comm: keys of [comm] and [comm.NAME] that the job lacks"),
    REAL("reduce", "0", 0, 1e6,
         "what algorithm = auto goes by: GB/s at which a rank reads numbers to sum them; 0: "
         "unknown"),
    CHOICE("compress", "none", "none|fp16|bf16|int8",
           "form in which gradients travel between ranks with different data; not none: changes "
           "results"),
    FLAG("feedback", "on",
         "what compression takes away is kept, 4 bytes an element, and added in the next step"),
    NULL,
};

/* [comm.NAME] of every transport. */
static const weft_option *const link_options[] = {
    REAL("latency", "0", 0, 1e9,
         "what algorithm = auto goes by: us until a short message has arrived"),
    REAL("message", "0", 0, 1e9, "the same: us that each further message keeps its sender busy"),
    REAL("bandwidth", "0", 0, 1e6, "the same: GB/s of long messages; 0: not tuned"),
    REAL("mapped", "0", 0, 1e6,
         "the same: GB/s of loads and stores in memory of other ranks; 0: as bandwidth"),
    NULL,
};

static const weft_option *const device_options[] = {
    TEXT("plugin", "cpu", "device that computes"),
    NULL,
};

static const weft_option *const checkpoint_options[] = {
    INT("every", "0", 0, 1e12, "save after every so many steps; 0: never"),
    INT("keep", "2", 0, 1e6, "newest checkpoints that are kept; 0: all"),
    NULL,
};

static const weft_option *const log_options[] = {
    CHOICE("level", "info", "error|warn|info|debug", "lines above it are dropped"),
    TEXT("trace_steps", "", "steps in trace.json: FIRST-LAST; empty: none"),
    REAL("peak_gflops", "0", 0, 1e9, "peak that MFU divides by; 0: measured at the start"),
    INT("progress", "1", 0, 1e12, "a line on the terminal every so many steps; 0: none"),
    NULL,
};

static const config_section sections[] = {
    {"run", "the job as a whole", run_options},
    {"model", "what is trained", model_options},
    {"data", "what it is trained on", data_options},
    {"train", "one step", train_options},
    {"parallel", "how ranks share the work", parallel_options},
    {"optim", "how parameters change", optim_options},
    {"comm", "how ranks talk", comm_options},
    {"device", "what computes", device_options},
    {"checkpoint", "what is saved", checkpoint_options},
    {"log", "what is said", log_options},
    {NULL, NULL, NULL},
};

/* What the words of [train] recompute mean. Which op's tensors are worth making again is known here
 * and nowhere in the code that does it. */
static const struct {
    const char *word, *tensors;
} recompute_words[] = {
    {"none", NULL},
    {"block", "*"},
    {"selective", "attention#*"},
};

const char *config_recompute(const char *word)
{
    for (size_t i = 0; i < sizeof recompute_words / sizeof *recompute_words; i++)
        if (!strcmp(recompute_words[i].word, word))
            return recompute_words[i].tensors;
    return NULL;
}

const weft_option *const *config_link_options(void)
{
    return link_options;
}

const config_section *config_core_sections(void)
{
    return sections;
}
