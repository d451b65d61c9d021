/* check/fuzz/fuzz.c: sequences of calls: the table of the group, and what starts them. */
#include "check/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#define SEQUENCES 40u
#define PLANS "weft.rule/1|weft.strategy/1|weft.placement/1|weft.model/1"

static check_host h;

static bool run_one(check_sequence *s)
{
    if (!strcmp(s->c->iface, "weft.link/1"))
        return check_sequence_links(s);
    if (!strcmp(s->c->iface, "weft.device/1"))
        return check_sequence_devices(s);
    return !check_lists(PLANS, s->c->iface) || check_sequence_plans(s);
}

void check_fuzz_sequences(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    uint64_t seeds = r->seed;
    for (uint32_t k = 0; k < SEQUENCES; k++) {
        const uint64_t seed = k ? check_random(&seeds) >> 1 : r->seed; /* the first is the user's */
        printf("the sequence with the seed %llu begins\n", (unsigned long long)seed);
        fflush(stdout); /* a crash ends the process */
        check_host_begin(&h, "the host");
        check_sequence s = {.run = r, .host = &h, .seed = seed, .state = seed};
        weft_status st = check_open(m, &h, &s.module);
        for (uint32_t i = 0; st == WEFT_OK && i < r->n; i++) {
            s.c = r->components[i];
            s.conf = check_conf(&h, s.c);
            if (!run_one(&s))
                check_absent("'%s' cannot be used on this machine: %s", s.c->name,
                             h.why[0] ? h.why : "its probe() gives no reason");
            check_host_clear(&h);
        }
        if (st != WEFT_OK)
            check_fail("open() returned %s: %s", check_status(st), h.why);
        check_close(m, s.module);
        check_host_end(&h);
    }
}

static const check checks[] = {
    {181, PLANS "|weft.link/1|weft.device/1", 25,
     "Lawful calls in any order give the right result (--reproduce SEED repeats a sequence)",
     "a crash, a failure, wrong bytes or another plan after some sequence", check_fuzz_sequences},
    {182, "weft.link/1", 14, "Any bytes in addresses, keys and greetings are refused or ignored",
     "a crash, or a connection that strangers break", check_fuzz_bytes},
    {184, "weft.link/1", 14,
     "Refused memory and threads, aborts and deaths together end in failures, and leave nothing",
     "a call that does not return, or blocks that are not given back", check_fuzz_faults},
    {0},
};
const check_group check_group_fuzz = {"fuzz", "Fuzz and soak", checks};
