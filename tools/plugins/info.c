/* plugins/info.c: weft plugins info: what one file says of itself, its digest, and installed
 * plugins with the same names. The facts are gathered as JSON; the text is printed from that. */
#include "plugins/info.h"

#include "base/err.h"
#include "cli/cli.h"
#include "host/host.h"
#include "host/watch.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts of a plugin and paths may be anything. */
static json_t *text(const char *s)
{
    json_t *out = json_string(s ? s : "");
    return out ? out : json_string("(not UTF-8)");
}

static json_t *option_facts(const weft_option *o)
{
    json_t *out = json_object();
    json_object_set_new(out, "key", text(o->key));
    json_object_set_new(out, "default", o->dflt ? text(o->dflt) : json_null());
    json_object_set_new(out, "choices", o->choices ? text(o->choices) : json_null());
    json_object_set_new(out, "min", json_real(o->min));
    json_object_set_new(out, "max", json_real(o->max));
    json_object_set_new(out, "help", text(o->help));
    return out;
}

/* The first member of every table is its size. */
static uint32_t size_of(const void *table)
{
    uint32_t size = 0;
    if (table)
        memcpy(&size, table, sizeof size);
    return size;
}

static const weft_component *in_manifest(const host_component *c)
{
    for (const weft_component *const *p = c->manifest->components; *p; p++)
        if (!strcmp((*p)->name, c->name) && !strcmp((*p)->iface, c->iface))
            return *p;
    return NULL;
}

static json_t *component_facts(const host_component *c, const host_component *const *all,
                               uint32_t n)
{
    json_t *out = json_object(), *options = json_array(), *same = json_array();
    const weft_component *own = in_manifest(c);
    json_object_set_new(out, "kind", text(c->kind));
    json_object_set_new(out, "name", text(c->name));
    json_object_set_new(out, "interface", text(c->iface));
    json_object_set_new(out, "help", text(c->help));
    json_object_set_new(out, "table_bytes", json_integer(own ? size_of(own->table) : 0));
    json_object_set_new(out, "known_bytes", json_integer(size_of(c->table)));
    for (const weft_option *const *o = c->options; o && *o; o++)
        json_array_append_new(options, option_facts(*o));
    json_object_set_new(out, "options", options);
    for (uint32_t i = 0; i < n; i++)
        if (all[i]->iface && !strcmp(all[i]->kind, c->kind) && !strcmp(all[i]->name, c->name) &&
            strcmp(all[i]->path, c->path) != 0)
            json_array_append_new(same, text(all[i]->path));
    json_object_set_new(out, "also_in", same);
    return out;
}

static weft_status gather(host *h, const char *path, json_t *out)
{
    const host_component *const *found, **all;
    const host_file *files;
    uint32_t n, nall, nfiles;
    weft_status st = host_load_file(h, path, &found, &n);
    if (st == WEFT_OK)
        st = host_use(h, found[0]);
    if (st == WEFT_OK)
        st = host_used_files(h, true, &files, &nfiles);
    if (st != WEFT_OK)
        return st;
    host_list(h, NULL, &all, &nall);
    const weft_manifest *m = found[0]->manifest;
    json_t *components = json_array();
    json_object_set_new(out, "file", text(found[0]->path));
    json_object_set_new(out, "sha256", text(nfiles ? files[0].digest : ""));
    json_object_set_new(out, "id", text(m->id));
    json_object_set_new(out, "version", text(m->version));
    json_object_set_new(out, "license", text(m->license));
    json_object_set_new(out, "build", text(m->build));
    json_object_set_new(out, "abi", json_sprintf("%u.%u", m->abi_major, m->abi_minor));
    json_object_set_new(out, "program_abi", json_sprintf("%d.%d", WEFT_ABI_MAJOR, WEFT_ABI_MINOR));
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(components, component_facts(found[i], all, nall));
    json_object_set_new(out, "components", components);
    return WEFT_OK;
}

static const char *get(const json_t *o, const char *key)
{
    const char *value = json_string_value(json_object_get(o, key));
    return value ? value : "";
}

static void print_component(const json_t *c)
{
    const json_t *options = json_object_get(c, "options"), *same = json_object_get(c, "also_in");
    const json_int_t bytes = json_integer_value(json_object_get(c, "table_bytes")),
                     known = json_integer_value(json_object_get(c, "known_bytes"));
    printf("\n%s %s (%s): %s\n  table of %" JSON_INTEGER_FORMAT " bytes%s\n", get(c, "kind"),
           get(c, "name"), get(c, "interface"), get(c, "help"), bytes,
           bytes < known   ? ", older than this program's"
           : bytes > known ? ", newer than this program's"
                           : "");
    for (size_t i = 0; i < json_array_size(options); i++) {
        const json_t *o = json_array_get(options, i);
        const json_t *dflt = json_object_get(o, "default");
        const char *choices = get(o, "choices");
        printf("  %-14s %s (%s%s%s%s)\n", get(o, "key"), get(o, "help"), choices,
               *choices ? "; " : "", json_is_null(dflt) ? "required" : "default ",
               json_is_null(dflt) ? "" : get(o, "default"));
    }
    for (size_t i = 0; i < json_array_size(same); i++)
        printf("  another plugin has this name: %s; a job takes the first place that is searched\n",
               json_string_value(json_array_get(same, i)));
}

static void print_text(const json_t *facts)
{
    const json_t *components = json_object_get(facts, "components");
    printf("%s\n  plugin   %s %s, license %s\n  abi      %s (this program: %s), built by %s\n"
           "  sha256   %s\n",
           get(facts, "file"), get(facts, "id"), get(facts, "version"),
           *get(facts, "license") ? get(facts, "license") : "not given", get(facts, "abi"),
           get(facts, "program_abi"), *get(facts, "build") ? get(facts, "build") : "not given",
           get(facts, "sha256"));
    for (size_t i = 0; i < json_array_size(components); i++)
        print_component(json_array_get(components, i));
}

int plugins_info(int argc, char **argv)
{
    const char *path = NULL, *folders = NULL;
    bool as_json = false;
    char real[PATH_MAX];
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            as_json = true;
        else if (!strncmp(argv[i], "run.plugins=", 12))
            folders = argv[i] + 12;
        else if (*argv[i] == '-' || path)
            return cli_fail(err_fail(WEFT_USAGE, "weft plugins info does not take %s", argv[i]));
        else
            path = argv[i];
    }
    if (!path)
        return cli_fail(err_fail(WEFT_USAGE, "weft plugins info takes a FILE.so"));
    if (host_check_path(path) != WEFT_OK)
        return cli_fail(WEFT_USAGE);
    if (!realpath(path, real))
        return cli_fail(err_fail_errno(WEFT_USAGE, "cannot find the plugin %s", path));
    host *h = NULL;
    json_t *facts = json_object();
    host_limits_set(NULL);
    weft_status st = host_create(folders, &h);
    if (st == WEFT_OK) {
        host_try_all(h);
        host_try_file(h, real);
        st = gather(h, real, facts);
    }
    if (st == WEFT_OK && !as_json)
        print_text(facts);
    else if (st == WEFT_OK && (json_dumpf(facts, stdout, JSON_INDENT(1)) || putchar('\n') == EOF))
        st = err_fail(WEFT_IO, "the output cannot be written");
    json_decref(facts);
    host_destroy(h);
    return cli_fail(st);
}
