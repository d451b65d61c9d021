/* import.c: weft import and weft export. */
#include "cli/cli.h"

#include "base/err.h"
#include "formats/formats.h"

#include <signal.h>
#include <string.h>

#define OVERRIDES 64

static const struct {
    const char *word, *format;
} formats[] = {{"hf", "huggingface"}, {"llmc", "llmc"}};

static const char *format_of(const char *word)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].word, word))
            return formats[i].format;
    return NULL;
}

static bool is_type(const char *word)
{
    return !strcmp(word, "fp32") || !strcmp(word, "bf16") || !strcmp(word, "fp16");
}

/* One option of export alone; `value` NULL: it is missing. */
static bool take_option(const char *name, const char *value, formats_request *r)
{
    if (!value)
        return false;
    if (!strcmp(name, "--dtype") && is_type(value))
        r->dtype = value;
    else if (!strcmp(name, "--tokenizer"))
        r->beside = value;
    else
        return false;
    return true;
}

/* Why parse() has not taken it. */
static int refuse(const cli_command *c, const char *name, const char *value, bool exports)
{
    const bool out = !strcmp(name, "-o");
    const bool known =
        out || (exports && (!strcmp(name, "--dtype") || !strcmp(name, "--tokenizer")));
    if (!known)
        return cli_usage(c, "there is no option %s; weft %s --help lists them", name, c->name);
    if (!value)
        return cli_usage(c, "the value of %s is missing", name);
    return out ? cli_usage(c, "-o is given twice")
               : cli_usage(c, "%s '%s' is unknown; give fp32, bf16 or fp16", name, value);
}

/* FORMAT FROM -o TO [section.key=value ...]; 0, or the exit status. */
static int parse(const cli_command *c, int argc, char **argv, bool exports,
                 const char *overrides[OVERRIDES], formats_request *r)
{
    *r = (formats_request){.dtype = "fp32", .overrides = overrides};
    r->format = argc > 1 ? format_of(argv[1]) : NULL;
    if (!r->format)
        return cli_usage(c, "give the format first: hf or llmc");
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "-o") && value && !r->to)
            r->to = argv[++i];
        else if (*argv[i] == '-' && exports && take_option(argv[i], value, r))
            i++;
        else if (*argv[i] == '-')
            return refuse(c, argv[i], value, exports);
        else if (!r->from)
            r->from = argv[i];
        else if (strchr(argv[i], '=') && r->noverrides < OVERRIDES)
            overrides[r->noverrides++] = argv[i];
        else
            return cli_usage(c, "'%s' is not section.key=value", argv[i]);
    }
    if (!r->from || !r->to)
        return cli_usage(c, "name what to read, and with -o what to write");
    return 0;
}

/* The first signal lets the command remove what it has written; the second ends it at once. */
static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction act = {.sa_handler = formats_interrupt,
                                  .sa_flags = SA_RESTART | SA_RESETHAND};
    struct sigaction before;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &act, NULL);
}

/* As shells say it of a process that a signal ended. */
static int status_of(weft_status st)
{
    const int status = cli_fail(st);
    return st != WEFT_OK && formats_interrupted() ? 128 + formats_interrupted() : status;
}

static int run_import(int argc, char **argv)
{
    const char *overrides[OVERRIDES];
    formats_request r;
    const int status = parse(&cli_cmd_import, argc, argv, false, overrides, &r);
    if (status)
        return status;
    catch_signals();
    return status_of(formats_import(&r, stdout));
}

static int run_export(int argc, char **argv)
{
    const char *overrides[OVERRIDES];
    formats_request r;
    const int status = parse(&cli_cmd_export, argc, argv, true, overrides, &r);
    if (status)
        return status;
    catch_signals();
    return status_of(formats_export(&r, stdout));
}

const cli_command cli_cmd_import = {
    "import", "hf DIR|llmc FILE -o CHECKPOINT [section.key=value ...]",
    "Make a checkpoint of the weights of another program.\n\n"
    "hf reads a folder of Hugging Face: config.json and model.safetensors, or the files that\n"
    "model.safetensors.index.json names, in fp32, fp16 or bf16. llmc reads a checkpoint of llm.c\n"
    "of version 3 (fp32) or 5 (bf16). A model family that is installed has to know the\n"
    "architecture; what the family cannot compute is refused with the field that asks for it.\n\n"
    "CHECKPOINT is a new folder. It has the weights, a job.ini with the model's keys that starts\n"
    "from them, and config.json and the tokenizer's files where there are any. A path of plugins\n"
    "is given as run.plugins=DIR, a family as model.family=NAME.\n\n"
    "  -o CHECKPOINT      the folder to write\n\n"
    "docs/HUGGINGFACE.md shows the way from a model to a trained one and back.",
    run_import, NULL};

const cli_command cli_cmd_export = {
    "export", "hf|llmc CHECKPOINT -o DIR [--dtype TYPE] [--tokenizer DIR] [section.key=value ...]",
    "Write the weights of a checkpoint for another program.\n\n"
    "hf writes a folder that from_pretrained() of transformers loads: config.json, safetensors\n"
    "files of up to 5 GB, and the tokenizer's files that came along with an import. llmc writes a\n"
    "file of llm.c.\n\n"
    "  -o DIR             the new folder, or the new file\n"
    "  --dtype TYPE       fp32, bf16 or fp16 (fp32)\n"
    "  --tokenizer DIR    hf: copy the tokenizer's files, and fields of config.json that are not\n"
    "                     the model's, from this folder",
    run_export, NULL};
