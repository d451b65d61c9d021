/* bench/sweep/files.c: the rows as CSV and as JSON (see sweep.h). */
#include "bench/sweep/sweep.h"

#include "base/err.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define RESULTS 32u /* columns of the CSV between the status and the reason */

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

/* Empty where the number is unknown. */
static void csv_real(FILE *f, double v)
{
    if (isfinite(v))
        fprintf(f, "%.9g", v);
    fputc(',', f);
}

static void csv_numbers(FILE *f, const bench_sweep_row *r)
{
    const bench_sweep_rate rate = bench_sweep_rate_of(r);
    const bench_sweep_sample m = bench_sweep_typical(r);
    const bench_sweep_standing *v = &r->standing;
    const double reals[] = {rate.median, rate.least, rate.max, m.step_ms};
    for (uint32_t i = 0; i < sizeof reals / sizeof *reals; i++)
        csv_real(f, reals[i]);
    for (uint32_t p = 0; p < SWEEP_PARTS; p++)
        csv_real(f, m.part[p].mean);
    fprintf(f, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", m.peak, m.sent, r->plan.sent);
    csv_real(f, m.mfu_ms);
    static const char *const loss[] = {"", "yes", "rounding", "no"};
    fputs(loss[bench_sweep_loss(r)], f);
    fputc(',', f);
    csv_real(f, r->worst < 0 ? NAN : r->worst);
    fprintf(f, "%u,%u,", v->rank, r->samples);
    const double more[] = {v->low,        v->high,        v->ratio,      v->rlow,       v->rhigh,
                           v->efficiency, r->plan.bubble, r->plan.flops, r->other_cores};
    for (uint32_t i = 0; i < sizeof more / sizeof *more; i++)
        csv_real(f, more[i]);
    fprintf(f, "%" PRIu64 ",%s,%s,", r->resident, bench_sweep_is_oversubscribed(r) ? "yes" : "no",
            bench_sweep_is_pinned(r) ? "yes" : "no");
    for (uint32_t p = 0; p < SWEEP_PARTS; p++)
        csv_real(f, m.part[p].most);
}

static bool is_ranks(const bench_sweep *s, uint32_t c)
{
    return !strcmp(s->column[c].key, SWEEP_RANKS);
}

static void csv_row(FILE *f, const bench_sweep *s, const bench_sweep_row *r)
{
    const char *asked = bench_sweep_value(s, r, SWEEP_RANKS);
    fprintf(f, "%u,", r->number);
    for (uint32_t c = 0; c < s->ncolumns; c++)
        if (!is_ranks(s, c))
            csv_text(f, r->value[c] ? r->value[c] : "", false);
    if (r->plan.ranks)
        fprintf(f, "%u,", r->plan.ranks);
    else
        csv_text(f, asked ? asked : "", false);
    csv_text(f, bench_sweep_status(r), false);
    if (r->status == SWEEP_DONE)
        csv_numbers(f, r);
    for (uint32_t i = 0; r->status != SWEEP_DONE && i < RESULTS; i++)
        fputc(',', f);
    csv_text(f, r->status == SWEEP_DONE || !r->why ? "" : r->why, true);
}

static weft_status write_csv(const bench_sweep *s, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return err_fail_errno(WEFT_IO, "%s cannot be written", path);
    fputs("combination,", f);
    for (uint32_t c = 0; c < s->ncolumns; c++)
        if (!is_ranks(s, c))
            csv_text(f, s->column[c].key, false);
    fprintf(f, "ranks,status,tokens_per_s,tokens_per_s_min,tokens_per_s_max,step_ms,compute_ms,"
               "exposed_comm_ms,bubble_ms,optimizer_ms,peak_bytes,sent_bytes,sent_bytes_planned,"
               "mfu,loss_agrees,loss_difference,rank,runs,tokens_per_s_low,tokens_per_s_high,"
               "ratio,ratio_low,ratio_high,efficiency,bubble_planned,flops_planned,other_cores,"
               "resident_bytes,crowded,pinned,compute_ms_max,exposed_comm_ms_max,bubble_ms_max,"
               "optimizer_ms_max,why\n");
    for (uint32_t i = 0; i < s->rows.n; i++)
        csv_row(f, s, &s->rows.at[i]);
    bool bad = ferror(f);
    return fclose(f) || bad ? err_fail_errno(WEFT_IO, "%s cannot be written", path) : WEFT_OK;
}

/* --- JSON --- */

static void put_real(json_t *to, const char *key, double v)
{
    json_object_set_new(to, key, isfinite(v) ? json_real(v) : json_null());
}

static void put_bytes(json_t *to, const char *key, uint64_t n)
{
    json_object_set_new(to, key, json_integer((json_int_t)n));
}

static void put_text(json_t *to, const char *key, const char *text)
{
    json_t *v = json_string(text ? text : "");
    json_object_set_new(to, key, v ? v : json_string("(not UTF-8)"));
}

static json_t *rates_json(const bench_sweep_row *r)
{
    const bench_sweep_rate rate = bench_sweep_rate_of(r);
    json_t *runs = json_array(), *rates = json_object();
    for (uint32_t i = 0; i < r->samples; i++)
        json_array_append_new(runs, json_real(bench_sweep_run_rate(r, i)));
    put_real(rates, "median", rate.median);
    put_real(rates, "min", rate.least);
    put_real(rates, "max", rate.max);
    put_real(rates, "low", r->standing.low);
    put_real(rates, "high", r->standing.high);
    json_object_set_new(rates, "runs", runs);
    return rates;
}

static json_t *loss_json(const bench_sweep_row *r)
{
    if (r->worst < 0)
        return json_null();
    json_t *loss = json_object();
    const uint32_t is = bench_sweep_loss(r);
    json_object_set_new(loss, "agrees", json_boolean(is == SWEEP_LOSS_AGREES));
    json_object_set_new(loss, "rounding", json_boolean(is == SWEEP_LOSS_ROUNDING));
    put_real(loss, "norm_difference", r->norm_apart);
    put_real(loss, "difference", r->worst);
    put_real(loss, "bound", bench_sweep_bound(r));
    put_bytes(loss, "step", r->worst_step);
    return loss;
}

static json_t *ratio_json(const bench_sweep_standing *v)
{
    if (!isfinite(v->ratio))
        return json_null();
    json_t *x = json_object();
    put_real(x, "value", v->ratio);
    put_real(x, "low", v->rlow);
    put_real(x, "high", v->rhigh);
    return x;
}

static void json_numbers(json_t *to, const bench_sweep_row *r)
{
    const bench_sweep_sample m = bench_sweep_typical(r);
    put_bytes(to, "rank", r->standing.rank);
    json_object_set_new(to, "tokens_per_s", rates_json(r));
    json_object_set_new(to, "ratio", ratio_json(&r->standing));
    put_real(to, "efficiency", r->standing.efficiency);
    put_real(to, "step_ms", m.step_ms);
    for (uint32_t p = 0; p < SWEEP_PARTS; p++) {
        char most[64];
        snprintf(most, sizeof most, "%s_max", bench_sweep_parts[p]);
        put_real(to, bench_sweep_parts[p], m.part[p].mean);
        put_real(to, most, m.part[p].most);
    }
    put_real(to, "bubble", m.part[SWEEP_BUBBLE].mean / m.step_ms);
    put_bytes(to, "peak_bytes", m.peak);
    put_bytes(to, "resident_bytes", r->resident);
    put_bytes(to, "sent_bytes", m.sent);
    put_bytes(to, "sent_bytes_planned", r->plan.sent);
    put_real(to, "mfu", m.mfu_ms);
    put_real(to, "other_cores", r->other_cores);
    json_object_set_new(to, "crowded", json_boolean(bench_sweep_is_oversubscribed(r)));
    json_object_set_new(to, "pinned", json_boolean(bench_sweep_is_pinned(r)));
    json_object_set_new(to, "loss", loss_json(r));
}

static json_t *row_json(const bench_sweep *s, const bench_sweep_row *r)
{
    json_t *x = json_object(), *values = json_object();
    for (uint32_t c = 0; c < s->ncolumns; c++)
        if (!is_ranks(s, c) && r->value[c])
            put_text(values, s->column[c].key, r->value[c]);
    json_object_set_new(x, "number", json_integer(r->number));
    json_object_set_new(x, "values", values);
    json_object_set_new(x, "ranks", r->plan.ranks ? json_integer(r->plan.ranks) : json_null());
    json_object_set_new(x, "status", json_string(bench_sweep_status(r)));
    if (!r->plan.status) {
        json_t *plan = json_object();
        put_real(plan, "flops", r->plan.flops);
        put_real(plan, "bubble", r->plan.bubble);
        put_bytes(plan, "peak_bytes", r->plan.peak);
        put_bytes(plan, "sent_bytes", r->plan.sent);
        json_object_set_new(x, "planned", plan);
    }
    if (r->status == SWEEP_DONE)
        json_numbers(x, r);
    else if (r->status != SWEEP_WAITS)
        put_text(x, "why", r->why);
    if (r->status == SWEEP_SAME)
        json_object_set_new(x, "same_as", json_integer(s->rows.at[r->same].number));
    return x;
}

/* What the job says beside the lists: {"model.layers": "4", ...}. */
static json_t *job_json(const bench_sweep *s)
{
    json_t *job = json_object();
    config_line e;
    for (uint32_t i = 0; config_line_at(s->cfg, i, &e); i++)
        if (!e.stale && strncmp(e.section, "sweep", 5))
            put_text(job, e.name, e.value);
    return job;
}

json_t *bench_sweep_json(bench_sweep *s)
{
    json_t *root = json_object(), *rows = json_array(), *warnings = json_array();
    const char *warning;
    for (uint32_t i = 0; i < s->rows.n; i++)
        json_array_append_new(rows, row_json(s, &s->rows.at[i]));
    for (uint32_t i = 0; (warning = bench_sweep_warning(s, i)); i++)
        json_array_append_new(warnings, json_string(warning));
    put_bytes(root, "version", 1);
    put_text(root, "sweep", s->ini);
    json_object_set_new(root, "job", job_json(s));
    put_bytes(root, "warmup", s->warmup);
    put_bytes(root, "steps", s->steps);
    put_bytes(root, "repeats", s->repeats);
    put_bytes(root, "left_out", s->left_out);
    if (s->baseline >= 0)
        json_object_set_new(root, "baseline", json_integer(s->rows.at[s->baseline].number));
    put_real(root, "noise", s->noise);
    json_object_set_new(root, "warnings", warnings);
    if (s->began)
        json_object_set(root, "environment", s->began);
    json_object_set_new(root, "environment_end", cli_environment());
    put_bytes(root, "interruptions", s->goings);
    json_object_set_new(root, "rows", rows);
    return root;
}

/* A reader sees the old file or the new one. */
static weft_status replace(const char *temp, const char *path)
{
    return rename(temp, path) ? err_fail_errno(WEFT_IO, "%s cannot be written", path) : WEFT_OK;
}

weft_status bench_sweep_write(bench_sweep *s)
{
    const char *csv = pool_printf(&s->pool, "%s/sweep.csv", s->out);
    const char *json = pool_printf(&s->pool, "%s/sweep.json", s->out);
    const char *temp = pool_printf(&s->pool, "%s/.sweep.tmp", s->out);
    weft_status st = write_csv(s, temp);
    if (st == WEFT_OK)
        st = replace(temp, csv);
    json_t *root = bench_sweep_json(s);
    if (st == WEFT_OK && json_dump_file(root, temp, JSON_INDENT(1)))
        st = err_fail_errno(WEFT_IO, "%s cannot be written", temp);
    if (st == WEFT_OK)
        st = replace(temp, json);
    json_decref(root);
    return st;
}
