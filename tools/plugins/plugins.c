/* plugins/plugins.c: weft plugins [NAME], and the entry of its subcommands. */
#include "cli/cli.h"

#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"
#include "host/host.h"
#include "host/watch.h"
#include "plugins/info.h"
#include "plugins/keys.h"
#include "plugins/new.h"
#include "resolve/resolve.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_one(host *h, const host_component *c)
{
    char section[128];
    weft_option capacity[WEFT_MAX_MESH];
    printf("%s %s: %s\n  interface %s, version %s, %s\n", c->kind, c->name, c->help, c->iface,
           c->manifest->version, c->path);
    if (!strcmp(c->kind, "op")) {
        const host_component *own = host_use_ops(h) == WEFT_OK ? host_own_op(h, 0) : NULL;
        err_clear();
        printf("it has no keys; %s\n", own && own->manifest == c->manifest
                                           ? "every job has it"
                                           : "a job uses it by naming its file in run.use");
        return;
    }
    printf("keys in [%s]:\n", plugins_section_of(c, section));
    const weft_option **keys = plugins_keys_of(c, capacity);
    cli_print_options(stdout, keys, 0, plugins_column_of(c));
    free(keys);
    if (strcmp(c->kind, "comm"))
        return;
    printf("and those of the core, for every transport:\n");
    cli_print_options(stdout, config_link_options(), 0, CLI_OWN);
}

/* The ops of a file among the first `n`. */
static uint32_t count_ops(const host_component *const *all, uint32_t n, const char *path)
{
    uint32_t ops = 0;
    for (uint32_t i = 0; i < n; i++)
        ops += all[i]->iface && !strcmp(all[i]->iface, "weft.op/1") && all[i]->path == path;
    return ops;
}

/* A file with more ops than these is listed as one component. */
#define OPS_SHOWN 8u
typedef struct ops_file {
    host_component c;
    char name[NAME_MAX + 1], help[64];
} ops_file;

/* What stands for all[i]: itself, or the file of so many ops at the first of them; NULL: nothing.
 */
static const host_component *shown(const host_component *const *all, uint32_t n, uint32_t i,
                                   ops_file *capacity)
{
    const host_component *c = all[i];
    const bool op = c->iface && !strcmp(c->iface, "weft.op/1");
    const uint32_t ops = op ? count_ops(all, n, c->path) : 0;
    const char *file = strrchr(c->path, '/') + 1;
    if (ops <= OPS_SHOWN)
        return c;
    snprintf(capacity->name, sizeof capacity->name, "%.*s", (int)strlen(file) - 3, file);
    snprintf(capacity->help, sizeof capacity->help, "%u ops, which `weft ops` lists", ops);
    capacity->c = *c;
    capacity->c.name = capacity->name;
    capacity->c.help = capacity->help;
    return count_ops(all, i, c->path) ? NULL : &capacity->c;
}

static void print_all(const host_component *const *all, uint32_t n)
{
    ops_file capacity;
    for (uint32_t i = 0; i < n; i++) {
        const host_component *c = shown(all, n, i, &capacity);
        if (c && c->iface)
            printf("%-9s %-10s %-18s %s\n", c->kind, c->name, c->iface, c->help);
        else if (c)
            printf("%-9s %-10s unusable: %s\n", c->kind, c->name, c->help);
    }
}

/* The component that a job loads for a name, then the files that have it too. `like` is one of
 * them. */
static weft_status print_chosen(host *h, const host_component *const *all, uint32_t n,
                                const host_component *like)
{
    const host_component *c = like;
    const char *const ifaces[] = {like->iface, NULL};
    weft_status st = WEFT_OK;
    if (strcmp(like->kind, "op") != 0)
        st = host_find(h, like->kind, like->name, ifaces, &c);
    if (st != WEFT_OK)
        return st;
    print_one(h, c);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(all[i]->name, c->name) && !strcmp(all[i]->kind, c->kind) &&
            strcmp(all[i]->path, c->path) != 0)
            printf("not loaded, since the file above is found first: %s\n", all[i]->path);
    return WEFT_OK;
}

static weft_status find_and_print(host *h, const host_component *const *all, uint32_t n,
                                  const char *name)
{
    const host_component *of[256] = {0}, *unusable = NULL; /* one of each interface */
    const char *names[256] = {0};
    uint32_t known = 0, found = 0;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < n && st == WEFT_OK; i++) {
        bool seen = found == 256;
        if (known < 256)
            names[known++] = all[i]->name;
        if (strcmp(all[i]->name, name))
            continue;
        for (uint32_t k = 0; all[i]->iface && k < found; k++)
            seen = seen || !strcmp(of[k]->iface, all[i]->iface);
        if (!all[i]->iface)
            unusable = all[i];
        else if (!seen)
            st = print_chosen(h, all, n, of[found++] = all[i]);
    }
    if (found)
        return st;
    if (unusable)
        return err_fail(WEFT_USAGE, "%s cannot be used: %s", name, unusable->help);
    for (uint32_t i = 0; i < n; i++) {
        ops_file capacity;
        const host_component *c = shown(all, n, i, &capacity);
        if (c && !strcmp(c->name, name)) {
            print_one(h, c);
            return WEFT_OK;
        }
    }
    const char *near = config_nearest(name, names, known);
    return err_fail(WEFT_USAGE, "no plugin is named '%s'%s%s%s; `weft plugins` lists all%s", name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                    strchr(name, '.') ? "; one of somebody else's is found with "
                                        "run.plugins=FOLDER or WEFT_PLUGIN_PATH"
                                      : "");
}

/* The files of the plugins that `key` names; `by` NULL: files of ops and kernels. */
static weft_status print_names(host *h, const config *cfg, const char *key,
                               const resolve_selector *by)
{
    weft_status st = WEFT_OK;
    const char *text = config_raw(cfg, key);
    char *words = text ? strdup(text) : NULL, *at = NULL;
    char *name = words ? strtok_r(words, ", \t", &at) : NULL;
    for (; st == WEFT_OK && name; name = strtok_r(NULL, ", \t", &at)) {
        const host_component *c;
        const char *path = NULL;
        if (!strcmp(name, "auto") || !strcmp(name, "none"))
            continue;
        st = by ? host_find(h, by->kind, name, (const char *const[]){by->iface, NULL}, &c)
                : host_use_named(h, name, &path);
        if (st == WEFT_OK)
            printf("%s = %s: %s\n", key, name, by ? c->path : path);
        else
            err_context("%s: %s", config_where(cfg, key), key);
    }
    free(words);
    return st;
}

/* The file of each plugin that the job names; fails at a name without one. Transports are left
 * out: the links of a job choose among them. */
static weft_status print_job(host *h, const config *cfg)
{
    weft_status st = WEFT_OK;
    for (const resolve_selector *by = resolve_selectors; st == WEFT_OK && by->iface; by++)
        st = print_names(h, cfg, by->key, by);
    return st == WEFT_OK ? print_names(h, cfg, "run.use", NULL) : st;
}

/* Becomes weft-check, the SDK's program, which lies beside this one. */
static int check(int argc, char **argv)
{
    char path[PATH_MAX];
    const weft_status st = host_program_beside("weft-check", path);
    if (st != WEFT_OK)
        return cli_fail(st);
    char **words = mem_alloc((uint64_t)argc * sizeof *words); /* NULL-ended: two words are gone */
    words[0] = path;
    for (int i = 2; i < argc; i++)
        words[i - 1] = argv[i];
    fflush(NULL);
    execv(path, words);
    free(words);
    return cli_fail(err_fail_errno(WEFT_ABSENT,
                                   "%s, which tests plugins, cannot be started; it is a part of "
                                   "the SDK (package weft-dev)",
                                   path));
}

static int run(int argc, char **argv)
{
    host *h = NULL;
    config *cfg = NULL;
    const host_component **all;
    const char *name = NULL;
    uint32_t n;
    if (argc > 1 && !strcmp(argv[1], "check"))
        return check(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "new"))
        return plugins_new(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "info"))
        return plugins_info(argc, argv);
    weft_status st = cli_read_words(argc, argv, &name, &cfg);
    host_limits_set(cfg);
    if (st == WEFT_OK)
        st = host_create(cfg ? config_raw(cfg, "run.plugins") : NULL, &h);
    if (st == WEFT_OK) {
        host_try_all(h);
        host_list(h, NULL, &all, &n);
    }
    if (st == WEFT_OK && name)
        st = find_and_print(h, all, n, name);
    else if (st == WEFT_OK)
        print_all(all, n);
    if (st == WEFT_OK && cfg && !name)
        st = print_job(h, cfg);
    host_destroy(h);
    config_destroy(cfg);
    return cli_fail(st);
}

static bool help_of_new(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "new"))
        return false;
    plugins_new_help();
    return true;
}

const cli_command cli_cmd_plugins = {
    "plugins",
    "[NAME] [JOB.ini] [section.key=value ...]  or  new KIND NAME [--cxx] [--dir DIR]  or  "
    "info FILE.so [--json]  or  check FILE.so [--only N,N-M] [--seed S] "
    "[--set KEY=VALUE] [--json]",
    "List the plugins that are installed, or print the keys of one, with types and defaults.\n\n"
    "  JOB.ini          look into the folders of its run.plugins too; run.plugins=DIR does the "
    "same;\n"
    "                   then print the file of each plugin that the job names\n"
    "  new KIND NAME    write a folder with a plugin that builds, passes the checks and trains: "
    "source (--cxx: C++),\n"
    "                   build files, a job and a test. NAME is WHO.WHAT, and the folder is called "
    "WHAT;\n"
    "                   it is made in the folder DIR, which exists, or here\n"
    "  info FILE.so     what a file says of itself: manifest, components, options, digest; which "
    "other\n"
    "                   file has the same names\n"
    "  check FILE.so    test a plugin against the SDK's rules: docs/CHECKS.md; --list prints the "
    "checks,\n"
    "                   --set KEY=VALUE gives an option of the plugin a value,\n"
    "                   --json names every check with its result,\n"
    "                   --in-process runs one (--only N) without a process of its own, for a "
    "debugger",
    run, help_of_new};
