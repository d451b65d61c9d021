/* check/fuzz/fuzz.h: lawful calls in an order that a seed chooses; private to this folder.
 *
 * A sequence makes only calls that the SDK allows, and knows what must come out: the bytes of every
 * message, the content of a device's memory, the digest of a plan. The same seed makes the same
 * calls. */
#ifndef CHECK_FUZZ_FUZZ_H
#define CHECK_FUZZ_FUZZ_H

#include "check/exercise/exercise.h"

typedef struct check_sequence {
    check_run *run;
    check_host *host;
    const host_component *c;
    void *module;
    const weft_conf *conf;
    uint64_t seed, state; /* state: of check_random() */
    uint32_t calls;       /* so far */
} check_sequence;

/* A number below n. */
static inline uint32_t check_sequence_below(check_sequence *s, uint32_t n)
{
    return (uint32_t)(check_random(&s->state) % n);
}

/* What was wrong, with the seed that repeats it. */
#define check_sequence_fail(s, format, ...)                                                        \
    check_fail(format " (after %u calls of the sequence: --reproduce %llu)", __VA_ARGS__,          \
               (s)->calls, (unsigned long long)(s)->seed)

/* `st` must be WEFT_OK. */
void check_sequence_ok(check_sequence *s, weft_status st, const char *member); /* sequence.c */

/* One sequence each; false: the component cannot be used here. */
bool check_sequence_links(check_sequence *s);   /* links.c */
bool check_sequence_devices(check_sequence *s); /* devices.c */
bool check_sequence_plans(check_sequence *s);   /* plans.c */

void check_fuzz_sequences(check_run *r);
void check_fuzz_bytes(check_run *r);  /* bytes.c */
void check_fuzz_faults(check_run *r); /* faults.c */

#endif
