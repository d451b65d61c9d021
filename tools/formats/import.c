/* formats/import.c: weights of another program become a checkpoint (formats_import). */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/folder.h"
#include "data/tokenizer.h"
#include "formats/internal.h"
#include "formats/output.h"
#include "resolve/resolve.h"

typedef struct importer {
    const formats_request *r;
    formats_file *f;
    host *host; /* in which the family was found */
    const host_component *family;
    formats_model model;
    char *model_text;      /* [model] as INI text */
    char to[PATH_MAX];     /* r->to, from the root */
    const char *tokenizer; /* the file that comes along; NULL: none */
    bool named;            /* the jobs name it: it was read */
    char why[512];         /* it cannot be used; "": it can */
} importer;

/* job.ini has both names: a value with another meaning there would train another model. */
static weft_status name_lawful(const char *what, const char *name)
{
    return config_text_lawful(name) && !strpbrk(name, "\t")
               ? WEFT_OK
               : err_fail(WEFT_USAGE,
                          "the name %s cannot stand in job.ini: it begins or ends with a blank, or "
                          "has a control character, bytes other than UTF-8, or a ';' that would "
                          "begin a comment; give it another name",
                          what);
}

static weft_status names_lawful(const importer *m)
{
    weft_status st = name_lawful("of what is read", m->r->from);
    if (st == WEFT_OK)
        st = name_lawful("behind -o", m->r->to);
    return st == WEFT_OK ? name_lawful("of the current folder with that behind -o", m->to) : st;
}

/* The path of a file beside the weights as a word of a shell. */
static void print_path(const importer *m, const char *file, FILE *to)
{
    const char *name = m->r->to;
    bool plain = true;
    for (const char *c = name; *c; c++)
        plain = plain && (isalnum((unsigned char)*c) || strchr("/._-+,:@%=", *c));
    if (plain) {
        fprintf(to, "%s/%s", name, file);
        return;
    }
    putc('\'', to);
    for (const char *c = name; *c; c++)
        fputs(*c == '\'' ? "'\\''" : (const char[]){*c, 0}, to);
    fprintf(to, "/%s'", file);
}

/* Each line begins with `begin`. */
static void print_commands(const importer *m, const char *begin, FILE *to)
{
    if (m->named) {
        fprintf(to, "%s  weft data --tokenizer ", begin);
        print_path(m, m->tokenizer, to);
        fputs(" TEXT... -o TOKENS.bin --valid VALID.bin\n", to);
    }
    fprintf(to, "%s  weft train ", begin);
    print_path(m, "job.ini", to);
    fputs(" data.train=TOKENS.bin data.valid=VALID.bin run.steps=200 run.out=runs/NAME "
          "checkpoint.every=100\n",
          to);
}

static weft_status find_family(importer *m)
{
    char architecture[FORMATS_TEXT];
    weft_status st = formats_architecture(&m->f->source, architecture);
    if (st == WEFT_OK)
        st = host_create(formats_override(m->r, "run.plugins"), &m->host);
    if (st != WEFT_OK)
        return st;
    st = formats_find(m->host, m->r->format, architecture, formats_override(m->r, "model.family"),
                      &m->f->format, &m->family);
    if (st != WEFT_OK)
        err_context("%s", m->r->from);
    return st;
}

/* --- the tokenizer that comes along --- */

/* Opens it as a job would, and compares its ids with those of the model. */
static weft_status read_tokenizer(const importer *m, const char *path)
{
    config *cfg = NULL;
    spec s = {0};
    data_tokenizer t = {0};
    weft_status st = config_load(NULL, NULL, 0, &cfg);
    if (st == WEFT_OK)
        st = config_set(cfg, "data.tokenizer", config_tokenizer_of(path), NULL);
    if (st == WEFT_OK)
        st = config_set(cfg, "tokenizer.file", path, NULL);
    if (st == WEFT_OK)
        st = resolve_text(cfg, m->host, &s);
    if (st == WEFT_OK)
        st = resolve_open_tokenizer(cfg, &s);
    if (st == WEFT_OK)
        st = data_tokenizer_open(s.tokenizer.c, s.tokenizer.conf, &t);
    if (st == WEFT_OK && m->model.spec.model.vocab && t.info.vocab > m->model.spec.model.vocab)
        st = err_fail(WEFT_USAGE, "it has %u ids, and the model a vocabulary of %u", t.info.vocab,
                      m->model.spec.model.vocab);
    data_tokenizer_close(&t);
    resolve_free(&s);
    config_destroy(cfg);
    return st;
}

/* The first that can be read, else the first that is there. A model is of use without its
 * tokenizer, so one that weft cannot read ends no import. */
static void try_tokenizer(importer *m)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names && !m->named; i++) {
        const int n = snprintf(path, sizeof path, "%s/%s", m->r->from, names[i]);
        if (strcmp(m->r->format, FORMATS_HUGGINGFACE) || n >= (int)sizeof path ||
            access(path, R_OK))
            continue;
        m->named = read_tokenizer(m, path) == WEFT_OK;
        if (!m->named && !m->tokenizer)
            snprintf(m->why, sizeof m->why, "%.*s", (int)strcspn(err_text(), "\n"), err_text());
        if (m->named || !m->tokenizer)
            m->tokenizer = names[i];
    }
    if (m->named)
        *m->why = 0;
    err_clear();
}

static weft_status write_model_text(importer *m)
{
    formats_settings s = {0};
    size_t bytes;
    weft_status st = formats_settings_of(m->f->format, m->f->source.config, &m->f->source.mem, &s);
    if (st != WEFT_OK)
        err_context("%s%s", m->r->from, strcmp(m->r->format, FORMATS_LLMC) ? "/config.json" : "");
    FILE *to = open_memstream(&m->model_text, &bytes);
    if (to && st == WEFT_OK) {
        fprintf(to, "[model]\nfamily = %s\n", m->family->name);
        for (uint32_t i = 0; i < s.n; i++)
            fprintf(to, "%s = %s\n", s.at[i].key, s.at[i].value);
    }
    if (!to || fclose(to))
        st = err_fail(WEFT_NO_MEMORY, "no memory for the keys of [model]");
    free(s.at);
    return st;
}

/* --- the checkpoint --- */

static weft_status give_values(void *ctx, const ckpt_piece *p, uint64_t first, uint64_t count,
                               void *out)
{
    ckpt_piece want = *p;
    want.first = first;
    want.count = count;
    return formats_read(ctx, &want, out);
}

/* Where job.ini says that the weights are. */
static weft_status absolute(importer *m)
{
    char here[PATH_MAX];
    const char *to = m->r->to;
    if (*to != '/' && !getcwd(here, sizeof here))
        return err_fail_errno(WEFT_IO, "the current folder has no name");
    const int n = *to == '/' ? snprintf(m->to, sizeof m->to, "%s", to)
                             : snprintf(m->to, sizeof m->to, "%s/%s", here, to);
    if (n >= (int)sizeof m->to)
        return err_fail(WEFT_USAGE, "the folder name %.64s... is too long", to);
    for (size_t k = strlen(m->to); k > 1 && m->to[k - 1] == '/'; k--)
        m->to[k - 1] = 0;
    return WEFT_OK;
}

static void print_job(const importer *m, FILE *to)
{
    const int64_t context = m->model.spec.model.context;
    char *model = config_written(m->model.cfg, "log");
    fprintf(to, "; The model of %s, and what is needed to train it further:\n", m->r->from);
    print_commands(m, "; ", to);
    fputs(model, to);
    free(model);
    if (m->tokenizer) {
        const char *out = m->named ? "" : "; ";
        if (*m->why)
            fprintf(to, "\n; Its %s cannot be used: %s", m->tokenizer, m->why);
        fprintf(to, "\n%s[data]\n%stokenizer = %s\n\n%s[tokenizer]\n%sfile = %s/%s\n", out, out,
                config_tokenizer_of(m->tokenizer), out, out, m->to, m->tokenizer);
    }
    fprintf(to,
            "\n[train]\nsequence = %lld\n\n[parallel]\nstrategy = dp\n\n"
            "[optim]\nlr = 1e-5\nwarmup = 20\n\n[checkpoint]\ninit = %s\n",
            (long long)(context && context < 1024 ? context : 1024), m->to);
}

static weft_status write_beside(const importer *m, int folder)
{
    char *text = NULL;
    size_t bytes = 0;
    weft_status st = WEFT_OK;
    if (!strcmp(m->r->format, FORMATS_HUGGINGFACE))
        st = formats_beside_copy(m->r->from, folder, true, true);
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        print_job(m, to);
    if (!to || fclose(to))
        st = err_fail(WEFT_NO_MEMORY, "no memory for job.ini");
    if (st == WEFT_OK)
        st = data_folder_file(folder, "job.ini", text, bytes);
    free(text);
    return st;
}

/* The job that the checkpoint keeps: the model, and the tokenizer that comes along, so that text
 * goes in and out of it. NULL: no memory. */
static char *kept_job(const importer *m)
{
    char *model = config_written(m->model.cfg, "log"), *all = NULL;
    if (!m->named)
        return model;
    if (asprintf(&all, "%s\n[data]\ntokenizer = %s\n\n[tokenizer]\nfile = %s/%s\n", model,
                 config_tokenizer_of(m->tokenizer), m->to, m->tokenizer) < 0)
        all = NULL;
    free(model);
    return all;
}

static weft_status fill(const importer *m, int folder)
{
    const formats_params *p = &m->model.params;
    const ckpt_values values = {give_values, m->f};
    ckpt_piece *pieces = mem_alloc((p->n + 1) * sizeof *pieces);
    for (uint32_t i = 0; i < p->n; i++) {
        const weft_shape *s = &p->at[i].shape;
        pieces[i] =
            (ckpt_piece){.name = p->at[i].name, .dtype = WEFT_F32, .rank = s->rank, .count = 1};
        for (uint32_t k = 0; k < s->rank; k++) {
            pieces[i].shape[k] = s->axes[k].size;
            pieces[i].count *= (uint64_t)s->axes[k].size;
        }
    }
    char *kept = kept_job(m);
    weft_status st = kept ? ckpt_write_alone(folder, kept, pieces, p->n, &values)
                          : err_fail(WEFT_NO_MEMORY, "no memory for the job of the checkpoint");
    free(kept);
    free(pieces);
    return st == WEFT_OK ? write_beside(m, folder) : st;
}

static weft_status write_checkpoint(const importer *m)
{
    formats_output f;
    weft_status st = formats_output_begin(m->r->to, &f);
    if (st != WEFT_OK)
        return st;
    st = fill(m, f.fd);
    if (st == WEFT_OK)
        return formats_output_commit(&f);
    formats_output_abandon(&f);
    err_context("%s", m->r->to);
    return st;
}

static weft_status run(importer *m, FILE *say)
{
    weft_status st = formats_source_open(m->r->format, m->r->from, &m->f->source);
    if (st == WEFT_OK)
        st = absolute(m);
    if (st == WEFT_OK)
        st = names_lawful(m);
    if (st == WEFT_OK && access(m->r->to, F_OK) == 0)
        st = err_fail(WEFT_USAGE, "%s exists and is not replaced; name a new folder", m->r->to);
    if (st == WEFT_OK)
        st = find_family(m);
    if (st == WEFT_OK)
        st = write_model_text(m);
    if (st == WEFT_OK)
        st = formats_model_open(m->model_text, m->r->from, m->r, 0, &m->model);
    if (st == WEFT_OK)
        st = formats_bind(m->f, &m->model.params);
    if (st == WEFT_OK)
        try_tokenizer(m);
    if (st == WEFT_OK)
        st = write_checkpoint(m);
    if (st == WEFT_OK && *m->why)
        fprintf(say,
                "weft cannot use its %s, and the job does not name it, so texts have to "
                "come as tokens: %s\n\n",
                m->tokenizer, m->why);
    if (st == WEFT_OK && !m->tokenizer && !strcmp(m->r->format, FORMATS_HUGGINGFACE))
        fprintf(say,
                "%s has neither tokenizer.json nor tokenizer.model, and the job names no "
                "tokenizer, so texts have to come as tokens\n\n",
                m->r->from);
    if (st == WEFT_OK) {
        fprintf(say, "%s: %llu parameters of family %s\n\n%s\ntrain it with\n", m->r->to,
                (unsigned long long)m->model.plans.at[0].param_elements, m->family->name,
                m->model_text);
        print_commands(m, "", say);
    }
    return st;
}

weft_status formats_import(const formats_request *r, FILE *say)
{
    importer m = {.r = r, .f = mem_alloc(sizeof *m.f)};
    weft_status st = run(&m, say);
    formats_model_close(&m.model);
    host_destroy(m.host);
    formats_close(m.f);
    free(m.model_text);
    return st;
}
