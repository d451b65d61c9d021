/* cli/files.c: weft data, weft key, weft flight: commands about files, without a job. */
#include "cli/cli.h"

#include "base/err.h"
#include "base/mem.h"
#include "data/write.h"
#include "host/watch.h"
#include "job/wire/key.h"
#include "resolve/resolve.h"
#include "run/view/flight.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct data_words {
    const char **texts, **keys;
    uint32_t n, nkeys;
    const char *out, *valid, *tokenizer;
} data_words;

/* "key=value" that is not the name of a file. */
static bool is_key(const char *word)
{
    const size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return n && word[n] == '=' && access(word, F_OK);
}

static const char *read_words(int argc, char **argv, data_words *w)
{
    for (int i = 1; i < argc; i++) {
        const char **to = !strcmp(argv[i], "-o")            ? &w->out
                          : !strcmp(argv[i], "--valid")     ? &w->valid
                          : !strcmp(argv[i], "--tokenizer") ? &w->tokenizer
                                                            : NULL;
        if (to && i + 1 < argc)
            *to = argv[++i];
        else if (*argv[i] == '-')
            return argv[i];
        else if (is_key(argv[i]))
            w->keys[w->nkeys++] = argv[i];
        else
            w->texts[w->n++] = argv[i];
    }
    return NULL;
}

/* Keys without a section are the tokenizer's. */
static weft_status load_words(const data_words *w, config **out)
{
    weft_status st = config_load(NULL, NULL, 0, out);
    if (st == WEFT_OK && w->tokenizer)
        st = config_set(*out, "data.tokenizer", w->tokenizer, NULL);
    for (uint32_t i = 0; st == WEFT_OK && i < w->nkeys; i++) {
        char key[256];
        const int n = (int)strcspn(w->keys[i], "=");
        snprintf(key, sizeof key, "%s%.*s", memchr(w->keys[i], '.', (size_t)n) ? "" : "tokenizer.",
                 n, w->keys[i]);
        st = config_set(*out, key, w->keys[i] + n + 1, NULL);
    }
    return st;
}

static weft_status write_data(const data_words *w, config *cfg, host *h, spec *s)
{
    data_tokenizer t = {0};
    uint64_t train, held = 0;
    weft_status st = resolve_text(cfg, h, s);
    if (st == WEFT_OK)
        st = resolve_open_tokenizer(cfg, s);
    if (st == WEFT_OK)
        st = data_tokenizer_open(s->tokenizer.c, s->tokenizer.conf, &t);
    if (st != WEFT_OK && s->tokenizer.c)
        (void)resolve_add_place(cfg, s->tokenizer.c, "tokenizer");
    if (st == WEFT_OK)
        st = data_write(&(data_request){w->texts, w->n, w->out, w->valid, &t}, &train, &held);
    if (st == WEFT_OK)
        printf("%s: %" PRIu64 " tokens, each one of %u\n", w->out, train, t.info.vocab);
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
    data_words w = {.texts = mem_alloc((uint64_t)argc * sizeof *w.texts),
                    .keys = mem_alloc((uint64_t)argc * sizeof *w.keys)};
    const char *wrong = read_words(argc, argv, &w);
    int status;
    if (wrong)
        status = cli_usage(&cli_cmd_data, "option %s is unknown or lacks its value", wrong);
    else if (!w.n || !w.out)
        status = cli_usage(&cli_cmd_data, w.n ? "name the output: -o FILE" : "name the texts");
    else
        status = cli_fail(make_data(&w));
    free(w.texts);
    free(w.keys);
    return status;
}

const command cli_cmd_data = {
    "data", "TEXT... -o FILE [--valid FILE] [--tokenizer NAME] [key=value ...]",
    "Write a token file of the texts; every 20th block of 4 KiB of text goes to --valid.\n\n"
    "  --tokenizer NAME   how text becomes tokens (bytes)\n"
    "  key=value          of the tokenizer, or section.key=value, as run.plugins=DIR",
    data};

static int key(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "-o"))
        return cli_usage(&cli_cmd_key, "name the output: -o FILE");
    return cli_fail(job_key_write(argv[2]));
}

const command cli_cmd_key = {
    "key", "-o FILE",
    "Write a fresh job key that only you can read, for ranks that weft train -n did not start.\n"
    "Copy it to every machine and name it as [run] key.",
    key};

static int flight_command(int argc, char **argv)
{
    uint64_t count = 20;
    const char *dir = NULL;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-c") && i + 1 < argc) {
            if (!cli_number(argv[++i], 1, FLIGHT_RECORDS, &count))
                return cli_usage(&cli_cmd_flight, "-c takes a number from 1 to %u", FLIGHT_RECORDS);
        } else if (*argv[i] == '-' || dir) {
            return cli_usage(&cli_cmd_flight, "what is %s?", argv[i]);
        } else {
            dir = argv[i];
        }
    if (!dir)
        return cli_usage(&cli_cmd_flight, "name the folder of a run, or its flight/");
    return cli_fail(run_flight_print(dir, (uint32_t)count, stdout));
}

const command cli_cmd_flight = {
    "flight", "DIR [-c COUNT]",
    "Print the last instructions of every rank of a run, also of one that was killed.\n\n"
    "  -c COUNT   how many of each (20)",
    flight_command};
