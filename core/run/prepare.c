/* run/prepare.c: makes a checked plan from a config; see train.h. */
#include "base/err.h"
#include "base/log.h"
#include "host/watch.h"
#include "run/train.h"

#include <string.h>

static weft_status open_data(run_prepared *j)
{
    const char *train = config_text(j->cfg, "data.train"),
               *valid = config_text(j->cfg, "data.valid");
    if (!*train)
        return config_fail(
            j->cfg, "data.train",
            "the job names no token file for training; `weft data TEXT... -o FILE` makes one");
    weft_status st = data_open(train, &j->train);
    if (st != WEFT_OK)
        err_context("%s: data.train", config_where(j->cfg, "data.train"));
    if (st == WEFT_OK && *valid) {
        st = data_open(valid, &j->valid);
        if (st != WEFT_OK)
            err_context("%s: data.valid", config_where(j->cfg, "data.valid"));
    }
    if (st == WEFT_OK && *valid && j->valid.vocab != j->train.vocab)
        st = config_fail(j->cfg, "data.valid", "%s has a vocabulary of %u tokens, %s of %u", valid,
                         j->valid.vocab, train, j->train.vocab);
    return st;
}

static weft_status check_lengths(const run_prepared *j)
{
    uint64_t need = (uint64_t)j->spec.sequence + 1;
    if (j->train.count < need)
        return config_fail(j->cfg, "data.train", "the file has %llu tokens; a sequence needs %llu",
                           (unsigned long long)j->train.count, (unsigned long long)need);
    if (j->valid.count && !data_windows(&j->valid, (uint64_t)j->spec.sequence))
        return config_fail(j->cfg, "data.valid", "the file has %llu tokens; a sequence needs %llu",
                           (unsigned long long)j->valid.count, (unsigned long long)need);
    return WEFT_OK;
}

/* Whether there are other ranks, or this one is the job. */
static bool only_plans(const resolve_meeting *meeting, uint32_t ranks)
{
    return !meeting || meeting->on_paper || (!meeting->job && ranks != 1);
}

static weft_status open_host(run_prepared *j, uint32_t ranks, const resolve_meeting *meeting)
{
    host_limits_set(j->cfg);
    weft_status st = host_create(config_raw(j->cfg, "run.plugins"), &j->host);
    if (st == WEFT_OK)
        run_tables_serve(&j->tables, j->host, meeting ? meeting->job : NULL,
                         only_plans(meeting, ranks));
    return st;
}

weft_status run_prepare_links(config *cfg, uint32_t ranks, const resolve_meeting *meeting,
                              run_prepared *out)
{
    *out = (run_prepared){.cfg = cfg};
    weft_status st = open_host(out, ranks, meeting);
    return st != WEFT_OK ? st : resolve_links(out->cfg, out->host, ranks, meeting, &out->spec);
}

weft_status run_prepare(config *cfg, uint32_t ranks, bool with_data, const resolve_meeting *meeting,
                        run_prepared *out)
{
    *out = (run_prepared){.cfg = cfg};
    weft_status st = open_host(out, ranks, meeting);
    if (st == WEFT_OK)
        st = resolve_plugins(out->cfg, out->host, &out->spec);
    if (st != WEFT_OK)
        return st;
    log_setup(log_level_from(config_text(out->cfg, "log.level")), log_rank());
    weft_data_info data;
    const bool asks_data = !with_data && *config_text(out->cfg, "data.train") &&
                           resolve_needs_data(out->cfg, &out->spec);
    if (with_data || asks_data)
        st = open_data(out);
    if (st == WEFT_OK) {
        data_describe(out->train.vocab, &data);
        st = resolve_spec(out->cfg, ranks ? ranks : resolve_sizes(out->cfg, &out->spec),
                          out->train.map ? &data : NULL, meeting, SPEC_TRAIN, &out->spec);
    }
    if (st == WEFT_OK && with_data)
        st = check_lengths(out);
    if (st == WEFT_OK) {
        out->planned = true;
        st = plan_build(&out->spec, &out->plans);
    }
    return st != WEFT_OK ? st : plan_check(&out->plans);
}

void run_unprepare(run_prepared *j)
{
    if (j->planned)
        plan_free(&j->plans);
    resolve_free(&j->spec);
    if (j->train.map)
        data_close(&j->train);
    if (j->valid.map)
        data_close(&j->valid);
    host_destroy(j->host);
    run_tables_free(&j->tables);
}
