/* run/tables.c: see tables.h. */
#include "run/tables.h"

#include "base/err.h"

#include <weft/host.h>

/* Planning opens no connections; the table exists so that a probe finds the interface. */
static weft_status no_job(void *ctx, int32_t fd, int32_t server, const char *label, weft_tls **out)
{
    (void)ctx, (void)fd, (void)server, (void)label, (void)out;
    return err_fail(WEFT_USAGE, "sockets can only be authenticated inside a job");
}

static const weft_host_tls planning_tls = {.struct_size = sizeof planning_tls, .start = no_job};

void run_tables_serve(run_tables *t, host *h, job *j, bool planning)
{
    *t = (run_tables){
        .spans = run_spans_create(),
        .meter = run_meter_create(),
        .kv = job_kv_create(j, planning ? JOB_KV_PLANNING : JOB_KV_JOB),
    };
    host_serve(h, "weft.host.tls/1", j ? job_tls_table(j) : &planning_tls);
    host_serve(h, "weft.host.trace/1", run_spans_table(t->spans));
    host_serve(h, "weft.host.metrics/1", run_meter_table(t->meter));
    host_serve_each(h, "weft.host.kv/1", job_kv_table, t->kv);
}

void run_tables_end(run_tables *t)
{
    job_kv_end(t->kv);
}

void run_tables_free(run_tables *t)
{
    run_spans_free(t->spans);
    job_kv_free(t->kv);
    run_meter_free(t->meter);
    *t = (run_tables){0};
}
