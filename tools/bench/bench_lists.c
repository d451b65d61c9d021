/* bench/bench_lists.c: see bench_lists.h. */
#include "bench/bench_lists.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "config/config.h"
#include "launch/launch.h"
#include "run/state/outdir.h"

#define VALUES 64 /* of one list */
#define HEAD                                                                                       \
    "ranks,plugin,algorithm,used,type,op,inplace,bytes,count,time_us,algbw_GBps,busbw_GBps,wrong"

static const char *const keys[BENCH_LISTED + 1] = {"bench.ranks", "comm.plugin", "comm.algorithm",
                                                   "bench.type"};

typedef struct values {
    const char *at[VALUES];
    uint32_t n;
} values;

static weft_status split(pool *p, const char *key, const char *text, values *out)
{
    char *rest = pool_text(p, text ? text : "");
    const char *between = strchr(rest, '=') ? "" : ", \t"; /* rules are one value */
    for (char *word; (word = strsep(&rest, between));) {
        if (*word && out->n == VALUES)
            return err_fail(WEFT_USAGE, "%s: more than %d values", key, VALUES);
        if (*word)
            out->at[out->n++] = word;
    }
    return text && *text && !out->n ? err_fail(WEFT_USAGE, "%s is an empty list", key) : WEFT_OK;
}

static weft_status read_lists(const bench_run *r, pool *p, values *list)
{
    weft_status st = WEFT_OK;
    for (uint32_t k = 0; st == WEFT_OK && k <= BENCH_LISTED; k++)
        st = split(p, keys[k], config_raw(r->cfg, keys[k]), &list[k]);
    if (r->ranks) {
        list[0] = (values){{pool_printf(p, "%u", r->ranks)}, 1};
    }
    for (uint32_t i = 0; st == WEFT_OK && i < list[0].n; i++) {
        uint64_t n;
        if (!cli_number(list[0].at[i], 1, LAUNCH_MAX, &n))
            st = err_fail(WEFT_USAGE, "bench.ranks: '%s' is not a number of ranks from 1 to %d",
                          list[0].at[i], LAUNCH_MAX);
    }
    return st;
}

static int run_one(const bench_run *r, pool *p, const values *list, uint32_t number)
{
    const char *more[BENCH_LISTED + 2], *value[BENCH_LISTED + 1];
    uint32_t at = number;
    for (uint32_t k = BENCH_LISTED + 1; k-- > 0;) {
        const uint32_t n = list[k].n ? list[k].n : 1;
        value[k] = list[k].n ? list[k].at[at % n] : k ? NULL : "1";
        at /= n;
    }
    printf("# %s rank%s", value[0], strcmp(value[0], "1") ? "s" : "");
    more[0] = number ? "bench.append=on" : "bench.append=off";
    more[BENCH_LISTED + 1] = "bench.ranks=";
    for (uint32_t k = 1; k <= BENCH_LISTED; k++) {
        more[k] = value[k] ? pool_printf(p, "%s=%s", keys[k], value[k]) : more[0];
        if (value[k])
            printf(", %s = %s", keys[k], value[k]);
    }
    printf("\n");
    fflush(stdout);
    int status = r->one(r->ctx, (uint32_t)strtoul(value[0], NULL, 10), more);
    if (status)
        printf("# not measured: status %d\n", status);
    fflush(stdout);
    return status;
}

bool bench_lists(const bench_run *r, int *status)
{
    pool p = {0};
    values list[BENCH_LISTED + 1] = {0};
    uint32_t all = 1, worst = 0, measured = 0;
    weft_status st = read_lists(r, &p, list);
    const bool started = getenv("RANK"); /* one of several, whose number is settled */
    bool any = list[0].n && !r->ranks && !started;
    for (uint32_t k = started; k <= BENCH_LISTED; k++) {
        any |= list[k].n > 1;
        all *= list[k].n ? list[k].n : 1;
    }
    if (st != WEFT_OK)
        *status = cli_fail(st);
    else if (any && started)
        *status = cli_fail(err_fail(WEFT_USAGE, "lists of bench.type, comm.plugin and "
                                                "comm.algorithm are for ranks that weft starts"));
    else if (any) {
        for (uint32_t i = 0; i < all; i++) {
            int one = run_one(r, &p, list, i);
            measured += !one;
            worst = worst ? worst : (uint32_t)one;
        }
        *status = measured ? 0 : (int)worst;
    }
    pool_free(&p);
    return st != WEFT_OK || any;
}

/* --- files --- */

static weft_status path_in(const char *out, const char *name, char path[4096])
{
    if ((size_t)snprintf(path, 4096, "%s/%s", out, name) >= 4096)
        return err_fail(WEFT_USAGE, "bench.out is longer than the longest path");
    return WEFT_OK;
}

/* Lines are added only below the columns that this program writes: its first line is the version of
 * the table. */
static weft_status same_columns(FILE *f, const char *path)
{
    char line[1024];
    rewind(f);
    if (!fgets(line, sizeof line, f))
        return WEFT_OK; /* it is empty */
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, HEAD) != 0)
        return err_fail(
            WEFT_UNSUPPORTED,
            "%s has other columns than this program writes (%s): name another bench.out, "
            "or leave out bench.append",
            path, HEAD);
    return fseek(f, 0, SEEK_END) ? err_fail_errno(WEFT_IO, "%s cannot be read", path) : WEFT_OK;
}

weft_status bench_open_csv(const char *out, bool append, FILE **f)
{
    char path[4096];
    run_outlock lock = {0};
    weft_status st =
        run_outdir_prepare(out, true, 0, &lock); /* a job that is there keeps its folder */
    run_outlock_release(&lock, 0);
    if (st == WEFT_OK)
        st = path_in(out, "comm.csv", path);
    if (st != WEFT_OK)
        return st;
    *f = fopen(path, append ? "a+e" : "we");
    if (!*f)
        return err_fail_errno(WEFT_IO, "%s cannot be written", path);
    if (append && (st = same_columns(*f, path)) != WEFT_OK) {
        fclose(*f);
        return st;
    }
    if (!append || ftell(*f) == 0)
        fputs(HEAD "\n", *f);
    return WEFT_OK;
}

/* A word as a number where it is one. */
static json_t *json_word(const char *word)
{
    char *end;
    double v = strtod(word, &end);
    if (!*word || *end)
        return json_string(word);
    return strpbrk(word, ".e") ? json_real(v) : json_integer((json_int_t)v);
}

static json_t *line_json(char *line)
{
    char head[] = HEAD, *names = head, *name, *word;
    json_t *row = json_object();
    line[strcspn(line, "\n")] = 0;
    while ((name = strsep(&names, ",")) && (word = strsep(&line, ",")))
        json_object_set_new(row, name, json_word(word));
    return row;
}

weft_status bench_write_json(const char *out)
{
    char path[4096], line[1024];
    weft_status st = path_in(out, "comm.csv", path);
    FILE *f = st != WEFT_OK ? NULL : fopen(path, "re");
    json_t *rows = json_array();
    bool head = true;
    while (f && fgets(line, sizeof line, f)) {
        if (!head)
            json_array_append_new(rows, line_json(line));
        head = false;
    }
    if (f)
        fclose(f);
    if (st == WEFT_OK)
        st = path_in(out, "comm.json", path);
    if (st == WEFT_OK && json_dump_file(rows, path, JSON_INDENT(1)))
        st = err_fail_errno(WEFT_IO, "%s cannot be written", path);
    json_decref(rows);
    return st;
}
