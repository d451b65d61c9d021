/* data.c: weft data: token files of texts. */
#include "cli/cli.h"

#include "base/err.h"
#include "base/mem.h"
#include "host/watch.h"
#include "resolve/resolve.h"
#include "tokens/write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct data_words {
    const char **texts, **keys;
    uint32_t n, nkeys;
    const char *out, *valid, *tokenizer, *threads;
    tokens_text_options options;
    bool documents, replace;
} data_words;

/* "key=value" that is not the name of a file. */
static bool is_key(const char *word)
{
    const size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return n && word[n] == '=' && access(word, F_OK);
}

/* The option that takes the next word. */
static const char **with_value(const char *word, data_words *w)
{
    return !strcmp(word, "-o")            ? &w->out
           : !strcmp(word, "--valid")     ? &w->valid
           : !strcmp(word, "--tokenizer") ? &w->tokenizer
           : !strcmp(word, "--field")     ? &w->options.field
           : !strcmp(word, "--threads")   ? &w->threads
                                          : NULL;
}

static const char *read_words(int argc, char **argv, data_words *w)
{
    for (int i = 1; i < argc; i++) {
        const char **to = with_value(argv[i], w);
        if (to && i + 1 < argc)
            *to = argv[++i];
        else if (!strcmp(argv[i], "--documents"))
            w->documents = true;
        else if (!strcmp(argv[i], "--force"))
            w->replace = true;
        else if (!strcmp(argv[i], "--special"))
            w->options.special = true;
        else if (!strcmp(argv[i], "--plain"))
            w->options.plain = true;
        else if (*argv[i] == '-')
            return argv[i];
        else if (is_key(argv[i]))
            w->keys[w->nkeys++] = argv[i];
        else
            w->texts[w->n++] = argv[i];
    }
    return NULL;
}

/* The word of --tokenizer is no plugin, but a folder with a tokenizer's file. */
static weft_status unknown_tokenizer(const char *word, weft_status st)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%.4000s/%s", word, names[i]);
        if (access(path, F_OK) == 0)
            return err_fail(WEFT_USAGE, "%s is a folder: give --tokenizer %s", word, path);
    }
    return st;
}

static weft_status set_tokenizer(config *cfg, const char *word)
{
    const char *plugin = config_tokenizer_of(word);
    weft_status st = config_set(cfg, "data.tokenizer", plugin ? plugin : word, NULL);
    if (st != WEFT_OK)
        return unknown_tokenizer(word, st);
    return plugin ? config_set(cfg, "tokenizer.file", word, NULL) : WEFT_OK;
}

/* Keys without a section are the tokenizer's. */
static weft_status load_words(const data_words *w, config **out)
{
    weft_status st = config_load(NULL, NULL, 0, out);
    if (st == WEFT_OK && w->tokenizer)
        st = set_tokenizer(*out, w->tokenizer);
    for (uint32_t i = 0; st == WEFT_OK && i < w->nkeys; i++) {
        char key[256];
        const int n = (int)strcspn(w->keys[i], "=");
        snprintf(key, sizeof key, "%s%.*s", memchr(w->keys[i], '.', (size_t)n) ? "" : "tokenizer.",
                 n, w->keys[i]);
        st = config_set(*out, key, w->keys[i] + n + 1, NULL);
    }
    return st;
}

/* "begin" and "end" are ids plus 1; 0: there is none. */
static void print_tokenizer(const char *file, const weft_tokenizer_info *i)
{
    printf("%s: tokenizer %s, vocabulary %u", file, config_tokenizer_of(file), i->vocab);
    if (i->begin)
        printf(", id %u begins a document", i->begin - 1);
    if (i->end)
        printf(", id %u ends a document", i->end - 1);
    printf("%s\n", i->begin || i->end ? "" : ", no ids begin or end a document");
}

static weft_status write_data(const data_words *w, config *cfg, host *h, spec *s)
{
    data_tokenizer t = {0};
    uint64_t train, held = 0;
    weft_status st = resolve_text(cfg, h, s);
    if (st != WEFT_OK && w->tokenizer && !s->tokenizer.c)
        st = unknown_tokenizer(w->tokenizer, st);
    if (st == WEFT_OK)
        st = resolve_open_tokenizer(cfg, s);
    if (st == WEFT_OK)
        st = data_tokenizer_open(s->tokenizer.c, s->tokenizer.conf, &t);
    if (st != WEFT_OK && s->tokenizer.c)
        (void)resolve_add_place(cfg, s->tokenizer.c, "tokenizer");
    if (st == WEFT_OK && w->tokenizer && config_tokenizer_of(w->tokenizer))
        print_tokenizer(w->tokenizer, &t.info);
    tokens_request r = {.texts = w->texts,
                        .n = w->n,
                        .train = w->out,
                        .valid = w->valid,
                        .tokenizer = &t,
                        .options = &w->options,
                        .replace = w->replace,
                        .documents = w->documents};
    cli_ending_signals(&r.ends);
    if (st == WEFT_OK)
        st = tokens_write(&r, &train, &held);
    if (st == WEFT_OK)
        printf("%s: %" PRIu64 " tokens, vocabulary %u\n", w->out, train, t.info.vocab);
    if (st == WEFT_OK && w->valid)
        printf("%s: %" PRIu64 " tokens, held out\n", w->valid, held);
    data_tokenizer_close(&t);
    return st;
}

static weft_status make_data(const data_words *w)
{
    config *cfg = NULL;
    host *h = NULL;
    spec s = {0};
    weft_status st = load_words(w, &cfg);
    if (st == WEFT_OK)
        host_limits_set(cfg);
    if (st == WEFT_OK)
        st = host_create(config_raw(cfg, "run.plugins"), &h);
    if (st == WEFT_OK)
        st = write_data(w, cfg, h, &s);
    resolve_free(&s);
    host_destroy(h);
    config_destroy(cfg);
    return st;
}

static int data(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "info"))
        return cli_data_info(&cli_cmd_data, argc - 1, argv + 1);
    data_words w = {.texts = mem_alloc((uint64_t)argc * sizeof *w.texts),
                    .keys = mem_alloc((uint64_t)argc * sizeof *w.keys),
                    .options = {.field = "text"}};
    const char *wrong = read_words(argc, argv, &w);
    uint64_t threads = 0;
    int status;
    if (!wrong && w.threads && !cli_number(w.threads, 1, 256, &threads))
        status = cli_usage(&cli_cmd_data, "--threads takes a number from 1 to 256");
    else if (wrong)
        status = cli_refuse(&cli_cmd_data, wrong, NULL);
    else if (!w.n || !w.out)
        status = cli_usage(&cli_cmd_data, w.n ? "name the output: -o FILE" : "name the texts");
    else {
        w.options.threads = (uint32_t)threads;
        status = cli_fail(make_data(&w));
    }
    free(w.texts);
    free(w.keys);
    return status;
}

const cli_command cli_cmd_data = {
    "data",
    "PATH... -o FILE [--valid FILE] [--tokenizer NAME|FILE] [options] [key=value ...] | info "
    "FILE... [--scan]",
    "Write a token file of texts: files, or folders with all files below.\n\n"
    "Names that end in .jsonl have a record a line, and .gz and .zst are unpacked. Every 20th\n"
    "block of 4 KiB of text goes to --valid. The same command goes on after an interruption.\n\n"
    "  --tokenizer NAME   how text becomes tokens (bytes), or a file: tokenizer.json,\n"
    "                     tokenizer.model\n"
    "  --field NAME       of a record that is its text (text)\n"
    "  --special          names of special tokens in a text are these tokens\n"
    "  --plain            no tokens that begin or end a document\n"
    "  --documents        the file says where each text ends (data.documents = separate)\n"
    "  --force            replace a FILE that exists, or what another command has left of it\n"
    "  --threads N        that encode (as many as there are processors)\n"
    "  key=value          of the tokenizer, or section.key=value, as run.plugins=DIR\n\n"
    "weft data info FILE... [--scan] [--json] prints format, tokens, documents and vocabulary of\n"
    "token files; with --scan all tokens and the whole index are read and checked.",
    data, NULL};
