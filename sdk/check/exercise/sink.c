/* check/exercise/sink.c: the life of a sink: a folder of its own, three steps of values and the
 * events of a short run. */
#define _GNU_SOURCE /* nftw */
#include "check/exercise/exercise.h"

#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/sink.h>

#define STEPS 3u
#define PLUGINS 256u /* values of plugins from the second step on */

#define CALL(d, t, member, ...) ((d)->where = #member, PLUGIN_GET(t, member, __VA_ARGS__))
#define LENT(d, ...) check_lend_end(&(d)->lend, CALL(d, __VA_ARGS__))

static weft_status event(check_exercise *d, const weft_sink_table *t, weft_sink *s,
                         const char *name, const char *text, uint64_t step)
{
    const weft_event e = {.struct_size = sizeof e,
                          .name = check_lend_text(&d->lend, name),
                          .text = check_lend_text(&d->lend, text),
                          .step = step,
                          .time_ns = 1790000000000000000u + step};
    if (!WEFT_HAS(t, event) || !t->event || check_exercise_is_without(d, "event"))
        return WEFT_OK;
    return LENT(d, t, event, s, check_lend_table(&d->lend, &e));
}

static weft_status metrics(check_exercise *d, const weft_sink_table *t, weft_sink *s, uint64_t step)
{
    static const double odd[] = {(double)NAN, (double)INFINITY, -1e300, 5e-324};
    weft_metric values[2 + PLUGINS] = {
        {"loss", "", 3.5 / (double)step, WEFT_METRIC_GAUGE, 0},
        {"tokens", "tokens", 1024.0 * (double)step, WEFT_METRIC_COUNTER, 0},
    };
    char names[PLUGINS][64]; /* as long as names of plugins' values may be */
    for (uint32_t i = 0; i < PLUGINS; i++) {
        snprintf(names[i], sizeof names[i], "acme.%%s_load_%03u_%.*s", i, (int)(i % 40),
                 "of_a_queue_that_has_a_name_as_long_as_names_are_allowed_to_be");
        values[2 + i] = (weft_metric){names[i], i % 2 ? "%" : "a_unit_of_at_most_31_characters",
                                      odd[i % 4], WEFT_METRIC_GAUGE, 0};
    }
    const uint32_t n = step == 1 ? 2 : 2 + PLUGINS;
    for (uint32_t i = 0; i < n; i++) {
        values[i].name = check_lend_text(&d->lend, values[i].name);
        values[i].unit = check_lend_text(&d->lend, values[i].unit);
    }
    return LENT(d, t, metrics, s, step, check_lend_bytes(&d->lend, values, n * sizeof *values), n,
                CHECK_FLAGS(d, metrics));
}

static weft_status use(check_exercise *d, const weft_sink_table *t, weft_sink *s)
{
    weft_status st = event(d, t, s, "begin", "the run begins", 0);
    for (uint64_t step = 1; st == WEFT_OK && step <= STEPS; step++)
        st = metrics(d, t, s, step);
    if (st == WEFT_OK)
        st = event(d, t, s, "acme.unknown", "100%s %n of what a later version says", STEPS);
    return st == WEFT_OK ? event(d, t, s, "end", "the run is complete", STEPS) : st;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    return remove(path);
}

weft_status check_exercise_sink(check_exercise *d, const host_component *c)
{
    const weft_sink_table *t = c->table;
    if (d->paper)
        return WEFT_OK;
    const char *tmp = getenv("TMPDIR");
    char folder[PATH_MAX];
    weft_sink *s = NULL;
    snprintf(folder, sizeof folder, "%.4000s/weft-check-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        check_fail("no folder for the files of a sink: %s cannot be created", folder);
    const weft_sink_args args = {.struct_size = sizeof args,
                                 .ranks = 1,
                                 .job = check_lend_text(&d->lend, "check"),
                                 .out = check_lend_text(&d->lend, folder),
                                 .conf = check_conf(d->host, c)};
    weft_status st = LENT(d, t, open, d->module, CHECK_LEND(&d->lend, weft_sink_args, &args), &s);
    if ((st == WEFT_USAGE || st == WEFT_IO) && !d->lend.altered) {
        snprintf(d->absent, sizeof d->absent, "it does not open with these options: %.900s",
                 check_exercise_why(d));
        check_host_clear(d->host);
        st = WEFT_OK;
    } else if (st == WEFT_OK) {
        st = use(d, t, s);
        PLUGIN_DO(t, close, s);
    }
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return st;
}
