/* job/decide/agreement.c: see agreement.h. */
#include "job/decide/agreement.h"

static const int signals[] = {SIGTERM, SIGUSR1, SIGHUP, SIGXCPU};

void job_agreement_add_signals(sigset_t *set)
{
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(set, signals[i]);
}

bool job_agreement_asks(int number)
{
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i] == number)
            return true;
    return false;
}

int job_agreement_signal(int number)
{
    return job_agreement_asks(number) ? number : SIGTERM;
}

job_event job_agreement_hold(job_agreement *a, int number)
{
    a->number = job_agreement_signal(number);
    a->held = true;
    atomic_store(&a->last, 0);
    return (job_event){.kind = JOB_EVENT_HOLD, .number = a->number, .step = atomic_load(&a->begun)};
}

job_event job_agreement_begin(job_agreement *a, const job_view *v, int number)
{
    if (a->held || v->failed)
        return (job_event){.kind = JOB_EVENT_NONE};
    return job_agreement_hold(a, number);
}

job_event job_agreement_request(job_agreement *a, const job_view *v, int number)
{
    if (!number || a->asked || v->failed)
        return (job_event){.kind = JOB_EVENT_NONE};
    a->asked = true;
    if (v->rank0)
        return job_agreement_begin(a, v, number);
    return (job_event){.kind = JOB_EVENT_ASK_STOP, .number = number};
}

bool job_agreement_count(bool joined, bool left, bool held, uint64_t begun, uint64_t *last)
{
    if (!joined)
        return true;
    if (!left && !held)
        return false;
    const uint64_t own = left ? UINT64_MAX : begun;
    *last = own > *last ? own : *last;
    return true;
}

job_event job_agreement_finish(job_agreement *a, int number, uint64_t last)
{
    if (!a->held)
        (void)job_agreement_hold(a, number);
    a->agreed = true;
    if (!last)
        return (job_event){.kind = JOB_EVENT_END_WAITS, .number = a->number};
    atomic_store(&a->last, last);
    return (job_event){.kind = JOB_EVENT_LAST, .number = a->number, .step = last};
}
