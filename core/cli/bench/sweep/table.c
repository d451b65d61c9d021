/* cli/bench/sweep/table.c: the rows for people, as CSV, and as JSON (see sweep.h). */
#include "cli/bench/sweep/sweep.h"

#include "base/err.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define NUMBERS 12
static const char *const heads[NUMBERS] = {"ranks",     "tokens/s", "from..to", "step ms",
                                           "compute",   "exposed",  "bubble",   "optimizer",
                                           "peak/rank", "sent",     "MFU %",    "loss"};

const char *cli_sweep_status(const sweep_row *r)
{
    static const char *const words[] = {"waits", "done", "skipped", "failed"};
    return words[r->status];
}

const char *cli_sweep_label(sweep *s, const sweep_row *r)
{
    char *text = pool_text(&s->pool, "");
    for (uint32_t i = 0; i < s->naxes; i++)
        if (s->axis[i].n > 1)
            text = pool_printf(&s->pool, "%s%s%s=%s", text, *text ? "  " : "", s->axis[i].head,
                               r->value[i]);
    return *text ? text : "the one combination";
}

static char *human(sweep *s, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    int u = 0;
    for (; v >= 1024 && u < 4; u++)
        v /= 1024;
    return pool_printf(&s->pool, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

static const char *loss_word(sweep *s, const sweep_row *r)
{
    if (r->worst < 0)
        return "-";
    if (r->worst <= cli_sweep_bound(r))
        return "agrees";
    return pool_printf(&s->pool, "differs: %.1e at step %u", r->worst, r->worst_step);
}

/* The cells of a row that has run. */
static void fill(sweep *s, const sweep_row *r, const char *out[NUMBERS])
{
    pool *p = &s->pool;
    const sweep_rate rate = cli_sweep_rate_of(r);
    const sweep_sample m = cli_sweep_mean(r);
    const char *plan = m.sent == r->plan.sent
                           ? "as planned"
                           : pool_printf(p, "planned %s", human(s, r->plan.sent));
    out[0] = pool_printf(p, "%u", r->plan.ranks);
    out[1] = pool_printf(p, "%.0f", rate.median);
    out[2] = pool_printf(p, "%.0f..%.0f", rate.least, rate.most);
    out[3] = pool_printf(p, "%.2f", m.step_ms);
    out[4] = pool_printf(p, "%.2f", m.compute_ms);
    out[5] = pool_printf(p, "%.2f", m.exposed_ms);
    out[6] = pool_printf(p, "%.2f", m.bubble_ms);
    out[7] = pool_printf(p, "%.2f", m.optimizer_ms);
    out[8] = human(s, m.peak);
    out[9] = m.sent || r->plan.sent ? pool_printf(p, "%s, %s", human(s, m.sent), plan) : "nothing";
    out[10] = pool_printf(p, "%.1f", m.mfu_ms * 100);
    out[11] = loss_word(s, r);
}

typedef struct grid {
    const char *(*cell)[SWEEP_AXES + NUMBERS]; /* [row][column]; NULL from a reason on */
    uint32_t width[SWEEP_AXES + NUMBERS], columns, keys;
} grid;

static void make_grid(sweep *s, grid *g)
{
    g->cell = pool_array(&s->pool, (uint64_t)s->rows.n + 1, sizeof *g->cell);
    g->keys = s->naxes;
    g->columns = s->naxes + NUMBERS;
    for (uint32_t i = 0; i <= s->rows.n; i++) {
        const sweep_row *r = i ? &s->rows.at[i - 1] : NULL;
        for (uint32_t a = 0; a < s->naxes; a++)
            g->cell[i][a] = r ? r->value[a] : s->axis[a].head;
        for (uint32_t k = 0; !r && k < NUMBERS; k++)
            g->cell[i][s->naxes + k] = heads[k];
        if (r && r->status == SWEEP_DONE)
            fill(s, r, &g->cell[i][s->naxes]);
    }
    for (uint32_t c = 0; c < g->columns; c++)
        for (uint32_t i = 0; i <= s->rows.n; i++) {
            uint32_t n = g->cell[i][c] ? (uint32_t)strlen(g->cell[i][c]) : 0;
            g->width[c] = n > g->width[c] ? n : g->width[c];
        }
}

/* The ranks have a column among the keys. */
static bool ranks_listed(const sweep *s)
{
    for (uint32_t i = 0; i < s->naxes; i++)
        if (!strcmp(s->axis[i].key, SWEEP_RANKS))
            return s->axis[i].n > 1;
    return false;
}

static void print_best(sweep *s)
{
    const sweep_row *best = NULL;
    uint32_t count[4] = {0};
    for (uint32_t i = 0; i < s->rows.n; i++) {
        const sweep_row *r = &s->rows.at[i];
        count[r->status]++;
        if (r->status == SWEEP_DONE &&
            (!best || cli_sweep_rate_of(r).median > cli_sweep_rate_of(best).median))
            best = r;
    }
    printf("\n%u done, %u skipped, %u failed", count[SWEEP_DONE], count[SWEEP_SKIPPED],
           count[SWEEP_FAILED]);
    if (s->left_out)
        printf(", %u left out by only and skip", s->left_out);
    if (best)
        printf("; most tokens/s: %s", cli_sweep_label(s, best));
    printf("\n");
}

void cli_sweep_print(sweep *s)
{
    grid g = {0};
    make_grid(s, &g);
    const bool twice = ranks_listed(s);
    for (uint32_t i = 0; i <= s->rows.n; i++) {
        const sweep_row *r = i ? &s->rows.at[i - 1] : NULL;
        for (uint32_t c = 0; c < g.columns && g.cell[i][c]; c++) {
            bool last = c + 1 == g.columns, key = c < g.keys;
            if ((c == g.keys && twice) || (key && s->axis[c].n == 1))
                continue; /* said already, or the same in all rows */
            printf(key || last || c == g.keys + 9 ? "%-*s%s" : "%*s%s", last ? 0 : (int)g.width[c],
                   g.cell[i][c], last ? "" : "  ");
        }
        if (r && r->status != SWEEP_DONE)
            printf("%s: %s", cli_sweep_status(r), r->why);
        printf("\n");
    }
    print_best(s);
}

/* --- files --- */

static void csv_text(FILE *f, const char *text, bool last)
{
    if (strpbrk(text, ",\"\n\r")) {
        fputc('"', f);
        for (; *text; text++)
            fprintf(f, *text == '"' ? "\"\"" : "%c", *text);
        fputc('"', f);
    } else {
        fputs(text, f);
    }
    fputc(last ? '\n' : ',', f);
}

static void csv_numbers(FILE *f, const sweep_row *r)
{
    const sweep_rate rate = cli_sweep_rate_of(r);
    const sweep_sample m = cli_sweep_mean(r);
    fprintf(f, "%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,", rate.median, rate.least, rate.most,
            m.step_ms, m.compute_ms, m.exposed_ms, m.bubble_ms, m.optimizer_ms);
    fprintf(f, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.9g,", m.peak, m.sent, r->plan.sent, m.mfu_ms);
    if (r->worst < 0)
        fprintf(f, ",,");
    else
        fprintf(f, "%s,%.9g,", r->worst <= cli_sweep_bound(r) ? "yes" : "no", r->worst);
}

static weft_status write_csv(const sweep *s, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return err_fail_errno(WEFT_IO, "%s cannot be written", path);
    for (uint32_t i = 0; i < s->naxes; i++)
        if (strcmp(s->axis[i].key, SWEEP_RANKS))
            csv_text(f, s->axis[i].key, false);
    fprintf(f, "ranks,status,tokens_per_s,tokens_per_s_min,tokens_per_s_max,step_ms,compute_ms,"
               "exposed_comm_ms,bubble_ms,optimizer_ms,peak_bytes,sent_bytes,sent_bytes_planned,"
               "mfu,loss_agrees,loss_difference,why\n");
    for (uint32_t i = 0; i < s->rows.n; i++) {
        const sweep_row *r = &s->rows.at[i];
        const char *asked = cli_sweep_value(s, r, SWEEP_RANKS);
        for (uint32_t a = 0; a < s->naxes; a++)
            if (strcmp(s->axis[a].key, SWEEP_RANKS))
                csv_text(f, r->value[a], false);
        if (r->plan.ranks)
            fprintf(f, "%u,", r->plan.ranks);
        else
            csv_text(f, asked ? asked : "", false);
        csv_text(f, cli_sweep_status(r), false);
        if (r->status == SWEEP_DONE)
            csv_numbers(f, r);
        else
            fputs(",,,,,,,,,,,,,,", f);
        csv_text(f, r->status == SWEEP_DONE ? "" : r->why, true);
    }
    bool bad = ferror(f);
    return fclose(f) || bad ? err_fail_errno(WEFT_IO, "%s cannot be written", path) : WEFT_OK;
}

static void put_real(json_t *to, const char *key, double v)
{
    json_object_set_new(to, key, isfinite(v) ? json_real(v) : json_null());
}

static void put_bytes(json_t *to, const char *key, uint64_t n)
{
    json_object_set_new(to, key, json_integer((json_int_t)n));
}

static void json_numbers(json_t *to, const sweep_row *r)
{
    const sweep_rate rate = cli_sweep_rate_of(r);
    const sweep_sample m = cli_sweep_mean(r);
    json_t *runs = json_array(), *rates = json_object(), *loss = json_object();
    for (uint32_t i = 0; i < r->samples; i++)
        json_array_append_new(runs, json_real(r->sample[i].tokens / (r->sample[i].step_ms * 1e-3)));
    put_real(rates, "median", rate.median);
    put_real(rates, "min", rate.least);
    put_real(rates, "max", rate.most);
    json_object_set_new(rates, "runs", runs);
    json_object_set_new(to, "tokens_per_s", rates);
    put_real(to, "step_ms", m.step_ms);
    put_real(to, "compute_ms", m.compute_ms);
    put_real(to, "exposed_comm_ms", m.exposed_ms);
    put_real(to, "bubble_ms", m.bubble_ms);
    put_real(to, "optimizer_ms", m.optimizer_ms);
    put_bytes(to, "peak_bytes", m.peak);
    put_bytes(to, "sent_bytes", m.sent);
    put_bytes(to, "sent_bytes_planned", r->plan.sent);
    put_real(to, "mfu", m.mfu_ms);
    if (r->worst >= 0) {
        json_object_set_new(loss, "agrees", json_boolean(r->worst <= cli_sweep_bound(r)));
        put_real(loss, "difference", r->worst);
        put_real(loss, "bound", cli_sweep_bound(r));
        put_bytes(loss, "step", r->worst_step);
    }
    json_object_set_new(to, "loss", r->worst >= 0 ? json_incref(loss) : json_null());
    json_decref(loss);
}

static json_t *row_json(const sweep *s, const sweep_row *r)
{
    json_t *x = json_object(), *values = json_object();
    for (uint32_t i = 0; i < s->naxes; i++)
        if (strcmp(s->axis[i].key, SWEEP_RANKS))
            json_object_set_new(values, s->axis[i].key, json_string(r->value[i]));
    json_object_set_new(x, "number", json_integer(r->number));
    json_object_set_new(x, "values", values);
    json_object_set_new(x, "ranks", r->plan.ranks ? json_integer(r->plan.ranks) : json_null());
    json_object_set_new(x, "status", json_string(cli_sweep_status(r)));
    if (r->status == SWEEP_DONE)
        json_numbers(x, r);
    else
        json_object_set_new(x, "why", json_string(r->why));
    return x;
}

weft_status cli_sweep_write(sweep *s)
{
    char *path = pool_printf(&s->pool, "%s/sweep.csv", s->out);
    weft_status st = write_csv(s, path);
    json_t *root = json_object(), *rows = json_array();
    for (uint32_t i = 0; i < s->rows.n; i++)
        json_array_append_new(rows, row_json(s, &s->rows.at[i]));
    put_bytes(root, "version", 1);
    json_object_set_new(root, "sweep", json_string(s->ini));
    put_bytes(root, "warmup", s->warmup);
    put_bytes(root, "steps", s->steps);
    put_bytes(root, "repeats", s->repeats);
    put_bytes(root, "left_out", s->left_out);
    json_object_set_new(root, "rows", rows);
    path = pool_printf(&s->pool, "%s/sweep.json", s->out);
    if (st == WEFT_OK && json_dump_file(root, path, JSON_INDENT(1)))
        st = err_fail_errno(WEFT_IO, "%s cannot be written", path);
    json_decref(root);
    return st;
}
