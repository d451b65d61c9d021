/* doctor/ranks.c: weft train --doctor. Every rank examines its machine before it joins, while the
 * process has one thread. It repeats that if it learns on joining that the number of ranks on its
 * host differs from the environment. Then the ranks measure the network between them, and rank 0
 * prints the report of its own machine, additional findings of the others, and the differences. */
#include "doctor/checks/path.h"
#include "doctor/compare.h"
#include "doctor/report.h"

#include "base/err.h"
#include "base/log.h"
#include "job/host_map.h"
#include "launch/launch.h"
#include "run/prepare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE 120.0

typedef struct gathering {
    job *job;
    job_identity who;
    json_t *mine;
    json_t **reports; /* [ranks], on rank 0 only */
    json_t *compared;
    pool pool;
} gathering;

/* --- reports of others --- */

static weft_status send_mine(gathering *g)
{
    char key[64];
    snprintf(key, sizeof key, "doctor.report.%u", g->who.rank);
    char *text = json_dumps(g->mine, JSON_COMPACT);
    weft_status st = text ? job_put(g->job, key, text, strlen(text))
                          : err_fail(WEFT_INTERNAL, "the report cannot be written as JSON");
    free(text);
    return st;
}

static weft_status take_one(gathering *g, uint32_t rank)
{
    char key[64];
    void *text = NULL;
    uint64_t bytes = 0;
    snprintf(key, sizeof key, "doctor.report.%u", rank);
    weft_status st = job_get(g->job, key, DEADLINE, &text, &bytes);
    if (st != WEFT_OK)
        return st;
    g->reports[rank] = doctor_report_read(text, bytes);
    free(text);
    return g->reports[rank]
               ? WEFT_OK
               : err_fail(WEFT_DATA, "rank %u sent something that is not a report", rank);
}

static weft_status gather(gathering *g)
{
    if (g->who.rank)
        return send_mine(g);
    g->reports = mem_alloc(g->who.ranks * sizeof *g->reports);
    g->reports[0] = json_incref(g->mine);
    weft_status st = WEFT_OK;
    for (uint32_t r = 1; st == WEFT_OK && r < g->who.ranks; r++)
        st = take_one(g, r);
    if (st == WEFT_OK)
        g->compared = doctor_compare_reports(g->reports, g->who.ranks);
    return st;
}

/* --- printing --- */

static void print_machines(gathering *g)
{
    bool *is = pool_array(&g->pool, g->who.ranks, sizeof *is),
         *done = pool_array(&g->pool, g->who.ranks, sizeof *done);
    for (uint32_t a = 0; a < g->who.ranks; a++) {
        if (done[a])
            continue;
        for (uint32_t b = 0; b < g->who.ranks; b++) {
            is[b] = !strcmp(doctor_report_text(g->reports[a], "boot"),
                            doctor_report_text(g->reports[b], "boot")) &&
                    !strcmp(doctor_report_text(g->reports[a], "host"),
                            doctor_report_text(g->reports[b], "host"));
            done[b] |= is[b];
        }
        printf("%s: %s\n", doctor_rank_list(&g->pool, is, g->who.ranks),
               doctor_report_text(g->reports[a], "host"));
    }
    printf("\n");
}

static bool has_finding(const json_t *report, const char *what)
{
    size_t i, k;
    const json_t *c, *f;
    json_array_foreach (json_object_get(report, "checks"), i, c)
        json_array_foreach (json_object_get(c, "findings"), k, f)
            if (!strcmp(doctor_report_text(f, "what"), what))
                return true;
    return false;
}

/* Prints a finding of rank `r` that no earlier rank has, with all ranks that have it. */
static bool print_once(gathering *g, uint32_t r, const json_t *finding, bool *is)
{
    const char *what = doctor_report_text(finding, "what");
    for (uint32_t before = 0; before < r; before++)
        if (has_finding(g->reports[before], what))
            return false;
    for (uint32_t k = 0; k < g->who.ranks; k++)
        is[k] = k >= r && has_finding(g->reports[k], what);
    char prefix[256];
    snprintf(prefix, sizeof prefix, "%s: %s (%.100s): ", doctor_report_text(finding, "level"),
             doctor_rank_list(&g->pool, is, g->who.ranks),
             doctor_report_text(g->reports[r], "host"));
    doctor_print_finding(finding, prefix, stdout);
    return true;
}

static void print_others(gathering *g)
{
    bool *is = pool_array(&g->pool, g->who.ranks, sizeof *is), any = false;
    size_t i, k;
    const json_t *c, *f;
    printf("\nother ranks\n");
    for (uint32_t r = 1; r < g->who.ranks; r++)
        json_array_foreach (json_object_get(g->reports[r], "checks"), i, c)
            json_array_foreach (json_object_get(c, "findings"), k, f)
                any |= print_once(g, r, f, is);
    if (!any)
        printf("%21sno further findings\n", "");
}

/* The range of round-trip times to rank 0. */
static void print_round_trips(const gathering *g)
{
    int64_t least = INT64_MAX, max = 0;
    for (uint32_t r = 1; r < g->who.ranks; r++) {
        int64_t us = doctor_report_number(g->reports[r], "path", "round_trip_us", 0);
        least = us < least ? us : least;
        max = us > max ? us : max;
    }
    printf("%21sround trip to rank 0: %" PRId64 " to %" PRId64 " us\n", "", least, max);
}

static void print_compared(const gathering *g)
{
    size_t i;
    const json_t *f;
    printf("\ncompared\n");
    print_round_trips(g);
    json_array_foreach (g->compared, i, f) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "%.16s: ", doctor_report_text(f, "level"));
        doctor_print_finding(f, prefix, stdout);
    }
    if (!json_array_size(g->compared))
        printf("%21sno differences\n", "");
}

static weft_status print(gathering *g, bool json)
{
    if (!json && g->who.ranks == 1) {
        doctor_print(g->reports[0], stdout);
        return fflush(stdout) ? err_fail_errno(WEFT_IO, "the report could not be written")
                              : WEFT_OK;
    }
    if (!json) {
        print_machines(g);
        doctor_print(g->reports[0], stdout);
        print_others(g);
        print_compared(g);
        return fflush(stdout) ? err_fail_errno(WEFT_IO, "the report could not be written")
                              : WEFT_OK;
    }
    json_t *all = json_array();
    for (uint32_t r = 0; r < g->who.ranks; r++)
        json_array_append(all, g->reports[r]);
    json_t *whole = json_pack("{s:o, s:O}", "ranks", all, "compared", g->compared);
    bool bad = json_dumpf(whole, stdout, JSON_INDENT(1)) || putchar('\n') == EOF || fflush(stdout);
    json_decref(whole);
    return bad ? err_fail_errno(WEFT_IO, "the report could not be written") : WEFT_OK;
}

static bool prevents(const gathering *g)
{
    bool bad = doctor_worst(g->mine) == DOCTOR_PROBLEM;
    for (uint32_t r = 0; g->reports && r < g->who.ranks; r++)
        bad |= doctor_worst(g->reports[r]) == DOCTOR_PROBLEM;
    return bad;
}

/* --- the rank --- */

static weft_status run(gathering *g, const char *ini, const config *cfg, bool json)
{
    doctor_job j = {ini, cfg, g->who.ranks, g->who.local_ranks, 0};
    job_hosts hosts = {0};
    weft_status st = doctor_examine(&j, &g->mine);
    config *own = config_copy(cfg, NULL);
    if (st == WEFT_OK)
        st = run_join(&g->who, own, &g->job);
    config_destroy(own);
    if (st == WEFT_OK)
        st = job_find_hosts(g->job, &g->who, &hosts);
    j.share = hosts.cpu_ranks;
    job_free_hosts(&hosts);
    if (st == WEFT_OK && g->who.local_ranks != j.here) { /* the share of the cores has changed */
        json_decref(g->mine);
        j.here = g->who.local_ranks;
        st = doctor_examine(&j, &g->mine);
    } else if (st == WEFT_OK && g->job) {
        doctor_fit(&j, g->mine);
    }
    if (st == WEFT_OK && g->job)
        st = doctor_measure_path(g->job, &g->who, g->mine);
    if (st == WEFT_OK)
        st = gather(g);
    if (st == WEFT_OK && !g->who.rank)
        st = print(g, json);
    return st;
}

static void free_gathering(gathering *g)
{
    for (uint32_t r = 0; g->reports && r < g->who.ranks; r++)
        json_decref(g->reports[r]);
    free(g->reports);
    json_decref(g->compared);
    json_decref(g->mine);
    pool_free(&g->pool);
}

int doctor_rank(const char *ini, const config *cfg, bool json)
{
    gathering g = {0};
    char why[2048] = "";
    weft_status st = job_identify(&g.who);
    if (st == WEFT_OK) {
        log_setup(WEFT_LOG_INFO, g.who.ranks > 1 ? (int)g.who.rank : -1);
        st = run(&g, ini, cfg, json);
    }
    if (st != WEFT_OK)
        snprintf(why, sizeof why, "%s", err_text());
    if (!job_leave(g.job, st, st != WEFT_OK ? why : NULL) && st == WEFT_OK) {
        st = WEFT_PEER;
        snprintf(why, sizeof why, "%s", err_text());
    }
    job_free(g.job);
    int status = err_exit_code(st);
    if (st == WEFT_OK && !g.who.rank && prevents(&g)) {
        status = 1;
        snprintf(why, sizeof why, "the job cannot run: see the problems above");
    }
    if (status && !job_control_say(why))
        log_line(WEFT_LOG_ERROR, "%s", why);
    free_gathering(&g);
    return status;
}
