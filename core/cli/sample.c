/* cli/sample.c: weft sample. */
#include "cli/cli.h"

#include "base/err.h"
#include "run/sample.h"

#include <stdlib.h>
#include <string.h>

static bool real(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out >= 0 && *out <= 1000;
}

static bool option(const char *name, const char *value, sample_options *o)
{
    if (!strcmp(name, "--prompt")) {
        o->prompt = value;
        return true;
    }
    if (!strcmp(name, "--tokens"))
        return cli_number(value, 1, 1000000000, &o->tokens);
    if (!strcmp(name, "--temperature"))
        return real(value, &o->temperature);
    if (!strcmp(name, "--top"))
        return cli_number(value, 0, 1000000000, &o->top);
    return !strcmp(name, "--seed") && cli_number(value, 0, UINT64_MAX - 1, &o->seed);
}

static int run(int argc, char **argv)
{
    sample_options o = {.prompt = "", .tokens = 200, .temperature = 0.8, .seed = 1};
    const char *dir = NULL;
    const char *overrides[64];
    o.overrides = overrides;
    for (int i = 1; i < argc; i++) {
        if (*argv[i] != '-' && !dir)
            dir = argv[i];
        else if (*argv[i] != '-' && strchr(argv[i], '=') && o.noverrides < 64)
            overrides[o.noverrides++] = argv[i];
        else if (i + 1 == argc || !option(argv[i], argv[i + 1], &o))
            return cli_usage(&cli_cmd_sample,
                             "%s is unknown, or its value is missing or out of range", argv[i]);
        else
            i++;
    }
    if (!dir)
        return cli_usage(&cli_cmd_sample,
                         "name a checkpoint: a folder such as OUT/checkpoints/step-...");
    return cli_fail(run_sample_checkpoint(dir, &o, stdout));
}

const command cli_cmd_sample = {
    "sample",
    "CHECKPOINT --prompt TEXT [--tokens N] [--temperature T] [--top K] [--seed S] "
    "[section.key=value ...]",
    "Write text with a trained model. Its job, with other values of keys where they are given, "
    "names\n"
    "the tokenizer.\n\n"
    "  --prompt TEXT      text to continue (token numbers, if no tokenizer has the model's ids)\n"
    "  --tokens N         how much (200)\n"
    "  --temperature T    0 takes the likeliest token each time (0.8)\n"
    "  --top K            draw among the K likeliest; 0: among all (0)\n"
    "  --seed S           of the draws (1)",
    run};
