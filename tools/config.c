/* config.c: weft config: every key of a job file, as docs/CONFIG.md has it. */
#include "config/config.h"
#include "bench/bench_comm.h"
#include "bench/sweep/sweep.h"
#include "bench/tune_command.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "config/constraints.h"
#include "host/host.h"
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
        cli_print_options(stdout, s->options, 1, CLI_OWN);
    }
    printf("\n## [optim.NAME]: a parameter group\n\n"
           "A group has a learning rate and options of the update rule of its own; what it leaves "
           "out is that of [optim]. A parameter is in one group.\n\n"
           "```ini\n[optim.embed]\nparams = embed.*\nlr = 1e-3\n\n"
           "[optim.head]\nparams = head.*\nweight_decay = 0\n```\n\n");
    cli_print_options(stdout, config_group_options(), 1, CLI_OWN);
    printf(
        "\n## [comm.NAME]: of the core, for every transport; the plugins' own keys are below\n\n");
    cli_print_options(stdout, config_link_options(), 1, CLI_OWN);
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
        weft_option axes[WEFT_MAX_MESH];
        const weft_option **keys = plugins_keys_of(all[i], axes);
        if (*keys)
            cli_print_options(stdout, keys, 1, plugins_column_of(all[i]));
        else
            puts("No keys.");
        free(keys);
    }
}

/* "train.batch, -n" as code, word by word. */
static void print_keys(FILE *to, const char *keys)
{
    while (*keys) {
        size_t n = strcspn(keys, ",");
        fprintf(to, "`%.*s`", (int)n, keys);
        keys += n;
        if (*keys)
            fprintf(to, ", ");
        keys += strspn(keys, ", ");
    }
}

static void print_sentence(FILE *to, const char *says)
{
    for (; *says; says++)
        fputc(*says == '{' || *says == '}' ? '`' : *says, to);
}

static void print_constraints(FILE *to)
{
    fprintf(to, "| keys | what is refused, and what is allowed | why |\n|---|---|---|\n");
    for (uint32_t i = 0; i < CONSTRAINT_RULES; i++) {
        const config_constraint_row *r = &config_constraint_rows[i];
        fprintf(to, "| ");
        print_keys(to, r->keys);
        fprintf(to, " | ");
        print_sentence(to, r->says);
        fprintf(to, " | %s |\n", r->why);
    }
}

/* For a plugin's own constraints the core prints what the plugin declares about its keys. */
static void print_combinations(const host_component *const *all, uint32_t n)
{
    printf("# What combines with what\n\nWritten by `weft config combinations`; a test compares it "
           "with the program, and provokes each row.\n\nEvery combination that is not refused "
           "works, and nothing is changed silently: each row below is an error message "
           "with\nstatus 2, before anything is started; 77 where a plugin that is named needs what "
           "this machine lacks (`comm.plugin = mpi`\nwithout mpirun, `verbs` without its device). "
           "`AXIS` is a mesh axis. Keys of plugins that a job does not use may be in its\nfile; on "
           "the command line they are refused.\n\n");
    print_constraints(stdout);
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

/* docs/METRICS.md. */
static void print_metrics(FILE *out)
{
    fprintf(out,
            "# Every metric of a step\n\n"
            "Written by `weft config metrics`; a test compares it with the program.\n\n"
            "Rank 0 hands these values to the sinks that `[log] sinks` names, after every step, in "
            "this order. A gauge is a value of\nthe step; a counter grows from the begin of the "
            "run, also through a resume. A value may be infinite or not a number.\n\n");
    run_metrics_print_table(out);
    fprintf(out, "\n"
                 "Those that begin with `ranks.` are of all ranks. Ranks exchange them "
                 "after the first two steps and then as often\nas "
                 "costs at most 0.2 %% of the time: after each step of a second, after some tens "
                 "of steps of 10 ms.\n\n"
                 "Where two mesh axes or more have several ranks, `axis.NAME.exposed_comm_ms` "
                 "follows for each: the part of `exposed_comm_ms` for\ncollectives along it, on "
                 "rank 0, in every step.\n\n"
                 "Other names with a dot are those of plugins. They follow in this order:\n\n"
                 "1. scalars that update rules and periodic lists assign: gauges, present in every "
                 "step;\n"
                 "2. values that plugins add through `weft.host.metrics/1` "
                 "([host.h](../sdk/include/weft/host.h)): gauges, absent in a step in\n"
                 "   which rank 0 has added none. Their meaning is described by the plugin.\n\n"
                 "The sink `jsonl` writes a line for each step into `OUT/metrics.jsonl`: `step`, "
                 "`time` (seconds since 1970,\n"
                 "UTC), `host`, `attempt` (1, and one more after each restart of `weft train "
                 "--restarts`), the values (`null` where JSON has no number),\n"
                 "`flops_rule` (what `mfu` counts) and `version` (of the line). `tensorboard` "
                 "writes the values as scalars of event files in OUT, for\n"
                 "`tensorboard --logdir OUT`; a dot of a name becomes a slash, which makes groups. "
                 "`prometheus` serves them at http://ADDRESS/metrics\n"
                 "as OpenMetrics; the address is in the log and, while the run lasts, in "
                 "OUT/prometheus.address. It is one of the loopback\n"
                 "interface unless `[sink.prometheus] address` says otherwise. The page has:\n\n"
                 "- every metric with the prefix `weft_`, `_` for what such names cannot have, and "
                 "the label `job`, which is `run.name`; a counter\n"
                 "  ends in `_total`. A metric that the newest step has not, as `valid_loss` and "
                 "`ranks.*`, keeps its last value;\n"
                 "- `weft_step`: the newest step;\n"
                 "- `weft_events_total` with the labels `job` and `event`: how often `begin`, "
                 "`resume`, `evaluation`, `saving`, `checkpoint`, `skipped`, `stop`\n"
                 "  have happened since the program began.\n\n"
                 "A sink that fails (a full disk, a port that is taken) does not end the run: the "
                 "log says so once. `jsonl` and `tensorboard` leave out\n"
                 "what they cannot write, and go on when there is room again. A sink that cannot "
                 "be opened stays out until the run ends.\n");
}

static int print_of_plugins(void (*print)(const host_component *const *all, uint32_t n))
{
    host *h;
    const host_component **all;
    uint32_t n;
    weft_status st = host_create(NULL, &h);
    if (st == WEFT_OK) {
        host_try_all(h);
        host_list(h, NULL, &all, &n);
        print(all, n);
    }
    host_destroy(h);
    return cli_fail(st);
}

static int config_command(int argc, char **argv)
{
    if (argc == 1)
        return print_of_plugins(print_reference);
    if (argc == 2 && !strcmp(argv[1], "combinations"))
        return print_of_plugins(print_combinations);
    if (argc != 2 || strcmp(argv[1], "metrics"))
        return cli_usage(&cli_cmd_config, "it takes no arguments but 'combinations' or 'metrics'");
    print_metrics(stdout);
    return 0;
}

const cli_command cli_cmd_config = {
    "config", "[combinations | metrics]",
    "Print every key of a job file, of the core and of the plugins installed.\n\n"
    "  combinations   what combines with what and why not: docs/COMBINATIONS.md\n"
    "  metrics        the values of a step that sinks get: docs/METRICS.md",
    config_command, NULL};
