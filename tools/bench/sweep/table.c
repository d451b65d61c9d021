/* bench/sweep/table.c: the rows for people, the fastest first (see sweep.h). */
#include "bench/sweep/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 16
#define VAGUE 2.0 /* wider bounds than this times the median say nothing */
#define SENT 13u  /* column that is words, among the numbers */
static const char *const heads[NUMBERS] = {
    "ranks",  "tokens/s", "95 %",      "ratio",     "scaling",  "step ms", "compute", "exposed",
    "bubble", "bubble %", "optimizer", "peak/rank", "resident", "sent",    "MFU %",   "loss"};
#define PLANNED 5
static const char *const plan_heads[PLANNED] = {"ranks", "GFLOP", "bubble %", "peak/rank", "sent"};

const char *bench_sweep_status(const bench_sweep_row *r)
{
    static const char *const words[] = {"waits", "done", "skipped", "failed", "same"};
    return words[r->status];
}

const char *bench_sweep_label(bench_sweep *s, const bench_sweep_row *r)
{
    char *text = pool_text(&s->pool, "");
    for (uint32_t c = 0; c < s->ncolumns; c++)
        if (s->column[c].varies && r->value[c])
            text = pool_printf(&s->pool, "%s%s%s=%s", text, *text ? "  " : "", s->column[c].head,
                               r->value[c]);
    return *text ? text : "the one combination";
}

static const char *human(bench_sweep *s, uint64_t bytes)
{
    return pool_text(&s->pool, mem_size((double)bytes).text);
}

static const char *loss_word(bench_sweep *s, const bench_sweep_row *r)
{
    const uint32_t is = bench_sweep_loss(r);
    if (is == SWEEP_LOSS_UNKNOWN || is == SWEEP_LOSS_AGREES)
        return is == SWEEP_LOSS_AGREES ? "agrees" : "-";
    if (r->worst <= bench_sweep_bound(r))
        return pool_printf(&s->pool, "differs: norm of step 1 by %.1e", r->norm_apart);
    return pool_printf(&s->pool, "%s: %.1e at step %u",
                       is == SWEEP_LOSS_ROUNDING ? "rounding" : "differs", r->worst, r->worst_step);
}

static const char *real(bench_sweep *s, const char *form, double v)
{
    char text[40];
    snprintf(text, sizeof text, isfinite(v) ? form : "-", v);
    return pool_text(&s->pool, text);
}

/* The cells of a row that has run. */
static void fill(bench_sweep *s, const bench_sweep_row *r, const char *out[NUMBERS])
{
    pool *p = &s->pool;
    const bench_sweep_rate rate = bench_sweep_rate_of(r);
    const bench_sweep_sample m = bench_sweep_typical(r);
    const bench_sweep_standing *v = &r->standing;
    const char *plan = m.sent == r->plan.sent
                           ? "as planned"
                           : pool_printf(p, "planned %s", human(s, r->plan.sent));
    out[0] = pool_printf(p, "%u%s", r->plan.ranks, bench_sweep_is_oversubscribed(r) ? "!" : "");
    out[1] = pool_printf(p, "%.0f", rate.median);
    out[2] = v->high <= VAGUE * rate.median ? pool_printf(p, "%.0f..%.0f", v->low, v->high) : "-";
    out[3] = real(s, "%.3f", v->ratio);
    out[4] = real(s, "%.2f", v->efficiency);
    out[5] = pool_printf(p, "%.2f", m.step_ms);
    static const uint8_t at[SWEEP_PARTS] = {6, 7, 8, 10};
    for (uint32_t k = 0; k < SWEEP_PARTS; k++)
        out[at[k]] = pool_printf(p, "%.2f", m.part[k].mean);
    out[9] = pool_printf(p, "%.1f/%.1f", 100 * m.part[SWEEP_BUBBLE].mean / m.step_ms,
                         100 * r->plan.bubble);
    out[11] = human(s, m.peak);
    out[12] = human(s, r->resident);
    out[13] = m.sent || r->plan.sent ? pool_printf(p, "%s, %s", human(s, m.sent), plan) : "nothing";
    out[14] = pool_printf(p, "%.1f", m.mfu_ms * 100);
    out[15] = loss_word(s, r);
}

/* The cells of a row that would run. */
static void fill_plan(bench_sweep *s, const bench_sweep_row *r, const char *out[PLANNED])
{
    out[0] =
        pool_printf(&s->pool, "%u%s", r->plan.ranks, bench_sweep_is_oversubscribed(r) ? "!" : "");
    out[1] = pool_printf(&s->pool, "%.4g", r->plan.flops * 1e-9);
    out[2] = pool_printf(&s->pool, "%.1f", 100 * r->plan.bubble);
    out[3] = human(s, r->plan.peak);
    out[4] = r->plan.sent ? human(s, r->plan.sent) : "nothing";
}

#define KEYS 2u /* what stands before them: the place and the number of the combination */
#define CELLS (KEYS + SWEEP_COLUMNS + NUMBERS)
typedef struct grid {
    const char *(*cell)[CELLS];  /* [row][column]; NULL from a reason on */
    const bench_sweep_row **row; /* [row]; that of the heads is NULL */
    uint32_t width[CELLS], columns, keys;
    bool plan; /* of what would run */
} grid;

static int by_place(const void *x, const void *y)
{
    const bench_sweep_row *a = *(const bench_sweep_row *const *)x,
                          *b = *(const bench_sweep_row *const *)y;
    const bool da = a->status == SWEEP_DONE, db = b->status == SWEEP_DONE;
    if (da != db)
        return da ? -1 : 1;
    if (da) {
        const double ra = bench_sweep_rate_of(a).median, rb = bench_sweep_rate_of(b).median;
        if (ra != rb)
            return ra > rb ? -1 : 1;
    }
    return a->number < b->number ? -1 : 1;
}

static void fill_row(bench_sweep *s, grid *g, uint32_t i)
{
    const bench_sweep_row *r = g->row[i];
    const char **cell = g->cell[i];
    cell[0] = !r                        ? "place"
              : r->status == SWEEP_DONE ? pool_printf(&s->pool, "%u", r->standing.rank)
                                        : "-";
    cell[1] = r ? pool_printf(&s->pool, "%u", r->number) : "combination";
    for (uint32_t c = 0; c < s->ncolumns; c++) {
        const bool ranks = !strcmp(s->column[c].key, SWEEP_RANKS);
        cell[KEYS + c] = !r ? s->column[c].head : r->value[c] ? r->value[c] : "-";
        if (r && ranks && r->plan.ranks) /* also where a bundle leaves them to the sizes */
            cell[KEYS + c] = pool_printf(&s->pool, "%u%s", r->plan.ranks,
                                         bench_sweep_is_oversubscribed(r) ? "!" : "");
    }
    for (uint32_t k = g->keys; !r && k < g->columns; k++)
        cell[k] = g->plan ? plan_heads[k - g->keys] : heads[k - g->keys];
    if (r && r->status == SWEEP_DONE)
        fill(s, r, &cell[g->keys]);
    if (r && r->status == SWEEP_WAITS && g->plan)
        fill_plan(s, r, &cell[g->keys]);
}

static void make_grid(bench_sweep *s, grid *g)
{
    g->cell = pool_array(&s->pool, (uint64_t)s->rows.n + 1, sizeof *g->cell);
    g->row = pool_array(&s->pool, (uint64_t)s->rows.n + 1, sizeof *g->row);
    g->keys = KEYS + s->ncolumns;
    g->columns = g->keys + (g->plan ? PLANNED : NUMBERS);
    for (uint32_t i = 0; i < s->rows.n; i++)
        g->row[i + 1] = &s->rows.at[i];
    qsort(g->row + 1, s->rows.n, sizeof *g->row, by_place);
    for (uint32_t i = 0; i <= s->rows.n; i++)
        fill_row(s, g, i);
    for (uint32_t c = 0; c < g->columns; c++)
        for (uint32_t i = 0; i <= s->rows.n; i++) {
            uint32_t n = g->cell[i][c] ? (uint32_t)strlen(g->cell[i][c]) : 0;
            g->width[c] = n > g->width[c] ? n : g->width[c];
        }
}

/* A plan has no places; the key is the same in all rows; or the ranks have a column among the
 * keys. */
static bool is_hidden(const bench_sweep *s, const grid *g, uint32_t c)
{
    if (c < KEYS)
        return g->plan && !c;
    if (c < g->keys)
        return !s->column[c - KEYS].varies;
    for (uint32_t i = 0; c == g->keys && i < s->ncolumns; i++)
        if (!strcmp(s->column[i].key, SWEEP_RANKS) && s->column[i].varies)
            return true;
    return false;
}

static void print_row(const bench_sweep *s, const grid *g, uint32_t i)
{
    const bench_sweep_row *r = g->row[i];
    for (uint32_t c = 0; c < g->columns && g->cell[i][c]; c++) {
        const bool last = c + 1 == g->columns, key = c >= KEYS && c < g->keys;
        if (is_hidden(s, g, c))
            continue;
        printf(key || last || c == g->keys + SENT ? "%-*s%s" : "%*s%s", last ? 0 : (int)g->width[c],
               g->cell[i][c], last ? "" : "  ");
    }
    if (r && r->status == SWEEP_SAME)
        printf("same: %s", r->why);
    else if (r && r->status == SWEEP_WAITS && !g->plan)
        printf("waits: not run");
    else if (r && (r->status == SWEEP_SKIPPED || r->status == SWEEP_FAILED))
        printf("%s:\n%*s%s", bench_sweep_status(r), (int)g->width[0] + 2, "", r->why);
    printf("\n");
}

static void print_end(bench_sweep *s, const grid *g)
{
    uint32_t count[5] = {0}, first = 0;
    const char *warning;
    for (uint32_t i = 0; i < s->rows.n; i++) {
        const bench_sweep_row *r = &s->rows.at[i];
        count[r->status]++;
        first += r->status == SWEEP_DONE && r->standing.rank == 1;
    }
    if (g->plan)
        printf("\n%u to run, %u skipped", count[SWEEP_WAITS], count[SWEEP_SKIPPED]);
    else
        printf("\n%u done, %u skipped, %u failed", count[SWEEP_DONE], count[SWEEP_SKIPPED],
               count[SWEEP_FAILED]);
    if (count[SWEEP_SAME])
        printf(", %u the same as another", count[SWEEP_SAME]);
    if (count[SWEEP_WAITS] && !g->plan)
        printf(", %u not run", count[SWEEP_WAITS]);
    if (s->left_out)
        printf(", %u left out by only and skip", s->left_out);
    if (count[SWEEP_DONE])
        printf("; most tokens/s: %s", bench_sweep_label(s, g->row[1]));
    if (first > 1)
        printf(" (%u cannot be told apart from it)", first - 1);
    printf("\n");
    if (s->baseline >= 0 && !g->plan)
        printf("ratio: to combination %u, %s\n", s->rows.at[s->baseline].number,
               bench_sweep_label(s, &s->rows.at[s->baseline]));
    for (uint32_t i = 0; (warning = bench_sweep_warning(s, i)); i++)
        fprintf(g->plan ? stderr : stdout, "warning: %s\n", warning);
}

static void print_grid(bench_sweep *s, bool plan)
{
    grid g = {.plan = plan};
    make_grid(s, &g);
    for (uint32_t i = 0; i <= s->rows.n; i++)
        print_row(s, &g, i);
    print_end(s, &g);
}

void bench_sweep_print(bench_sweep *s)
{
    print_grid(s, false);
}

void bench_sweep_print_plan(bench_sweep *s)
{
    print_grid(s, true);
}
