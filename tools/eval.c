/* eval.c: weft eval. */
#include "cli/cli.h"

#include "base/mem.h"
#include "cli/saved.h"
#include "saved/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run_here(saved_evaluate_options *o, cli_saved *s, const char *file)
{
    char *valid = NULL;
    const char *keys[CLI_SAVED_OVERRIDES + 1];
    uint32_t n = 0;
    if (file) { /* first, so that a given key wins */
        const size_t capacity = strlen(file) + sizeof "data.valid=";
        valid = mem_alloc(capacity);
        snprintf(valid, capacity, "data.valid=%s", file);
        keys[n++] = valid;
    }
    for (uint32_t i = 0; i < s->noverrides; i++)
        keys[n++] = s->overrides[i];
    o->saved = (saved_args){s->dir, keys, n, "eval", false};
    const int status = saved_evaluate(o, stdout);
    free(valid);
    return status;
}

static int run(int argc, char **argv)
{
    cli_saved saved = {0};
    saved_evaluate_options o = {0};
    const char *file = NULL;
    for (int i = 1; i < argc; i++) {
        const int used = cli_saved_word(&saved, argc, argv, i);
        const bool more = i + 1 < argc;
        if (used)
            i += used - 1;
        else if (!strcmp(argv[i], "--json"))
            o.json = true;
        else if (more && !strcmp(argv[i], "--data"))
            file = argv[++i];
        else if (more && !strcmp(argv[i], "--batches") &&
                 cli_number(argv[i + 1], 1, 1000000000, &o.batches))
            i++;
        else
            return cli_refuse(&cli_cmd_eval, argv[i], argv[i + 1]);
    }
    if (!saved.dir)
        return cli_usage(&cli_cmd_eval,
                         "name a checkpoint: a folder such as OUT/checkpoints/step-...");
    return saved.ranks > 1 ? cli_saved_launch(&saved, argc, argv, NULL, NULL, NULL)
                           : run_here(&o, &saved, file);
}

const cli_command cli_cmd_eval = {
    "eval",
    "[-n RANKS] CHECKPOINT [--data FILE] [--batches N] [--json] "
    "[section.key=value ...]",
    "The loss of a trained model on data.\n\n"
    "Prints the loss of a token, its perplexity and, where the job's tokenizer has the ids of the\n"
    "data, bits per byte of text. Every sample counts once. The loss is the one that training\n"
    "reports as valid_loss, in the same bits where data, layout and number of batches are the "
    "same\n"
    "(docs/GENERATE.md).\n\n"
    "  -n RANKS      ranks that share the work, as [parallel] of the job or of the given keys\n"
    "                says; without it one rank, whatever layout has saved the checkpoint\n"
    "  --data FILE   what data.valid names in a job; without it the job's own\n"
    "  --batches N   the first N batches of train.batch samples, as train.eval_batches\n"
    "  --json        one object for programs",
    run, NULL};
