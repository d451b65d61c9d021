/* data_info.c: weft data info: what token files say of themselves. */
#include "cli/cli.h"

#include "base/err.h"
#include "tokens/inspect.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void print_line(const char *path, bool scan, const tokens_facts *f)
{
    const weft_tokens *t = &f->header;
    printf("%s: %s, version %" PRIu32 ": %" PRIu64 " tokens of %" PRIu32
           " bits, vocabulary %" PRIu32,
           path, t->format, t->version, t->tokens, t->bits, t->vocab);
    if (f->counted)
        printf(", %" PRIu64 " documents %s", f->documents,
               t->documents ? "by an index" : "by their first token");
    else if (t->begin)
        printf(", each document begins with %" PRIu32, t->begin - 1);
    else
        printf(", no index of documents");
    if (scan)
        printf(", largest id %" PRIu32, f->largest);
    printf("\n");
}

static json_t *describe(const char *path, bool scan, const tokens_facts *f)
{
    const weft_tokens *t = &f->header;
    json_t *o = json_object();
    json_object_set_new(o, "file", json_string(path));
    json_object_set_new(o, "format", json_string(t->format));
    json_object_set_new(o, "version", json_integer(t->version));
    json_object_set_new(o, "bytes", json_integer((json_int_t)f->bytes));
    json_object_set_new(o, "tokens", json_integer((json_int_t)t->tokens));
    json_object_set_new(o, "bits", json_integer(t->bits));
    json_object_set_new(o, "vocabulary", json_integer(t->vocab));
    json_object_set_new(o, "index", json_boolean(t->documents != 0));
    json_object_set_new(o, "documents",
                        f->counted ? json_integer((json_int_t)f->documents) : json_null());
    json_object_set_new(o, "begins_with", t->begin ? json_integer(t->begin - 1) : json_null());
    if (scan)
        json_object_set_new(o, "largest_id", json_integer(f->largest));
    return o;
}

int cli_data_info(const cli_command *c, int argc, char **argv)
{
    bool scan = false, as_json = false;
    int files = 0;
    for (int i = 1; i < argc; i++) {
        scan |= !strcmp(argv[i], "--scan");
        as_json |= !strcmp(argv[i], "--json");
        if (*argv[i] != '-')
            argv[1 + files++] = argv[i];
        else if (strcmp(argv[i], "--scan") && strcmp(argv[i], "--json"))
            return cli_refuse(c, argv[i], NULL);
    }
    if (!files)
        return cli_usage(c, "info: name the token files");
    json_t *all = json_array();
    weft_status st = WEFT_OK;
    for (int i = 1; st == WEFT_OK && i <= files; i++) {
        tokens_facts f;
        st = tokens_inspect(argv[i], scan, &f);
        if (st == WEFT_OK && as_json)
            json_array_append_new(all, describe(argv[i], scan, &f));
        else if (st == WEFT_OK)
            print_line(argv[i], scan, &f);
    }
    if (st == WEFT_OK && as_json) {
        json_dumpf(all, stdout, JSON_INDENT(1));
        printf("\n");
    }
    json_decref(all);
    return cli_fail(st);
}
