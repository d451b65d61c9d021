#include "job.h"

#include "base/err.h"
#include "base/mem.h"
#include "view/view.h"

#include <string.h>

#include <test.h>

/* What a token file without a vocabulary has. */
static const weft_field fields[] = {{.name = "tokens", .dtype = WEFT_I32},
                                    {.name = "targets", .dtype = WEFT_I32}};
static const weft_data_info tokens = {.struct_size = sizeof tokens, .nfields = 2, .fields = fields};

/* What a job may have instead of its own, or NULL. */
typedef struct others {
    const host_component *strategy, *rule;
    const weft_data_info *data;
} others;

static weft_status make_with(const char *text, uint32_t ranks, int want, others o, planned *out)
{
    static const char head[] =
        "[run]\nplugins = " PAPER "\n[device]\nplugin = paper\n[comm]\nplugin = paper\n";
    pool all = {0};
    weft_status st = config_load_text(pool_printf(&all, "%s%s", head, text), "test.ini", &out->cfg);
    pool_free(&all);
    if (st == WEFT_OK)
        st = host_create(config_raw(out->cfg, "run.plugins"), &out->host);
    if (st == WEFT_OK)
        st = resolve_plugins(out->cfg, out->host, &out->spec);
    if (st == WEFT_OK)
        st = resolve_spec(out->cfg, ranks, o.data ? o.data : &tokens,
                          &(resolve_meeting){.hosts = &out->hosts}, want, &out->spec);
    out->built = st == WEFT_OK;
    if (o.strategy)
        out->spec.strategies[0].c = o.strategy;
    if (o.rule)
        out->spec.rule.c = o.rule;
    st = st != WEFT_OK ? st : plan_build(&out->spec, &out->plans);
    out->plan = out->built ? out->plans.at : NULL;
    return st;
}

static weft_status make(const char *text, uint32_t ranks, int want, planned *out)
{
    return make_with(text, ranks, want, (others){0}, out);
}

weft_status planned_with(const char *text, uint32_t ranks, const host_component *strategy,
                         const host_component *rule, planned *out)
{
    *out = (planned){0};
    job_even_hosts(ranks, 1, &out->hosts);
    return make_with(text, ranks, SPEC_TRAIN, (others){.strategy = strategy, .rule = rule}, out);
}

weft_status planned_of(const char *text, uint32_t ranks, const weft_data_info *data, planned *out)
{
    *out = (planned){0};
    job_even_hosts(ranks, 1, &out->hosts);
    return make_with(text, ranks, SPEC_TRAIN, (others){.data = data}, out);
}

weft_status planned_make(const char *text, uint32_t ranks, int want, planned *out)
{
    *out = (planned){0};
    job_even_hosts(ranks, 1, &out->hosts);
    return make(text, ranks, want, out);
}

weft_status planned_on(const char *text, uint32_t ranks, uint32_t machines, planned *out)
{
    *out = (planned){0};
    job_even_hosts(ranks, machines, &out->hosts);
    return make(text, ranks, SPEC_TRAIN, out);
}

weft_status planned_at(const char *text, const uint32_t *size, uint32_t machines, planned *out)
{
    uint32_t ranks = 0;
    for (uint32_t m = 0; m < machines; m++)
        ranks += size[m];
    *out = (planned){0};
    job_even_hosts(ranks, machines, &out->hosts);
    for (uint32_t m = 0, r = 0; m < machines; m++)
        for (uint32_t i = 0; i < size[m]; i++)
            out->hosts.machine[r++] = m;
    return make(text, ranks, SPEC_TRAIN, out);
}

void planned_free(planned *j)
{
    if (j->built)
        plan_free(&j->plans);
    resolve_free(&j->spec);
    host_destroy(j->host);
    config_destroy(j->cfg);
    job_free_hosts(&j->hosts);
}

void planned_refused(const char *text, uint32_t ranks, const char *why)
{
    planned j;
    const weft_status st = planned_make(text, ranks, SPEC_TRAIN, &j);
    if (st == WEFT_OK)
        fail_msg("accepted, although %s: %s", why, text);
    assert_int_equal(err_exit_code(st), 2);
    if (!strstr(err_text(), why))
        fail_msg("'%s' does not say '%s'", err_text(), why);
    planned_free(&j);
}

uint64_t planned_sent(const plan *p, uint32_t kind)
{
    return view_traffic_of(p, &p->step, kind, VIEW_ANY, VIEW_ANY).sent;
}

uint64_t planned_plain(const plan *p, uint32_t kind)
{
    return view_traffic_of(p, &p->step, kind, VIEW_ANY, VIEW_ANY).plain;
}
