/* config/options.c: the core's own sections. The parser, `weft plugins`, docs/CONFIG.md and every
 * default come from this one table. */
#include <stddef.h>
#include <string.h>

#include "config/differ.h"

#define HUGE_BOUND 1e18 /* "no upper bound": value.c then says "at least" */

/* An option and the column that says what another value of it changes. */
typedef struct core_option {
    weft_option option;
    uint32_t effect; /* of another value (differ.h) */
} core_option;
#define BINDS (CONFIG_BINDS | CONFIG_ALONE)
#define BETWEEN CONFIG_BINDS /* ranks: one alone does without */
#define ALONE CONFIG_ALONE
#define FREE 0

#define OPTION(column, type, key, dflt, help, choices, min, max)                                   \
    &((const core_option){{sizeof(weft_option), type, key, dflt, help, choices, min, max},         \
                          column})                                                                 \
         .option
#define TEXT(column, key, dflt, help) OPTION(column, WEFT_OPT_STRING, key, dflt, help, NULL, 0, 0)
#define FLAG(column, key, dflt, help) OPTION(column, WEFT_OPT_BOOL, key, dflt, help, NULL, 0, 0)
#define INT(column, key, dflt, min, max, help)                                                     \
    OPTION(column, WEFT_OPT_INT, key, dflt, help, NULL, min, max)
#define AUTO(column, key, dflt, min, max, help)                                                    \
    OPTION(column, WEFT_OPT_AUTO_INT, key, dflt, help, NULL, min, max)
#define REAL(column, key, dflt, min, max, help)                                                    \
    OPTION(column, WEFT_OPT_REAL, key, dflt, help, NULL, min, max)
#define SECONDS(column, key, dflt, min, max, help)                                                 \
    OPTION(column, WEFT_OPT_SECONDS, key, dflt, help, NULL, min, max)
#define CHOICE(column, key, dflt, choices, help)                                                   \
    OPTION(column, WEFT_OPT_CHOICE, key, dflt, help, choices, 0, 0)

static const weft_option *const run_options[] = {
    TEXT(FREE, "name", "demo", "name of the job, for people"),
    TEXT(FREE, "out", "runs/demo", "folder for metrics, trace, checkpoints and flight records"),
    INT(BINDS, "seed", "1", 0, HUGE_BOUND,
        "initial weights, the data order and dropout depend on it"),
    INT(FREE, "steps", "200", 1, 1e12, "updates to do"),
    FLAG(FREE, "deterministic", "off",
         "the same layout twice gives the same bits, on every device"),
    TEXT(FREE, "key", "",
         "file with the job's key (weft key -o FILE), for ranks started by others"),
    TEXT(FREE, "listen", "",
         "where rank 0 listens, if not at MASTER_ADDR: ADDRESS or ADDRESS:PORT, 0.0.0.0 or :: for "
         "all; the others connect to MASTER_ADDR and MASTER_PORT"),
    TEXT(FREE, "address", "",
         "what this rank's transports listen at and tell the others, if not the address towards "
         "rank 0: an ADDRESS, an INTERFACE or a network ADDRESS/BITS"),
    TEXT(FREE, "plugins", "", "folders DIR:DIR that are searched for plugins first"),
    TEXT(FREE, "use", "", "plugins NAME, NAME whose ops and kernels the job uses"),
    SECONDS(
        FREE, "frozen_after", "2.5", 0.1, 86400,
        "a rank without a heartbeat for so long has failed; more where the network may fail for "
        "longer"),
    SECONDS(FREE, "stuck_after", "2.5", 0, 86400,
            "a call of a plugin in a step that lasts longer, and 5 times as long as any before at "
            "its instruction, ends the job, from the fourth time on; call_deadline is the most; 0: "
            "call_deadline alone"),
    SECONDS(FREE, "deadline", "60", 0.1, 86400, "no wait inside a step lasts longer"),
    SECONDS(FREE, "call_deadline", "60", 0, 86400,
            "a call of a plugin that lasts longer, in a step or while planning, ends the job; 0: "
            "no limit, for a debugger"),
    SECONDS(FREE, "setup_deadline", "300", 0, 86400,
            "the same for a call that opens, connects, prepares or closes something"),
    INT(FREE, "planning_mb", "8192", 16, 1e9,
        "MiB that planning may take on a rank, and that a plugin may take from the core meanwhile"),
    INT(FREE, "verify", "0", 0, 1e12,
        "after every so many steps ranks compare parameters and states of which they hold copies "
        "by hashes, not slices that one rank alone has, gradients or activations; a difference "
        "ends the job with the rank, the host and the tensor; 0: never"),
    SECONDS(FREE, "join_timeout", "60", 0.1, 86400, "all ranks must join within it"),
    NULL,
};

static const weft_option *const model_options[] = {
    TEXT(BINDS, "family", "gpt2", "model family that is built"),
    NULL,
};

static const weft_option *const data_options[] = {
    TEXT(BINDS, "source", "tokens", "where samples come from"),
    TEXT(ALONE, "tokenizer", "bytes",
         "how text becomes ids: of sources of text, and of weft sample"),
    NULL,
};

static const weft_option *const train_options[] = {
    INT(BINDS, "batch", "32", 1, 16777216, "sequences a step, whole job"),
    INT(ALONE, "microbatch", "4", 1, 1048576, /* it has to divide the batch */
        "sequences of a micro-batch, a data-parallel rank"),
    INT(BINDS, "sequence", "1024", 1, 16777216,
        "tokens a sequence, up to the context of the model"),
    CHOICE(BINDS, "precision", "bf16", "fp32|bf16|fp16", "type that passes compute in"),
    AUTO(BINDS, "loss_scale", "auto", 1, 1LL << 40,
         "fp16: what the loss gradient is first multiplied by; auto: 65536"),
    INT(BINDS, "scale_window", "2000", 0, 1e6,
        "fp16: good steps after which the loss scale doubles; 0: it only falls"),
    REAL(BINDS, "clip", "1.0", 0, HUGE_BOUND, "largest global gradient norm; 0: no clipping"),
    CHOICE(FREE, "recompute", "none", "none|block|selective",
           "activations that backward computes again: none; block: all of a block but its input; "
           "selective: only the attention output"),
    INT(FREE, "eval_every", "50", 0, 1e12, "evaluate after every so many steps; 0: never"),
    INT(FREE, "eval_batches", "10", 1, 1e9, "batches an evaluation"),
    CHOICE(BINDS, "accumulate", "fp32", "fp32|compute",
           "type that gradients are kept and summed in"),
    REAL(FREE, "bucket_mb", "25", 0.001, 65536, "MiB of gradients that are reduced together"),
    NULL,
};

static const weft_option *const parallel_options[] = {
    TEXT(FREE, "strategy", "none", "none, or a list of strategies: tp, pp, dp"),
    NULL,
};

static const weft_option *const optim_options[] = {
    TEXT(BINDS, "rule", "adamw", "update rule"),
    TEXT(FREE, "placement", "none",
         "what of state, gradients and parameters is sharded; none: nothing"),
    REAL(BINDS, "lr", "6e-4", 0, 1e6, "peak learning rate"),
    CHOICE(BINDS, "schedule", "cosine", "constant|cosine|linear",
           "learning rate after the warm-up"),
    INT(BINDS, "warmup", "100", 0, 1e12, "steps in which the learning rate rises from 0"),
    REAL(BINDS, "min_lr", "0", 0, 1e6, "learning rate at the last step"),
    NULL,
};

static const weft_option *const comm_options[] = {
    TEXT(FREE, "plugin", "auto", "transport of every mesh axis without a plugin in [comm.AXIS]"),
    TEXT(FREE, "intra", "auto",
         "intra-node transport of an axis that spans machines: none: the same as plugin; auto: the "
         "best if plugin is auto, else none"),
    TEXT(FREE, "algorithm", "auto",
         "collective algorithm: auto, ring, halving, doubling, pairwise, one_shot, mapped, tree, "
         "double_tree, chain, bruck, dissemination, hierarchical; or rules KIND[:FROM-TO]=NAME, of "
         "which the first that holds decides: all_reduce:0-64K=doubling, all_reduce=ring, *=auto"),
    TEXT(FREE, "tuned", "",
         "file of weft tune comm: keys of [comm] and [comm.NAME] that the job lacks"),
    REAL(FREE, "reduce", "0", 0, 1e6,
         "used by algorithm = auto: GB/s at which a rank reads numbers to sum them; 0: "
         "unknown"),
    CHOICE(BETWEEN, "compress", "none", "none|fp16|bf16|int8",
           "form in which gradients travel between ranks with different data; not none: changes "
           "results"),
    FLAG(BETWEEN, "feedback", "on",
         "error feedback: the compression error is stored, 4 bytes an element, and added in the "
         "next step"),
    FLAG(FREE, "checksum", "off",
         "every message carries a CRC32C; a difference ends the job with the ranks, the hosts and "
         "the bytes. Ranks then do not map each other's memory, and that of a device goes through "
         "the host"),
    NULL,
};

/* [comm.NAME] of every transport. */
static const weft_option *const link_options[] = {
    REAL(FREE, "latency", "0", 0, 1e9,
         "used by algorithm = auto: us until a short message has arrived"),
    REAL(FREE, "message", "0", 0, 1e9,
         "the same: us that each further message keeps its sender busy"),
    REAL(FREE, "bandwidth", "0", 0, 1e6, "the same: GB/s of long messages; 0: not tuned"),
    REAL(FREE, "mapped", "0", 0, 1e6,
         "the same: GB/s of loads and stores in memory of other ranks; 0: as bandwidth"),
    NULL,
};

static const weft_option *const device_options[] = {
    TEXT(FREE, "plugin", "cpu", "device that computes"),
    NULL,
};

static const weft_option *const checkpoint_options[] = {
    INT(FREE, "every", "0", 0, 1e12,
        "save after every so many steps; 0: never, not even when a signal stops the job"),
    INT(FREE, "keep", "2", 0, 1e6,
        "newest checkpoints that are kept, those from before while steps are skipped, and any with "
        "a file of somebody else in it; 0: all"),
    CHOICE(FREE, "async", "auto", "auto|on|off",
           "on: a save copies the state into host memory and is written beside the next steps; "
           "auto: where the machine has the memory (weft plan)"),
    TEXT(FREE, "init", "",
         "a run that begins takes its weights from here, and its states are zero: a folder of "
         "Hugging Face, or a checkpoint; empty: random weights"),
    SECONDS(FREE, "timeout", "3600", 0.1, 604800,
            "a rank waits for the others in a save or a resume at most so long; one that died or "
            "froze is noticed earlier, by run.frozen_after"),
    NULL,
};

static const weft_option *const log_options[] = {
    CHOICE(FREE, "level", "info", "error|warn|info|debug",
           "lines above it are dropped; outside a terminal a run's begin with the time in UTC"),
    TEXT(FREE, "trace_steps", "", "steps in trace.json: FIRST-LAST; empty: none"),
    REAL(FREE, "trace_mb", "256", 0.01, 65536,
         "MiB of trace.json; beyond, a rank leaves out kernels and plugins, then whole steps"),
    REAL(FREE, "peak_gflops", "0", 0, 1e9,
         "peak of a rank that MFU divides by; 0: the mean of all, measured at once at the start"),
    TEXT(FREE, "sinks", "jsonl",
         "plugins NAME, NAME that get the metrics of every step; jsonl writes OUT/metrics.jsonl; "
         "empty: none"),
    AUTO(FREE, "progress", "auto", 0, 1e12,
         "a line every so many steps; 0: none; auto: one a second, and after a minute one in 10 "
         "seconds. A terminal has one line, that of the newest step"),
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

/* [optim.NAME] of every parameter group, beside the rule's. */
static const weft_option *const group_options[] = {
    TEXT(BINDS, "params", "",
         "parameters of the group: names with *, alternatives with |, @ROLE, and ! takes away"),
    REAL(BINDS, "lr", "6e-4", 0, 1e6,
         "peak learning rate; if left out that of [optim], whose schedule it follows"),
    NULL,
};

const weft_option *const *config_group_options(void)
{
    return group_options;
}

const weft_option *const *config_link_options(void)
{
    return link_options;
}

const config_section *config_core_sections(void)
{
    return sections;
}

static bool stands_in(const weft_option *const *table, const weft_option *o)
{
    for (; *table; table++)
        if (*table == o)
            return true;
    return false;
}

uint32_t config_option_effect(const weft_option *o)
{
    bool ours = stands_in(link_options, o) || stands_in(group_options, o);
    for (const config_section *s = sections; s->name && !ours; s++)
        ours = stands_in(s->options, o);
    return ours ? ((const core_option *)o)->effect : 0; /* its first member */
}

const char *config_tokenizer_of(const char *file)
{
    const char *dot = strrchr(file, '.');
    return !dot                     ? NULL
           : !strcmp(dot, ".json")  ? "hf"
           : !strcmp(dot, ".model") ? "sentencepiece"
                                    : NULL;
}

const char *config_ops(void)
{
    return "builtin";
}
