/* new.c: weft new: a job file to begin with, which trains as it is on a text. */
#include "cli/cli.h"

#include "base/err.h"
#include "data/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Characters that mean themselves in a value: neither a comment nor a list nor a quote. */
#define PLAIN                                                                                      \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"                               \
    "._/+@=-"

/* %s: the name of the run, its folder below runs/, the text. */
static const char job[] =
    "; A job file: `weft plan -n 2 FILE` says what each rank would hold and send, `weft train -n "
    "2\n"
    "; FILE` trains. docs/CONFIG.md has every key; `weft config` prints it.\n"
    "[run]\n"
    "name = %s\n"
    "out = runs/%s             ; checkpoints and metrics\n"
    "steps = 500\n"
    "\n"
    "[model]\n"
    "family = gpt2              ; or llama\n"
    "layers = 4\n"
    "heads = 4                  ; divides embed\n"
    "embed = 128\n"
    "ffn = 512\n"
    "context = 128              ; longest sequence, in tokens\n"
    "vocab = 0                  ; what the data says\n"
    "\n"
    "[data]\n"
    "source = text              ; tokens: token files, which weft data makes once for many runs\n"
    "train = %s\n"
    "valid =                    ; other text, for the held-out loss; empty: no evaluation\n"
    "\n"
    "[train]\n"
    "batch = 16                 ; sequences a step, whole job\n"
    "microbatch = 4             ; sequences a pass and rank\n"
    "sequence = 128\n"
    "precision = bf16           ; fp32: layouts agree to about 1e-6\n"
    "\n"
    "[parallel]\n"
    "strategy = dp              ; docs/STRATEGIES.md: which one when\n"
    "\n"
    "[optim]\n"
    "rule = adamw               ; another rule wants another lr: configs/rule-*.ini\n"
    "placement = none           ; zero1, zero2, zero3: shard states, gradients, parameters\n"
    "lr = 3e-3\n"
    "warmup = 50\n"
    "\n"
    "[checkpoint]\n"
    "every = 100                ; --resume=auto goes on from the newest\n"
    "keep = 2\n"
    "\n"
    "[log]\n"
    "progress = 20\n";

static weft_status write_job(const char *file, const char *name, const char *text)
{
    const int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot make %s", file);
    FILE *out = fdopen(fd, "w");
    if (!out)
        close(fd);
    const bool bad = !out || fprintf(out, job, name, name, text) < 0 || ferror(out);
    if ((out && fclose(out)) || bad) {
        weft_status st = err_fail_errno(WEFT_IO, "cannot write %s", file);
        unlink(file);
        return st;
    }
    return WEFT_OK;
}

/* "my/job.ini" gives "job". */
static weft_status name_of(const char *file, char name[64])
{
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file,
               *end = strrchr(base, '.');
    const size_t n = end && end > base ? (size_t)(end - base) : strlen(base);
    if (!n || n >= 64 || strspn(base, PLAIN) < n || *base == '-')
        return err_fail(WEFT_USAGE,
                        "%s: the name of the file becomes that of the run: letters, digits, '.', "
                        "'_' and '-', at most 63 bytes",
                        file);
    snprintf(name, 64, "%.*s", (int)n, base);
    return WEFT_OK;
}

static int new_job(int argc, char **argv)
{
    const char *file = NULL, *text = NULL;
    char name[64];
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--text") && i + 1 < argc)
            text = argv[++i];
        else if (*argv[i] == '-')
            return cli_refuse(&cli_cmd_new, argv[i], argv[i + 1]);
        else if (file)
            return cli_usage(&cli_cmd_new, "'%s' is one name too many: the job file is %s", argv[i],
                             file);
        else
            file = argv[i];
    if (!file)
        return cli_usage(&cli_cmd_new, "name the job file to write");
    if (text && (!*text || text[strspn(text, PLAIN)]))
        return cli_usage(&cli_cmd_new,
                         "--text '%s' has characters that mean something in a job file: leave it "
                         "out and write data.train yourself",
                         text);
    weft_status st = name_of(file, name);
    if (st == WEFT_OK)
        st = write_job(file, name, text ? text : "text.txt");
    if (st == WEFT_OK)
        printf("%s: trains on %s. Next: weft plan -n 2 %s, then weft train -n 2 %s\n", file,
               text ? text : "text.txt, which data.train names", file, file);
    return cli_fail(st);
}

const cli_command cli_cmd_new = {
    "new", "JOB.ini [--text FILE]",
    "Write a job file to begin with: the keys of a small GPT over the bytes of a text, explained.\n"
    "It trains as it is. A file that exists is left alone.\n\n"
    "  --text FILE   the text to learn from (text.txt)",
    new_job, NULL};
