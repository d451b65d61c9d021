/* bench/sweep/input.c: [sweep] to rows (see sweep.h).
 *
 * The rows are all choices of one value or bundle a list, the last list fastest. A row stays
 * if one of the alternatives of `only` fits it, and none of `skip` does. `baseline` is the first
 * row that fits, or without it the first that runs. */
#include "bench/sweep/sweep.h"

#include "base/err.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static weft_status own_number(const bench_sweep *s, const char *key, uint64_t min, uint64_t max,
                              uint64_t *out)
{
    char name[64];
    snprintf(name, sizeof name, "sweep.%s", key);
    if (cli_number(bench_sweep_own_text(s, key), min, max, out))
        return WEFT_OK;
    return config_fail(s->cfg, name, "'%s' is not a whole number from %llu to %llu",
                       bench_sweep_own_text(s, key), (unsigned long long)min,
                       (unsigned long long)max);
}

static weft_status check_ranks(const bench_sweep *s)
{
    uint64_t n;
    for (uint32_t c = 0; c < s->ncolumns; c++) {
        const bench_sweep_axis *a = &s->axis[s->column[c].axis];
        for (uint32_t i = 0; !strcmp(s->column[c].key, SWEEP_RANKS) && i < a->n; i++)
            if (a->choice[i][c] && !cli_number(a->choice[i][c], 1, 1024, &n))
                return err_fail(WEFT_USAGE, "%s: '%s' is not a number of ranks from 1 to 1024",
                                a->where, a->choice[i][c]);
    }
    return WEFT_OK;
}

/* --- rows --- */

static weft_status wanted(const bench_sweep *s, const bench_sweep_row *r, bool *out)
{
    bool fits = true;
    weft_status st = WEFT_OK;
    *out = true;
    if (*bench_sweep_own_text(s, "only"))
        st = bench_sweep_fits(s, "only", bench_sweep_own_text(s, "only"), r, &fits);
    *out = fits;
    if (st == WEFT_OK && *bench_sweep_own_text(s, "skip")) {
        st = bench_sweep_fits(s, "skip", bench_sweep_own_text(s, "skip"), r, &fits);
        *out = *out && !fits;
    }
    return st;
}

static void choose(const bench_sweep *s, bench_sweep_row *r, uint64_t at)
{
    for (uint32_t a = s->naxes; a-- > 0; at /= s->axis[a].n)
        for (uint32_t c = 0; c < s->ncolumns; c++)
            if (s->column[c].axis == a)
                r->value[c] = s->axis[a].choice[at % s->axis[a].n][c];
}

static weft_status find_baseline(bench_sweep *s)
{
    const char *rule = bench_sweep_own_text(s, "baseline");
    bool fits = false;
    weft_status st = WEFT_OK;
    s->baseline = -1;
    for (uint32_t i = 0; *rule && !fits && st == WEFT_OK && i < s->rows.n; i++) {
        st = bench_sweep_fits(s, "baseline", rule, &s->rows.at[i], &fits);
        s->baseline = fits ? (int32_t)i : -1;
    }
    if (st == WEFT_OK && *rule && !fits)
        st = config_fail(s->cfg, "sweep.baseline", "no combination fits it");
    return st;
}

static weft_status make_rows(bench_sweep *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->naxes; i++)
        n = n > SWEEP_ROWS ? n : n * s->axis[i].n;
    if (n > SWEEP_ROWS)
        return err_fail(WEFT_USAGE, "%s: the lists of [sweep] make more than %d combinations",
                        s->ini, SWEEP_ROWS);
    for (uint64_t i = 0; i < n; i++) {
        bench_sweep_row r = {.worst = -1};
        choose(s, &r, i);
        bool keep;
        weft_status st = wanted(s, &r, &keep);
        if (st != WEFT_OK)
            return st;
        s->left_out += !keep;
        r.number = s->rows.n + 1;
        if (keep)
            *vec_push(&s->rows) = r;
    }
    if (!s->rows.n)
        return err_fail(WEFT_USAGE, "%s: only and skip leave nothing to run", s->ini);
    return find_baseline(s);
}

static weft_status read_own(bench_sweep *s)
{
    weft_status st = own_number(s, "repeats", 1, 100, &s->repeats);
    if (st == WEFT_OK)
        st = own_number(s, "warmup", 0, 10000, &s->warmup);
    if (st == WEFT_OK)
        st = own_number(s, "steps", 1, 1000000, &s->steps);
    if (st == WEFT_OK)
        st = own_number(s, "deadline", 1, 86400, &s->deadline);
    const char *compare = bench_sweep_own_text(s, "reference");
    s->compare = !strcmp(compare, "on");
    if (st == WEFT_OK && !s->compare && strcmp(compare, "off"))
        st = config_fail(s->cfg, "sweep.reference", "'%s' is neither on nor off", compare);
    s->out = bench_sweep_own_text(s, "out");
    if (st == WEFT_OK && !*s->out)
        st = config_fail(s->cfg, "sweep.out", "is empty: name a folder");
    return st;
}

weft_status bench_sweep_read(bench_sweep *s, const char *ini, const char *const *overrides,
                             uint32_t n)
{
    s->ini = ini;
    weft_status st = config_load(ini, overrides, n, &s->cfg);
    config_line e;
    bool any = false;
    for (uint32_t i = 0; st == WEFT_OK && config_line_at(s->cfg, i, &e); i++) {
        any |= !strncmp(e.section, "sweep", 5);
        st = e.stale ? WEFT_OK : bench_sweep_take(s, &e);
    }
    if (st == WEFT_OK && !any)
        st = err_fail(
            WEFT_USAGE,
            "%s has no section [sweep], which lists the keys to vary; add it, or give the lists "
            "here, for example sweep.parallel.strategy=dp,tp",
            ini);
    if (st == WEFT_OK && s->ranks)
        st = bench_sweep_take_list(s, SWEEP_RANKS, pool_printf(&s->pool, "%u", s->ranks), "-n");
    if (st == WEFT_OK)
        st = bench_sweep_parse_lists(s);
    if (st == WEFT_OK)
        st = check_ranks(s);
    if (st == WEFT_OK)
        st = read_own(s);
    return st != WEFT_OK ? st : make_rows(s);
}

void bench_sweep_free(bench_sweep *s)
{
    for (uint32_t i = 0; i < s->rows.n; i++) {
        free(s->rows.at[i].sample);
        free(s->rows.at[i].loss);
    }
    for (uint32_t i = 0; i < s->references.n; i++) {
        free(s->references.at[i].row.sample);
        free(s->references.at[i].row.loss);
    }
    free(s->rows.at);
    free(s->references.at);
    pool_free(&s->pool);
    json_decref(s->began);
    config_destroy(s->cfg);
}
