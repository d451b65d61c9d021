/* config.c: weft config: every key of a job file, as docs/CONFIG.md has it. */
#include "config/config.h"
#include "base/err.h"
#include "bench/bench_comm.h"
#include "bench/sweep/sweep.h"
#include "bench/tune_command.h"
#include "cli/cli.h"
#include "config/constraints.h"
#include "host/host.h"
#include "host/watch.h"
#include "plugins/keys.h"
#include "run/view/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_reference(const host_component *const *all, uint32_t n)
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
    bench_sweep_print_keys(stdout);
    printf("\n## [bench]: for `weft bench comm`\n\n");
    bench_comm_print_keys(stdout, 1);
    printf("\n## tune.KEY: for `weft tune comm`, on the command line\n\n");
    bench_tune_print_keys(stdout, 1);
    for (uint32_t i = 0; i < n; i++) {
        char section[128];
        if (!all[i]->iface || !strcmp(all[i]->kind, "op"))
            continue;
        printf("\n## [%s] with the plugin %s: %s\n\n", plugins_section_of(all[i], section),
               all[i]->name, all[i]->help);
        const weft_strategy *st = all[i]->table;
        uint32_t k = 0;
        for (; !strcmp(all[i]->iface, "weft.strategy/1") && st->axes && st->axes[k]; k++)
            printf("- `%s` (a number, or auto; default `auto`): %s\n", st->axes[k]->size_key,
                   st->axes[k]->help);
        const bool any = all[i]->options && *all[i]->options;
        if (k && any) /* Markdown needs a blank line between a list and a table */
            puts("");
        if (any)
            config_print_options(stdout, all[i]->options, 1, plugins_column_of(all[i]));
        else if (!k)
            puts("No keys.");
    }
}

/* For a plugin's own constraints the core prints what the plugin declares about its keys. */
static void print_combinations(const host_component *const *all, uint32_t n)
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
            printf("  - `%s.%s`: %s\n", plugins_section_of(all[i], section), (*o)->key, (*o)->help);
    }
}

static int reference(int argc, char **argv)
{
    host *h;
    const host_component **all;
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

const cli_command cli_cmd_config = {
    "config", "[combinations | metrics]",
    "Print every key of a job file, of the core and of the plugins installed.\n\n"
    "  combinations   what combines with what and why not: docs/COMBINATIONS.md\n"
    "  metrics        the values of a step that sinks get: docs/METRICS.md",
    reference, NULL};
