/* run/prepare.c: makes a checked plan from a config; see prepare.h. */
#include "run/prepare.h"

#include "base/err.h"
#include "base/log.h"
#include "host/watch.h"
#include "job/control/control.h"

#include <string.h>

/* Adds file:line; the plugin only knew the key. */
static weft_status where_wrong(const run_prepared *j, weft_status st)
{
    if (!resolve_add_place(j->cfg, j->spec.source.c, "data"))
        err_context("%s", config_origin(j->cfg, "data.source"));
    return st;
}

static weft_status open_set(run_prepared *j, uint32_t use, data_set *out)
{
    const spec *s = &j->spec;
    weft_status st = data_set_open(s->source.c, s->source.conf, use, j->set.seed, out);
    return st == WEFT_OK ? st : where_wrong(j, st);
}

static weft_status open_data(run_prepared *j)
{
    weft_status st = resolve_open_source(j->cfg, &j->spec);
    if (st == WEFT_OK)
        st = open_set(j, WEFT_DATA_TRAIN, &j->train);
    if (st == WEFT_OK && j->train.set)
        st = open_set(j, WEFT_DATA_VALID, &j->valid);
    if (st == WEFT_OK && j->valid.set)
        st = data_set_compare(&j->train, &j->valid);
    return st;
}

static weft_status need_data(run_prepared *j)
{
    weft_status st = open_data(j);
    const char *source = j->spec.source.c->name;
    if (st == WEFT_OK && !j->train.set)
        st =
            config_fail(j->cfg, "data.source",
                        "the job names no data for training, and the source is '%s'; `weft plugins "
                        "%s` lists its keys",
                        source, source);
    return st;
}

/* Planning needs no data, unless the model takes a size from it. Data that is here gives the rows
 * of a sample, the fields and the vocabulary. */
static weft_status try_data(run_prepared *j)
{
    const bool needs = resolve_needs_data(j->cfg, &j->spec);
    weft_status st = open_data(j);
    if (st == WEFT_OK || needs)
        return st;
    log_line(WEFT_LOG_INFO, "planned without data: %s", err_text());
    err_clear();
    data_set_close(&j->train);
    data_set_close(&j->valid);
    return WEFT_OK;
}

static weft_status describe_data(run_prepared *j)
{
    const uint64_t sequence = (uint64_t)j->spec.sequence;
    weft_status st = data_set_describe(&j->train, sequence);
    if (st == WEFT_OK && j->valid.set)
        st = data_set_describe(&j->valid, sequence);
    return st == WEFT_OK ? st : where_wrong(j, st);
}

/* Whether this process only plans: it neither meets other ranks nor is the whole job. */
static bool only_plans(const resolve_meeting *meeting, uint32_t ranks)
{
    return !meeting || meeting->plan_only || (!meeting->job && ranks != 1);
}

/* --- transports of others ---
 *
 * `auto` probes every installed transport, and a probe is code that looks at drivers and limits: it
 * may abort, exit or hang. Such a probe costs its transport alone. Transports that are not the
 * program's own are probed in a child process first, while this process has no threads: before it
 * joins the others, and in the launcher, which plans the job. */

static bool any_auto(const config *cfg)
{
    const char *all = config_raw(cfg, "comm.plugin");
    bool found = !all || !strcmp(all, "auto");
    config_line line;
    for (uint32_t i = 0; !found && config_line_at(cfg, i, &line); i++)
        found = !strncmp(line.section, "comm.", 5) && !strcmp(line.key, "plugin") &&
                !strcmp(line.value, "auto");
    return found;
}

typedef struct tried {
    const config *cfg;
    uint32_t ranks;
} tried;

static void try_transport(const void *ctx, const char *path)
{
    const tried *t = ctx;
    config *cfg = config_copy(t->cfg, NULL);
    run_tables tables = {0};
    host *h;
    if (host_create(config_raw(cfg, "run.plugins"), &h) != WEFT_OK)
        return;
    run_tables_serve(&tables, h, NULL, true);
    resolve_try_transport(cfg, h, t->ranks, path);
    host_destroy(h); /* and closes the plugin */
}

void run_try_transports(const config *cfg, uint32_t ranks, bool tell)
{
    static bool done;
    host_limits_set(cfg);
    if (!done && ranks != 1 && any_auto(cfg))
        done = host_try_others(config_raw(cfg, "run.plugins"), "comm", try_transport,
                               &(tried){cfg, ranks}, tell);
}

static weft_status open_host(run_prepared *j, uint32_t ranks, const resolve_meeting *meeting)
{
    run_try_transports(j->cfg, ranks, meeting != NULL); /* ranks tell what a launcher found */
    weft_status st = host_create(config_raw(j->cfg, "run.plugins"), &j->host);
    if (st != WEFT_OK)
        return st;
    host_try_first(j->host);
    run_tables_serve(&j->tables, j->host, meeting ? meeting->job : NULL,
                     only_plans(meeting, ranks));
    return st;
}

/* Whether this process logs notes on the job's file: the launcher, or rank 0 without one. */
static bool tells(const resolve_meeting *meeting)
{
    return !meeting || !meeting->who || (!meeting->who->rank && job_control_descriptor() < 0);
}

weft_status run_prepare_links(config *cfg, uint32_t ranks, const resolve_meeting *meeting,
                              run_prepared *out)
{
    *out = (run_prepared){.cfg = cfg};
    weft_status st = open_host(out, ranks, meeting);
    if (st == WEFT_OK)
        st = resolve_links(out->cfg, out->host, ranks, meeting, &out->spec);
    if (st == WEFT_OK && tells(meeting))
        resolve_warn_former(out->cfg);
    return st;
}

/* Only the plan knows whether train.bucket_mb cuts a sum. */
static weft_status check_buckets(const run_prepared *j, bool tell)
{
    bool any = !j->spec.nlinks; /* then resolve_check_layout_keys() has said so */
    for (uint32_t i = 0; i < j->plans.n; i++)
        any |= j->plans.at[i].has_buckets;
    return any ? WEFT_OK : resolve_check_buckets(j->cfg, j->spec.batch_axes != 0, tell);
}

weft_status run_prepare(config *cfg, uint32_t ranks, bool with_data, const resolve_meeting *meeting,
                        run_prepared *out)
{
    *out = (run_prepared){.cfg = cfg};
    weft_status st = open_host(out, ranks, meeting);
    if (st == WEFT_OK)
        st = resolve_plugins(out->cfg, out->host, &out->spec);
    if (st == WEFT_OK)
        st = resolve_check_effects(out->cfg, &out->spec);
    if (st == WEFT_OK)
        st = resolve_check_rates(out->cfg);
    if (st == WEFT_OK)
        st = run_settings_read(out->cfg, &out->set);
    if (st != WEFT_OK)
        return st;
    log_setup(log_level_from(config_text(out->cfg, "log.level")), log_rank());
    if (tells(meeting))
        resolve_warn_effects(out->cfg, &out->spec);
    st = with_data ? need_data(out) : try_data(out);
    if (st == WEFT_OK)
        st =
            resolve_spec(out->cfg, ranks ? ranks : resolve_sizes(out->cfg, &out->spec),
                         out->train.set ? &out->train.info : NULL, meeting, SPEC_TRAIN, &out->spec);
    if (st == WEFT_OK)
        st = resolve_check_layout_keys(cfg, &out->spec, tells(meeting));
    if (st == WEFT_OK && out->train.set)
        st = describe_data(out);
    if (st == WEFT_OK) {
        out->planned = true;
        st = plan_build(&out->spec, &out->plans);
    }
    if (st == WEFT_OK)
        st = plan_check(&out->plans);
    return st != WEFT_OK ? st : check_buckets(out, tells(meeting));
}

void run_unprepare(run_prepared *j)
{
    if (j->planned)
        plan_free(&j->plans);
    resolve_free(&j->spec);
    data_set_close(&j->train);
    data_set_close(&j->valid);
    host_destroy(j->host);
    run_tables_free(&j->tables);
}

weft_status run_join(const job_identity *who, const config *cfg, job **out)
{
    /* Keys of plugins are checked only when all ranks are known. */
    weft_status st = config_check_section(cfg, "run");
    if (st != WEFT_OK)
        return st;
    if (who->ranks > 1)
        run_try_transports(cfg, who->ranks, !who->local_rank);
    const char *key = config_text(cfg, "run.key");
    const job_options opt = {.key_file = *key ? key : NULL,
                             .frozen_after = config_real(cfg, "run.frozen_after"),
                             .join_timeout = config_real(cfg, "run.join_timeout"),
                             .listen = config_text(cfg, "run.listen"),
                             .address = config_text(cfg, "run.address")};
    return who->ranks > 1 ? job_join(who, &opt, out) : WEFT_OK;
}
