/* formats/open.c: weights of a folder for a job that starts from them (formats_open). */
#include <stdlib.h>
#include <string.h>

#include "formats/internal.h"

weft_status formats_source_open(const char *format, const char *path, formats_source *s)
{
    return strcmp(format, FORMATS_LLMC) ? formats_folder_open(path, s) : formats_llmc_open(path, s);
}

weft_status formats_architecture(const formats_source *s, char out[FORMATS_TEXT])
{
    const json_t *names = json_object_get(s->config, "architectures");
    const char *name = json_string_value(json_array_get(names, 0));
    if (!name || json_array_size(names) != 1)
        return err_fail(WEFT_USAGE,
                        "%s/config.json: the field 'architectures' has not one name, as "
                        "[\"GPT2LMHeadModel\"]",
                        s->path);
    snprintf(out, FORMATS_TEXT, "%s", name);
    return WEFT_OK;
}

static const weft_model_format *format_of(const host_component *family, const char *architecture,
                                          char *known, size_t capacity)
{
    const weft_model_table *t = family->table;
    *known = 0;
    for (const weft_model_format *const *f = t->formats; f && *f; f++) {
        const size_t at = strlen(known);
        if (strcmp((*f)->format, FORMATS_HUGGINGFACE))
            continue;
        if (formats_is_of(*f, architecture))
            return *f;
        snprintf(known + at, capacity - at, "%s%s", at ? ", " : "", (*f)->architecture);
    }
    return NULL;
}

static weft_status check_model(formats_file *f, const config *cfg, const host_component *family)
{
    char architecture[FORMATS_TEXT], known[1024];
    formats_settings settings = {0};
    weft_status st = formats_architecture(&f->source, architecture);
    if (st != WEFT_OK)
        return st;
    f->format = format_of(family, architecture, known, sizeof known);
    if (!f->format)
        return err_fail(WEFT_USAGE,
                        "%s/config.json: the field 'architectures' is %s, and family %s has %s",
                        f->source.path, architecture, family->name, *known ? known : "none");
    st = formats_settings_of(f->format, f->source.config, &f->source.mem, &settings);
    if (st != WEFT_OK)
        err_context("%s/config.json", f->source.path);
    if (st == WEFT_OK) {
        st = formats_settings_agree(&settings, family, cfg);
        if (st != WEFT_OK)
            err_context("checkpoint.init = %s", f->source.path);
    }
    free(settings.at);
    return st;
}

weft_status formats_open(const char *path, const config *cfg, const plan_set *plans,
                         formats_file **out)
{
    formats_file *f = mem_alloc(sizeof *f);
    formats_params params = {0};
    weft_status st = formats_folder_open(path, &f->source);
    if (st == WEFT_OK)
        st = check_model(f, cfg, plans->spec->family.c);
    if (st == WEFT_OK) {
        formats_params_of(plans, &params);
        st = formats_bind(f, &params);
    }
    free(params.at);
    if (st != WEFT_OK) {
        formats_close(f);
        return st;
    }
    *out = f;
    return WEFT_OK;
}

uint64_t formats_digest(const formats_file *f)
{
    return f->digest;
}

void formats_close(formats_file *f)
{
    if (!f)
        return;
    formats_source_close(&f->source);
    free(f->there);
    free(f->raw);
    free(f);
}

const run_foreign_files formats_files = {.is_folder = formats_is_folder,
                                         .open = formats_open,
                                         .close = formats_close,
                                         .read = formats_read,
                                         .digest = formats_digest};
