/* job/decide/cause.c: see cause.h. */
#include "job/decide/cause.h"

#include <stdio.h>

static uint64_t hold_ms(uint32_t weight)
{
    switch (weight) {
    case JOB_CAUSE_SURE: return 0;
    case JOB_CAUSE_SECOND: return 300;
    default: return 100;
    }
}

void job_cause_add(job_cause *c, uint32_t rank, uint32_t weight, uint64_t now, const char *text)
{
    uint64_t due = now + hold_ms(weight);
    if (c->weight && c->due < due)
        due = c->due;
    if (weight > c->weight) {
        c->rank = rank;
        c->weight = weight;
        snprintf(c->text, sizeof c->text, "%s", text);
    }
    c->due = due;
}

bool job_cause_due(const job_cause *c, uint64_t now)
{
    return c->weight && now >= c->due;
}
