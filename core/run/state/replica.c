/* run/state/replica.c: see replica.h. */
#include "run/state/replica.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "replica."

const char *run_replica_name(const plan_piece *p, uint32_t number, char name[REPLICA_NAME])
{
    if (!number)
        return p->name;
    snprintf(name, REPLICA_NAME, PREFIX "%u.%s", number, p->name);
    return name;
}

const char *run_replica_base_name(const char *name)
{
    const size_t prefix = strlen(PREFIX);
    if (strncmp(name, PREFIX, prefix))
        return name;
    const size_t digits = strspn(name + prefix, "0123456789");
    return digits && name[prefix + digits] == '.' ? name + prefix + digits + 1 : name;
}

void run_replica_warn(const run_executor *e, const ckpt *c)
{
    char name[REPLICA_NAME];
    for (uint32_t i = 0; !e->rank && i < e->plan->pieces.n; i++) {
        const plan_piece *p = &e->plan->pieces.at[i];
        const uint32_t n = plan_replicas(e->plan, p);
        if (p->sum)
            continue;
        const bool more = ckpt_has(c, run_replica_name(p, n, name));
        if (!more && (n == 1 || ckpt_has(c, run_replica_name(p, n - 1, name))))
            continue;
        log_line(WEFT_LOG_WARN,
                 "%s has %s replicas of %s than the %u of this job: %s, so the run differs from "
                 "the one that was saved",
                 ckpt_dir(c), more ? "more" : "fewer", p->name, n,
                 more ? "the others are ignored" : "missing ones start as copies of the first");
        return;
    }
}
