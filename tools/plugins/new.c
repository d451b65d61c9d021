/* plugins/new.c: weft plugins new: a folder with a plugin that builds, passes the checks and
 * trains.
 *
 * The templates are files of the SDK, share/weft/templates beside the program: common/ for every
 * kind, and a folder for each. NAME.in becomes NAME, with @WORD@ replaced; plugin.c is called as
 * the plugin. A file of C becomes one of C++ by its name: the templates are valid as both. */
#define _GNU_SOURCE /* dirfd, "e" of fopen */
#include "plugins/new.h"

#include "base/err.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "data/file.h"
#include "host/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE (1 << 20) /* bytes of a template */
#define MAX_NAME 40        /* of a plugin: its components may append to it */

typedef struct template_kind {
    const char *word, *folder, *iface, *header, *page, *what, *use, *data;
    uint32_t ranks;
} template_kind;

#define TOKENS "data.train=\"$work/train.bin\""
static const template_kind kinds[] = {
    {"link", "comm", "weft.link/1", "weft/link.h", "link.md", "a transport",
     "`[comm] plugin`, between two ranks", TOKENS, 2},
    {"coll", "comm", "weft.coll/1", "weft/coll.h", "coll.md", "a library of collectives",
     "`[comm] plugin`, between two ranks", TOKENS, 2},
    {"strategy", "parallel", "weft.strategy/1", "weft/strategy.h", "strategy.md",
     "a parallel strategy", "`[parallel] strategy`, on two ranks", TOKENS, 2},
    {"rule", "optim", "weft.rule/1", "weft/optim.h", "rule.md", "an update rule", "`[optim] rule`",
     TOKENS, 1},
    {"placement", "optim", "weft.placement/1", "weft/optim.h", "placement.md",
     "a placement of parameters and states", "`[optim] placement`, on two ranks", TOKENS, 2},
    {"device", "device", "weft.device/1", "weft/device.h", "device.md", "a device",
     "`[device] plugin`, with the bigram model of `model.c`; `OPS.md` says which ops the device "
     "has",
     TOKENS, 1},
    {"op", "op", "weft.op/1, weft.kernel/1", "weft/op.h", "op.md",
     "an op, its gradient and their kernels",
     "`[run] use`, with a strategy that puts the op behind each embedding; models and "
     "strategies of other plugins can build graphs of it, too",
     TOKENS, 1},
    {"model", "model", "weft.model/1", "weft/model.h", "model.md", "a model family",
     "`[model] family`", TOKENS, 1},
    {"data", "data", "weft.data/1", "weft/data.h", "data.md", "a source of samples",
     "`[data] source`", "", 1},
    {"tokenizer", "tokenizer", "weft.tokenizer/1", "weft/data.h", "tokenizer.md", "a tokenizer",
     "`[data] tokenizer`, of a job that reads text", "data.train=README.md", 1},
    {"sink", "sink", "weft.sink/1", "weft/sink.h", "sink.md", "a sink of metrics and events",
     "`[log] sinks`", TOKENS, 1},
};
#define KINDS (sizeof kinds / sizeof *kinds)
#define KIND_WORDS                                                                                 \
    "link, coll, strategy, rule, placement, device, op, model, data, tokenizer and sink"

typedef struct request {
    const template_kind *kind;
    const char *name;
    bool cxx;
    char word[MAX_NAME + 1];         /* the name behind its last dot, as an identifier */
    char folder[PATH_MAX];           /* that is written */
    char from[PATH_MAX];             /* the folder of templates */
    char source[MAX_NAME + 8];       /* "lion.c" */
    char files[1024], depends[1024]; /* sources; those and headers */
} request;

/* --- text --- */

static const char *value_of(const request *q, const char *word, size_t n)
{
    const struct {
        const char *word, *value;
    } values[] = {
        {"NAME", q->name},
        {"WORD", q->word},
        {"FOLDER", q->kind->folder},
        {"INTERFACE", q->kind->iface},
        {"HEADER", q->kind->header},
        {"PAGE", q->kind->page},
        {"WHAT", q->kind->what},
        {"USE", q->kind->use},
        {"DATA", q->kind->data},
        {"RANKS", q->kind->ranks == 2 ? "2" : "1"},
        {"SOURCE", q->source},
        {"FILES", q->files},
        {"DEPENDS", q->depends},
        {"LANGUAGE", q->cxx ? "CXX" : "C"},
        {"STANDARD", q->cxx ? "20" : "17"},
        {"STD", q->cxx ? "gnu++20" : "gnu17"},
        {"COMPILER", q->cxx ? "c++" : "cc"},
        {"COMPILER_VARIABLE", q->cxx ? "CXX" : "CC"},
        {"FLAGS_VARIABLE", q->cxx ? "CXXFLAGS" : "CFLAGS"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strlen(values[i].word) == n && !memcmp(values[i].word, word, n))
            return values[i].value;
    return NULL;
}

/* The template with each @WORD@ replaced. A word that is none of the table stays as it is. */
static void fill_in(const request *q, const char *text, FILE *out)
{
    while (*text) {
        const size_t plain = strcspn(text, "@");
        fwrite(text, 1, plain, out);
        text += plain;
        const size_t n = *text ? strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") : 0;
        const char *value = n && text[n + 1] == '@' ? value_of(q, text + 1, n) : NULL;
        if (value)
            fputs(value, out);
        else
            fwrite(text, 1, *text != 0, out);
        text += value ? n + 2 : *text != 0;
    }
}

/* --- files --- */

static weft_status read_template(const char *path, char **out)
{
    struct stat info;
    const int fd = data_file_open_regular(AT_FDCWD, path, true, &info);
    if (fd < 0)
        return err_fail_errno(data_file_status(errno), "cannot read the template %s", path);
    weft_status st = WEFT_OK;
    *out = NULL;
    if (info.st_size > MAX_FILE)
        st = err_fail(WEFT_DATA, "the template %s is longer than %d bytes", path, MAX_FILE);
    else {
        *out = mem_alloc((uint64_t)info.st_size + 1);
        if (data_file_read(fd, *out, (uint64_t)info.st_size, 0))
            st = err_fail_errno(WEFT_IO, "cannot read the template %s", path);
    }
    close(fd);
    return st;
}

/* The name of the file that a template becomes: plugin.c.in is lion.c, or lion.cc. */
static void target_name(const request *q, const char *from, char out[NAME_MAX + 1])
{
    const int n = (int)strlen(from) - 3; /* without ".in" */
    const bool c = n > 2 && !strncmp(from + n - 2, ".c", 2);
    if (!strcmp(from, "plugin.c.in"))
        snprintf(out, NAME_MAX + 1, "%s", q->source);
    else
        snprintf(out, NAME_MAX + 1, "%.*s%s", n, from, c && q->cxx ? "c" : "");
}

static weft_status write_one(const request *q, const char *from, const char *name)
{
    char path[2 * PATH_MAX], target[NAME_MAX + 1], *text = NULL;
    snprintf(path, sizeof path, "%s/%s", from, name);
    weft_status st = read_template(path, &text);
    if (st != WEFT_OK) {
        free(text);
        return st;
    }
    target_name(q, name, target);
    snprintf(path, sizeof path, "%s/%s", q->folder, target);
    FILE *out = fopen(path, "wxe");
    if (out)
        fill_in(q, text, out);
    const bool bad = !out || ferror(out);
    if ((out && fclose(out)) || bad)
        st = err_fail_errno(WEFT_IO, "cannot write %s", path);
    free(text);
    return st;
}

static int is_template(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);
    return n > 3 && !strcmp(e->d_name + n - 3, ".in");
}

/* Sources and headers of the kind, as the words of a command. */
static weft_status list_files(request *q, const char *from)
{
    struct dirent **found;
    const int n = scandir(from, &found, is_template, alphasort);
    if (n <= 0)
        return err_fail(WEFT_ABSENT,
                        "there are no templates in %s; they are installed with the headers of weft",
                        from);
    for (int i = 0; i < n; i++) {
        char name[NAME_MAX + 1];
        target_name(q, found[i]->d_name, name);
        const char *end = strrchr(name, '.');
        const bool source = !strcmp(end, ".c") || !strcmp(end, ".cc"), header = !strcmp(end, ".h");
        for (int k = 0; k < 2; k++) {
            char *to = k ? q->depends : q->files;
            const size_t used = strlen(to);
            if (source || (k && header))
                snprintf(to + used, sizeof q->files - used, "%s%s", used ? " " : "", name);
        }
        free(found[i]);
    }
    free(found);
    return WEFT_OK;
}

static weft_status write_all(const request *q, const char *from)
{
    struct dirent **found;
    const int n = scandir(from, &found, is_template, alphasort);
    weft_status st = n > 0 ? WEFT_OK : err_fail(WEFT_ABSENT, "there are no templates in %s", from);
    for (int i = 0; i < n; i++) {
        if (st == WEFT_OK)
            st = write_one(q, from, found[i]->d_name);
        free(found[i]);
    }
    if (n >= 0)
        free(found);
    return st;
}

/* What was written so far; the folder was not there before. */
static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(folder);
}

/* --- the command --- */

static weft_status find_templates(request *q)
{
    char prefix[PATH_MAX];
    if (!host_program_prefix(prefix))
        return err_fail_errno(WEFT_IO, "the path of this program is not known");
    snprintf(q->from, sizeof q->from, "%.*s/share/weft/templates", PATH_MAX - 32, prefix);
    return WEFT_OK;
}

static weft_status check_name(request *q)
{
    const char *dot = strrchr(q->name, '.');
    if (!host_plugin_name_well_formed(q->name) || !dot || !dot[1] || strlen(q->name) > MAX_NAME)
        return err_fail(WEFT_USAGE,
                        "'%s' is no name for a plugin of yours; it has a-z, 0-9 and '_', and a "
                        "dot between who makes it and what it is, as acme.lion, at most %d bytes",
                        q->name, MAX_NAME);
    if (!strncmp(q->name, "weft.", 5))
        return err_fail(WEFT_USAGE, "'%s': names that begin with weft. are those of weft itself",
                        q->name);
    for (size_t i = 0; dot[1 + i]; i++)
        q->word[i] = dot[1 + i];
    if (*q->word >= '0' && *q->word <= '9')
        return err_fail(WEFT_USAGE, "'%s': what is behind the last dot begins with a letter",
                        q->name);
    snprintf(q->source, sizeof q->source, "%s.%s", q->word, q->cxx ? "cc" : "c");
    return WEFT_OK;
}

static weft_status find_kind(request *q, const char *word)
{
    for (size_t i = 0; i < KINDS; i++)
        if (!strcmp(kinds[i].word, word))
            q->kind = &kinds[i];
    return q->kind ? WEFT_OK
                   : err_fail(WEFT_USAGE, "'%s' is no kind of plugin; there are " KIND_WORDS, word);
}

static weft_status write_folder(request *q)
{
    char from[2 * PATH_MAX], common[2 * PATH_MAX];
    snprintf(from, sizeof from, "%s/%s", q->from, q->kind->word);
    snprintf(common, sizeof common, "%s/common", q->from);
    weft_status st = list_files(q, from);
    if (st != WEFT_OK)
        return st;
    const bool made = !mkdir(q->folder, 0777);
    if (!made && errno == ENOENT)
        return err_fail(WEFT_USAGE,
                        "the folder of --dir is not there, so %s cannot be made in it: make it "
                        "first (mkdir -p)",
                        q->folder);
    if (!made)
        return err_fail_errno(data_file_status(errno), "cannot make the folder %s", q->folder);
    st = write_all(q, from);
    if (st == WEFT_OK)
        st = write_all(q, common);
    if (st != WEFT_OK)
        remove_folder(q->folder);
    return st;
}

void plugins_new_help(void)
{
    printf(
        "usage: weft plugins new KIND NAME [--cxx] [--dir DIR]\n\n"
        "Write a folder with a plugin that builds, passes the checks and trains: source, build\n"
        "files, a job and a test. NAME is WHO.WHAT, and the folder is called WHAT.\n\n"
        "  --cxx      source in C++\n"
        "  --dir DIR  where the folder is made, instead of here\n\n"
        "KIND is one of these; the header has the functions, the page in docs/interfaces (after\n"
        "an installation share/doc/weft/interfaces) the order of calls and a sample:\n\n");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        printf("  %-10s %-38s %-16s %s\n", kinds[i].word, kinds[i].what, kinds[i].header,
               kinds[i].page);
}

int plugins_new(int argc, char **argv)
{
    request q = {0};
    const char *words[2] = {0}, *dir = NULL;
    uint32_t n = 0;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--cxx"))
            q.cxx = true;
        else if (!strcmp(argv[i], "--dir") && i + 1 < argc)
            dir = argv[++i];
        else if (*argv[i] == '-' || n == 2)
            return cli_fail(err_fail(WEFT_USAGE, "weft plugins new does not take %s", argv[i]));
        else
            words[n++] = argv[i];
    }
    if (dir && !*dir)
        return cli_fail(err_fail(WEFT_USAGE, "--dir takes a folder; '.' is the one you are in"));
    if (n < 2)
        return cli_fail(err_fail(WEFT_USAGE, "weft "
                                             "plugins new takes a kind and a name: " KIND_WORDS));
    q.name = words[1];
    weft_status st = find_kind(&q, words[0]);
    if (st == WEFT_OK)
        st = check_name(&q);
    if (st == WEFT_OK)
        st = find_templates(&q);
    if (st == WEFT_OK && snprintf(q.folder, sizeof q.folder, "%s%s%s", dir ? dir : "",
                                  dir ? "/" : "", q.word) >= (int)sizeof q.folder)
        st = err_fail(WEFT_USAGE, "the path of the new folder is too long");
    if (st == WEFT_OK)
        st = write_folder(&q);
    if (st == WEFT_OK)
        printf("%s: %s. Begin with %s/README.md\n", q.folder, q.kind->what, q.folder);
    return cli_fail(st);
}
