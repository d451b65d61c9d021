/* bench/sweep/compare.c: weft bench compare A B: two sweeps, combination by combination.
 *
 * Combinations with equal values and ranks are pairs. Their ratio and its bounds come from the runs
 * in the two files (noise.h). Everything in the files is checked: they may come from anywhere. */
#include "bench/sweep/noise.h"
#include "bench/sweep/sweep.h"

#include "base/err.h"
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RUNS 100u
#define MAX_BYTES (64L << 20) /* of a file */

typedef struct side_row {
    const char *key, *status, *why;
    uint32_t number;
    json_t *values; /* borrowed */
    int64_t ranks;  /* -1: unknown */
    double rate[RUNS];
    bench_noise_row noise;
    bool paired;
} side_row;

typedef struct side {
    const char *path;
    json_t *root;
    VEC(side_row) rows;
} side;

typedef struct pair {
    const side_row *a, *b;
    double ratio, low, high; /* NAN: unknown */
} pair;

typedef struct comparison {
    pool pool;
    side a, b;
    VEC(pair) pairs;
} comparison;

static weft_status refuse(const side *x, const char *what)
{
    return err_fail(WEFT_DATA, "%s is no result of a sweep: %s", x->path, what);
}

static weft_status load(comparison *c, side *x, const char *path)
{
    struct stat st;
    json_error_t error;
    x->path = path;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        x->path = pool_printf(&c->pool, "%s/sweep.json", path);
    FILE *f = fopen(x->path, "re");
    if (!f)
        return err_fail_errno(WEFT_USAGE, "%s cannot be opened", x->path);
    if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode) || st.st_size > MAX_BYTES) {
        fclose(f);
        return refuse(x, "not a file of at most 64 MiB");
    }
    x->root = json_loadf(f, JSON_REJECT_DUPLICATES, &error);
    fclose(f);
    if (!x->root)
        return refuse(x, pool_printf(&c->pool, "line %d: %s", error.line, error.text));
    if (json_integer_value(json_object_get(x->root, "version")) != 1)
        return refuse(x, "its version is not 1");
    return json_is_array(json_object_get(x->root, "rows")) ? WEFT_OK : refuse(x, "it has no rows");
}

/* Equal for combinations that set the same keys to the same values. */
static const char *key_of(comparison *c, json_t *values, int64_t ranks)
{
    char *text = json_dumps(values, JSON_COMPACT | JSON_SORT_KEYS);
    const char *key = pool_printf(&c->pool, "%lld %s", (long long)ranks, text ? text : "");
    free(text);
    return key;
}

static weft_status take_row(comparison *c, side *x, json_t *from)
{
    side_row r = {.ranks = -1};
    json_t *values = json_object_get(from, "values"), *v;
    json_t *rates = json_object_get(json_object_get(from, "tokens_per_s"), "runs");
    const char *name;
    r.status = json_string_value(json_object_get(from, "status"));
    r.why = json_string_value(json_object_get(from, "why"));
    r.number = (uint32_t)json_integer_value(json_object_get(from, "number"));
    if (json_is_integer(json_object_get(from, "ranks")))
        r.ranks = json_integer_value(json_object_get(from, "ranks"));
    if (!json_is_object(values) || !r.status)
        return refuse(x, "a row has no values or no status");
    json_object_foreach (values, name, v)
        if (!json_is_string(v))
            return refuse(x, "a value is no text");
    if (!strcmp(r.status, "same"))
        return WEFT_OK; /* the row that ran is in the file */
    r.values = values;
    r.key = key_of(c, values, r.ranks);
    for (size_t i = 0; i < json_array_size(rates) && r.noise.n < RUNS; i++) {
        const double rate = json_number_value(json_array_get(rates, i));
        if (!(rate > 0) || !isfinite(rate))
            return refuse(x, "a rate is no positive number");
        r.rate[r.noise.n++] = rate;
    }
    r.noise.group = r.ranks > 0 && r.ranks < UINT32_MAX - 1 ? (uint32_t)r.ranks : 0;
    *vec_push(&x->rows) = r;
    return WEFT_OK;
}

static weft_status take(comparison *c, side *x)
{
    json_t *rows = json_object_get(x->root, "rows");
    weft_status st = WEFT_OK;
    if (json_array_size(rows) > SWEEP_ROWS)
        return refuse(x, "it has more rows than a sweep can have");
    for (size_t i = 0; i < json_array_size(rows) && st == WEFT_OK; i++)
        st = take_row(c, x, json_array_get(rows, i));
    bench_noise_row *noise = mem_alloc((x->rows.n + 1) * sizeof *noise);
    for (uint32_t i = 0; i < x->rows.n; i++) {
        noise[i] = x->rows.at[i].noise;
        noise[i].rate = x->rows.at[i].rate;
    }
    (void)bench_noise_find(noise, x->rows.n);
    for (uint32_t i = 0; i < x->rows.n; i++)
        x->rows.at[i].noise = noise[i];
    free(noise);
    return st;
}

static void match(comparison *c)
{
    for (uint32_t i = 0; i < c->a.rows.n; i++) {
        side_row *a = &c->a.rows.at[i];
        for (uint32_t k = 0; k < c->b.rows.n && !a->paired; k++) {
            side_row *b = &c->b.rows.at[k];
            if (b->paired || strcmp(a->key, b->key) != 0)
                continue;
            a->paired = b->paired = true;
            pair *p = vec_push(&c->pairs);
            *p = (pair){.a = a, .b = b, .ratio = NAN, .low = NAN, .high = NAN};
            if (a->noise.n && b->noise.n)
                p->ratio = bench_noise_ratio(&b->noise, &a->noise, &p->low, &p->high);
        }
    }
}

static const char *word(const pair *p)
{
    if (isnan(p->ratio))
        return !strcmp(p->a->status, p->b->status) ? "not measured" : "status differs";
    if (isnan(p->low))
        return "unknown: one run each";
    return p->low > 1 ? "faster" : p->high < 1 ? "slower" : "not told apart";
}

/* --- what differs between the sweeps --- */

static const char *const facts[] = {"host",         "processor", "cpus",    "cpus_usable",
                                    "memory_bytes", "kernel",    "machine", "weft",
                                    "commit",       "abi",       NULL};
static const char *const settings[] = {"warmup", "steps", "repeats", NULL};

static void add_difference(json_t *to, const char *key, json_t *a, json_t *b)
{
    if (!json_equal(a, b) && (a || b))
        json_array_append_new(to, json_pack("{s:s, s:O?, s:O?}", "key", key, "a", a, "b", b));
}

/* Keys of the jobs; a sweep of an earlier version has none. */
static void add_jobs(json_t *to, json_t *a, json_t *b)
{
    const char *key;
    json_t *v;
    if (!json_is_object(a) || !json_is_object(b))
        return;
    json_object_foreach (a, key, v)
        add_difference(to, key, v, json_object_get(b, key));
    json_object_foreach (b, key, v)
        if (!json_object_get(a, key))
            add_difference(to, key, NULL, v);
}

static json_t *differences(const comparison *c)
{
    json_t *all = json_array(), *a = json_object_get(c->a.root, "environment");
    json_t *b = json_object_get(c->b.root, "environment");
    for (uint32_t i = 0; facts[i]; i++)
        add_difference(all, facts[i], json_object_get(a, facts[i]), json_object_get(b, facts[i]));
    for (uint32_t i = 0; settings[i]; i++)
        add_difference(all, settings[i], json_object_get(c->a.root, settings[i]),
                       json_object_get(c->b.root, settings[i]));
    add_jobs(all, json_object_get(c->a.root, "job"), json_object_get(c->b.root, "job"));
    return all;
}

/* --- output --- */

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *pair_json(const pair *p)
{
    json_t *x = json_pack("{s:O, s:I, s:I, s:I, s:o, s:o, s:s}", "values", p->a->values, "ranks",
                          (json_int_t)p->a->ranks, "number_a", (json_int_t)p->a->number, "number_b",
                          (json_int_t)p->b->number, "tokens_per_s_a", real(p->a->noise.median),
                          "tokens_per_s_b", real(p->b->noise.median), "verdict", word(p));
    json_object_set_new(x, "ratio",
                        json_pack("{s:o, s:o, s:o}", "value", real(p->ratio), "low", real(p->low),
                                  "high", real(p->high)));
    json_object_set_new(x, "status_a", json_string(p->a->status));
    json_object_set_new(x, "status_b", json_string(p->b->status));
    return x;
}

static json_t *alone_json(const side *x)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < x->rows.n; i++)
        if (!x->rows.at[i].paired)
            json_array_append(all, x->rows.at[i].values);
    return all;
}

static weft_status print_json(const comparison *c)
{
    json_t *root = json_object(), *rows = json_array();
    for (uint32_t i = 0; i < c->pairs.n; i++)
        json_array_append_new(rows, pair_json(&c->pairs.at[i]));
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "a", json_string(c->a.path));
    json_object_set_new(root, "b", json_string(c->b.path));
    json_object_set_new(root, "differs", differences(c));
    json_object_set_new(root, "rows", rows);
    json_object_set_new(root, "only_a", alone_json(&c->a));
    json_object_set_new(root, "only_b", alone_json(&c->b));
    const bool bad = json_dumpf(root, stdout, JSON_INDENT(1)) || fputc('\n', stdout) == EOF;
    json_decref(root);
    return bad ? err_fail_errno(WEFT_IO, "the comparison could not be written as JSON") : WEFT_OK;
}

/* "strategy=dp tp=2"; control characters, which a file may have, as '?'. */
static const char *name_of(comparison *c, const side_row *r)
{
    char *text = r->ranks > 0 ? pool_printf(&c->pool, "ranks=%lld", (long long)r->ranks)
                              : pool_text(&c->pool, "");
    const char *key;
    json_t *v;
    json_object_foreach (r->values, key, v) {
        const char *dot = strrchr(key, '.');
        text = pool_printf(&c->pool, "%s%s%s=%s", text, *text ? "  " : "", dot ? dot + 1 : key,
                           json_string_value(v));
    }
    for (char *at = text; *at; at++)
        *at = (unsigned char)*at < ' ' || *at == 127 ? '?' : *at;
    return text;
}

static void print_rate(double v)
{
    if (isnan(v))
        printf("%10s  ", "-");
    else
        printf("%10.0f  ", v);
}

static void print_pair(comparison *c, const pair *p)
{
    print_rate(p->a->noise.median);
    print_rate(p->b->noise.median);
    if (isnan(p->ratio))
        printf("%6s  %-14s  ", "-", "-");
    else if (isnan(p->low))
        printf("%6.3f  %-14s  ", p->ratio, "-");
    else
        printf("%6.3f  %6.3f..%-6.3f  ", p->ratio, p->low, p->high);
    printf("%-14s  %s", word(p), name_of(c, p->a));
    if (isnan(p->ratio))
        printf("  (%s, %s)", p->a->status, p->b->status);
    printf("\n");
}

static void print_text(comparison *c)
{
    json_t *all = differences(c), *x;
    size_t i;
    uint32_t apart = 0;
    printf("A: %s\nB: %s\n", c->a.path, c->b.path);
    json_array_foreach (all, i, x) {
        char *a = json_dumps(json_object_get(x, "a"), JSON_ENCODE_ANY);
        char *b = json_dumps(json_object_get(x, "b"), JSON_ENCODE_ANY);
        printf("differs: %s: %s, %s\n", json_string_value(json_object_get(x, "key")), a ? a : "-",
               b ? b : "-");
        free(a);
        free(b);
    }
    json_decref(all);
    printf("\n%10s  %10s  %6s  %-14s  %-14s  %s\n", "A tokens/s", "B tokens/s", "B/A", "95 %",
           "verdict", "combination");
    for (uint32_t k = 0; k < c->pairs.n; k++) {
        const pair *p = &c->pairs.at[k];
        apart += p->low > 1 || p->high < 1;
        print_pair(c, p);
    }
    for (uint32_t k = 0; k < c->a.rows.n; k++)
        if (!c->a.rows.at[k].paired)
            printf("only in A: %s\n", name_of(c, &c->a.rows.at[k]));
    for (uint32_t k = 0; k < c->b.rows.n; k++)
        if (!c->b.rows.at[k].paired)
            printf("only in B: %s\n", name_of(c, &c->b.rows.at[k]));
    printf("\n%u of %u pairs are told apart; one in twenty would be by chance\n", apart,
           c->pairs.n);
}

static void release(comparison *c)
{
    json_decref(c->a.root);
    json_decref(c->b.root);
    free(c->a.rows.at);
    free(c->b.rows.at);
    free(c->pairs.at);
    pool_free(&c->pool);
}

int bench_sweep_compare_main(const cli_command *of, int argc, char **argv)
{
    const char *path[2] = {0};
    uint32_t n = 0;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (*argv[i] == '-' || n == 2)
            return cli_usage(of, "compare takes two sweeps and --json, not '%s'", argv[i]);
        else
            path[n++] = argv[i];
    }
    if (n < 2)
        return cli_usage(of, "compare takes two sweeps: folders, or files sweep.json");
    comparison c = {0};
    weft_status st = load(&c, &c.a, path[0]);
    if (st == WEFT_OK)
        st = load(&c, &c.b, path[1]);
    if (st == WEFT_OK)
        st = take(&c, &c.a);
    if (st == WEFT_OK)
        st = take(&c, &c.b);
    if (st == WEFT_OK) {
        match(&c);
        if (!c.pairs.n)
            st =
                err_fail(WEFT_USAGE, "%s and %s have no combination in common", c.a.path, c.b.path);
        else if (json)
            st = print_json(&c);
        else
            print_text(&c);
    }
    release(&c);
    return cli_fail(st);
}
