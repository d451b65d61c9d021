/* bench/tune_command.c: weft tune comm: measures the message costs that `algorithm = auto`
 * uses.
 *
 * The ranks of the job measure each of its transports, over the mesh axis with the most ranks on
 * it; all groups of that axis at once, as in a step. Then every applicable algorithm of each
 * collective is timed, and compared with the model's prediction from the costs just measured. */
#include "bench/tune_command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "launch/launch.h"
#include "run/prepare.h"

#define OPTION(key_, type_, dflt_, help_, choices_, min_, max_)                                    \
    &(const weft_option)                                                                           \
    {                                                                                              \
        sizeof(weft_option), type_, key_, dflt_, help_, choices_, min_, max_                       \
    }
static const weft_option *const options[] = {
    OPTION("op", WEFT_OPT_STRING, "all_reduce, reduce_scatter, all_gather, broadcast",
           "collectives of the table, separated by commas", NULL, 0, 0),
    OPTION("min", WEFT_OPT_BYTES, "256", "smallest size", NULL, 1, 1e15),
    OPTION("max", WEFT_OPT_BYTES, "1M", "largest size", NULL, 1, 1e15),
    OPTION("factor", WEFT_OPT_INT, "64", "from one size to the next", NULL, 2, 1e6),
    OPTION("passes", WEFT_OPT_INT, "5", "times that all is measured; the medians count", NULL, 1,
           TUNE_PASSES),
    OPTION("seconds", WEFT_OPT_REAL, "0.25", "that each row of the table is timed in all", NULL, 0,
           3600),
    OPTION("type", WEFT_OPT_CHOICE, "fp32", "of the elements", MEASURING_TYPES, 0, 0),
    NULL,
};

typedef struct tuner {
    cli_job cmd;      /* overrides: the job's */
    const char **own; /* "tune.op=..." */
    const char *out;
    uint32_t nown;
    job_identity who;
    config *keys; /* [tune] */
    config *cfg;  /* the job's */
    job_hosts hosts;
    run_prepared p;
    job *job;
    comm_world *world;
    comm_arena arena;
    bench_tune_set set;
    uint32_t done, all; /* for the progress line */
} tuner;

static weft_status load_keys(tuner *t)
{
    weft_status st = config_load(NULL, t->own, t->nown, &t->keys);
    if (st == WEFT_OK)
        st = config_add(t->keys, "tune", "weft tune", options);
    if (st == WEFT_OK)
        st = config_check(t->keys);
    if (st == WEFT_OK && config_int(t->keys, "tune.max") < config_int(t->keys, "tune.min"))
        st = config_fail(t->keys, "tune.max", "is less than tune.min");
    uint32_t kind[MEASURING_KINDS], n;
    return st == WEFT_OK ? bench_measure_kinds(t->keys, "tune.op", kind, &n) : st;
}

static weft_status load(tuner *t)
{
    weft_status st = load_keys(t);
    if (st == WEFT_OK)
        st = config_load(t->cmd.ini, t->cmd.overrides, t->cmd.noverrides, &t->cfg);
    return st;
}

/* The job and its transports. Existing costs of the job are ignored. */
static weft_status load_job(tuner *t, uint32_t ranks)
{
    const resolve_meeting meeting = {.hosts = t->job ? &t->hosts : NULL, .job = t->job};
    if (ranks < 2)
        return err_fail(WEFT_USAGE,
                        "one rank sends nothing that could be measured: start 2 or more "
                        "with -n, or by a launcher");
    if (t->cmd.ini)
        return run_prepare(t->cfg, ranks, false, &meeting, &t->p);
    return run_prepare_links(t->cfg, ranks, &meeting, &t->p);
}

static weft_status join(tuner *t)
{
    const char *key = config_text(t->cfg, "run.key");
    const job_options opt = {.key_file = *key ? key : NULL,
                             .frozen_after = 30,
                             .listen = config_text(t->cfg, "run.listen"),
                             .address = config_text(t->cfg, "run.address")};
    run_try_transports(t->cfg, t->who.ranks, !t->who.local_rank);
    return job_join(&t->who, &opt, &t->job);
}

static weft_status set_up(tuner *t)
{
    weft_status st = load(t);
    if (st == WEFT_OK && t->who.ranks > 1)
        st = join(t);
    if (st == WEFT_OK && t->job)
        st = job_find_hosts(t->job, &t->who, &t->hosts);
    if (st == WEFT_OK)
        st = load_job(t, t->who.ranks);
    if (st == WEFT_OK)
        st = bench_measure_check_links(&t->p.spec);
    if (st == WEFT_OK)
        st = comm_world_create(t->job, &t->who, &t->world);
    if (st != WEFT_OK)
        return st;
    bench_tune_find(&t->p.spec, t->cfg, t->keys, t->who.rank, t->cmd.ini != NULL, &t->set);
    st = bench_tune_open(&t->set, t->world);
    if (st == WEFT_OK)
        st = bench_measure_arena(bench_tune_capacity(&t->set), &t->arena);
    return st == WEFT_OK
               ? comm_connect(t->world, &t->arena, config_real(t->cfg, "run.join_timeout"))
               : st;
}

static void count_work(tuner *t)
{
    for (uint32_t i = 0; i < t->set.probes; i++)
        t->all += t->set.probe[i].t ? t->set.passes * bench_tune_points(t->set.probe[i].t) : 0;
    for (uint32_t i = 0; i < t->set.parts; i++)
        for (uint32_t k = 0; k < t->set.part[i].kinds; k++)
            for (uint32_t a = 0; a < TUNE_ALGORITHMS; a++)
                t->all += t->set.part[i].row[k][a].m ? t->set.passes * t->set.part[i].sizes : 0;
}

static void show(tuner *t, const char *what)
{
    t->done++;
    if (t->who.rank || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K%u/%u  %s", t->done, t->all, what);
    if (t->done >= t->all)
        fprintf(stderr, "\r\033[K");
    fflush(stderr);
}

/* Shares the result with every rank: the time of the slowest group for each point. */
static weft_status share(tuner *t, bench_tune_probe *p, const bench_tune_point *mine,
                         sched_cost *out)
{
    bench_tune_point *all = mem_alloc((uint64_t)t->who.ranks * TUNE_POINTS * sizeof *all);
    bench_tune_point max[TUNE_POINTS];
    char name[100];
    snprintf(name, sizeof name, "tune/%.64s", p->c->name);
    weft_status st = job_exchange(t->job, name, mine, TUNE_POINTS * sizeof *mine, all);
    memset(max, 0, sizeof max);
    for (uint32_t r = 0; r < t->who.ranks && st == WEFT_OK; r++)
        for (uint32_t k = 0; k < TUNE_POINTS; k++)
            if (all[r * TUNE_POINTS + k].at.seconds > max[k].at.seconds)
                max[k] = all[r * TUNE_POINTS + k];
    if (st == WEFT_OK)
        bench_tune_fit(max, TUNE_POINTS, out);
    free(all);
    return st;
}

/* Measures the costs of a transport. Ranks outside its group wait for the others. */
static weft_status find_costs(tuner *t, bench_tune_probe *p)
{
    bench_tune_point mine[TUNE_POINTS] = {{0}};
    double took[TUNE_POINTS][TUNE_PASSES];
    weft_status st = WEFT_OK;
    for (uint32_t pass = 0; pass < t->set.passes; pass++)
        for (uint32_t k = 0; p->t && k < bench_tune_points(p->t) && st == WEFT_OK; k++) {
            show(t, p->c->name);
            st = bench_tune_run(p->t, k, t->arena.base, &mine[k]);
            took[k][pass] = mine[k].at.seconds;
        }
    for (uint32_t k = 0; p->t && k < bench_tune_points(p->t) && st == WEFT_OK; k++)
        mine[k].at.seconds = bench_fit_median(took[k], t->set.passes);
    return st == WEFT_OK ? share(t, p, mine, &p->cost) : st;
}

/* Algorithm after algorithm, and all of it again: what disturbs one pass does not spoil a median.
 */
static weft_status time_rows(tuner *t, bench_tune_part *p, uint32_t pass)
{
    weft_status st = WEFT_OK;
    for (uint32_t k = 0; k < p->kinds; k++)
        for (uint32_t a = 0; a < TUNE_ALGORITHMS; a++)
            for (uint32_t s = 0; p->row[k][a].m && s < p->sizes && st == WEFT_OK; s++) {
                bench_measure_row r = {0};
                show(t, sched_kind_word(p->kind[k]));
                st = bench_measure_run(p->row[k][a].m, s, t->arena.base, &r);
                p->row[k][a].us[s][pass] = r.us;
                if (st == WEFT_OK && r.wrong)
                    st = err_fail(WEFT_INTERNAL, "%s by %s: %llu elements are wrong",
                                  sched_kind_word(p->kind[k]), r.algorithm,
                                  (unsigned long long)r.wrong);
            }
    return st;
}

static weft_status tell(tuner *t)
{
    char what[256];
    bench_tune_cost_parts(&t->set);
    for (uint32_t i = 0; i < t->set.parts; i++)
        bench_tune_print(&t->set, &t->set.part[i], stdout);
    snprintf(what, sizeof what, "weft tune comm%s%.180s, %u ranks", t->cmd.ini ? " " : "",
             t->cmd.ini ? t->cmd.ini : "", t->who.ranks);
    weft_status st = bench_tune_write(t->out, what, &t->set);
    if (st == WEFT_OK)
        printf("%s: a job takes it with comm.tuned=%s\n", t->out, t->out);
    return st;
}

static weft_status measure_all(tuner *t)
{
    bench_tune_set *s = &t->set;
    weft_status st = WEFT_OK;
    count_work(t);
    for (uint32_t i = 0; i < s->probes && st == WEFT_OK; i++)
        st = find_costs(t, &s->probe[i]);
    for (uint32_t i = 0; i < s->parts * s->passes && st == WEFT_OK; i++)
        st = time_rows(t, &s->part[i / s->passes], i % s->passes);
    return st == WEFT_OK && !t->who.rank ? tell(t) : st;
}

static void release(tuner *t)
{
    bench_tune_release(&t->set);
    run_unprepare(&t->p);
    job_free_hosts(&t->hosts);
    config_destroy(t->keys);
    config_destroy(t->cfg);
}

static int run_rank(tuner *t)
{
    weft_status st = job_identify(&t->who);
    if (st == WEFT_OK && !t->who.rank)
        st = bench_tune_check_path(t->out);
    if (st == WEFT_OK)
        st = set_up(t);
    if (st == WEFT_OK)
        st = measure_all(t);
    run_tables_end(&t->p.tables);
    int status = bench_measure_leave(t->job, t->world, st);
    release(t);
    return status;
}

/* Validates the request once in the launcher, before ranks are started. */
static int launch(tuner *t, int argc, char **argv)
{
    tuner look = *t;
    weft_status st = load(&look);
    if (st == WEFT_OK)
        st = load_job(&look, t->cmd.ranks);
    if (st == WEFT_OK)
        st = bench_tune_check_path(t->out);
    release(&look);
    if (st != WEFT_OK)
        return cli_fail(st);
    char **words = mem_alloc(((uint64_t)argc + 2) * sizeof *words);
    uint32_t n = 0;
    words[n++] = "weft";
    words[n++] = "tune";
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "-n"))
            i++;
        else
            words[n++] = argv[i];
    }
    int status = launch_ranks(t->cmd.ranks, words, false);
    free(words);
    return status;
}

/* "tune.op=..." is no key of a job; and a file of costs is what is to be written here. */
static void sort_overrides(tuner *t, int argc)
{
    uint32_t kept = 0;
    const char **given = t->cmd.overrides;
    t->own = mem_alloc((uint64_t)argc * sizeof *t->own);
    t->cmd.overrides = mem_alloc(((uint64_t)argc + 1) * sizeof *given);
    for (uint32_t i = 0; i < t->cmd.noverrides; i++)
        if (!strncmp(given[i], "tune.", 5))
            t->own[t->nown++] = given[i];
        else
            t->cmd.overrides[kept++] = given[i];
    t->cmd.overrides[kept++] = "comm.tuned=";
    t->cmd.noverrides = kept;
    free(given);
}

static int run(int argc, char **argv)
{
    static const char *const valued[] = {"-o", NULL};
    tuner t = {0};
    int status = 2;
    if (argc < 2 || strcmp(argv[1], "comm"))
        return cli_usage(&cli_cmd_tune, "%s%s%s", argc < 2 ? "name what to tune: comm" : "'",
                         argc < 2 ? "" : argv[1], argc < 2 ? "" : "' cannot be tuned");
    if (cli_parse_job(&cli_cmd_tune, argc - 1, argv + 1, NULL, valued, &t.cmd, &status)) {
        t.out = t.cmd.value[0] ? t.cmd.value[0] : "tuned.ini";
        sort_overrides(&t, argc);
        if (t.cmd.ranks > LAUNCH_MAX)
            status = cli_usage(&cli_cmd_tune, "-n starts %d ranks at most", LAUNCH_MAX);
        else
            status = t.cmd.ranks > 1 ? launch(&t, argc - 1, argv + 1) : run_rank(&t);
    }
    free(t.own);
    free(t.cmd.overrides);
    return status;
}

void bench_tune_print_keys(FILE *to, int markdown)
{
    cli_print_options(to, options, markdown, CLI_PLAIN);
}

const cli_command cli_cmd_tune = {
    "tune", "comm [-n RANKS] [JOB.ini] [section.key=value ...] [-o FILE]",
    "Measure what messages cost between the ranks of a job; algorithm = auto uses the result.\n\n"
    "Each transport that the job uses is measured between the ranks that it connects (without\n"
    "JOB.ini: comm.plugin between all): latency, what a further message costs, and bandwidth; and\n"
    "how fast a rank sums. They are written to FILE as keys, which a job takes with\n"
    "[comm] tuned = FILE. Then collectives are timed by every algorithm that can do them, and\n"
    "printed beside what the costs predict, with what auto would now choose.\n\n"
    "  -n RANKS   start so many ranks on this machine; without it, and started by mpirun, srun\n"
    "             or with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set, it joins as one rank\n"
    "  -o FILE    where to (tuned.ini); a file that is there is replaced\n"
    "  tune.op=all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter,\n"
    "             all_to_all: which, separated by commas (the first four)\n"
    "  tune.min=256 tune.max=1M tune.factor=64 tune.type=fp32   sizes and type of the table\n"
    "  tune.seconds=0.25   that each of its rows is timed\n"
    "  tune.passes=5       times that all is measured; the medians count",
    run, NULL};
