/* job/decide/failure.c: see failure.h. */
#include "job/decide/failure.h"

#include <stdio.h>

#include "job/stop.h"

#define LAUNCHER_MS 300 /* a launcher reports why within it: connections close before a death */

static void describe_place(const job_sign *s, char *out, size_t bytes)
{
    out[0] = 0;
    if (s->weight == JOB_CAUSE_SECOND)
        return;
    if (s->seen == JOB_SEEN_NEVER)
        snprintf(out, bytes, ", before it joined");
    else if (s->seen == JOB_SEEN_AT && (s->step || s->place))
        snprintf(out, bytes, "; last seen at step %llu, place %llu", (unsigned long long)s->step,
                 (unsigned long long)s->place);
    else if (s->seen == JOB_SEEN_AT)
        snprintf(out, bytes, "; no step reported yet");
}

job_event job_failure_due(const job_cause *c, const job_view *v)
{
    job_event e = {.kind = JOB_EVENT_NONE};
    if (v->failed || v->all_left || !job_cause_due(c, v->now))
        return e;
    e.kind = JOB_EVENT_FAILURE;
    e.rank = c->rank;
    snprintf(e.text, sizeof e.text, "%s", c->text);
    return e;
}

job_event job_failure_sign(job_cause *c, const job_view *v, const job_sign *s)
{
    if (v->failed || v->all_left)
        return (job_event){.kind = JOB_EVENT_NONE};
    char full[JOB_CAUSE_TEXT], place[96];
    describe_place(s, place, sizeof place);
    snprintf(full, sizeof full, "rank %u %.800s%s%s%.64s", s->rank, s->text, place,
             s->host ? "; host " : "", s->host ? s->host : "");
    const uint64_t more = s->weight == JOB_CAUSE_GONE && v->launched ? LAUNCHER_MS : 0;
    job_cause_add(c, s->rank, s->weight, v->now + more, full);
    return job_failure_due(c, v);
}

/* Whether a rank's exit is new information. Rank 0 knows which ranks have left; the others leave it
 * to rank 0, unless it is rank 0 itself or the status is bad. */
static bool is_news(const job_view *v, const job_control_record *r, const job_sign *s)
{
    return v->rank0 ? !s->left : !r->rank || r->code;
}

job_event job_failure_ended(job_cause *c, const job_view *v, const job_control_record *r,
                            const job_sign *s)
{
    const bool ended = r->kind == CONTROL_ENDED, killed = r->kind == CONTROL_KILLED;
    const bool stopped = ended && r->code == STOP_STATUS;
    const job_event none = {.kind = JOB_EVENT_NONE};
    if ((!ended && !killed) || r->rank >= v->ranks || r->rank == v->rank)
        return none;
    if ((ended && !is_news(v, r, s)) || (stopped && v->stop_agreed))
        return none;
    if (stopped && !v->begun) /* it could not take part in an agreement */
        return (job_event){.kind = JOB_EVENT_END_WAITS};
    char how[128];
    job_control_describe_end(r, how, sizeof how);
    job_sign full = *s;
    full.rank = r->rank;
    full.weight = killed && (v->rank0 || !r->rank) ? JOB_CAUSE_SURE : JOB_CAUSE_ENDED;
    full.text = how;
    return job_failure_sign(c, v, &full);
}
