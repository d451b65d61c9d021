/* cli/plugins/plugins.c: weft plugins [NAME], the entry of its subcommands, and weft config, the
 * reference that docs/CONFIG.md holds. */
#include "cli/cli.h"

#include "base/err.h"
#include "base/mem.h"
#include "cli/bench/bench_comm.h"
#include "cli/bench/sweep/sweep.h"
#include "cli/bench/tune_command.h"
#include "cli/plugins/check.h"
#include "cli/plugins/info.h"
#include "cli/plugins/new.h"
#include "config/config.h"
#include "config/constraints.h"
#include "host/host.h"
#include "host/watch.h"
#include "resolve/spec.h"
#include "run/view/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *section_of(const component *c, char out[128])
{
    const bool own = !strcmp(c->kind, "comm") || !strcmp(c->kind, "sink");
    snprintf(out, 128, "%s%s%s", c->kind, own ? "." : "", own ? c->name : "");
    return out;
}

/* Which keys of a plugin are binding keys on resume (config/differ.h). */
static config_column column_of(const component *c)
{
    const bool binds = !strcmp(c->iface, "weft.rule/1") || !strcmp(c->iface, "weft.model/1");
    return binds ? CONFIG_BIND : CONFIG_FREE;
}

/* The keys of a component: those of its mesh axes, then its options. NULL-ended; the caller frees
 * it, and `room` lives as long. */
static const weft_option **keys_of(const component *c, weft_option room[WEFT_MAX_MESH])
{
    const weft_strategy *s = strcmp(c->iface, "weft.strategy/1") ? NULL : c->table;
    uint32_t n = 0, naxes = 0;
    while (c->options && c->options[n])
        n++;
    const weft_option **keys = mem_alloc((n + WEFT_MAX_MESH + 1) * sizeof *keys);
    for (; s && s->axes && s->axes[naxes] && naxes < WEFT_MAX_MESH; naxes++) {
        room[naxes] = (weft_option){.struct_size = sizeof *room,
                                    .type = WEFT_OPT_AUTO_INT,
                                    .key = s->axes[naxes]->size_key,
                                    .dflt = "auto",
                                    .help = s->axes[naxes]->help,
                                    .min = 1,
                                    .max = 65536};
        keys[naxes] = &room[naxes];
    }
    for (uint32_t i = 0; i < n; i++)
        keys[naxes + i] = c->options[i];
    return keys;
}

static void print_one(const component *c)
{
    char section[128];
    weft_option room[WEFT_MAX_MESH];
    printf("%s %s: %s\n  interface %s, version %s, %s\n", c->kind, c->name, c->help, c->iface,
           c->manifest->version, c->path);
    if (!strcmp(c->kind, "op")) {
        printf("it has no keys; a job uses it by naming its file in run.use\n");
        return;
    }
    printf("keys in [%s]:\n", section_of(c, section));
    const weft_option **keys = keys_of(c, room);
    config_print_options(stdout, keys, 0, column_of(c));
    free(keys);
    if (strcmp(c->kind, "comm"))
        return;
    printf("and those of the core, for every transport:\n");
    config_print_options(stdout, config_link_options(), 0, CONFIG_OWN);
}

static void print_all(const component *const *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (all[i]->iface)
            printf("%-9s %-10s %-18s %s\n", all[i]->kind, all[i]->name, all[i]->iface,
                   all[i]->help);
        else
            printf("%-9s %-10s unusable: %s\n", all[i]->kind, all[i]->name, all[i]->help);
}

/* The component that a job loads for a name, then the files that have it too. `like` is one of
 * them. */
static weft_status print_chosen(host *h, const component *const *all, uint32_t n,
                                const component *like)
{
    const component *c = like;
    const char *const ifaces[] = {like->iface, NULL};
    weft_status st = WEFT_OK;
    if (strcmp(like->kind, "op") != 0)
        st = host_find(h, like->kind, like->name, ifaces, &c);
    if (st != WEFT_OK)
        return st;
    print_one(c);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(all[i]->name, c->name) && !strcmp(all[i]->kind, c->kind) &&
            strcmp(all[i]->path, c->path) != 0)
            printf("not loaded, since the file above is found first: %s\n", all[i]->path);
    return WEFT_OK;
}

static weft_status find_and_print(host *h, const component *const *all, uint32_t n,
                                  const char *name)
{
    const component *of[256] = {0}, *unusable = NULL; /* one of each interface */
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
    const char *near = config_nearest(name, names, known);
    return err_fail(WEFT_USAGE, "no plugin is named '%s'%s%s%s; `weft plugins` lists all%s", name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                    strchr(name, '.') ? "; one of somebody else's is found with "
                                        "run.plugins=FOLDER or WEFT_PLUGIN_PATH"
                                      : "");
}

/* Classifies an argument: a job file has a file extension, an override has '=', a plugin has
 * neither. */
static bool is_job(const char *word)
{
    size_t n = strlen(word);
    return n > 4 && !strcmp(word + n - 4, ".ini");
}

weft_status cli_read_words(int argc, char **argv, const char **name, config **cfg)
{
    const char *overrides[64], *ini = NULL;
    uint32_t n = 0;
    for (int i = 1; i < argc; i++) {
        const bool is_override = strchr(argv[i], '=');
        const char **word = is_job(argv[i]) ? &ini : name;
        if (is_override && n == sizeof overrides / sizeof *overrides)
            return err_fail(WEFT_USAGE, "more than %u overrides", n);
        if (!is_override && *word)
            return err_fail(WEFT_USAGE, "one name at a time, and one job: '%s' is too many",
                            argv[i]);
        if (is_override)
            overrides[n++] = argv[i];
        else
            *word = argv[i];
    }
    return ini || n ? config_load(ini, overrides, n, cfg) : WEFT_OK;
}

/* The keys of a job whose words are names of plugins, and where each is looked for. */
static const struct named {
    const char *key, *kind, *ifaces[2]; /* kind NULL: run.use, files of ops and kernels */
} named_by[] = {{"model.family", "model", {"weft.model/1", NULL}},
                {"data.source", "data", {"weft.data/1", NULL}},
                {"data.tokenizer", "tokenizer", {"weft.tokenizer/1", NULL}},
                {"device.plugin", "device", {"weft.device/1", NULL}},
                {"parallel.strategy", "parallel", {"weft.strategy/1", NULL}},
                {"optim.rule", "optim", {"weft.rule/1", NULL}},
                {"optim.placement", "optim", {"weft.placement/1", NULL}},
                {"log.sinks", "sink", {"weft.sink/1", NULL}},
                {"run.use", NULL, {NULL, NULL}}};

static weft_status print_name(host *h, const config *cfg, const struct named *by, const char *name)
{
    const component *c;
    const char *path = NULL;
    weft_status st =
        by->kind ? host_find(h, by->kind, name, by->ifaces, &c) : host_use_named(h, name, &path);
    if (st == WEFT_OK)
        printf("%s = %s: %s\n", by->key, name, by->kind ? c->path : path);
    else
        err_context("%s: %s", config_where(cfg, by->key), by->key);
    return st;
}

/* The file of each plugin that the job names; fails at a name without one. Transports are left
 * out: the links of a job choose among them. */
static weft_status print_job(host *h, const config *cfg)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < sizeof named_by / sizeof *named_by; i++) {
        const char *text = config_raw(cfg, named_by[i].key);
        char *words = text ? strdup(text) : NULL, *at = NULL;
        char *word = words ? strtok_r(words, ", \t", &at) : NULL;
        for (; st == WEFT_OK && word; word = strtok_r(NULL, ", \t", &at))
            if (strcmp(word, "auto") && strcmp(word, "none"))
                st = print_name(h, cfg, &named_by[i], word);
        free(words);
    }
    return st;
}

static int run(int argc, char **argv)
{
    host *h = NULL;
    config *cfg = NULL;
    const component **all;
    const char *name = NULL;
    uint32_t n;
    if (argc > 1 && !strcmp(argv[1], "check"))
        return cli_check(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "new"))
        return cli_new(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "info"))
        return cli_info(argc, argv);
    weft_status st = cli_read_words(argc, argv, &name, &cfg);
    host_limits_set(cfg);
    if (st == WEFT_OK)
        st = host_create(cfg ? config_raw(cfg, "run.plugins") : NULL, &h);
    if (st == WEFT_OK) {
        host_try_all(h);
        st = host_list(h, &all, &n);
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
    cli_new_help();
    return true;
}

const command cli_cmd_plugins = {
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

static void print_reference(const component *const *all, uint32_t n)
{
    printf(
        "# Every key of a job file\n\nWritten by `weft config`; a test compares it with the "
        "program.\n\n"
        "Column `resume`: `weft train --resume` refuses a job in which a key that *binds* has "
        "another value than in the job that saved\nthe checkpoint, since it would change what "
        "the run computes; `--resume=force` continues and logs each difference, but not\n"
        "with another model or update rule, whose tensors the checkpoint does not have.\n"
        "Values are compared as they are read: 1e-3 is 0.001, and a key that is left out has its "
        "default. *free* keys may change: they say\nhow long a run is, how it is laid out, what "
        "carries and computes it, what is logged and saved, and where. `run.steps` is free, "
        "and\nschedules that end at the last step follow it. `[data]` may name other paths to the "
        "same data. Sizes of mesh axes are free.\n");
    const config_section *s = config_core_sections();
    for (; s->name; s++) {
        printf("\n## [%s]: %s\n\n", s->name, s->help);
        config_print_options(stdout, s->options, 1, CONFIG_OWN);
    }
    printf("\n## [optim.NAME]: a parameter group\n\n"
           "A group has a learning rate and options of the update rule of its own; what it leaves "
           "out is that of [optim]. A parameter is in one group.\n\n"
           "```ini\n[optim.embed]\nparams = embed.*\nlr = 1e-3\n\n"
           "[optim.head]\nparams = head.*\nweight_decay = 0\n```\n\n");
    config_print_options(stdout, config_group_options(), 1, CONFIG_OWN);
    printf(
        "\n## [comm.NAME]: of the core, for every transport; the plugins' own keys are below\n\n");
    config_print_options(stdout, config_link_options(), 1, CONFIG_OWN);
    printf("\n## [sweep]: lists, for `weft bench SWEEP.ini`\n\n");
    cli_sweep_print_keys(stdout);
    printf("\n## [bench]: for `weft bench comm`\n\n");
    cli_bench_comm_print_keys(stdout, 1);
    printf("\n## tune.KEY: for `weft tune comm`, on the command line\n\n");
    cli_tune_print_keys(stdout, 1);
    for (uint32_t i = 0; i < n; i++) {
        char section[128];
        if (!all[i]->iface || !strcmp(all[i]->kind, "op"))
            continue;
        printf("\n## [%s] with the plugin %s: %s\n\n", section_of(all[i], section), all[i]->name,
               all[i]->help);
        const weft_strategy *st = all[i]->table;
        uint32_t k = 0;
        for (; !strcmp(all[i]->iface, "weft.strategy/1") && st->axes && st->axes[k]; k++)
            printf("- `%s` (a number, or auto; default `auto`): %s\n", st->axes[k]->size_key,
                   st->axes[k]->help);
        const bool any = all[i]->options && *all[i]->options;
        if (k && any) /* Markdown needs a blank line between a list and a table */
            puts("");
        if (any)
            config_print_options(stdout, all[i]->options, 1, column_of(all[i]));
        else if (!k)
            puts("No keys.");
    }
}

/* For a plugin's own constraints the core prints what the plugin declares about its keys. */
static void print_combinations(const component *const *all, uint32_t n)
{
    printf(
        "# What combines with what\n\nWritten by `weft config combinations`; a test compares it "
        "with the program, and provokes each row.\n\nEvery combination that is not refused "
        "works, and nothing is changed silently: each row below is an error message "
        "with\nstatus 2, before anything is started. `AXIS` is a mesh axis. Keys of plugins that "
        "a job does not use may be in its file;\non the command line they are refused.\n\n");
    config_print_constraints(stdout);
    printf("\n## What plugins ask for\n\nA plugin refuses what only it can know. The meaning of "
           "its keys says what they go with.\n");
    for (uint32_t i = 0; i < n; i++) {
        if (!all[i]->iface || !strcmp(all[i]->kind, "device") || !strcmp(all[i]->kind, "op") ||
            !strcmp(all[i]->kind, "sink") || !strcmp(all[i]->iface, "weft.rule/1"))
            continue;
        printf("\n- `%s` (%s): %s\n", all[i]->name, all[i]->kind, all[i]->help);
        const weft_strategy *st = all[i]->table;
        for (uint32_t k = 0; !strcmp(all[i]->iface, "weft.strategy/1") && st->axes && st->axes[k];
             k++)
            printf("  - `parallel.%s`: %s\n", st->axes[k]->size_key, st->axes[k]->help);
        char section[128];
        for (const weft_option *const *o = all[i]->options; o && *o; o++)
            printf("  - `%s.%s`: %s\n", section_of(all[i], section), (*o)->key, (*o)->help);
    }
}

static int reference(int argc, char **argv)
{
    host *h;
    const component **all;
    uint32_t n;
    bool combinations = argc == 2 && !strcmp(argv[1], "combinations");
    if (argc == 2 && !strcmp(argv[1], "metrics")) {
        run_metrics_print_page(stdout);
        return 0;
    }
    if (argc > 1 && !combinations)
        return cli_usage(&cli_cmd_config, "it takes no arguments but 'combinations' or 'metrics'");
    weft_status st = host_create(NULL, &h);
    if (st == WEFT_OK) {
        host_try_all(h);
        st = host_list(h, &all, &n);
    }
    if (st == WEFT_OK)
        (combinations ? print_combinations : print_reference)(all, n);
    host_destroy(h);
    return cli_fail(st);
}

const command cli_cmd_config = {
    "config", "[combinations | metrics]",
    "Print every key of a job file, of the core and of the plugins installed.\n\n"
    "  combinations   what combines with what and why not: docs/COMBINATIONS.md\n"
    "  metrics        the values of a step that sinks get: docs/METRICS.md",
    reference, NULL};
