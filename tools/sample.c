/* sample.c: weft sample. */
#include "cli/cli.h"

#include "base/err.h"
#include "base/mem.h"
#include "cli/saved.h"
#include "saved/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_STOPS 16u
#define MAX_PROMPT (64u << 20) /* bytes of a file */

typedef struct request {
    saved_sample_options o;
    cli_saved saved;
    const char *stop[MAX_STOPS];
    const char *file; /* of the prompt */
    char *read;       /* its text */
} request;

static bool real(const char *text, double least, double max, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out >= least && *out <= max;
}

static bool take_prompt(request *r, const char *text, bool ids)
{
    const bool first = !r->o.prompt && !r->file;
    r->o.prompt = text;
    r->o.ids = ids;
    return first;
}

static bool option(request *r, const char *name, const char *value)
{
    saved_sample_options *o = &r->o;
    if (!strcmp(name, "--prompt"))
        return take_prompt(r, value, false);
    if (!strcmp(name, "--ids"))
        return take_prompt(r, value, true);
    if (!strcmp(name, "--prompt-file")) {
        const bool first = !o->prompt && !r->file;
        r->file = value;
        return first;
    }
    if (!strcmp(name, "--stop")) {
        if (!*value || o->nstop == MAX_STOPS)
            return false;
        r->stop[o->nstop++] = value;
        return true;
    }
    if (!strcmp(name, "--tokens"))
        return cli_number(value, 1, 1000000000, &o->tokens);
    if (!strcmp(name, "--temperature"))
        return real(value, 0, 1000, &o->draw.temperature);
    if (!strcmp(name, "--top") || !strcmp(name, "--top-k"))
        return cli_number(value, 0, 1000000000, &o->draw.top);
    if (!strcmp(name, "--top-p"))
        return real(value, 0, 1, &o->draw.mass) && o->draw.mass > 0;
    return !strcmp(name, "--seed") && cli_number(value, 0, UINT64_MAX - 1, &o->draw.seed);
}

static bool flag(request *r, const char *name)
{
    const bool json = !strcmp(name, "--json"), past = !strcmp(name, "--past-end");
    const bool uncached = !strcmp(name, "--uncached");
    r->o.json |= json;
    r->o.past_end |= past;
    r->o.uncached |= uncached;
    return json || past || uncached;
}

static weft_status read_file(request *r)
{
    const bool in = !strcmp(r->file, "-");
    FILE *f = in ? stdin : fopen(r->file, "rb");
    VEC(char) text = {0};
    size_t n = 1;
    if (!f)
        return err_fail(WEFT_USAGE, "--prompt-file %s: %s", r->file, strerror(errno));
    while (n && text.n <= MAX_PROMPT) {
        char part[65536];
        n = fread(part, 1, sizeof part, f);
        for (size_t i = 0; i < n; i++)
            *vec_push(&text) = part[i];
    }
    const int error = ferror(f) ? errno : 0;
    if (!in)
        fclose(f);
    *vec_push(&text) = 0;
    r->read = text.at;
    r->o.prompt = text.at;
    if (error)
        return err_fail(WEFT_USAGE, "--prompt-file %s: %s", r->file, strerror(error));
    if (text.n > MAX_PROMPT || memchr(text.at, 0, text.n - 1))
        return err_fail(WEFT_USAGE, "--prompt-file %s: it has a zero byte, or more than %u MiB",
                        r->file, MAX_PROMPT >> 20);
    return WEFT_OK;
}

/* Ranks have no standard input: they get what has been read as an argument. */
static int launch(request *r, int argc, char **argv)
{
    const char *replaced = r->file && !strcmp(r->file, "-") ? "--prompt-file" : NULL;
    if (replaced && strlen(r->o.prompt) > 100000)
        return cli_usage(&cli_cmd_sample, "with -n a prompt from standard input has at most 100000 "
                                          "bytes: name a file");
    return cli_saved_launch(&r->saved, argc, argv, replaced, "--prompt", r->o.prompt);
}

static int run_request(request *r, int argc, char **argv)
{
    if (!r->saved.dir)
        return cli_usage(&cli_cmd_sample,
                         "name a checkpoint: a folder such as OUT/checkpoints/step-...");
    if (r->file) {
        weft_status st = read_file(r);
        if (st != WEFT_OK)
            return cli_fail(st);
    }
    if (r->saved.ranks > 1)
        return launch(r, argc, argv);
    r->o.prompt = r->o.prompt ? r->o.prompt : "";
    r->o.saved =
        (saved_args){r->saved.dir, r->saved.overrides, r->saved.noverrides, "sample", true};
    return saved_sample(&r->o, stdout);
}

/* Why option() has not taken it. */
static int refuse(const char *name, const char *value)
{
    static const struct {
        const char *name, *values;
    } known[] = {{"-n", "a number of ranks from 1 on"},
                 {"--prompt", NULL},
                 {"--ids", NULL},
                 {"--prompt-file", NULL},
                 {"--stop", "a text that is not empty, at most 16 times"},
                 {"--tokens", "a number from 1 to 1000000000"},
                 {"--temperature", "a number from 0 to 1000"},
                 {"--top", "a number from 0 to 1000000000"},
                 {"--top-k", "a number from 0 to 1000000000"},
                 {"--top-p", "a number above 0, at most 1"},
                 {"--seed", "a number from 0 to 18446744073709551614"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name))
            continue;
        if (!value)
            return cli_usage(&cli_cmd_sample, "the value of %s is missing", name);
        if (!known[i].values)
            return cli_usage(&cli_cmd_sample,
                             "%s: the prompt is given twice; give one of --prompt, --prompt-file "
                             "and --ids",
                             name);
        return cli_usage(&cli_cmd_sample, "%s '%s' is out of range: %s", name, value,
                         known[i].values);
    }
    if (*name != '-')
        return cli_usage(&cli_cmd_sample, "'%s' is not section.key=value", name);
    return cli_usage(&cli_cmd_sample, "there is no option %s; weft sample --help lists them", name);
}

static int run(int argc, char **argv)
{
    request r = {.o = {.tokens = 200, .draw = {.temperature = 0.8, .mass = 1, .seed = 1}}};
    r.o.stop = r.stop;
    for (int i = 1; i < argc; i++) {
        const int used = cli_saved_word(&r.saved, argc, argv, i);
        if (used) {
            i += used - 1;
        } else if (!flag(&r, argv[i])) {
            if (i + 1 == argc || !option(&r, argv[i], argv[i + 1]))
                return refuse(argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            i++;
        }
    }
    const int status = run_request(&r, argc, argv);
    free(r.read);
    return status;
}

const cli_command cli_cmd_sample = {
    "sample",
    "[-n RANKS] CHECKPOINT [--prompt TEXT | --prompt-file FILE | --ids NUMBERS] [--tokens N] "
    "[--temperature T] [--top-k K] [--top-p P] [--seed S] [--stop TEXT ...] [--past-end] "
    "[--uncached] [--json] [section.key=value ...]",
    "Write text with a trained model.\n\n"
    "The checkpoint's job, with other values of keys where they are given, names the tokenizer.\n"
    "Text appears as it is made, and ends at the tokenizer's end of text, at a --stop, or after\n"
    "--tokens. Keys and values are cached, so that a token costs the work of one token. When the\n"
    "model's context is full, the older half of it is forgotten (docs/GENERATE.md).\n\n"
    "  -n RANKS           ranks that share the model, as [parallel] of the job or of the given\n"
    "                     keys says; without it one rank, whatever layout has saved it\n"
    "  --prompt TEXT      text to continue (token numbers, if no tokenizer has the model's ids)\n"
    "  --prompt-file FILE the same from a file; - is standard input\n"
    "  --ids NUMBERS      token numbers to continue, separated by commas or spaces\n"
    "  --tokens N         how much at most (200)\n"
    "  --temperature T    0 takes the likeliest token each time (0.8)\n"
    "  --top-k K          draw among the K likeliest, also called --top; 0: among all (0)\n"
    "  --top-p P          of these, among the likeliest that have the probability P together (1)\n"
    "  --seed S           of the draws (1)\n"
    "  --stop TEXT        end before this text; may be given several times\n"
    "  --past-end         take the tokenizer's end of text for a token like others\n"
    "  --uncached         run the whole context for each token, to compare\n"
    "  --json             one object at the end: text, ids, their log-probabilities, times",
    run, NULL};
