/* run/view/plugins.c: see plugins.h. */
#include "run/view/plugins.h"

#include "base/err.h"
#include "base/log.h"
#include "data/tokenizer.h"
#include "resolve/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of PLACE in "PLACE/KIND/NAME.so". */
static size_t place_length(const char *path)
{
    size_t n = strlen(path);
    for (int up = 0; up < 2; up++)
        while (n && path[--n] != '/')
            ;
    return n;
}

/* Did the job name its tokenizer? */
static bool names_tokenizer(const config *cfg)
{
    config_line line;
    for (uint32_t i = 0; config_line_at(cfg, i, &line); i++)
        if (!line.stale && !strcmp(line.section, "data") && !strcmp(line.key, "tokenizer"))
            return true;
    return false;
}

/* Equal vocabularies of model and data say enough; else the tokenizer is asked. One that cannot be
 * opened is no matter of training. */
static void compare_vocabularies(run_prepared *j)
{
    data_tokenizer t = {0};
    const spec *s = &j->spec;
    const uint32_t data = j->train.info.vocab;
    if (!data || data == s->model.vocab || !names_tokenizer(j->cfg))
        return;
    weft_status st = resolve_open_tokenizer(j->cfg, &j->spec);
    if (st == WEFT_OK)
        st = data_tokenizer_open(s->tokenizer.c, s->tokenizer.conf, &t);
    if (st == WEFT_OK && t.info.vocab != data)
        log_line(WEFT_LOG_WARN,
                 "the training data has a vocabulary of %u and the job's tokenizer '%s' one of %u: "
                 "another tokenizer has written it; weft data --tokenizer writes it anew",
                 data, s->tokenizer.c->name, t.info.vocab);
    err_clear();
    data_tokenizer_close(&t);
}

void run_log_plugins(run_prepared *j)
{
    const spec *s = &j->spec;
    const host_file *files;
    uint32_t n = 0;
    size_t before = 0;
    mem_text text;
    mem_text_begin(&text);
    if (host_used_files(s->host, false, &files, &n) != WEFT_OK)
        err_clear();
    for (uint32_t i = 0; i < n; i++) {
        const size_t place = place_length(files[i].path);
        if (!i || place != before || strncmp(files[i].path, files[i - 1].path, place))
            fprintf(text.to, "%sfrom %.*s:", i ? "; " : "", (int)place, files[i].path);
        before = place;
        const char *name = files[i].path + place + 1;
        fprintf(text.to, " %.*s", (int)strlen(name) - 3, name);
    }
    char *line = mem_text_end(&text);
    if (n)
        log_line(WEFT_LOG_INFO, "plugins %s", line);
    free(line);
    if (s->comm_choice)
        log_line(WEFT_LOG_INFO, "%s", s->comm_choice);
    if (s->comm_why)
        log_line(WEFT_LOG_DEBUG, "%s", s->comm_why);
    compare_vocabularies(j);
}
