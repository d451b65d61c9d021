/* check/fuzz/sequence.c: what sequences of every kind use. */
#include "check/fuzz/fuzz.h"

void check_sequence_ok(check_sequence *s, weft_status st, const char *member)
{
    if (st != WEFT_OK)
        check_sequence_fail(s, "%s() of '%s' returned %s, and the call is lawful: %s", member,
                            s->c->name, check_status(st), s->host->why);
}
