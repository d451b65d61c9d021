/* formats/export.c: weights of a checkpoint for another program (formats_export). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "data/file.h"
#include "formats/internal.h"
#include "formats/pack.h"

/* With `vocab = 0` the size comes from the weights. */
static uint32_t vocab_of(const ckpt *c)
{
    const ckpt_piece *p;
    const uint32_t n = ckpt_tensors(c, &p);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(p[i].name, "embed.tok.w") && p[i].shape[0] < (1 << 24))
            return (uint32_t)p[i].shape[0];
    return 0;
}

/* A key of [model]; the number that `vocab = 0` stands for, since the files of others have one. */
static void put_model_key(const ckpt *c, const config_line *line, FILE *to)
{
    const uint32_t vocab = strcmp(line->key, "vocab") || strcmp(line->value, "0") ? 0 : vocab_of(c);
    if (vocab)
        fprintf(to, "vocab = %u\n", vocab);
    else
        fprintf(to, "%s = %s\n", line->key, line->value);
}

/* What of the job describes its model: [model], and the plugins with its ops. */
static weft_status model_text(const ckpt *c, const formats_request *r, pool *p, const char **out,
                              const char **init, const char **tokenizer)
{
    config *cfg;
    config_line line;
    size_t bytes;
    char *text = NULL;
    *init = *tokenizer = NULL;
    weft_status st = config_load_saved(ckpt_job_text(c), ckpt_dir(c), &cfg);
    FILE *to = st == WEFT_OK ? open_memstream(&text, &bytes) : NULL;
    if (st == WEFT_OK && !formats_override(r, "run.plugins"))
        config_warn_code(cfg);
    for (int pass = 0; to && pass < 2; pass++) {
        fprintf(to, pass ? "[run]\n" : "[model]\n");
        for (uint32_t i = 0; config_line_at(cfg, i, &line); i++) {
            const bool run = !strcmp(line.section, "run") && !strcmp(line.key, "use");
            if (!line.stale && pass && run)
                fprintf(to, "%s = %s\n", line.key, line.value);
            if (!line.stale && !pass && !strcmp(line.section, "model"))
                put_model_key(c, &line, to);
            if (!line.stale && !strcmp(line.section, "checkpoint") && !strcmp(line.key, "init") &&
                *line.value)
                *init = pool_text(p, line.value);
        }
    }
    if (st == WEFT_OK && (!to || fclose(to)))
        st = err_fail(WEFT_NO_MEMORY, "no memory for the keys of [model]");
    if (st == WEFT_OK) {
        const char *file = config_raw(cfg, "tokenizer.file");
        *out = pool_text(p, text);
        *tokenizer = file && *file ? pool_text(p, file) : NULL;
        config_destroy(cfg);
    }
    free(text);
    return st;
}

/* --- which architecture --- */

/* The configuration of the format that can say the job's keys; that of `base` first. */
static weft_status choose(formats_exporter *x, const json_t *base)
{
    const weft_model_table *t = x->model.spec.family.c->table;
    const char *had = json_string_value(json_array_get(json_object_get(base, "architectures"), 0));
    weft_status st = err_fail(WEFT_UNSUPPORTED,
                              "family %s does not say how its weights are called "
                              "in files of '%s'",
                              x->model.spec.family.c->name, x->r->format);
    char why[1024] = "";
    for (int pass = 0; pass < 2; pass++)
        for (const weft_model_format *const *f = t->formats; f && *f; f++) {
            const bool same = had && formats_is_of(*f, had);
            if (strcmp((*f)->format, x->r->format) || same == pass)
                continue;
            json_t *root = base ? json_deep_copy(base) : json_object();
            st = formats_config_of(*f, x->model.spec.family.c, x->model.cfg, root);
            if (st == WEFT_OK) {
                x->format = *f;
                x->config = root;
                err_clear();
                return WEFT_OK;
            }
            if (!*why)
                snprintf(why, sizeof why, "%s", err_text());
            json_decref(root);
        }
    return *why ? err_fail(st, "%s", why) : st;
}

static weft_status view_params(formats_exporter *x)
{
    const formats_params *p = &x->model.params;
    weft_status st = WEFT_OK;
    x->views = pool_array(&x->mem, p->n + 1, sizeof *x->views);
    x->names = pool_array(&x->mem, p->n + 1, sizeof *x->names);
    for (uint32_t i = 0; st == WEFT_OK && i < p->n; i++) {
        char name[FORMATS_TEXT];
        const weft_model_tensor *row = formats_row_of(x->format, p->at[i].name, name);
        if (!row)
            return err_fail(WEFT_USAGE, "%s has no place for parameter %s", x->format->architecture,
                            p->at[i].name);
        x->names[i] = pool_printf(&x->mem, "%s%s",
                                  row->flags & WEFT_TENSOR_BARE ? "" : x->format->prefix, name);
        st = formats_view_of(row, &p->at[i], &x->views[i]);
    }
    return st;
}

/* The folder with config.json and tokenizer files that came along; NULL: none. */
static const char *find_beside(const formats_exporter *x, const char *init)
{
    char name[PATH_MAX];
    const char *const places[] = {x->r->beside, x->r->from, init};
    for (size_t i = 0; i < 3; i++) {
        if (!places[i])
            continue;
        snprintf(name, sizeof name, "%.4000s/config.json", places[i]);
        if (i == 0 || access(name, F_OK) == 0)
            return places[i];
    }
    return NULL;
}

static weft_status read_base(const formats_exporter *x, json_t **base)
{
    if (!x->beside || strcmp(x->r->format, FORMATS_HUGGINGFACE))
        return WEFT_OK;
    const int folder = open(x->beside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return err_fail_errno(data_file_status(errno), "cannot open the folder %s", x->beside);
    weft_status st = WEFT_OK;
    if (faccessat(folder, "config.json", F_OK, 0) == 0)
        st = formats_json_read(folder, "config.json", x->trusted, FORMATS_CONFIG_MAX, base);
    close(folder);
    if (st != WEFT_OK)
        err_context("%s", x->beside);
    return st;
}

/* The job names a tokenizer, and none comes along: whoever loads the folder would miss it. */
static void warn_of_tokenizer(const formats_exporter *x, const char *file)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json"};
    char name[PATH_MAX];
    const char *end = file ? strrchr(file, '.') : NULL;
    const bool model = end && !strcmp(end, ".model");
    if (!file || strcmp(x->r->format, FORMATS_HUGGINGFACE))
        return;
    for (size_t i = 0; x->beside && i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%.4000s/%s", x->beside, names[i]);
        if (access(name, F_OK) == 0)
            return;
    }
    log_line(WEFT_LOG_WARN,
             "%s gets no tokenizer: that of the job, %s, %s; export again with --tokenizer DIR, "
             "the folder that has it%s",
             x->r->to, file,
             access(file, F_OK) ? "is no longer there" : "is not in the folder of an import",
             model ? " as tokenizer.model" : "");
}

static weft_status open_model(formats_exporter *x)
{
    const char *text, *init, *tokenizer;
    json_t *base = NULL;
    weft_status st = model_text(x->c, x->r, &x->mem, &text, &init, &tokenizer);
    if (st == WEFT_OK)
        st = formats_model_open(text, ckpt_dir(x->c), x->r, vocab_of(x->c), &x->model);
    if (st != WEFT_OK)
        return st;
    x->beside = find_beside(x, init);
    x->trusted = x->beside && x->beside == x->r->beside;
    st = read_base(x, &base);
    if (st == WEFT_OK)
        st = choose(x, base);
    json_decref(base);
    if (st == WEFT_OK)
        warn_of_tokenizer(x, tokenizer);
    return st == WEFT_OK ? view_params(x) : st;
}

static weft_status run(formats_exporter *x, FILE *say)
{
    struct stat there;
    weft_status st = WEFT_OK;
    if (lstat(x->r->to, &there) == 0)
        return err_fail(WEFT_USAGE, "%s exists and is not replaced; give another name", x->r->to);
    st = ckpt_open_ahead(x->r->from, &x->c);
    if (st == WEFT_OK) {
        formats_confirm_begin(&x->confirm, x->c);
        st = open_model(x);
    }
    if (st == WEFT_OK)
        st = strcmp(x->r->format, FORMATS_LLMC) ? formats_pack_folder(x) : formats_pack_llmc(x);
    if (st == WEFT_OK)
        fprintf(say, "%s: %s with %llu parameters in %s\n", x->r->to, x->format->architecture,
                (unsigned long long)x->model.plans.at[0].param_elements, x->r->dtype);
    return st;
}

weft_status formats_export(const formats_request *r, FILE *say)
{
    formats_exporter x = {.r = r};
    x.dtype = !strcmp(r->dtype, "bf16")   ? WEFT_BF16
              : !strcmp(r->dtype, "fp16") ? WEFT_F16
                                          : WEFT_F32;
    weft_status st = run(&x, say);
    json_decref(x.config);
    formats_model_close(&x.model);
    formats_confirm_stop(&x.confirm);
    ckpt_close(x.c);
    pool_free(&x.mem);
    return st;
}
