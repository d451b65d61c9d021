/* bench/bench_comm.c: weft bench comm: measures collectives. One table per operation.
 */
#include "bench/bench_comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "bench/bench_lists.h"
#include "bench/measure.h"
#include "bench/measuring.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "config/config.h"
#include "host/watch.h"
#include "launch/launch.h"
#include "resolve/topology.h"
#include "run/prepare.h"

#define MEET 60.0 /* seconds to connect */

#define OPTION(key_, type_, dflt_, help_, choices_, min_, max_)                                    \
    {                                                                                              \
        sizeof(weft_option), type_, key_, dflt_, help_, choices_, min_, max_                       \
    }
static const weft_option option_list[] = {
    OPTION("op", WEFT_OPT_STRING, "all_reduce", "collectives, separated by commas", NULL, 0, 0),
    OPTION("min", WEFT_OPT_BYTES, "8", "smallest size", NULL, 1, 1e15),
    OPTION("max", WEFT_OPT_BYTES, "64M", "largest size", NULL, 1, 1e15),
    OPTION("factor", WEFT_OPT_INT, "8", "from one size to the next", NULL, 2, 1e6),
    OPTION("type", WEFT_OPT_CHOICE, "fp32", "of the elements", MEASURING_TYPES, 0, 0),
    OPTION("inplace", WEFT_OPT_BOOL, "off", "input and output are one memory", NULL, 0, 0),
    OPTION("chunk", WEFT_OPT_BYTES, "0", "bytes that messages are cut into; 0: as built", NULL, 0,
           1e12),
    OPTION("ranks", WEFT_OPT_STRING, "", "numbers of ranks to start: one table after the other",
           NULL, 0, 0),
    OPTION("out", WEFT_OPT_STRING, "", "folder for comm.csv and comm.json; empty: none", NULL, 0,
           0),
    OPTION("append", WEFT_OPT_BOOL, "off", "add to them instead of replacing them", NULL, 0, 0),
};
static const weft_option *const options[] = {
    &option_list[0],
    &option_list[1],
    &option_list[2],
    &option_list[3],
    &option_list[4],
    &option_list[5],
    &option_list[6],
    &option_list[7],
    &option_list[8],
    &option_list[9],
    NULL,
};

typedef struct bench {
    const char *ini;
    const char **overrides; /* pointers into argv */
    uint32_t noverrides, ranks;
    job_identity who;
    const config *job_cfg; /* the job file and the command line, as loaded; NULL: no job file */
    config *cfg;           /* what of it concerns bench comm */
    host *host;
    run_tables tables;
    job *job;
    comm_world *world;
    comm_arena arena;
    job_hosts hosts;
    spec spec; /* one mesh axis of all ranks */
    bench_measure *m[MEASURING_KINDS];
    uint32_t kind[MEASURING_KINDS], n;
    FILE *csv; /* of rank 0, where bench.out names a folder */
} bench;

static weft_status parse_ops(bench *b)
{
    if (config_int(b->cfg, "bench.max") < config_int(b->cfg, "bench.min"))
        return config_fail(b->cfg, "bench.max", "is less than bench.min");
    if (strcmp(config_text(b->cfg, "comm.compress"), "none"))
        return config_fail(b->cfg, "comm.compress",
                           "is for a job's gradients; bench comm measures what is not compressed");
    return bench_measure_kinds(b->cfg, "bench.op", b->kind, &b->n);
}

/* Takes only the relevant keys of a job file; the others may need plugins that are missing here. */
static weft_status take_key(bench *b, const char *key)
{
    const char *text = config_raw(b->job_cfg, key);
    if (!text || config_given(b->cfg, key)) /* the command line has it */
        return WEFT_OK;
    return config_set(b->cfg, key, text, config_where(b->job_cfg, key));
}

static weft_status load(bench *b)
{
    char key[64];
    weft_status st = config_load(NULL, b->overrides, b->noverrides, &b->cfg);
    for (uint32_t i = 0; options[i] && b->job_cfg && st == WEFT_OK; i++) {
        snprintf(key, sizeof key, "bench.%s", options[i]->key);
        st = take_key(b, key);
    }
    if (st == WEFT_OK && b->job_cfg)
        st = take_key(b, "comm.plugin");
    if (st == WEFT_OK && b->job_cfg)
        st = take_key(b, "comm.algorithm");
    if (st == WEFT_OK && b->job_cfg)
        st = take_key(b, "comm.checksum");
    return st == WEFT_OK ? config_add(b->cfg, "bench", "weft bench", options) : st;
}

static weft_status map_arena(bench *b)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->n; i++)
        bytes = bench_measure_memory(b->m[i]) > bytes ? bench_measure_memory(b->m[i]) : bytes;
    return bench_measure_arena(bytes, &b->arena);
}

static weft_status add_link(bench *b, uint32_t *index)
{
    const spec_link *l = &b->spec.links[b->spec.axis_link[0]];
    return comm_add_link(b->world, (comm_part){l->c, l->conf},
                         (comm_part){l->intra.c, l->intra.conf}, b->hosts.machine, l->checked,
                         index);
}

static weft_status add_operations(bench *b, uint32_t link)
{
    const spec_link *l = &b->spec.links[b->spec.axis_link[0]];
    const sched_layout *layout =
        resolve_group_layout(&b->spec, &b->spec.pool, &(resolve_rank_group){.mesh_axis = 0});
    uint32_t *ranks = mem_alloc(b->who.ranks * sizeof *ranks);
    comm_channel *c = NULL;
    for (uint32_t i = 0; i < b->who.ranks; i++)
        ranks[i] = i;
    weft_status st = comm_add_channel(b->world, link, "bench", ranks, b->who.ranks, &c);
    free(ranks);
    const config *cfg = b->cfg;
    for (uint32_t i = 0; i < b->n && st == WEFT_OK; i++) {
        bench_measure_request q = {.kind = b->kind[i],
                                   .dtype = bench_measure_type(config_text(cfg, "bench.type")),
                                   .ranks = b->who.ranks,
                                   .me = b->who.rank,
                                   .in_place = (int)config_int(cfg, "bench.inplace"),
                                   .min = (uint64_t)config_int(cfg, "bench.min"),
                                   .max = (uint64_t)config_int(cfg, "bench.max"),
                                   .factor = (uint64_t)config_int(cfg, "bench.factor"),
                                   .link_caps = resolve_link_caps(&b->spec, l),
                                   .layout = layout,
                                   .cost = b->spec.axis_cost[0],
                                   .algorithm = config_text(cfg, "comm.algorithm"),
                                   .chunk = (uint64_t)config_int(cfg, "bench.chunk")};
        st = bench_measure_create(c, &q, &b->m[i]);
    }
    return st;
}

static void keep_row(const bench *b, uint32_t op, const bench_measure_row *r)
{
    if (!b->csv)
        return;
    const char *asked = config_text(b->cfg, "comm.algorithm");
    fprintf(b->csv, "%u,%s,%s,%s,%s,%s,%d,%llu,%llu,%.9g,%.9g,%.9g,%llu\n", b->who.ranks,
            b->spec.links[b->spec.axis_link[0]].c->name, strchr(asked, '=') ? "rules" : asked,
            r->algorithm, config_text(b->cfg, "bench.type"), sched_kind_word(b->kind[op]),
            (int)config_int(b->cfg, "bench.inplace"), (unsigned long long)r->bytes,
            (unsigned long long)r->count, r->us, r->algbw, r->busbw, (unsigned long long)r->wrong);
}

static weft_status print_table(bench *b, uint32_t op)
{
    int speak = b->who.rank == 0;
    weft_status st = WEFT_OK;
    uint64_t wrong = 0;
    if (speak)
        printf("#%11s %12s %6s %15s %12s %8s %8s %7s\n", "size", "count", "type", "op", "time",
               "algbw", "busbw", "#wrong");
    for (uint32_t i = 0; i < bench_measure_rows(b->m[op]) && st == WEFT_OK; i++) {
        bench_measure_row r;
        st = bench_measure_run(b->m[op], i, b->arena.base, &r);
        if (st != WEFT_OK)
            break;
        wrong += r.wrong;
        keep_row(b, op, &r);
        if (speak)
            printf("%12llu %12llu %6s %15s %12.2f %8.3f %8.3f %7llu\n", (unsigned long long)r.bytes,
                   (unsigned long long)r.count, config_text(b->cfg, "bench.type"),
                   sched_kind_word(b->kind[op]), r.us, r.algbw, r.busbw,
                   (unsigned long long)r.wrong);
        fflush(stdout);
    }
    if (st == WEFT_OK && wrong)
        st = err_fail(WEFT_INTERNAL, "%llu elements are wrong", (unsigned long long)wrong);
    return st;
}

/* Set-up local to each rank: ops, and the transport or transports of one group of all ranks. */
static weft_status find_links(bench *b)
{
    const resolve_meeting meeting = {.hosts = b->job ? &b->hosts : NULL, .job = b->job};
    run_try_transports(b->cfg, b->who.ranks, false); /* ranks have before they joined */
    weft_status st = host_create(config_raw(b->cfg, "run.plugins"), &b->host);
    if (st == WEFT_OK)
        run_tables_serve(&b->tables, b->host, b->job, !b->job);
    if (st == WEFT_OK && b->job)
        st = job_find_hosts(b->job, &b->who, &b->hosts);
    if (st == WEFT_OK)
        st = resolve_links(b->cfg, b->host, b->who.ranks, &meeting, &b->spec);
    if (st == WEFT_OK && b->who.ranks == 1)
        st = resolve_axis(b->cfg, &meeting, &b->spec, 0);
    if (st == WEFT_OK)
        st = bench_measure_check_links(&b->spec);
    return st == WEFT_OK ? sched_rules_check(b->cfg, "comm.algorithm", NULL) : st;
}

static weft_status set_up(bench *b)
{
    uint32_t link;
    weft_status st = load(b);
    const char *key = st == WEFT_OK ? config_raw(b->cfg, "run.key") : NULL;
    job_options opt = {
        .key_file = key && *key ? key : NULL, .frozen_after = 30, .join_timeout = MEET};
    opt.listen = st == WEFT_OK ? config_raw(b->cfg, "run.listen") : NULL;
    opt.address = st == WEFT_OK ? config_raw(b->cfg, "run.address") : NULL;
    if (st == WEFT_OK)
        run_try_transports(b->cfg, b->who.ranks, !b->who.local_rank);
    if (st == WEFT_OK)
        st = job_join(&b->who, &opt, &b->job);
    if (st == WEFT_OK)
        st = find_links(b);
    if (st == WEFT_OK)
        st = parse_ops(b);
    if (st == WEFT_OK)
        st = comm_world_create(b->job, &b->who, &b->world);
    if (st == WEFT_OK)
        st = add_link(b, &link);
    if (st == WEFT_OK)
        st = add_operations(b, link);
    if (st == WEFT_OK)
        st = map_arena(b);
    return st == WEFT_OK ? comm_connect(b->world, &b->arena, MEET) : st;
}

static weft_status open_files(bench *b)
{
    const char *out = config_text(b->cfg, "bench.out");
    if (b->who.rank || !*out)
        return WEFT_OK;
    return bench_open_csv(out, config_int(b->cfg, "bench.append"), &b->csv);
}

static weft_status close_files(bench *b)
{
    if (b->csv && fclose(b->csv))
        return err_fail_errno(WEFT_IO, "comm.csv cannot be written");
    return b->csv ? bench_write_json(config_text(b->cfg, "bench.out")) : WEFT_OK;
}

static int run_rank(bench *b)
{
    weft_status st = set_up(b);
    if (st == WEFT_OK)
        st = open_files(b);
    for (uint32_t i = 0; i < b->n && st == WEFT_OK; i++)
        st = print_table(b, i);
    if (st == WEFT_OK)
        st = close_files(b);
    run_tables_end(&b->tables);
    int status = bench_measure_leave(b->job, b->world, st);
    for (uint32_t i = 0; i < b->n; i++)
        bench_measure_destroy(b->m[i]);
    resolve_free(&b->spec);
    job_free_hosts(&b->hosts);
    host_destroy(b->host);
    run_tables_free(&b->tables);
    config_destroy(b->cfg);
    return status;
}

/* Validates the request once in the launcher, before ranks are started. */
static weft_status check_request(const bench *given)
{
    bench b = *given;
    weft_status st = load(&b);
    if (st == WEFT_OK) {
        b.who.ranks = b.ranks;
        st = find_links(&b);
    }
    if (st == WEFT_OK)
        st = parse_ops(&b);
    resolve_free(&b.spec);
    host_destroy(b.host);
    run_tables_free(&b.tables);
    config_destroy(b.cfg);
    return st;
}

/* The arguments of a rank: the same command without -n. */
static int launch(const bench *b)
{
    weft_status st = check_request(b);
    if (st != WEFT_OK) {
        log_line(WEFT_LOG_ERROR, "%s", err_text());
        return err_exit_code(st);
    }
    char **argv = mem_alloc((b->noverrides + 5) * sizeof *argv);
    uint32_t n = 0;
    argv[n++] = "weft";
    argv[n++] = "bench";
    argv[n++] = "comm";
    if (b->ini)
        argv[n++] = (char *)(uintptr_t)b->ini;
    for (uint32_t i = 0; i < b->noverrides; i++)
        argv[n++] = (char *)(uintptr_t)b->overrides[i];
    int status = launch_ranks(b->ranks, argv, false);
    free(argv);
    return status;
}

void bench_comm_print_keys(FILE *to, int markdown)
{
    cli_print_options(to, options, markdown, CLI_PLAIN);
}

static int help(void)
{
    puts(
        "usage: weft bench comm [-n RANKS] [JOB.ini] [section.key=value ...]\n\n"
        "Measure collectives over the transport comm.plugin with the algorithm comm.algorithm; of\n"
        "JOB.ini only these and [bench] are read. -n starts so many ranks on this machine. `time` "
        "is\n"
        "in us, `algbw` and `busbw` in GB/s. comm.plugin, comm.algorithm, bench.type, bench.op "
        "and\n"
        "bench.ranks may be lists: every combination is measured; rules of comm.algorithm are one "
        "value.\n"
        "Keys of [bench]:\n");
    bench_comm_print_keys(stdout, 0);
    return 0;
}

/* A whole number of ranks, 0 when it is none. */
static uint32_t ranks_from(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    return *end || n < 1 || n > LAUNCH_MAX ? 0 : (uint32_t)n;
}

static int run_here(bench *b)
{
    if (job_identify(&b->who) == WEFT_OK)
        return run_rank(b);
    log_line(WEFT_LOG_ERROR, "%s", err_text());
    return 2;
}

/* One combination of the lists. */
static int run_listed(void *ctx, uint32_t ranks, const char *const *more)
{
    bench b = *(const bench *)ctx;
    const char **given = b.overrides;
    b.overrides = mem_alloc((b.noverrides + 32) * sizeof *b.overrides);
    b.noverrides = 0;
    for (uint32_t k = 0; k < ((const bench *)ctx)->noverrides; k++) {
        bool replaced = false;
        for (uint32_t i = 0; i < BENCH_LISTED + 2; i++)
            replaced |= strcspn(given[k], "=") == strcspn(more[i], "=") &&
                        !strncmp(given[k], more[i], strcspn(more[i], "="));
        if (!replaced)
            b.overrides[b.noverrides++] = given[k];
    }
    for (uint32_t i = 0; i < BENCH_LISTED + 2; i++)
        b.overrides[b.noverrides++] = more[i];
    b.ranks = ranks;
    int status = ranks > 1 ? launch(&b) : run_here(&b);
    free(b.overrides);
    return status;
}

/* The job file is read once, for all combinations. */
static int run_all(bench *b)
{
    config *all = NULL;
    int status = 0;
    weft_status st = config_load(b->ini, b->overrides, b->noverrides, &all);
    if (st != WEFT_OK)
        return cli_fail(st);
    b->job_cfg = b->ini ? all : NULL;
    const bench_run lists = {all, b->ranks, run_listed, b};
    if (!bench_lists(&lists, &status))
        status = b->ranks > 1 ? launch(b) : run_here(b);
    config_destroy(all);
    return status;
}

int bench_comm_main(int argc, char **argv)
{
    bench b = {0};
    int status = -1;
    b.overrides = mem_alloc(((uint64_t)argc + 16) * sizeof *b.overrides);
    for (int i = 1; i < argc && status < 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            status = help();
        } else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc && ranks_from(argv[i + 1])) {
            b.ranks = ranks_from(argv[++i]);
        } else if (cli_is_override(argv[i])) {
            b.overrides[b.noverrides++] = argv[i];
        } else if (!b.ini && (argv[i][0] != '-' || !argv[i][1])) {
            b.ini = argv[i];
        } else {
            log_line(WEFT_LOG_ERROR,
                     "weft bench comm: unknown argument '%s'\n"
                     "usage: weft bench comm [-n RANKS] [JOB.ini] [section.key=value ...]",
                     argv[i]);
            status = 2;
        }
    }
    if (status < 0)
        status = run_all(&b);
    free(b.overrides);
    return status;
}
